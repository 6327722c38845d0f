/*
 * Where a sequential stream is written to: a pipe, socket or device.
 *
 * A pipe is given references to the pages of long runs (vmsplice(2)) instead of copies: its reader is
 * what saving waits for, and does not get faster while we copy. The guest must not run again before the
 * reader has taken them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "migration/stream-output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "util/error.h"
#include "util/io.h"
#include "util/units.h"

/* Shorter elements are copied, many in one call. */
#define SPLICE_MIN (128 * KiB)
/* As much as one may ask for without privileges: fewer changes between us and the reader. */
#define PIPE_BYTES ((int)MiB)
#define IOV_LIMIT 1024
#define POLL_MS 50
#define FINISH_POLL_MS 1

bool stream_output_init(StreamOutput *out, int fd, TransferControl *control, GError **errp)
{
    struct stat st;

    if (fstat(fd, &st) < 0) {
        error_set_errno(errp, errno, "cannot look at the migration stream");
        return false;
    }
    *out = (StreamOutput){ .fd = fd, .control = control, .splice = S_ISFIFO(st.st_mode) };
    if (out->splice) {
        /* Refused when this user's pipes have had their share; slower then. */
        (void)fcntl(fd, F_SETPIPE_SZ, PIPE_BYTES);
    }
    return fd_set_nonblocking(fd, true, errp);
}

static bool wait_writable(const StreamOutput *out, GError **errp)
{
    struct pollfd p = { .fd = out->fd, .events = POLLOUT };

    if (poll(&p, 1, POLL_MS) < 0 && errno != EINTR) {
        error_set_errno(errp, errno, "cannot wait for the stream");
        return false;
    }
    return transfer_control_check(out->control, errp);
}

static bool is_spliced(const StreamOutput *out, const struct iovec *iov)
{
    return out->splice && iov->iov_len >= SPLICE_MIN;
}

/* One long element by reference, or as many others as follow each other. */
static ssize_t put_some(StreamOutput *out, const struct iovec *iov, int n)
{
    ssize_t done;
    int k = 0;

    if (is_spliced(out, iov)) {
        done = vmsplice(out->fd, iov, 1, SPLICE_F_NONBLOCK);
        if (done >= 0) {
            out->spliced = true;
            out->behind = 0;
            return done;
        }
        if (errno == EAGAIN || errno == EINTR || errno == EPIPE) {
            return -1;
        }
        /* Not here (seccomp): copying says what is wrong, if anything is. */
        out->splice = false;
    }
    while (k < MIN(n, IOV_LIMIT) && !is_spliced(out, &iov[k])) {
        k++;
    }
    done = writev(out->fd, iov, k);
    out->behind += MAX(done, 0);
    return done;
}

static void advance(struct iovec **iov, int *n, size_t done)
{
    while (*n && done >= (*iov)->iov_len) {
        done -= (*iov)->iov_len;
        (*iov)++;
        (*n)--;
    }
    if (*n) {
        (*iov)->iov_base = (char *)(*iov)->iov_base + done;
        (*iov)->iov_len -= done;
    }
}

static bool reader_left(GError **errp)
{
    error_set_errno(errp, EPIPE, "cannot write the migration stream (its reader has left)");
    return false;
}

bool stream_output_put(StreamOutput *out, struct iovec *iov, int n, GError **errp)
{
    while (n) {
        ssize_t done = put_some(out, iov, n);

        if (done >= 0) {
            transfer_count(&out->control->written_bytes, done);
            advance(&iov, &n, done);
        } else if (errno == EAGAIN) {
            if (!wait_writable(out, errp)) {
                return false;
            }
        } else if (errno == EPIPE) {
            return reader_left(errp);
        } else if (errno != EINTR) {
            error_set_errno(errp, errno, "cannot write the migration stream");
            return false;
        }
    }
    return true;
}

bool stream_output_finish(const StreamOutput *out, GError **errp)
{
    bool left = false;

    while (out->spliced) {
        struct pollfd p = { .fd = out->fd };
        int waiting;

        if (ioctl(out->fd, FIONREAD, &waiting) < 0) {
            error_set_errno(errp, errno, "cannot tell what the stream's reader has taken");
            return false;
        }
        if ((uint64_t)waiting <= out->behind) {
            break;
        }
        if (left) {
            return reader_left(errp);
        }
        if (!transfer_control_check(out->control, errp)) {
            return false;
        }
        /* It may have taken the rest just before it left. */
        left = poll(&p, 1, FINISH_POLL_MS) > 0;
    }
    return true;
}
