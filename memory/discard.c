/*
 * Pages given back to the host.
 *
 * MADV_DONTNEED on a copy-on-write mapping would bring the old bytes of the snapshot back. So whole chunks
 * get anonymous memory, which reads as zero, and are remembered; less than a chunk is left alone except
 * where the snapshot's bytes are what both the guest and the next increment may see.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/discard.h"

#include "memory/base-guard.h"
#include "memory/guest-access.h"
#include "memory/ram-base.h"
#include "memory/vma-budget.h"
#include "memory/zero-area.h"
#include "util/error.h"
#include "util/log.h"
#include "util/units.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <string.h>
#include <sys/mman.h>

/* --- Inhibiting --- */

void ram_discard_inhibit(RamList *list, const char *why)
{
    g_atomic_int_inc(ram_list_discard_inhibited(list));
    log_printf(LOG_MEMORY, "ram_discard_inhibit: why=%s", why);
}

void ram_discard_allow(RamList *list, const char *why)
{
    g_assert(ram_discard_is_inhibited(list));
    g_atomic_int_add(ram_list_discard_inhibited(list), -1);
    log_printf(LOG_MEMORY, "ram_discard_allow: why=%s", why);
}

bool ram_discard_is_inhibited(const RamList *list)
{
    return g_atomic_int_get(ram_list_discard_inhibited((RamList *)list)) > 0;
}

/* --- The budget of mappings --- */

/* Mappings that one more run between its neighbours adds: a side that is released merges. */
static int side_growth(const RamBlock *block, bool edge, uint64_t neighbour)
{
    return edge ? 0 : chunk_map_test(block->released, neighbour) && !block->no_zero_area ? -1 : 1;
}

static void tell_over_budget(RamBlock *block)
{
    static gsize told; /* once per process: it is about the process */

    if (g_once_init_enter(&told)) {
        warn_report("RAM block '%s': memory that the guest gave back stays allocated, since the "
                    "process has 75 %% of the memory mappings it may have; raise vm.max_map_count",
                    block->name);
        g_once_init_leave(&told, 1);
    }
}

static bool take_remap(RamBlock *block, uint64_t first, uint64_t end)
{
    VmaBudget uncounted = { 0 };
    VmaBudget *budget = block->list ? ram_list_vma_budget(block->list) : &uncounted;
    int growth = side_growth(block, first == 0, first - 1) +
                 side_growth(block, end == ram_block_chunks(block), end);

    if (vma_budget_take(budget, growth)) {
        return true;
    }
    tell_over_budget(block);
    return false;
}

/* --- Remapping --- */

static bool is_mapped(RamBlock *block, uint64_t offset, uint64_t length)
{
    for (uint64_t at = offset; at < offset + length; at += RAM_CHUNK_SIZE) {
        unsigned char seen[RAM_CHUNK_SIZE / 4096];
        uint64_t n = MIN(RAM_CHUNK_SIZE, offset + length - at);

        if (mincore(block->host + at, n, seen) < 0) {
            return false;
        }
    }
    return true;
}

/* Put the files back where a failed mapping has left nothing; what was written is gone. */
static bool map_files_again(RamBlock *block, uint64_t offset, uint64_t length)
{
    uint64_t end = offset + length, done = 0;

    for (guint i = 0; i < block->mappings->len; i++) {
        const RamMapping *m = block->mappings->pdata[i];
        uint64_t from = MAX(offset, m->offset), to = MIN(end, m->offset + m->length);
        void *at = block->host + from;

        if (from >= to) {
            continue;
        }
        if (mmap(at, to - from, PROT_READ | PROT_WRITE, ram_block_private_flags(block) | MAP_FIXED,
                 ram_base_fd(m->base), m->file_offset + (from - m->offset)) != at) {
            return false;
        }
        done += to - from;
    }
    return done == length && ram_block_apply_policy(block, offset, length, NULL);
}

/*
 * A failed MAP_FIXED leaves the old mapping (6.12 and later, or too many mappings) or a hole (before, with
 * vm.overcommit_memory=2). The snapshot may fill the hole only where the guest does not mind what it finds.
 */
static bool repair(RamBlock *block, uint64_t offset, uint64_t length, bool old_bytes, int err,
                   bool *ret_done, GError **errp)
{
    bool merges;

    *ret_done = false;
    if (is_mapped(block, offset, length)) {
        return true;
    }
    if (zero_area_map(block, offset, length, &merges)) {
        *ret_done = true;
        return true;
    }
    if (old_bytes && map_files_again(block, offset, length)) {
        return true;
    }
    error_set_errno(errp, err,
                    "RAM block '%s': 0x%" G_GINT64_MODIFIER "x bytes at 0x%" G_GINT64_MODIFIER
                    "x are not mapped any more and cannot be mapped again",
                    block->name, length, offset);
    return false;
}

static void mark_released(RamBlock *block, uint64_t first_chunk, uint64_t n_chunks)
{
    if (!block->released) {
        block->released = chunk_map_new(block->size);
    }
    for (uint64_t chunk = first_chunk; chunk < first_chunk + n_chunks; chunk++) {
        chunk_map_set(block->released, chunk);
    }
}

static bool remap_chunks(RamBlock *block, uint64_t first_chunk, uint64_t n_chunks, bool old_bytes,
                         bool *ret_done, GError **errp)
{
    uint64_t offset = first_chunk << RAM_CHUNK_SHIFT;
    uint64_t end = MIN(block->size, (first_chunk + n_chunks) << RAM_CHUNK_SHIFT);
    bool ok = true, done, merges;

    *ret_done = false;
    if (!take_remap(block, first_chunk, first_chunk + n_chunks)) {
        block->discard.over_budget += end - offset;
        return true;
    }
    g_rw_lock_writer_lock(&block->layout);
    done = zero_area_map(block, offset, end - offset, &merges);
    if (!done) {
        ok = repair(block, offset, end - offset, old_bytes, errno, &done, errp);
    }
    if (done) {
        mark_released(block, first_chunk, n_chunks);
    }
    g_rw_lock_writer_unlock(&block->layout);
    *ret_done = done;
    return ok;
}

bool discard_remap_chunks(RamBlock *block, uint64_t first_chunk, uint64_t n_chunks, bool *ret_done,
                          GError **errp)
{
    return remap_chunks(block, first_chunk, n_chunks, true, ret_done, errp);
}

/* --- Releasing --- */

static uint64_t drop_pages(RamBlock *block, uint64_t offset, uint64_t length)
{
    /* Locked memory and kernels without it refuse: then it stays where it is. */
    return length && madvise(block->host + offset, length, MADV_DONTNEED) == 0 ? length : 0;
}

static uint64_t punch_pages(RamBlock *block, uint64_t offset, uint64_t length)
{
    return fallocate(block->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                     block->fd_offset + offset, length) == 0
               ? length
               : 0;
}

/*
 * May the snapshot's bytes show again? They must be what the next increment takes for unchanged, and
 * without PAGE_POISON a page's contents are undefined once it was given back (virtio 1.2, 5.5.6).
 */
static bool may_show_snapshot(const RamBlock *block, const DiscardRequest *request)
{
    bool wanted = request->why == DISCARD_INFLATED || request->policy == DISCARD_POLICY_DONTNEED;

    return wanted && !request->page_poison && block->report.increment_possible &&
           !block->pages_laid;
}

/* Less than a chunk, or a chunk that could not be remapped, of a copy-on-write block. */
static uint64_t discard_piece(RamBlock *block, uint64_t offset, uint64_t end,
                              const DiscardRequest *request)
{
    uint64_t released = 0;

    while (offset < end) {
        uint64_t chunk = offset >> RAM_CHUNK_SHIFT;
        uint64_t stop = MIN(end, (chunk + 1) << RAM_CHUNK_SHIFT);

        if (chunk_map_test(block->released, chunk) || may_show_snapshot(block, request)) {
            released += drop_pages(block, offset, stop - offset);
        }
        offset = stop;
    }
    return released;
}

/* The end of a run of chunks from @first on that are not released and of which none is in use. */
static uint64_t claim_chunks(RamBlock *block, uint64_t first, uint64_t end)
{
    while (first < end && !chunk_map_test(block->released, first) &&
           ram_chunk_try_claim(block, first)) {
        first++;
    }
    return first;
}

static void unclaim_chunks(RamBlock *block, uint64_t first, uint64_t end)
{
    for (; first < end; first++) {
        ram_chunk_unclaim(block, first);
    }
}

/* Some chunks at @first; *ret_next: the first one that is left to do. */
static bool discard_chunk_run(RamBlock *block, uint64_t first, uint64_t end,
                              const DiscardRequest *request, uint64_t *ret_next,
                              DiscardResult *result, GError **errp)
{
    uint64_t from = first << RAM_CHUNK_SHIFT;
    uint64_t next = claim_chunks(block, first, end);
    uint64_t length = MIN(block->size, next << RAM_CHUNK_SHIFT) - from;
    bool done = false, ok;

    if (next == first) {
        block->discard.busy += MIN(block->size, (first + 1) << RAM_CHUNK_SHIFT) - from;
        *ret_next = first + 1;
        return true;
    }
    ok = remap_chunks(block, first, next - first, !request->page_poison, &done, errp);
    unclaim_chunks(block, first, next);
    if (done) {
        result->released += length;
        result->remapped += length;
    }
    *ret_next = next;
    return ok;
}

/* Chunks that are released already are anonymous: their pages are dropped. */
static bool discard_chunks(RamBlock *block, uint64_t first, uint64_t end,
                           const DiscardRequest *request, DiscardResult *result, GError **errp)
{
    while (first < end) {
        uint64_t from = first << RAM_CHUNK_SHIFT;

        if (request->policy == DISCARD_POLICY_REMAP && !chunk_map_test(block->released, first)) {
            if (!discard_chunk_run(block, first, end, request, &first, result, errp)) {
                return false;
            }
            continue;
        }
        first++;
        result->released +=
            discard_piece(block, from, MIN(block->size, first << RAM_CHUNK_SHIFT), request);
    }
    return true;
}

static bool discard_private(RamBlock *block, uint64_t offset, uint64_t end,
                            const DiscardRequest *request, DiscardResult *result, GError **errp)
{
    uint64_t first = DIV_ROUND_UP(offset, RAM_CHUNK_SIZE);
    uint64_t last = end == block->size ? ram_block_chunks(block) : end / RAM_CHUNK_SIZE;

    if (first >= last) {
        result->released += discard_piece(block, offset, end, request);
        return true;
    }
    result->released += discard_piece(block, offset, first << RAM_CHUNK_SHIFT, request);
    if (!discard_chunks(block, first, last, request, result, errp)) {
        return false;
    }
    if (last << RAM_CHUNK_SHIFT < end) {
        result->released += discard_piece(block, last << RAM_CHUNK_SHIFT, end, request);
    }
    return true;
}

static bool discard_by_kind(RamBlock *block, uint64_t offset, uint64_t end,
                            const DiscardRequest *request, DiscardResult *result, GError **errp)
{
    switch (block->kind) {
    case RAM_ANONYMOUS:
        result->released = drop_pages(block, offset, end - offset);
        break;
    case RAM_SHARED:
        result->released = punch_pages(block, offset, end - offset);
        break;
    case RAM_FILE_PRIVATE:
        return discard_private(block, offset, end, request, result, errp);
    case RAM_BACKEND_FILE:
        /* The user's file would show through again. */
        break;
    }
    return true;
}

/* Whether nothing may be released now; that is counted where it will pass. */
static bool is_refused(RamBlock *block, uint64_t length, const DiscardRequest *request)
{
    if (block->list && ram_discard_is_inhibited(block->list)) {
        block->discard.inhibited += length;
        return true;
    }
    /* A guest that expects a pattern in a released page would find zeros. */
    return block->readonly || (request->page_poison && request->poison_value != 0);
}

bool discard_range(RamBlock *block, uint64_t offset, uint64_t length, const DiscardRequest *request,
                   DiscardResult *ret_result, GError **errp)
{
    DiscardResult result = { 0 };
    uint64_t end;
    bool ok = true;

    offset = MIN(offset, block->size);
    end = offset + MIN(length, block->size - offset);
    end = ROUND_DOWN(end, (uint64_t)block->page_size);
    offset = MIN(end, ROUND_UP(offset, (uint64_t)block->page_size));
    if (offset < end && !is_refused(block, end - offset, request)) {
        ok = discard_by_kind(block, offset, end, request, &result, errp);
    }
    if (!ok && block->list) {
        ram_list_report_lost(block->list, "released memory could not be mapped again", block,
                             offset);
    }
    block->discard.released += result.released;
    log_printf(LOG_MEMORY,
               "ram_release: block=%s offset=%" G_GUINT64_FORMAT " released=%" G_GUINT64_FORMAT,
               block->name, offset, result.released);
    *ret_result = result;
    return ok;
}
