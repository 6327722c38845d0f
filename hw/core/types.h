/*
 * The one table of device, bus and machine types.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_CORE_TYPES_H
#define COWBIRD_HW_CORE_TYPES_H

#include "qom/object.h"

/* Ended by a line without name. Types of other folders have tables of their own. */
extern const QomType hw_types[];

#endif
