/*
 * RAM in an increment: the pages that are not as in the parent, packed.
 *
 * The table is known from the scan before the first byte is written. The packed data is cut into
 * buffers of one size that threads gather from guest RAM without copying.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/uio.h>

#include "migration/ram-delta-table.h"
#include "migration/snapshot-writer.h"
#include "util/error.h"
#include "util/io.h"
#include "util/units.h"

#define WRITE_SIZE (UINT64_C(8) * MiB)
/* IOV_MAX of Linux. */
#define PIECES_MAX 1024

typedef struct DeltaWrite {
    const SnapshotWrite *w;
    uint64_t data_offset;
    uint64_t data_length;
    const GArray *pieces; /* of DeltaPiece */
} DeltaWrite;

static guint find_piece(const GArray *pieces, uint64_t file_offset)
{
    guint low = 0, high = pieces->len;

    while (low < high) {
        guint mid = (low + high) / 2;
        const DeltaPiece *p = &g_array_index(pieces, DeltaPiece, mid);

        if (p->file_offset + p->length <= file_offset) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

static bool write_iov(const DeltaWrite *d, struct iovec *iov, int n, uint64_t pos, uint64_t len,
                      GError **errp)
{
    const PublishTarget *t = d->w->target;

    if (!transfer_control_wait(d->w->control, len, errp)) {
        return false;
    }
    if (!pwritev_full(t->direct_fd >= 0 ? t->direct_fd : t->fd, iov, n, pos, errp)) {
        g_prefix_error(errp, "cannot write guest memory: ");
        return false;
    }
    transfer_count(&d->w->control->written_bytes, len);
    transfer_count(&d->w->control->done_bytes, len);
    transfer_count(&d->w->control->normal_pages, len / STREAM_PAGE_SIZE);
    return true;
}

static bool write_buffer(size_t i, void *opaque, GError **errp)
{
    const DeltaWrite *d = opaque;
    uint64_t start = d->data_offset + i * WRITE_SIZE, pos = start;
    uint64_t end = MIN(start + WRITE_SIZE, d->data_offset + d->data_length);
    struct iovec iov[PIECES_MAX];
    guint k = find_piece(d->pieces, pos);

    while (pos < end) {
        int n = 0;

        for (start = pos; pos < end && n < PIECES_MAX; k++) {
            const DeltaPiece *p = &g_array_index(d->pieces, DeltaPiece, k);
            uint64_t skip = pos - p->file_offset;
            uint64_t len = MIN(p->length - skip, end - pos);

            iov[n++] = (struct iovec){ .iov_base = p->host + skip, .iov_len = len };
            pos += len;
        }
        if (!write_iov(d, iov, n, start, pos - start, errp)) {
            return false;
        }
    }
    return true;
}

/* Room on disk before anything is written; not every file system can do that. */
static bool allocate(const DeltaWrite *d, GError **errp)
{
    if (d->w->target->direct_fd < 0 || d->data_length == 0 ||
        fallocate(d->w->target->fd, 0, d->data_offset, d->data_length) == 0 ||
        errno == EOPNOTSUPP) {
        return true;
    }
    error_set_errno(errp, errno, "cannot get %" PRIu64 " bytes of disk for the increment",
                    d->data_length);
    return false;
}

bool ram_delta_write(const SnapshotWrite *w, const SnapshotParent *parent, FileSegments *segments,
                     GError **errp)
{
    g_auto(RamDeltaTable) table = { 0 };
    g_autoptr(GArray) pieces = NULL;
    DeltaWrite d = { .w = w };
    uint64_t zero_pages;
    GByteArray *tail;

    ram_delta_table_make(&table, parent, w->plan, RAM_DELTA_COALESCE, &zero_pages);
    transfer_count(&w->control->zero_pages, zero_pages);
    ram_delta_put(g_array_index(segments->list, FileSegment, 0).bytes, w->target->start, &table);
    d.data_offset = table.data_offset;
    d.data_length = table.data_length;
    d.pieces = pieces = ram_delta_table_pieces(&table, w->plan);
    w->control->total_bytes = d.data_length;
    tail = file_segments_open(segments, d.data_offset + d.data_length);
    stream_put_footer(tail, STREAM_SECTION_ID_RAM);
    return allocate(&d, errp) &&
           workers_run(w->threads, DIV_ROUND_UP(d.data_length, WRITE_SIZE), write_buffer, &d, errp);
}
