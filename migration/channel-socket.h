/*
 * Sockets of migrations: connecting, and accepting one peer.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MIGRATION_CHANNEL_SOCKET_H
#define COWBIRD_MIGRATION_CHANNEL_SOCKET_H

#include <glib.h>

/* All return an fd that the caller owns, or -1; `cancelled` (atomic) ends the wait. */
int socket_connect_unix(const char *path, const int *cancelled, GError **errp);
int socket_connect_tcp(const char *host, const char *port, const int *cancelled, GError **errp);
/* The socket file is removed once the peer is there. */
int socket_accept_unix(const char *path, const int *cancelled, GError **errp);
int socket_accept_tcp(const char *host, const char *port, const int *cancelled, GError **errp);

#endif
