/*
 * Addresses of migrations (file:, fd:, exec:, unix:, tcp:) and the descriptors behind them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MIGRATION_CHANNEL_H
#define COWBIRD_MIGRATION_CHANNEL_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/fds.h"

typedef enum ChannelKind {
    CHANNEL_FILE, /* a path, "/dev/fdset/N" too */
    CHANNEL_FD,   /* an fd handed to us; a regular file, a pipe or a socket */
    CHANNEL_EXEC, /* a shell command's standard input or output */
    CHANNEL_UNIX,
    CHANNEL_TCP,
} ChannelKind;

typedef struct MigrationAddress {
    ChannelKind kind;
    char *name;      /* path, name of the fd, command, or host */
    char *port;      /* CHANNEL_TCP */
    uint64_t offset; /* CHANNEL_FILE */
} MigrationAddress;

void migration_address_free(MigrationAddress *address);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(MigrationAddress, migration_address_free)

/* An unknown kind of address is an error that names the known ones. */
MigrationAddress *migration_address_parse(const char *uri, GError **errp);

/* An open stream: pipe, socket, terminal or device. */
typedef struct StreamChannel {
    int fd;      /* owned */
    pid_t child; /* of exec:, 0 = none */
} StreamChannel;

void stream_channel_free(StreamChannel *channel);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(StreamChannel, stream_channel_free)

/* Takes ownership of fd. */
StreamChannel *stream_channel_new(int fd);

/*
 * For unix: and tcp: the socket a peer can connect to from now on, owned by the caller; -1 on an
 * error. Does not block.
 */
int stream_channel_listen(const MigrationAddress *address, GError **errp);
/* Close it, if it is open, and remove its socket file. */
void stream_channel_unlisten(const MigrationAddress *address, int *listener);

/*
 * Connect, accept (on `listener`, which stays open), or start the command; `cancelled` (atomic)
 * ends the wait. They block and are called off the main loop.
 */
StreamChannel *stream_channel_open_output(const MigrationAddress *address, const int *cancelled,
                                          GError **errp);
StreamChannel *stream_channel_open_input(const MigrationAddress *address, int listener,
                                         const int *cancelled, GError **errp);

/*
 * Close our end and wait for the command; one that failed is an error. Closing twice is allowed.
 */
bool stream_channel_close(StreamChannel *channel, GError **errp);

#endif
