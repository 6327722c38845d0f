/*
 * RAM in a snapshot file with every page at its place: pages_offset of its block + offset in it.
 *
 * Work is divided into windows of a block. In each, data pages come from the mapping, unchanged
 * ones from the base file: shared as extents where the file system can, else copied by the kernel,
 * else from the mapping. Zero pages and what is a hole in the base become holes, their bits stay
 * clear.
 *
 * The mappings of a block are looked at under its layout lock only, one window at a time, so that a
 * detach can take its turn; what it replaces has the same contents.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "memory/base-guard.h"
#include "migration/base-data.h"
#include "migration/mapped-layout.h"
#include "migration/snapshot-writer.h"
#include "util/error.h"
#include "util/io.h"
#include "util/units.h"
#include "util/zero-page.h"

#define WINDOW (UINT64_C(8) * MiB)
/* Shorter pieces of the base are copied: sharing an extent costs one system call each. */
#define REFLINK_MIN MiB

typedef struct MappedBlock {
    const RamPlanBlock *plan;
    MappedRegion region;
    uint64_t cloned_from, cloned_to; /* part of the block that shares extents with the base */
} MappedBlock;

typedef struct Window {
    MappedBlock *block;
    uint64_t from, to; /* in the block */
} Window;

typedef struct MappedWrite {
    const SnapshotWrite *w;
    MappedBlock *blocks;
    GArray *windows;
} MappedWrite;

/* --- Bits and pages --- */

static bool is_cloned(const MappedBlock *b, uint64_t from, uint64_t to)
{
    return from < b->cloned_to && to > b->cloned_from;
}

/* Zero pages: a hole already unless the base's extents lie there. */
static bool put_zero(const MappedWrite *m, MappedBlock *b, uint64_t from, uint64_t to,
                     GError **errp)
{
    mapped_region_set(&b->region, from, to, false);
    if (is_cloned(b, from, to) &&
        fallocate(m->w->target->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  b->region.pages_offset + from, to - from) < 0) {
        error_set_errno(errp, errno, "cannot make a hole for zero pages in the snapshot");
        return false;
    }
    return true;
}

/* Bytes of the mapping; past the page cache if there is a descriptor for that. */
static bool put_pages(const MappedWrite *m, MappedBlock *b, uint64_t from, uint64_t to,
                      GError **errp)
{
    const PublishTarget *t = m->w->target;
    int fd = t->direct_fd >= 0 ? t->direct_fd : t->fd;

    if (!transfer_control_wait(m->w->control, to - from, errp)) {
        return false;
    }
    if (!pwrite_full(fd, b->plan->block->host + from, to - from, b->region.pages_offset + from,
                     errp)) {
        g_prefix_error(errp, "cannot write RAM block '%s': ", b->plan->block->name);
        return false;
    }
    mapped_region_set(&b->region, from, to, true);
    transfer_count(&m->w->control->written_bytes, to - from);
    transfer_count(&m->w->control->normal_pages, (to - from) / STREAM_PAGE_SIZE);
    return true;
}

/* Data pages from the mapping, in runs of zero and other pages. */
static bool put_data(const MappedWrite *m, MappedBlock *b, uint64_t from, uint64_t to,
                     GError **errp)
{
    const uint8_t *host = b->plan->block->host;

    while (from < to) {
        bool zero = page_is_zero(host + from);
        uint64_t end = from + STREAM_PAGE_SIZE;

        while (end < to && page_is_zero(host + end) == zero) {
            end += STREAM_PAGE_SIZE;
        }
        if (!(zero ? put_zero : put_pages)(m, b, from, end, errp)) {
            return false;
        }
        if (zero) {
            transfer_count(&m->w->control->zero_pages, (end - from) / STREAM_PAGE_SIZE);
        }
        from = end;
    }
    return true;
}

/* --- Unchanged pages --- */

/* Lets the kernel copy; *done is short of len where it cannot. */
static bool copy_from_base(const MappedWrite *m, int base_fd, uint64_t base_offset, uint64_t offset,
                           uint64_t len, uint64_t *ret_done, GError **errp)
{
    loff_t in = base_offset, out = offset;
    uint64_t left = len;

    while (left && m->w->target->direct_fd < 0) {
        ssize_t n = copy_file_range(base_fd, &in, m->w->target->fd, &out, left, 0);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && (errno == ENOSPC || errno == EIO || errno == EDQUOT)) {
            error_set_errno(errp, errno, "cannot copy unchanged pages into the snapshot");
            return false;
        }
        if (n <= 0) {
            break;
        }
        left -= n;
    }
    *ret_done = len - left;
    return true;
}

/* A run of unchanged pages that are data in the base. */
static bool put_base_run(const MappedWrite *m, MappedBlock *b, const BaseRun *run, GError **errp)
{
    uint64_t done;

    if (run->fd < 0) {
        return put_data(m, b, run->from, run->to, errp);
    }
    if (run->from >= b->cloned_from && run->to <= b->cloned_to) {
        mapped_region_set(&b->region, run->from, run->to, true);
        return true;
    }
    if (!transfer_control_wait(m->w->control, run->to - run->from, errp) ||
        !copy_from_base(m, run->fd, run->file_offset, b->region.pages_offset + run->from,
                        run->to - run->from, &done, errp)) {
        return false;
    }
    done = ROUND_DOWN(done, (uint64_t)STREAM_PAGE_SIZE);
    mapped_region_set(&b->region, run->from, run->from + done, true);
    transfer_count(&m->w->control->written_bytes, done);
    transfer_count(&m->w->control->normal_pages, done / STREAM_PAGE_SIZE);
    return run->from + done == run->to || put_data(m, b, run->from + done, run->to, errp);
}

static bool put_unchanged(const MappedWrite *m, MappedBlock *b, uint64_t from, uint64_t to,
                          GError **errp)
{
    RamBlock *block = b->plan->block;
    bool ok = true;
    BaseRun run;

    if (from == to) {
        return true;
    }
    g_rw_lock_reader_lock(&block->layout);
    while (ok && base_data_next(block, from, to, &run)) {
        ok = put_base_run(m, b, &run, errp);
        from = run.to;
    }
    g_rw_lock_reader_unlock(&block->layout);
    return ok;
}

/* --- Sharing the base's extents --- */

/* The longest mapping, if the file system can share its extents with the new file. */
static void clone_block(const MappedWrite *m, MappedBlock *b)
{
    RamBlock *block = b->plan->block;
    const RamMapping *best = NULL;

    g_rw_lock_reader_lock(&block->layout);
    for (guint i = 0; block->kind == RAM_FILE_PRIVATE && i < block->mappings->len; i++) {
        const RamMapping *map = g_ptr_array_index(block->mappings, i);

        if (map->length >= REFLINK_MIN && (!best || map->length > best->length)) {
            best = map;
        }
    }
    if (best) {
        struct file_clone_range range = { .src_fd = ram_base_fd(best->base),
                                          .src_offset = best->file_offset,
                                          .src_length = best->length,
                                          .dest_offset = b->region.pages_offset + best->offset };

        if (ioctl(m->w->target->fd, FICLONERANGE, &range) == 0) {
            b->cloned_from = best->offset;
            b->cloned_to = best->offset + best->length;
        }
    }
    g_rw_lock_reader_unlock(&block->layout);
}

/* --- Windows --- */

static guint first_range_after(const GArray *ranges, uint64_t offset)
{
    guint low = 0, high = ranges->len;

    while (low < high) {
        guint mid = (low + high) / 2;
        const PageRange *r = &g_array_index(ranges, PageRange, mid);

        if (r->offset + r->length <= offset) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

static bool write_window(size_t i, void *opaque, GError **errp)
{
    const MappedWrite *m = opaque;
    const Window *win = &g_array_index(m->windows, Window, i);
    const GArray *ranges = win->block->plan->ranges;
    uint64_t pos = win->from;

    if (!transfer_control_check(m->w->control, errp)) {
        return false;
    }
    for (guint k = first_range_after(ranges, pos); k < ranges->len && pos < win->to; k++) {
        const PageRange *r = &g_array_index(ranges, PageRange, k);
        uint64_t from = MAX(r->offset, pos), to = MIN(r->offset + r->length, win->to);

        if (from >= win->to) {
            break;
        }
        if (!put_unchanged(m, win->block, pos, from, errp) ||
            !(r->kind == PAGE_ZERO ? put_zero : put_data)(m, win->block, from, to, errp)) {
            return false;
        }
        pos = to;
    }
    if (!put_unchanged(m, win->block, pos, win->to, errp)) {
        return false;
    }
    transfer_count(&m->w->control->done_bytes, win->to - win->from);
    return true;
}

/* Zero ranges alone need no window: they are holes and their bits are clear. */
static bool window_is_empty(const MappedBlock *b, uint64_t from, uint64_t to)
{
    const GArray *ranges = b->plan->ranges;
    guint k = first_range_after(ranges, from);
    uint64_t pos = from;

    for (; k < ranges->len && pos < to; k++) {
        const PageRange *r = &g_array_index(ranges, PageRange, k);

        if (r->offset > pos || r->kind != PAGE_ZERO) {
            return false;
        }
        pos = r->offset + r->length;
    }
    return pos >= to && !is_cloned(b, from, to);
}

static void add_windows(MappedWrite *m, MappedBlock *b)
{
    uint64_t size = b->plan->block->size;

    for (uint64_t from = 0; from < size; from += WINDOW) {
        Window win = { .block = b, .from = from, .to = MIN(from + WINDOW, size) };

        if (window_is_empty(b, win.from, win.to)) {
            transfer_count(&m->w->control->done_bytes, win.to - win.from);
        } else {
            g_array_append_val(m->windows, win);
        }
    }
}

/* --- The whole --- */

static bool write_pages(MappedWrite *m, GError **errp)
{
    const SnapshotWrite *w = m->w;

    w->control->total_bytes = w->plan->total;
    for (unsigned i = 0; i < w->plan->n_blocks; i++) {
        if (w->reflink) {
            clone_block(m, &m->blocks[i]);
        }
        add_windows(m, &m->blocks[i]);
    }
    return workers_run(w->threads, m->windows->len, write_window, m, errp);
}

bool ram_mapped_write(const SnapshotWrite *w, FileSegments *segments, GError **errp)
{
    unsigned n = w->plan->n_blocks;
    g_autofree MappedBlock *blocks = g_new0(MappedBlock, n);
    g_autofree MappedRegion **regions = g_new0(MappedRegion *, n);
    g_autoptr(GArray) windows = g_array_new(FALSE, FALSE, sizeof(Window));
    MappedWrite m = { .w = w, .blocks = blocks, .windows = windows };
    bool ok;

    for (unsigned i = 0; i < n; i++) {
        blocks[i].plan = &w->plan->blocks[i];
        blocks[i].region.name = blocks[i].plan->block->name;
        blocks[i].region.size = blocks[i].plan->block->size;
        regions[i] = &blocks[i].region;
    }
    mapped_layout_place(segments, regions, n);
    ok = write_pages(&m, errp);
    mapped_layout_finish(segments, regions, n);
    return ok;
}
