/*
 * File descriptors handed to the process by name (getfd) or in numbered sets (add-fd).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_UTIL_FDS_H
#define COWBIRD_UTIL_FDS_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The store of one process. All functions may be called from any thread. */
typedef struct FdStore FdStore;

FdStore *fd_store_new(void);
/* Closes every descriptor that is still in the store. */
void fd_store_free(FdStore *store);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(FdStore, fd_store_free)

/*
 * Keep fd under a name that does not begin with a digit (a number means an inherited descriptor).
 * Takes ownership of fd, also on failure; a descriptor already of that name is closed.
 */
bool fd_store_add_named(FdStore *store, const char *name, int fd, GError **errp);

/* Remove the descriptor from the store; the caller owns it. -1 on error. */
int fd_store_take_named(FdStore *store, const char *name, GError **errp);

bool fd_store_close_named(FdStore *store, const char *name, GError **errp);

/*
 * What "fd:NAME" or "fd:N" in an option or address names: a descriptor of the store (removed from
 * it) or an inherited descriptor, checked to be open. The caller owns the result. -1 on error.
 */
int fd_store_get_param(FdStore *store, const char *name_or_number, GError **errp);

/*
 * Add fd to set id, or to a new set with the lowest free id. Takes ownership of fd, also on
 * failure. opaque is a free text for the owner, or NULL.
 */
bool fdset_add(FdStore *store, bool has_id, int64_t id, int fd, const char *opaque, int64_t *ret_id,
               GError **errp);

/* Close one descriptor of a set, or all of them; a set without descriptors is gone. */
bool fdset_remove(FdStore *store, int64_t id, bool has_fd, int64_t fd, GError **errp);

/*
 * Open "/dev/fdset/N": a duplicate, close-on-exec, of the member whose access mode and O_DIRECT are
 * those of flags. The caller owns the result. -1 on error.
 */
int fdset_open(FdStore *store, const char *path, int flags, GError **errp);

/*
 * Open a path, which may be "/dev/fdset/N". O_CLOEXEC is added. Never waits: a pipe that nobody reads and
 * a file that a running virtual machine's memory is mapped from cannot be opened for writing. -1 on error.
 */
int fd_store_open(FdStore *store, const char *path, int flags, mode_t mode, GError **errp);

/* True when path has the form of a set, whether or not the set exists. */
bool fdset_is_path(const char *path);

/* Calls fn for each descriptor, sets in ascending order; the store must not be changed by fn. */
typedef void (*FdSetFunc)(void *user, int64_t id, int fd, const char *opaque);
void fdset_foreach(FdStore *store, FdSetFunc fn, void *user);

#endif
