/*
 * -daemonize and -pidfile.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_SYSTEM_DAEMON_H
#define COWBIRD_SYSTEM_DAEMON_H

#include <glib.h>
#include <stdbool.h>

typedef struct Daemon Daemon;

/*
 * With daemonize: forks, before any thread exists. The parent stays until daemon_ready() and then exits with status 0, or with 1
 * when the child ends before; it never returns from here. NULL: error.
 */
Daemon *daemon_start(bool daemonize, GError **errp);
/* Writes the pid file (kept locked while the process lives) and remembers to remove it. */
bool daemon_write_pidfile(Daemon *daemon, const char *path, GError **errp);
/* All that others wait for is in place: lets the parent go, and leaves the terminal and the folder. */
bool daemon_ready(Daemon *daemon, GError **errp);
/* Removes the pid file. */
void daemon_free(Daemon *daemon);

#endif
