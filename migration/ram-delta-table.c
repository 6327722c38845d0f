/*
 * Which pages an increment has: from the scan to the table, with zero pages found and near extents joined.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "migration/ram-delta-table.h"

#include "migration/stream.h"
#include "util/zero-page.h"

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
static void find_extents(const GArray *ranges, uint64_t coalesce, DeltaBlock *d)
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
        if (last && r->offset - (last->offset + last->length) <= coalesce &&
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

void ram_delta_table_make(RamDeltaTable *table, const SnapshotParent *parent, const RamPlan *plan,
                          uint64_t coalesce, uint64_t *ret_zero_pages)
{
    *ret_zero_pages = 0;
    *table = (RamDeltaTable){ .parent = parent,
                              .blocks = g_new0(DeltaBlock, plan->n_blocks),
                              .n_blocks = plan->n_blocks };
    for (unsigned i = 0; i < plan->n_blocks; i++) {
        g_autoptr(GArray) ranges = find_zero_pages(&plan->blocks[i], ret_zero_pages);
        DeltaBlock *b = &table->blocks[i];

        b->name = plan->blocks[i].block->name;
        b->length = plan->blocks[i].block->size;
        b->extents = g_array_new(FALSE, FALSE, sizeof(RestoreExtent));
        b->zeros = g_array_new(FALSE, FALSE, sizeof(RestoreExtent));
        find_extents(ranges, coalesce, b);
        find_zeros(ranges, b);
    }
}

void ram_delta_table_clear(RamDeltaTable *table)
{
    for (unsigned i = 0; table->blocks && i < table->n_blocks; i++) {
        g_array_unref(table->blocks[i].extents);
        g_array_unref(table->blocks[i].zeros);
    }
    g_clear_pointer(&table->blocks, g_free);
}

GArray *ram_delta_table_pieces(const RamDeltaTable *table, const RamPlan *plan)
{
    GArray *pieces = g_array_new(FALSE, FALSE, sizeof(DeltaPiece));

    for (unsigned i = 0; i < plan->n_blocks; i++) {
        const GArray *extents = table->blocks[i].extents;

        for (guint k = 0; k < extents->len; k++) {
            const RestoreExtent *e = &g_array_index(extents, RestoreExtent, k);
            DeltaPiece piece = { .host = plan->blocks[i].block->host + e->offset,
                                 .length = e->length,
                                 .file_offset = e->file_offset };

            g_array_append_val(pieces, piece);
        }
    }
    return pieces;
}
