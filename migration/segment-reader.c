/*
 * Reading the parts of a snapshot file that lie between its page data, with a checksum over them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "migration/segment-reader.h"

#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

#include "util/crc32c.h"
#include "util/error.h"
#include "util/io.h"
#include "util/units.h"

/* Enough for the heads of an ordinary file and for the bitmap of 2 GiB in one system call. */
#define READ_AHEAD (UINT64_C(80) * KiB)
/* Bitmaps of 16 TiB fit; a sparse file that claims more shall not take the host's memory. */
#define TABLE_MAX (UINT64_C(512) * MiB)

void segment_reader_init(SegmentReader *r, int fd, uint64_t file_size)
{
    *r = (SegmentReader){ .fd = fd, .file_size = file_size, .buf = g_byte_array_new() };
}

void segment_reader_clear(SegmentReader *r)
{
    g_clear_pointer(&r->buf, g_byte_array_unref);
}

bool segment_open(SegmentReader *r, uint64_t offset, GError **errp)
{
    r->start = offset;
    g_byte_array_set_size(r->buf, 0);
    r->in = byte_reader_init(r->buf->data, 0);
    return segment_fill(r, READ_AHEAD, errp);
}

bool segment_fill(SegmentReader *r, uint64_t n, GError **errp)
{
    uint64_t have = r->buf->len, in_file, want;

    if (byte_reader_left(&r->in) >= n || r->start + have >= r->file_size) {
        return true;
    }
    in_file = r->file_size - r->start;
    want = MIN(ROUND_UP(r->in.pos + n, READ_AHEAD / 5), in_file);
    if (want > TABLE_MAX) {
        error_set(errp, "a table of %" PRIu64 " bytes in the snapshot is too large", n);
        return false;
    }
    g_byte_array_set_size(r->buf, want);
    if (!pread_full(r->fd, r->buf->data + have, want - have, r->start + have, errp)) {
        g_byte_array_set_size(r->buf, have);
        return false;
    }
    r->in.data = r->buf->data;
    r->in.len = r->buf->len;
    return true;
}

void segment_close(SegmentReader *r)
{
    r->crc = crc32c(r->crc, r->buf->data, r->in.pos);
}

GByteArray *segment_close_keep(SegmentReader *r)
{
    GByteArray *bytes = r->buf;

    segment_close(r);
    r->buf = g_byte_array_new();
    return bytes;
}

static bool check_zero(const SegmentReader *r, uint64_t from, uint64_t to, GError **errp)
{
    uint8_t buf[16 * KiB];

    while (from < to) {
        size_t len = MIN(to - from, sizeof(buf));

        if (!pread_full(r->fd, buf, len, from, errp)) {
            return false;
        }
        for (size_t i = 0; i < len; i++) {
            if (buf[i] != 0) {
                error_set(errp, "the padding of the snapshot is damaged at file offset %" PRIu64,
                          from + i);
                return false;
            }
        }
        from += len;
    }
    return true;
}

bool segment_check_padding(const SegmentReader *r, uint64_t from, uint64_t to, GError **errp)
{
    if (to > r->file_size) {
        error_set(errp, "the snapshot is cut off: it has %" PRIu64 " bytes and needs %" PRIu64,
                  r->file_size, to);
        return false;
    }
    while (from < to) {
        off_t data = lseek(r->fd, from, SEEK_DATA);
        off_t hole;

        if (data < 0 && errno != ENXIO) {
            return check_zero(r, from, to, errp);
        }
        if (data < 0 || (uint64_t)data >= to) {
            return true;
        }
        hole = lseek(r->fd, data, SEEK_HOLE);
        if (hole <= data || (uint64_t)hole > to) {
            hole = to;
        }
        if (!check_zero(r, data, hole, errp)) {
            return false;
        }
        from = hole;
    }
    return true;
}
