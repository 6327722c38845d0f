/*
 * Where a snapshot file is written: beside its name until it is whole, or in place.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MIGRATION_PUBLISH_H
#define COWBIRD_MIGRATION_PUBLISH_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct PublishTarget {
    int fd;         /* the file, buffered */
    int direct_fd;  /* the same with O_DIRECT, or -1 */
    uint64_t start; /* where the stream begins */
    char *path;     /* final name, no symbolic link; NULL: an fd was given to us */
    char *temp;     /* name until publication; NULL: none (unnamed, or in place) */
    bool in_place;  /* the file is what was given to us */
    bool cut_off;   /* a file written in place, at start; so it is left if it is not published */
    bool published; /* written in place, whole and safe */
} PublishTarget;

/*
 * Begin a new file that will be called path once it is published. start > 0: the first bytes of the
 * file that is there now are kept. What was there before is not touched.
 */
PublishTarget *publish_new_path(const char *path, uint64_t start, bool direct, GError **errp);

/*
 * Write in place to fd, and to direct_fd (-1: none), from `start` on; takes ownership of both, also
 * on failure. The file is cut off at start at once, so that nothing of an old snapshot in it
 * can be taken for the new one. An fd with O_APPEND is refused.
 */
PublishTarget *publish_new_fd(int fd, int direct_fd, uint64_t start, GError **errp);

/* All bytes before the closing part are safe on disk; needed for files written in place. */
bool publish_barrier(PublishTarget *target, GError **errp);

/* fsync, and give the file its name. The target stays to be freed. */
bool publish_commit(PublishTarget *target, GError **errp);

/* Not published: an unfinished file is removed, one written in place is cut off again. */
void publish_free(PublishTarget *target);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PublishTarget, publish_free)

#endif
