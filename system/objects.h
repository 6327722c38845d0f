/*
 * -object: objects that users make, kept below /objects.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_SYSTEM_OBJECTS_H
#define COWBIRD_SYSTEM_OBJECTS_H

#include "qapi/qapi-types.h"
#include "qom/qmp.h"

/* Makes, sets up and completes the object; on failure nothing of it remains. */
bool objects_add(QomTree *tree, const ObjectOptions *options, GError **errp);

#endif
