/*
 * What the QMP commands about objects work on.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_QOM_QMP_H
#define COWBIRD_QOM_QMP_H

#include "qom/object.h"

typedef struct QomTree {
    Object *root;
    const QomType *const *types;
} QomTree;

#endif
