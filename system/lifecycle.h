/*
 * What follows a reset, a shutdown, the power button and a guest's panic.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_SYSTEM_LIFECYCLE_H
#define COWBIRD_SYSTEM_LIFECYCLE_H

typedef struct SystemState SystemState;

/* Takes -action, -no-reboot and -no-shutdown and tells the run state what to do. */
void lifecycle_init(SystemState *state);
/* The main loop ends, the process exits with status. */
void lifecycle_quit(SystemState *state, int status);

#endif
