/*
 * -qtest: a test outside drives the machine over a chardev, by QEMU's qtest protocol.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_SYSTEM_QTEST_H
#define COWBIRD_SYSTEM_QTEST_H

#include <glib.h>
#include <stdbool.h>

typedef struct SystemState SystemState;

/* Once the board is there; nothing to do without -accel qtest. */
bool qtest_open(SystemState *state, GError **errp);
/* Before chardevs, accelerator and machine go. */
void qtest_close(SystemState *state);

#endif
