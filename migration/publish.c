/*
 * Where a snapshot file is written: beside its name until it is whole, or in place.
 *
 * The unfinished file has no name at all where the file system can do that (O_TMPFILE), so that a
 * writer that is killed leaves nothing behind. Only where it replaces another file it has a
 * temporary name in the same folder, for the moment before the rename.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "migration/publish.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/error.h"
#include "util/io.h"
#include "util/units.h"

/* Guest memory is nobody else's business. */
#define NEW_FILE_MODE 0600

static PublishTarget *target_new(uint64_t start)
{
    PublishTarget *target = g_new0(PublishTarget, 1);

    target->fd = -1;
    target->direct_fd = -1;
    target->start = start;
    return target;
}

void publish_free(PublishTarget *target)
{
    if (!target) {
        return;
    }
    if (target->cut_off && !target->published && ftruncate(target->fd, target->start) < 0) {
        warn_report("cannot cut off the unfinished snapshot: %s", g_strerror(errno));
    }
    close_fd(&target->fd);
    close_fd(&target->direct_fd);
    if (target->temp) {
        unlink(target->temp);
    }
    g_free(target->temp);
    g_free(target->path);
    g_free(target);
}

static char *temp_name(const char *path)
{
    g_autofree char *dir = g_path_get_dirname(path);
    g_autofree char *base = g_path_get_basename(path);

    /* Room for the rest in the 255 bytes of a file name. */
    return g_strdup_printf("%s/.%.200s.%d-%08x.tmp", dir, base, getpid(), g_random_int());
}

static bool open_temp(PublishTarget *target, GError **errp)
{
    g_autofree char *dir = g_path_get_dirname(target->path);

    target->fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, NEW_FILE_MODE);
    if (target->fd >= 0) {
        return true;
    }
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) {
        error_set_errno(errp, errno, "cannot create a file in folder '%s'", dir);
        return false;
    }
    target->temp = temp_name(target->path);
    target->fd = open(target->temp, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, NEW_FILE_MODE);
    if (target->fd < 0) {
        error_set_errno(errp, errno, "cannot create file '%s'", target->temp);
        g_clear_pointer(&target->temp, g_free);
        return false;
    }
    return true;
}

/* Without O_DIRECT on this file system the buffered descriptor does all. */
static void open_direct(PublishTarget *target)
{
    g_autofree char *self = g_strdup_printf("/proc/self/fd/%d", target->fd);

    target->direct_fd = open(self, O_RDWR | O_DIRECT | O_CLOEXEC);
}

static bool copy_prefix(PublishTarget *target, int old, uint64_t size, GError **errp)
{
    uint64_t left = MIN(target->start, size);
    g_autofree char *buf = g_malloc(64 * KiB);
    uint64_t pos = 0;

    while (left) {
        size_t n = MIN(left, 64 * KiB);

        if (!pread_full(old, buf, n, pos, errp) || !pwrite_full(target->fd, buf, n, pos, errp)) {
            return false;
        }
        pos += n;
        left -= n;
    }
    return true;
}

/* Keeps what the file of that name has of its own: the bytes before the stream, mode, owner. */
static bool take_over(PublishTarget *target, GError **errp)
{
    struct stat st;
    g_auto(FdHandle) old = -1;

    if (stat(target->path, &st) < 0) {
        return true;
    }
    if (fchown(target->fd, st.st_uid, st.st_gid) < 0) {
        /* Not ours to give away: it stays with whoever runs this process. */
        st.st_mode &= S_IRWXU;
    }
    if (fchmod(target->fd, st.st_mode & (S_IRWXU | S_IRWXG | S_IRWXO)) < 0) {
        error_set_errno(errp, errno, "cannot set the mode of the new file for '%s'", target->path);
        return false;
    }
    if (target->start == 0) {
        return true;
    }
    old = open(target->path, O_RDONLY | O_CLOEXEC);
    if (old < 0) {
        error_set_errno(errp, errno, "cannot keep the first %" PRIu64 " bytes of file '%s'",
                        target->start, target->path);
        return false;
    }
    return copy_prefix(target, old, st.st_size, errp);
}

/* The file a name stands for: a symbolic link stays one when its file is replaced. */
static char *final_path(const char *path)
{
    char *real = realpath(path, NULL);
    char *copy = g_strdup(real ? real : path);

    free(real);
    return copy;
}

PublishTarget *publish_new_path(const char *path, uint64_t start, bool direct, GError **errp)
{
    g_autoptr(PublishTarget) target = NULL;
    struct stat st;

    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        error_set(errp, "'%s' is not a regular file; give the name of a file", path);
        return NULL;
    }
    target = target_new(start);
    target->path = final_path(path);
    if (!open_temp(target, errp) || !take_over(target, errp)) {
        return NULL;
    }
    if (direct) {
        open_direct(target);
    }
    return g_steal_pointer(&target);
}

static bool check_given_fd(int fd, GError **errp)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0) {
        error_set_errno(errp, errno, "cannot use file descriptor %d", fd);
        return false;
    }
    if ((flags & O_ACCMODE) == O_RDONLY) {
        error_set(errp, "file descriptor %d is open for reading only", fd);
        return false;
    }
    if (flags & O_APPEND) {
        error_set(errp,
                  "file descriptor %d was opened with O_APPEND, which ignores offsets; open the "
                  "file without it",
                  fd);
        return false;
    }
    return true;
}

PublishTarget *publish_new_fd(int fd, int direct_fd, uint64_t start, GError **errp)
{
    g_autoptr(PublishTarget) target = target_new(start);
    struct stat st;

    target->fd = fd;
    target->direct_fd = direct_fd;
    target->in_place = true;
    if (!check_given_fd(fd, errp) || (direct_fd >= 0 && !check_given_fd(direct_fd, errp))) {
        return NULL;
    }
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        error_set(errp, "the mapped-ram layout needs a regular file; switch mapped-ram off for "
                        "a device or pipe");
        return NULL;
    }
    if (ftruncate(fd, start) < 0) {
        error_set_errno(errp, errno, "cannot cut off the file of descriptor %d", fd);
        return NULL;
    }
    target->cut_off = true;
    return g_steal_pointer(&target);
}

static bool sync_fd(const PublishTarget *target, GError **errp)
{
    if (fsync(target->fd) < 0) {
        error_set_errno(errp, errno, "cannot write the snapshot '%s' to disk",
                        target->path ? target->path : "(fd)");
        return false;
    }
    return true;
}

bool publish_barrier(PublishTarget *target, GError **errp)
{
    return !target->in_place || sync_fd(target, errp);
}

static bool link_as(const PublishTarget *target, const char *name)
{
    g_autofree char *self = g_strdup_printf("/proc/self/fd/%d", target->fd);

    return linkat(AT_FDCWD, self, AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0;
}

/* Gives an unnamed file its name; where another file has it, a temporary one to be renamed. */
static bool link_unnamed(PublishTarget *target, GError **errp)
{
    if (link_as(target, target->path)) {
        return true;
    }
    if (errno == EEXIST) {
        target->temp = temp_name(target->path);
        if (link_as(target, target->temp)) {
            return true;
        }
        g_clear_pointer(&target->temp, g_free);
    }
    error_set_errno(errp, errno, "cannot give the finished snapshot the name '%s'", target->path);
    return false;
}

bool publish_commit(PublishTarget *target, GError **errp)
{
    if (!sync_fd(target, errp)) {
        return false;
    }
    target->published = target->in_place;
    if (target->in_place) {
        return true;
    }
    if (!target->temp && !link_unnamed(target, errp)) {
        return false;
    }
    if (target->temp && rename(target->temp, target->path) < 0) {
        error_set_errno(errp, errno, "cannot rename '%s' to '%s'", target->temp, target->path);
        return false;
    }
    g_clear_pointer(&target->temp, g_free);
    return fsync_dir(target->path, errp);
}
