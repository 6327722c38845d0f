/*
 * The order in which the parts of a virtual machine are made, and taken apart.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_SYSTEM_STARTUP_H
#define COWBIRD_SYSTEM_STARTUP_H

#include "qom/object.h"

typedef struct SystemState SystemState;

/* All tables of types. */
extern const QomType *const system_types[];

/*
 * Builds everything from state->options up to a guest that runs, waits (-S) or loads its state. On failure
 * startup_undo takes apart what was made.
 */
bool startup_build(SystemState *state, GError **errp);
/* Also after success, at the end of the process. */
void startup_undo(SystemState *state);

#endif
