/*
 * Whole reads and writes on file descriptors: short transfers and EINTR are continued.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "util/io.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <unistd.h>

#include "util/error.h"

/* True when the transfer that failed with errno err is to be tried again. */
static bool try_again(int fd, short events, int err)
{
    if (err == EINTR) {
        return true;
    }
    if (err == EAGAIN) {
        struct pollfd pfd = { .fd = fd, .events = events };

        return poll(&pfd, 1, -1) >= 0 || errno == EINTR;
    }
    return false;
}

static void set_short(GError **errp, const char *what, int fd, size_t done, size_t len)
{
    error_set(errp, "%s of file descriptor %d ended after %zu of %zu bytes: the file is too short",
              what, fd, done, len);
}

bool read_full(int fd, void *buf, size_t len, GError **errp)
{
    size_t done = 0;

    while (done < len) {
        ssize_t n = read(fd, (char *)buf + done, len - done);

        if (n > 0) {
            done += n;
        } else if (n == 0) {
            set_short(errp, "Reading", fd, done, len);
            return false;
        } else if (!try_again(fd, POLLIN, errno)) {
            error_set_errno(errp, errno, "Reading %zu bytes from file descriptor %d failed", len,
                            fd);
            return false;
        }
    }
    return true;
}

bool write_full(int fd, const void *buf, size_t len, GError **errp)
{
    size_t done = 0;

    while (done < len) {
        ssize_t n = write(fd, (const char *)buf + done, len - done);

        if (n >= 0) {
            done += n;
        } else if (!try_again(fd, POLLOUT, errno)) {
            error_set_errno(errp, errno, "Writing %zu bytes to file descriptor %d failed", len, fd);
            return false;
        }
    }
    return true;
}

bool pread_full(int fd, void *buf, size_t len, off_t off, GError **errp)
{
    size_t done = 0;

    while (done < len) {
        ssize_t n = pread(fd, (char *)buf + done, len - done, off + (off_t)done);

        if (n > 0) {
            done += n;
        } else if (n == 0) {
            error_set(errp,
                      "Reading %zu bytes at offset %jd of file descriptor %d ended after %zu: the "
                      "file is too short",
                      len, (intmax_t)off, fd, done);
            return false;
        } else if (errno != EINTR) {
            error_set_errno(errp, errno,
                            "Reading %zu bytes at offset %jd of file descriptor %d failed", len,
                            (intmax_t)off, fd);
            return false;
        }
    }
    return true;
}

static void set_pwrite_error(GError **errp, int err, size_t len, off_t off, int fd)
{
    error_set_errno(errp, err, "Writing %zu bytes at offset %jd of file descriptor %d failed", len,
                    (intmax_t)off, fd);
}

bool pwrite_full(int fd, const void *buf, size_t len, off_t off, GError **errp)
{
    size_t done = 0;

    while (done < len) {
        ssize_t n = pwrite(fd, (const char *)buf + done, len - done, off + (off_t)done);

        if (n >= 0) {
            done += n;
        } else if (errno != EINTR) {
            set_pwrite_error(errp, errno, len, off, fd);
            return false;
        }
    }
    return true;
}

/* Take n written bytes off the front of the vector. */
static void iov_advance(struct iovec **iov, int *count, size_t n)
{
    while (*count > 0 && n >= (*iov)->iov_len) {
        n -= (*iov)->iov_len;
        (*iov)++;
        (*count)--;
    }
    if (n > 0) {
        (*iov)->iov_base = (char *)(*iov)->iov_base + n;
        (*iov)->iov_len -= n;
    }
}

bool pwritev_full(int fd, struct iovec *iov, int count, off_t off, GError **errp)
{
    iov_advance(&iov, &count, 0);
    while (count > 0) {
        ssize_t n = pwritev(fd, iov, MIN(count, 1024), off);

        if (n >= 0) {
            off += n;
            iov_advance(&iov, &count, n);
        } else if (errno != EINTR) {
            set_pwrite_error(errp, errno, iov->iov_len, off, fd);
            return false;
        }
    }
    return true;
}

bool fsync_dir(const char *path, GError **errp)
{
    g_autofree char *dir = g_path_get_dirname(path);
    g_auto(FdHandle) fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0) {
        error_set_errno(errp, errno, "Opening the folder '%s' failed", dir);
        return false;
    }
    if (fsync(fd) < 0 && errno != EINVAL) {
        error_set_errno(errp, errno, "Syncing the folder '%s' failed", dir);
        return false;
    }
    return true;
}

void close_fd(int *fd)
{
    int saved = errno;

    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
    errno = saved;
}

bool fd_set_nonblocking(int fd, bool on, GError **errp)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK) < 0) {
        error_set_errno(errp, errno, "Changing the flags of file descriptor %d failed", fd);
        return false;
    }
    return true;
}
