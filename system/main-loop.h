/*
 * The main loop: GLib's, with the big lock released while it sleeps, and the signals that end the process.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_SYSTEM_MAIN_LOOP_H
#define COWBIRD_SYSTEM_MAIN_LOOP_H

#include <glib.h>
#include <stdbool.h>

typedef struct SystemState SystemState;

/* From now on the lock of state->accel (if there is one) is given up while the loop sleeps. */
void main_loop_share_lock(SystemState *state);
/* SIGTERM, SIGINT and SIGHUP ask for a shutdown. */
bool main_loop_watch_signals(SystemState *state, GError **errp);
/* Dispatches until state->quit. */
void main_loop_run(SystemState *state);

#endif
