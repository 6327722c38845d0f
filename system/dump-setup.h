/*
 * Dumps of guest memory and migrations keep out of each other's way.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_SYSTEM_DUMP_SETUP_H
#define COWBIRD_SYSTEM_DUMP_SETUP_H

#include "dump/dump.h"

typedef struct SystemState SystemState;

/* Once there is state->migration, which has to live as long as the result. */
DumpState *dump_setup(SystemState *state);

#endif
