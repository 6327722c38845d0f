/*
 * Where a sequential stream is written to: a pipe, socket or device.
 *
 * Pages are copied into a pipe, never lent to it (vmsplice): a reader may move them on to another pipe with
 * splice(2) or tee(2), where what the guest writes later would show.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "migration/stream-output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#include "util/error.h"
#include "util/io.h"
#include "util/units.h"

/* As much as one may ask for without privileges: fewer changes between us and the reader. */
#define PIPE_BYTES ((int)MiB)
#define IOV_LIMIT 1024
#define POLL_MS 50

bool stream_output_init(StreamOutput *out, int fd, TransferControl *control, GError **errp)
{
    struct stat st;

    if (fstat(fd, &st) < 0) {
        error_set_errno(errp, errno, "cannot look at the migration stream");
        return false;
    }
    *out = (StreamOutput){ .fd = fd, .control = control };
    if (S_ISFIFO(st.st_mode)) {
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

bool stream_output_put(StreamOutput *out, struct iovec *iov, int n, GError **errp)
{
    while (n) {
        ssize_t done = writev(out->fd, iov, MIN(n, IOV_LIMIT));

        if (done >= 0) {
            transfer_count(&out->control->written_bytes, done);
            advance(&iov, &n, done);
        } else if (errno == EAGAIN) {
            if (!wait_writable(out, errp)) {
                return false;
            }
        } else if (errno != EINTR) {
            error_set_errno(errp, errno, "cannot write the migration stream%s",
                            errno == EPIPE ? " (its reader has left)" : "");
            return false;
        }
    }
    return true;
}
