/*
 * Character devices and the QMP monitors on them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_SYSTEM_MONITORS_H
#define COWBIRD_SYSTEM_MONITORS_H

#include <glib.h>
#include <stdbool.h>

typedef struct SystemState SystemState;

/* The set of monitors, empty: from now on there is an event sink. */
void monitors_init(SystemState *state);
/* -chardev, then -qmp and -mon. Nothing is answered before the main loop runs. */
bool monitors_open(SystemState *state, GError **errp);
/* -serial, and the port that -nographic stands for. */
bool monitors_open_serial(SystemState *state, GError **errp);

#endif
