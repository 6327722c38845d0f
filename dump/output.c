/*
 * Where a dump goes: a file or a pipe, written in order.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "dump/output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memory/base-guard.h"
#include "util/error.h"
#include "util/io.h"
#include "util/units.h"

#define STEP (UINT64_C(1) << 20) /* of one system call, so that giving up is quick */

struct DumpOutput {
    int fd;
    int cancel_fd;
    char *name;      /* for people */
    bool by_name;    /* "file:" */
    bool sparse;     /* a regular file with nothing after the place we write at */
    uint8_t *buffer; /* STEP bytes */
    uint8_t *zeros;  /* STEP bytes; NULL = not needed yet */
};

/* --- Opening --- */

static bool refuse_mapped(const char *name, const struct stat *st, const RamList *ram,
                          GError **errp)
{
    if (ram_list_uses_file(ram, st->st_dev, st->st_ino)) {
        error_set(errp, "'%s' is in use: guest memory is mapped from it; dump to another file",
                  name);
        return false;
    }
    return true;
}

/* The file must not be opened for writing, let alone emptied, before it is known to be another one. */
static int open_by_name(const char *path, FdStore *fds, const RamList *ram, GError **errp)
{
    g_auto(FdHandle) fd = -1;
    struct stat st;
    int ret;

    if (stat(path, &st) == 0 && !refuse_mapped(path, &st, ram, errp)) {
        return -1;
    }
    fd = fd_store_open(fds, path, O_WRONLY | O_CREAT, 0600, errp);
    if (fd < 0) {
        return -1;
    }
    if (fstat(fd, &st) < 0) {
        error_set_errno(errp, errno, "Cannot look at '%s'", path);
        return -1;
    }
    if (!refuse_mapped(path, &st, ram, errp)) {
        return -1;
    }
    if (S_ISREG(st.st_mode) && (ftruncate(fd, 0) < 0 || lseek(fd, 0, SEEK_SET) < 0)) {
        error_set_errno(errp, errno, "Cannot empty '%s'", path);
        return -1;
    }
    ret = fd;
    fd = -1;
    return ret;
}

static int open_protocol(const char *protocol, FdStore *fds, const RamList *ram, GError **errp)
{
    g_auto(FdHandle) fd = -1;
    struct stat st;
    int ret;

    if (g_str_has_prefix(protocol, "file:")) {
        return open_by_name(protocol + strlen("file:"), fds, ram, errp);
    }
    if (!g_str_has_prefix(protocol, "fd:")) {
        error_set(errp, "protocol '%s' is unknown: use 'file:PATH' or 'fd:NAME'", protocol);
        return -1;
    }
    fd = fd_store_get_param(fds, protocol + strlen("fd:"), errp);
    if (fd < 0) {
        return -1;
    }
    if (fstat(fd, &st) < 0 || (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY) {
        error_set(errp, "'%s' is not open for writing", protocol);
        return -1;
    }
    if (!refuse_mapped(protocol, &st, ram, errp)) {
        return -1;
    }
    ret = fd;
    fd = -1;
    return ret;
}

static bool can_have_holes(int fd)
{
    struct stat st;
    off_t at = lseek(fd, 0, SEEK_CUR);

    return at >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= at &&
           !(fcntl(fd, F_GETFL) & O_APPEND);
}

DumpOutput *dump_output_open(const char *protocol, FdStore *fds, const RamList *ram, GError **errp)
{
    DumpOutput *out;
    int fd = open_protocol(protocol, fds, ram, errp);

    if (fd < 0) {
        return NULL;
    }
    out = g_new0(DumpOutput, 1);
    out->fd = fd;
    out->name = g_strdup(protocol);
    out->by_name = g_str_has_prefix(protocol, "file:");
    out->sparse = can_have_holes(fd);
    out->buffer = g_malloc(STEP);
    (void)fcntl(fd, F_SETPIPE_SZ, (int)STEP); /* fewer switches; what is no pipe says no */
    out->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (out->cancel_fd < 0 || !fd_set_nonblocking(fd, true, NULL)) {
        error_set_errno(errp, errno, "Cannot prepare '%s'", protocol);
        g_clear_pointer(&out, dump_output_free);
    }
    return out;
}

void dump_output_free(DumpOutput *out)
{
    if (out) {
        close_fd(&out->fd);
        close_fd(&out->cancel_fd);
        g_free(out->name);
        g_free(out->buffer);
        g_free(out->zeros);
        g_free(out);
    }
}

void dump_output_cancel(DumpOutput *out)
{
    uint64_t one = 1;

    /* Cannot fail: the counter is far from full. */
    (void)!write(out->cancel_fd, &one, sizeof(one));
}

/* --- Writing --- */

/* Waits until something can be written. */
static bool wait_ready(DumpOutput *out, GError **errp)
{
    struct pollfd fds[] = { { .fd = out->cancel_fd, .events = POLLIN },
                            { .fd = out->fd, .events = POLLOUT } };

    while (poll(fds, G_N_ELEMENTS(fds), -1) < 0) {
        if (errno != EINTR) {
            error_set_errno(errp, errno, "Waiting for '%s'", out->name);
            return false;
        }
    }
    if (fds[0].revents) {
        error_set(errp, "the dump was given up");
        return false;
    }
    return true;
}

static bool report_write_error(DumpOutput *out, int err, GError **errp)
{
    if (err == EFAULT) {
        error_set(errp, "guest memory is lost: the file it was mapped from has changed");
    } else {
        error_set_errno(errp, err, "Writing the dump to '%s'", out->name);
    }
    return false;
}

bool dump_output_write(DumpOutput *out, const void *buf, uint64_t length, GError **errp)
{
    const uint8_t *from = buf;

    while (length > 0) {
        ssize_t n;

        if (!wait_ready(out, errp)) {
            return false;
        }
        n = write(out->fd, from, MIN(length, STEP));
        if (n < 0 && errno != EINTR && errno != EAGAIN) {
            return report_write_error(out, errno, errp);
        }
        if (n > 0) {
            from += n;
            length -= n;
        }
    }
    return true;
}

bool dump_output_zeros(DumpOutput *out, uint64_t length, GError **errp)
{
    if (out->sparse) {
        if (lseek(out->fd, length, SEEK_CUR) < 0) {
            return report_write_error(out, errno, errp);
        }
        return true;
    }
    if (length && !out->zeros) {
        out->zeros = g_malloc0(STEP);
    }
    while (length > 0) {
        uint64_t n = MIN(length, STEP);

        if (!dump_output_write(out, out->zeros, n, errp)) {
            return false;
        }
        length -= n;
    }
    return true;
}

const uint8_t *dump_piece_read(const DumpPiece *piece, uint64_t offset, void *buf, size_t length,
                               GError **errp)
{
    size_t done = 0;

    if (piece->host) {
        return piece->host + offset;
    }
    while (done < length) {
        ssize_t n = pread(piece->fd, (uint8_t *)buf + done, length - done,
                          piece->file_offset + offset + done);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            error_set_errno(errp, errno, "Reading the file that guest memory is mapped from");
            return NULL;
        }
        /* A file may end within its last page, as a mapping of it does in zeros. */
        if (n == 0 && length - done >= 4096) {
            error_set(errp, "guest memory is lost: the file it is mapped from has become shorter");
            return NULL;
        }
        if (n == 0) {
            memset((uint8_t *)buf + done, 0, length - done);
            break;
        }
        done += n;
    }
    return buf;
}

bool dump_output_piece(DumpOutput *out, const DumpPiece *piece, uint64_t *completed, GError **errp)
{
    for (uint64_t at = 0; at < piece->length; at += STEP) {
        uint64_t n = MIN(piece->length - at, STEP);
        const uint8_t *bytes = dump_piece_read(piece, at, out->buffer, n, errp);

        if (!bytes || !dump_output_write(out, bytes, n, errp)) {
            return false;
        }
        __atomic_fetch_add(completed, n, __ATOMIC_RELAXED);
    }
    return true;
}

/* --- The end --- */

bool dump_output_finish(DumpOutput *out, GError **errp)
{
    off_t end = out->sparse ? lseek(out->fd, 0, SEEK_CUR) : 0;

    if (out->sparse && (end < 0 || ftruncate(out->fd, end) < 0)) {
        return report_write_error(out, errno, errp);
    }
    return true;
}

void dump_output_fail(DumpOutput *out)
{
    if (out->by_name && out->sparse && ftruncate(out->fd, 0) < 0) {
        warn_report("the file '%s' holds a part of a dump that failed: %s", out->name,
                    strerror(errno));
    }
}
