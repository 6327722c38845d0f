/*
 * Sockets of migrations: connecting, listening, and accepting one peer.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MIGRATION_CHANNEL_SOCKET_H
#define COWBIRD_MIGRATION_CHANNEL_SOCKET_H

#include <glib.h>

/* All return an fd that the caller owns, or -1; `cancelled` (atomic) ends a wait. */
int socket_connect_unix(const char *path, const int *cancelled, GError **errp);
int socket_connect_tcp(const char *host, const char *port, const int *cancelled, GError **errp);
/* A peer can connect from now on. A socket that was left behind at the path is replaced. */
int socket_listen_unix(const char *path, GError **errp);
int socket_listen_tcp(const char *host, const char *port, GError **errp);
/* `name` is for messages. */
int socket_accept(int listener, const char *name, const int *cancelled, GError **errp);
/* A socket file that nobody listens on any more; never a file of another kind. */
void socket_remove_unix(const char *path);

#endif
