/*
 * Opening what an outgoing migration writes to: a new file, an fd given to us, or a stream.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memory/base-guard.h"
#include "migration/parent.h"
#include "migration/save.h"
#include "util/error.h"
#include "util/io.h"

/* An increment written over a file it rests on could never be restored. */
static bool is_ancestor(const SaveJob *job, const struct stat *st)
{
    const GPtrArray *files = job->s->origin.files;

    for (guint i = 0; job->incremental && files && i < files->len; i++) {
        struct stat own;

        if (fstat(ram_base_fd(g_ptr_array_index(files, i)), &own) == 0 &&
            own.st_dev == st->st_dev && own.st_ino == st->st_ino) {
            return true;
        }
    }
    return false;
}

static bool refuse_base(const SaveJob *job, const struct stat *st, GError **errp)
{
    bool mapped = ram_list_uses_file(job->s->env.ram, st->st_dev, st->st_ino);

    if (mapped || is_ancestor(job, st)) {
        error_set(errp, "'%s' is in use: %s; save to another file", job->address->name,
                  mapped ? "guest memory is mapped from it" : "the increment rests on it");
        return false;
    }
    return true;
}

static bool check_fd(SaveJob *job, int fd, struct stat *st, GError **errp)
{
    if (fstat(fd, st) < 0) {
        error_set_errno(errp, errno, "cannot look at '%s'", job->address->name);
        return false;
    }
    return refuse_base(job, st, errp);
}

static bool open_path(SaveJob *job, GError **errp)
{
    const MigrationAddress *a = job->address;
    bool direct = job->s->options.parameters->direct_io;
    struct stat st;

    if (stat(a->name, &st) == 0 && !refuse_base(job, &st, errp)) {
        return false;
    }
    job->target = publish_new_path(a->name, a->offset, direct, errp);
    return job->target != NULL;
}

/* A set has one member for buffered and, perhaps, one for direct writing. */
static bool open_fdset(SaveJob *job, GError **errp)
{
    const MigrationAddress *a = job->address;
    FdStore *fds = job->s->env.fds;
    g_auto(FdHandle) fd = -1, direct_fd = -1;
    struct stat st;

    fd = fdset_open(fds, a->name, O_RDWR, NULL);
    if (fd < 0) {
        fd = fdset_open(fds, a->name, O_WRONLY, errp);
    }
    if (fd < 0 || !check_fd(job, fd, &st, errp)) {
        return false;
    }
    if (job->s->options.parameters->direct_io) {
        direct_fd = fdset_open(fds, a->name, O_WRONLY | O_DIRECT, NULL);
    }
    job->target = publish_new_fd(g_steal_fd(&fd), g_steal_fd(&direct_fd), a->offset, errp);
    return job->target != NULL;
}

static bool open_fd(SaveJob *job, GError **errp)
{
    g_auto(FdHandle) fd = fd_store_get_param(job->s->env.fds, job->address->name, errp);
    struct stat st;
    off_t start;

    if (fd < 0 || !check_fd(job, fd, &st, errp)) {
        return false;
    }
    if (!S_ISREG(st.st_mode)) {
        job->stream = stream_channel_new(g_steal_fd(&fd));
        return true;
    }
    start = lseek(fd, 0, SEEK_CUR);
    if (start < 0) {
        error_set_errno(errp, errno, "cannot find the position of '%s'", job->address->name);
        return false;
    }
    job->target = publish_new_fd(g_steal_fd(&fd), -1, start, errp);
    return job->target != NULL;
}

static bool open_any(SaveJob *job, GError **errp)
{
    switch (job->address->kind) {
    case CHANNEL_FILE:
        return fdset_is_path(job->address->name) ? open_fdset(job, errp) : open_path(job, errp);
    case CHANNEL_FD:
        return open_fd(job, errp);
    default:
        return true;
    }
}

/* What only a regular file can be used for. */
static bool check_stream(SaveJob *job, GError **errp)
{
    if (job->s->options.capabilities[MIGRATION_CAPABILITY_MAPPED_RAM]) {
        error_set(errp, "mapped-ram needs a regular file; switch the capability off for a pipe, "
                        "socket or command");
        return false;
    }
    return true;
}

bool save_open_target(SaveJob *job, GError **errp)
{
    /* Before the target is opened, which cuts off a file given to us. */
    if (job->incremental &&
        !parent_find(job->s, job->address->kind == CHANNEL_FILE ? job->address->name : NULL,
                     &job->parent, &job->parent_elsewhere, errp)) {
        return false;
    }
    if (!open_any(job, errp)) {
        return false;
    }
    return job->target || check_stream(job, errp);
}
