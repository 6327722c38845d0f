/*
 * What memory/ may do to the running guest.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_SYSTEM_MEMORY_CONTROL_H
#define COWBIRD_SYSTEM_MEMORY_CONTROL_H

typedef struct SystemState SystemState;

/* Fills in state->memory_control. */
void memory_control_init(SystemState *state);

#endif
