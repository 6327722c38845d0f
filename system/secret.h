/*
 * The object "secret": a key or password that a program hands over.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_SYSTEM_SECRET_H
#define COWBIRD_SYSTEM_SECRET_H

#include "qom/object.h"

/* "secret". Ended by a line without name. */
extern const QomType secret_types[];

#endif
