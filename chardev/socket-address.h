/*
 * Stream sockets from the options of a socket chardev: unix, TCP, or an inherited descriptor.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_CHARDEV_SOCKET_ADDRESS_H
#define COWBIRD_CHARDEV_SOCKET_ADDRESS_H

#include <glib.h>
#include <stdbool.h>

#include "qapi/qapi-types.h"
#include "util/fds.h"

/*
 * A listening socket, non-blocking and close-on-exec; the caller owns it. ret_unlink gets the
 * absolute path that is to be removed in the end, or NULL. -1 on error.
 */
int socket_listen(const ChardevSocketOptions *opts, FdStore *fds, char **ret_unlink, GError **errp);

/*
 * A connected socket, non-blocking and close-on-exec; the caller owns it. Waits for the connection
 * to be there. -1 on error.
 */
int socket_connect(const ChardevSocketOptions *opts, FdStore *fds, GError **errp);

/* Exactly one of path, host with port, and fd must be given. */
bool socket_options_check(const ChardevSocketOptions *opts, GError **errp);

/* "unix:/run/x", "tcp:127.0.0.1:4444", of the socket itself (local) or of its other end. */
char *socket_describe(int fd, bool local);

/* For a TCP socket: send small packets at once. Nothing happens to others. */
void socket_set_nodelay(int fd);

/* Text for messages: where opts lead to. Owned by the caller. */
char *socket_options_describe(const ChardevSocketOptions *opts);

#endif
