/*
 * Guest RAM mapped copy-on-write from a file: the guest runs at once and copies a page when it writes it.
 *
 * The mapping never gets MADV_HUGEPAGE: with many clones of a cold file it makes each fault read 2 MiB.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/restore-internal.h"

#include "memory/discard.h"
#include "memory/ram-base.h"
#include "memory/vma-budget.h"
#include "util/error.h"
#include "util/units.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE UINT64_C(4096)
/* A mapping costs about as much as copying this, and kernel memory for as long as the VM lives. */
#define MAP_AT_LEAST (256 * KiB)
/* A mapping within another one splits it: two more. */
#define VMAS_PER_EXTENT 2

static RamMapping *mapping_new(RamBase *base, uint64_t offset, uint64_t length,
                               uint64_t file_offset)
{
    RamMapping *m = g_new0(RamMapping, 1);

    m->base = ram_base_ref(base);
    m->offset = offset;
    m->length = length;
    m->file_offset = file_offset;
    return m;
}

/* Put the file over part of the block. */
static bool map_file(RamBlock *block, RamBase *base, const RestoreExtent *extent, GError **errp)
{
    void *got =
        mmap(block->host + extent->offset, extent->length, PROT_READ | PROT_WRITE,
             ram_block_private_flags(block) | MAP_FIXED, ram_base_fd(base), extent->file_offset);

    if (got == MAP_FAILED) {
        error_set_errno(errp, errno,
                        "RAM block '%s': cannot map %s at 0x%" G_GINT64_MODIFIER
                        "x; use ram-restore-mode=copy",
                        block->name, ram_base_path(base), extent->file_offset);
        return false;
    }
    return ram_block_apply_policy(block, extent->offset, extent->length, errp);
}

/* --- Zeros --- */

/* In a chunk that is anonymous already the pages are dropped. */
static void write_zeros(RamBlock *block, uint64_t offset, uint64_t length)
{
    uint64_t end = offset + length;

    while (offset < end) {
        uint64_t chunk = offset >> RAM_CHUNK_SHIFT;
        uint64_t stop = MIN(end, (chunk + 1) << RAM_CHUNK_SHIFT);

        if (!chunk_map_test(block->released, chunk) ||
            madvise(block->host + offset, stop - offset, MADV_DONTNEED) < 0) {
            block->pages_laid = true;
            restore_write_zeros(block, offset, stop - offset);
        }
        offset = stop;
    }
}

/* Whole chunks become anonymous memory while the budget lasts, the rest is written. */
static bool make_zero(RamBlock *block, uint64_t offset, uint64_t length, GError **errp)
{
    uint64_t end = offset + length;
    uint64_t first = DIV_ROUND_UP(offset, RAM_CHUNK_SIZE);
    uint64_t last = end == block->size ? ram_block_chunks(block) : end / RAM_CHUNK_SIZE;
    bool remapped = false;

    if (first < last && !discard_remap_chunks(block, first, last - first, &remapped, errp)) {
        return false;
    }
    if (!remapped) {
        write_zeros(block, offset, length);
        return true;
    }
    write_zeros(block, offset, (first << RAM_CHUNK_SHIFT) - offset);
    if (last << RAM_CHUNK_SHIFT < end) {
        write_zeros(block, last << RAM_CHUNK_SHIFT, end - (last << RAM_CHUNK_SHIFT));
    }
    return true;
}

static bool make_zero_run(uint64_t offset, uint64_t length, bool data, void *opaque, GError **errp)
{
    return make_zero(opaque, offset, length, errp);
}

/* --- Released chunks --- */

/* What cannot be remapped, for lack of mappings, is made zero like everything else. */
static bool remap_whole(RamBlock *block, uint64_t offset, uint64_t end, GError **errp)
{
    uint64_t first = DIV_ROUND_UP(offset, RAM_CHUNK_SIZE);
    uint64_t last = end == block->size ? ram_block_chunks(block) : end / RAM_CHUNK_SIZE;
    bool remapped;

    return first >= last || discard_remap_chunks(block, first, last - first, &remapped, errp);
}

/* The parts of a released run for which the base has no data. */
static bool remap_holes(const RestoreLayer *layer, const RestoreBlock *rb, const RestoreExtent *run,
                        GError **errp)
{
    uint64_t at = run->offset, end = run->offset + run->length;

    while (at < end) {
        uint64_t from = rb->block->size, next = rb->block->size;

        if (!source_next_data(layer, rb, at, &from, &next)) {
            from = next = rb->block->size;
        }
        if (!remap_whole(rb->block, at, MIN(from, end), errp)) {
            return false;
        }
        at = next;
    }
    return true;
}

static bool remap_released(const RestoreLayer *layer, const RestoreBlock *rb, bool is_base,
                           GError **errp)
{
    for (size_t i = 0; i < rb->n_released; i++) {
        const RestoreExtent *run = &rb->released[i];
        bool ok = is_base ? remap_holes(layer, rb, run, errp)
                          : remap_whole(rb->block, run->offset, run->offset + run->length, errp);

        if (!ok) {
            return false;
        }
    }
    return true;
}

/* --- Base --- */

bool restore_cow_base(const RestoreRequest *request, const RestoreLayer *layer,
                      const RestoreBlock *rb, GError **errp)
{
    RamBlock *block = rb->block;
    RestoreExtent whole = { .length = block->size, .file_offset = rb->pages_offset };

    if (!map_file(block, layer->base, &whole, errp)) {
        return false;
    }
    if (request->hugepage_hint) {
        (void)madvise(block->host, block->size, MADV_HUGEPAGE);
    }
    g_rw_lock_writer_lock(&block->layout);
    block->kind = RAM_FILE_PRIVATE;
    block->mappings = g_ptr_array_new_with_free_func((GDestroyNotify)ram_mapping_free);
    g_ptr_array_add(block->mappings, mapping_new(layer->base, 0, block->size, rb->pages_offset));
    g_rw_lock_writer_unlock(&block->layout);
    return source_walk_stale(layer, rb, make_zero_run, block, errp) &&
           remap_released(layer, rb, true, errp);
}

/* --- Delta --- */

static bool is_mappable(const RestoreExtent *extent, uint64_t at_least)
{
    return extent->length >= at_least && IS_ALIGNED(extent->file_offset, PAGE);
}

/* The least length from which on mapping all extents stays within the budget of VMAs. */
static uint64_t choose_length(const RestoreBlock *rb)
{
    uint64_t budget = vma_budget_left();
    uint64_t at_least = MAP_AT_LEAST;

    while (true) {
        uint64_t vmas = 0;

        for (size_t i = 0; i < rb->n_extents; i++) {
            vmas += is_mappable(&rb->extents[i], at_least) ? VMAS_PER_EXTENT : 0;
        }
        if (vmas <= budget) {
            return at_least;
        }
        at_least *= 2;
    }
}

/*
 * Append what of @m lies outside @over. Both lists are walked in ascending order: *first is the first
 * of @over that can still matter.
 */
static void append_uncovered(GPtrArray *to, const RamMapping *m, const GPtrArray *over,
                             guint *first)
{
    uint64_t pos = m->offset, end = m->offset + m->length;

    for (guint i = *first; pos < end; i++) {
        const RamMapping *o = i < over->len ? over->pdata[i] : NULL;
        uint64_t stop = o ? CLAMP(o->offset, pos, end) : end;

        if (stop > pos) {
            g_ptr_array_add(
                to, mapping_new(m->base, pos, stop - pos, m->file_offset + (pos - m->offset)));
        }
        if (o && o->offset + o->length <= end) {
            *first = i + 1;
        }
        pos = o ? MAX(pos, o->offset + o->length) : end;
    }
}

static gint compare_mappings(gconstpointer a, gconstpointer b)
{
    const RamMapping *x = *(RamMapping *const *)a, *y = *(RamMapping *const *)b;

    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Takes ownership of @over, which is sorted. */
static void overlay_mappings(RamBlock *block, GPtrArray *over)
{
    GPtrArray *merged = g_ptr_array_new_with_free_func((GDestroyNotify)ram_mapping_free);

    guint first = 0;

    for (guint i = 0; i < block->mappings->len; i++) {
        append_uncovered(merged, block->mappings->pdata[i], over, &first);
    }
    for (guint i = 0; i < over->len; i++) {
        g_ptr_array_add(merged, over->pdata[i]);
    }
    g_ptr_array_unref(over);
    g_ptr_array_sort(merged, compare_mappings);
    g_rw_lock_writer_lock(&block->layout);
    g_ptr_array_unref(block->mappings);
    block->mappings = merged;
    g_rw_lock_writer_unlock(&block->layout);
}

/* True when the extent touches a released chunk: then only copying keeps the rest of it zero. */
static bool touches_released(const RamBlock *block, const RestoreExtent *extent)
{
    uint64_t last = (extent->offset + extent->length - 1) >> RAM_CHUNK_SHIFT;

    for (uint64_t chunk = extent->offset >> RAM_CHUNK_SHIFT; chunk <= last; chunk++) {
        if (chunk_map_test(block->released, chunk)) {
            return true;
        }
    }
    return false;
}

bool restore_cow_zeros(const RestoreBlock *rb, GError **errp)
{
    for (size_t i = 0; i < rb->n_zeros; i++) {
        if (!make_zero(rb->block, rb->zeros[i].offset, rb->zeros[i].length, errp)) {
            return false;
        }
    }
    return true;
}

bool restore_cow_delta(CopyPlan *plan, const RestoreLayer *layer, const RestoreBlock *rb,
                       GError **errp)
{
    uint64_t at_least = choose_length(rb);
    GPtrArray *over;

    if (!remap_released(layer, rb, false, errp) || !restore_cow_zeros(rb, errp)) {
        return false;
    }
    over = g_ptr_array_new();
    for (size_t i = 0; i < rb->n_extents; i++) {
        const RestoreExtent *extent = &rb->extents[i];

        if (!is_mappable(extent, at_least) || touches_released(rb->block, extent)) {
            rb->block->pages_laid = true;
            copy_plan_add(plan, layer->base, rb->block, extent);
            continue;
        }
        if (!map_file(rb->block, layer->base, extent, errp)) {
            g_ptr_array_set_free_func(over, (GDestroyNotify)ram_mapping_free);
            g_ptr_array_unref(over);
            return false;
        }
        g_ptr_array_add(
            over, mapping_new(layer->base, extent->offset, extent->length, extent->file_offset));
    }
    overlay_mappings(rb->block, over);
    return true;
}
