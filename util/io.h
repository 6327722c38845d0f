/*
 * Whole reads and writes on file descriptors: short transfers and EINTR are continued.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_UTIL_IO_H
#define COWBIRD_UTIL_IO_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

/*
 * Transfer exactly len bytes. The error names the descriptor, the offset and the errno; an end of
 * file before len bytes is an error that says so. A non-blocking fd that is not ready is waited for.
 */
bool read_full(int fd, void *buf, size_t len, GError **errp);
bool write_full(int fd, const void *buf, size_t len, GError **errp);
bool pread_full(int fd, void *buf, size_t len, off_t off, GError **errp);
bool pwrite_full(int fd, const void *buf, size_t len, off_t off, GError **errp);

/* Gathers all of iov at off. The contents of iov are used up. */
bool pwritev_full(int fd, struct iovec *iov, int count, off_t off, GError **errp);

/* fsync the folder that holds path, so that a rename to path survives a crash. */
bool fsync_dir(const char *path, GError **errp);

/* Close if >= 0 and set to -1; errno is kept. */
void close_fd(int *fd);

/* g_auto(FdHandle) fd = -1; closes it at the end of the scope. */
typedef int FdHandle;
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(FdHandle, close_fd)

/* Set or clear O_NONBLOCK. */
bool fd_set_nonblocking(int fd, bool on, GError **errp);

#endif
