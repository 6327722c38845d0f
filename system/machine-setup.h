/*
 * The machine object from the command line.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_SYSTEM_MACHINE_SETUP_H
#define COWBIRD_SYSTEM_MACHINE_SETUP_H

#include <glib.h>
#include <stdbool.h>

typedef struct SystemState SystemState;

/* Makes state->machine with everything that -machine, -smp, -cpu, -kernel, -rtc, -boot, -uuid and -global say. */
bool machine_setup(SystemState *state, GError **errp);
/* Accelerators in order of preference, "kvm:tcg": -accel, else -machine accel=, else kvm. */
char *machine_setup_accel_list(SystemState *state, GError **errp);

#endif
