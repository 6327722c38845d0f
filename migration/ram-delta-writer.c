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

#include "migration/snapshot-writer.h"
#include "migration/zero-page.h"
#include "util/error.h"
#include "util/io.h"
#include "util/units.h"

#define WRITE_SIZE (UINT64_C(8) * MiB)
/* IOV_MAX of Linux. */
#define PIECES_MAX 1024

/* One extent and where its bytes are. */
typedef struct Piece {
    uint8_t *host;
    uint64_t length;
    uint64_t file_offset;
} Piece;

typedef struct DeltaWrite {
    const SnapshotWrite *w;
    uint64_t data_offset;
    uint64_t data_length;
    GArray *pieces; /* in file order, without gaps */
} DeltaWrite;

static void add_range(GArray *ranges, uint64_t offset, uint64_t length, PageKind kind)
{
    PageRange *last = ranges->len ? &g_array_index(ranges, PageRange, ranges->len - 1) : NULL;
    PageRange r = { .offset = offset, .length = length, .kind = kind };

    if (last && last->kind == kind && last->offset + last->length == offset) {
        last->length += length;
    } else {
        g_array_append_val(ranges, r);
    }
}

/* Pages the guest has written with zeros need no room in the file; others show it at once. */
static GArray *find_zero_pages(const RamPlanBlock *plan, uint64_t *zero_pages)
{
    GArray *ranges = g_array_new(FALSE, FALSE, sizeof(PageRange));

    for (guint i = 0; i < plan->ranges->len; i++) {
        const PageRange *r = &g_array_index(plan->ranges, PageRange, i);

        if (r->kind != PAGE_DATA) {
            add_range(ranges, r->offset, r->length, r->kind);
            continue;
        }
        for (uint64_t pos = r->offset; pos < r->offset + r->length; pos += STREAM_PAGE_SIZE) {
            bool zero = page_is_zero(plan->block->host + pos);

            add_range(ranges, pos, STREAM_PAGE_SIZE, zero ? PAGE_ZERO : PAGE_DATA);
            *zero_pages += zero;
        }
    }
    return ranges;
}

/*
 * Data ranges with a short gap between them become one extent, as long as no extent is more gap
 * than data: else a guest that wrote every tenth page would be saved as a whole.
 */
static void find_extents(const GArray *ranges, DeltaBlock *d)
{
    RestoreExtent *last = NULL;
    uint64_t data = 0;

    for (guint i = 0; i < ranges->len; i++) {
        const PageRange *r = &g_array_index(ranges, PageRange, i);
        RestoreExtent e = { .offset = r->offset, .length = r->length };
        uint64_t merged = last ? r->offset + r->length - last->offset : 0;

        if (r->kind != PAGE_DATA) {
            continue;
        }
        if (last && r->offset - (last->offset + last->length) <= RAM_DELTA_COALESCE &&
            merged <= 2 * (data + r->length)) {
            last->length = merged;
            data += r->length;
        } else {
            g_array_append_val(d->extents, e);
            last = &g_array_index(d->extents, RestoreExtent, d->extents->len - 1);
            data = r->length;
        }
    }
}

/* Zero ranges, without what a coalesced extent has swallowed whole. */
static void find_zeros(const GArray *ranges, DeltaBlock *d)
{
    guint k = 0;

    for (guint i = 0; i < ranges->len; i++) {
        const PageRange *r = &g_array_index(ranges, PageRange, i);
        RestoreExtent e = { .offset = r->offset, .length = r->length };

        while (k < d->extents->len) {
            const RestoreExtent *x = &g_array_index(d->extents, RestoreExtent, k);

            if (x->offset + x->length > r->offset) {
                break;
            }
            k++;
        }
        if (r->kind == PAGE_ZERO &&
            (k == d->extents->len ||
             g_array_index(d->extents, RestoreExtent, k).offset >= r->offset + r->length)) {
            g_array_append_val(d->zeros, e);
        }
    }
}

static DeltaBlock *make_table(const RamPlan *plan, TransferControl *control)
{
    uint64_t zero_pages = 0;
    DeltaBlock *table = g_new0(DeltaBlock, plan->n_blocks);

    for (unsigned i = 0; i < plan->n_blocks; i++) {
        g_autoptr(GArray) ranges = find_zero_pages(&plan->blocks[i], &zero_pages);

        table[i].name = plan->blocks[i].block->name;
        table[i].length = plan->blocks[i].block->size;
        table[i].extents = g_array_new(FALSE, FALSE, sizeof(RestoreExtent));
        table[i].zeros = g_array_new(FALSE, FALSE, sizeof(RestoreExtent));
        find_extents(ranges, &table[i]);
        find_zeros(ranges, &table[i]);
    }
    transfer_count(&control->zero_pages, zero_pages);
    return table;
}

static void free_table(DeltaBlock *table, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        g_array_unref(table[i].extents);
        g_array_unref(table[i].zeros);
    }
    g_free(table);
}

static void collect_pieces(const RamPlan *plan, const DeltaBlock *table, GArray *pieces)
{
    for (unsigned i = 0; i < plan->n_blocks; i++) {
        for (guint k = 0; k < table[i].extents->len; k++) {
            const RestoreExtent *e = &g_array_index(table[i].extents, RestoreExtent, k);
            Piece piece = { .host = plan->blocks[i].block->host + e->offset,
                            .length = e->length,
                            .file_offset = e->file_offset };

            g_array_append_val(pieces, piece);
        }
    }
}

static guint find_piece(const GArray *pieces, uint64_t file_offset)
{
    guint low = 0, high = pieces->len;

    while (low < high) {
        guint mid = (low + high) / 2;
        const Piece *p = &g_array_index(pieces, Piece, mid);

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
            const Piece *p = &g_array_index(d->pieces, Piece, k);
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
    g_autoptr(GArray) pieces = g_array_new(FALSE, FALSE, sizeof(Piece));
    DeltaWrite d = { .w = w, .pieces = pieces };
    DeltaBlock *table = make_table(w->plan, w->control);
    GByteArray *tail;

    ram_delta_put(g_array_index(segments->list, FileSegment, 0).bytes, w->target->start, parent,
                  table, w->plan->n_blocks, &d.data_offset, &d.data_length);
    collect_pieces(w->plan, table, pieces);
    free_table(table, w->plan->n_blocks);
    w->control->total_bytes = d.data_length;
    tail = file_segments_open(segments, d.data_offset + d.data_length);
    stream_put_footer(tail, STREAM_SECTION_ID_RAM);
    return allocate(&d, errp) &&
           workers_run(w->threads, DIV_ROUND_UP(d.data_length, WRITE_SIZE), write_buffer, &d, errp);
}
