/*
 * What a sequential stream is read from: a pipe or socket, or a regular file.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "migration/ram-pages-input.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/crc32c.h"
#include "util/error.h"
#include "util/units.h"

#define BUFFER_SIZE (64 * KiB)
/* Read ahead in a file: the head of the next run, and little of pages that are passed over. */
#define FILE_PIECE (4 * KiB)
#define POLL_MS 50

bool page_input_init(PageInput *in, int fd, uint64_t start, const int *cancelled, GError **errp)
{
    struct stat st;

    if (fstat(fd, &st) < 0) {
        error_set_errno(errp, errno, "cannot look at the migration stream");
        return false;
    }
    *in = (PageInput){ .fd = fd,
                       .is_file = S_ISREG(st.st_mode),
                       .file_pos = start,
                       .file_size = st.st_size,
                       .cancelled = cancelled,
                       .buf = g_malloc(BUFFER_SIZE) };
    return true;
}

void page_input_clear(PageInput *in)
{
    g_clear_pointer(&in->buf, g_free);
}

/* Reads once, as much as comes; 0 at the end. */
static bool read_some(PageInput *in, uint8_t *to, size_t len, size_t *ret_n, GError **errp)
{
    for (;;) {
        struct pollfd p = { .fd = in->fd, .events = POLLIN };
        ssize_t n;

        if (g_atomic_int_get(in->cancelled)) {
            error_set(errp, "the migration was cancelled");
            return false;
        }
        if (!in->is_file && poll(&p, 1, POLL_MS) == 0) {
            continue;
        }
        n = in->is_file ? pread(in->fd, to, len, in->file_pos) : read(in->fd, to, len);
        if (n >= 0) {
            in->file_pos += n;
            in->at_end = n == 0;
            *ret_n = n;
            return true;
        }
        if (errno != EINTR && errno != EAGAIN) {
            error_set_errno(errp, errno, "cannot read the migration stream");
            return false;
        }
    }
}

bool page_input_peek(PageInput *in, size_t n, ByteReader *ret_reader, GError **errp)
{
    size_t got, room = in->is_file ? MAX(n, FILE_PIECE) : BUFFER_SIZE;

    if (in->len - in->pos < n) {
        memmove(in->buf, in->buf + in->pos, in->len - in->pos);
        in->len -= in->pos;
        in->pos = 0;
    }
    while (in->len < n && !in->at_end) {
        if (!read_some(in, in->buf + in->len, room - in->len, &got, errp)) {
            return false;
        }
        in->len += got;
    }
    *ret_reader = byte_reader_init(in->buf + in->pos, in->len - in->pos);
    return true;
}

void page_input_consume(PageInput *in, const ByteReader *reader)
{
    in->crc = crc32c(in->crc, reader->data, reader->pos);
    in->pos += reader->pos;
    in->length += reader->pos;
}

static bool cut_off(const PageInput *in, GError **errp)
{
    error_set(errp, "the migration stream is cut off after %" PRIu64 " bytes", in->length);
    return false;
}

bool page_input_take(PageInput *in, uint8_t *to, uint64_t len, GError **errp)
{
    size_t n = MIN(len, in->len - in->pos);

    memcpy(to, in->buf + in->pos, n);
    in->pos += n;
    in->length += n;
    while (len -= n) {
        to += n;
        if (!read_some(in, to, len, &n, errp)) {
            return false;
        }
        if (n == 0) {
            return cut_off(in, errp);
        }
        in->length += n;
    }
    return true;
}

bool page_input_skip(PageInput *in, uint64_t len, uint64_t *ret_file_offset, GError **errp)
{
    size_t buffered = in->len - in->pos;
    uint64_t at = in->file_pos - buffered;

    if (at > in->file_size || in->file_size - at < len) {
        return cut_off(in, errp);
    }
    *ret_file_offset = at;
    in->length += len;
    if (len < buffered) {
        in->pos += len;
    } else {
        in->pos = in->len = 0;
        in->file_pos = at + len;
    }
    return true;
}
