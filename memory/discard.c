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

#include "memory/ram-base.h"
#include "util/error.h"
#include "util/log.h"
#include "util/units.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <string.h>
#include <sys/mman.h>

/* The kernel's default of vm.max_map_count, should it not be readable. */
#define MAX_MAP_COUNT 65530
/* A remapped chunk between others splits a mapping: two more. */
#define VMAS_PER_REMAP 2

/* --- Mappings of this process --- */

static unsigned count_vmas(void)
{
    g_autofree char *maps = NULL;
    gsize len;
    unsigned count = 0;

    if (!g_file_get_contents("/proc/self/maps", &maps, &len, NULL)) {
        return MAX_MAP_COUNT;
    }
    for (const char *p = maps; (p = memchr(p, '\n', maps + len - p)) != NULL; p++) {
        count++;
    }
    return count;
}

unsigned discard_vma_budget(void)
{
    g_autofree char *text = NULL;
    uint64_t limit = MAX_MAP_COUNT;
    unsigned used = count_vmas();

    if (g_file_get_contents("/proc/sys/vm/max_map_count", &text, NULL, NULL)) {
        limit = g_ascii_strtoull(text, NULL, 10);
    }
    limit = MIN(limit / 4 * 3, UINT_MAX);
    return limit - MIN(limit, used);
}

/* Counting is dear, so half of what is free is used before it is done again. */
static bool take_remap(RamBlock *block)
{
    if (block->remaps_left == 0) {
        block->remaps_left = discard_vma_budget() / VMAS_PER_REMAP / 2;
    }
    if (block->remaps_left == 0) {
        return false;
    }
    block->remaps_left--;
    return true;
}

/* --- Remapping --- */

static bool map_anonymous(RamBlock *block, uint64_t offset, uint64_t length)
{
    void *at = block->host + offset;

    return mmap(at, length, PROT_READ | PROT_WRITE,
                ram_block_private_flags(block) | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at;
}

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
 * vm.overcommit_memory=2).
 */
static bool repair(RamBlock *block, uint64_t offset, uint64_t length, int err, bool *ret_done,
                   GError **errp)
{
    *ret_done = false;
    if (is_mapped(block, offset, length)) {
        return true;
    }
    if (map_anonymous(block, offset, length)) {
        *ret_done = true;
        return true;
    }
    if (map_files_again(block, offset, length)) {
        return true;
    }
    error_set_errno(errp, err,
                    "RAM block '%s': 0x%" G_GINT64_MODIFIER "x bytes at 0x%" G_GINT64_MODIFIER
                    "x are not mapped any more and cannot be mapped again",
                    block->name, length, offset);
    return false;
}

bool discard_remap_chunks(RamBlock *block, uint64_t first_chunk, uint64_t n_chunks, bool *ret_done,
                          GError **errp)
{
    uint64_t offset = first_chunk << RAM_CHUNK_SHIFT;
    uint64_t end = MIN(block->size, (first_chunk + n_chunks) << RAM_CHUNK_SHIFT);
    bool ok = true, done;

    *ret_done = false;
    if (!take_remap(block)) {
        return true;
    }
    g_rw_lock_writer_lock(&block->layout);
    done = map_anonymous(block, offset, end - offset);
    if (!done) {
        ok = repair(block, offset, end - offset, errno, &done, errp);
    }
    if (done) {
        if (!block->released) {
            block->released = chunk_map_new(block->size);
        }
        for (uint64_t chunk = first_chunk; chunk < first_chunk + n_chunks; chunk++) {
            chunk_map_set(block->released, chunk);
        }
        /* All with the same flags, or neighbours do not merge into one mapping. */
        ok = ram_block_apply_policy(block, offset, end - offset, errp);
        (void)madvise(block->host + offset, end - offset, MADV_NOHUGEPAGE);
    }
    g_rw_lock_writer_unlock(&block->layout);
    *ret_done = done;
    return ok;
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

/* Less than a chunk, or a chunk that could not be remapped, of a copy-on-write block. */
static uint64_t discard_piece(RamBlock *block, uint64_t offset, uint64_t end,
                              const DiscardRequest *request)
{
    uint64_t released = 0;

    while (offset < end) {
        uint64_t chunk = offset >> RAM_CHUNK_SHIFT;
        uint64_t stop = MIN(end, (chunk + 1) << RAM_CHUNK_SHIFT);
        bool zero = chunk_map_test(block->released, chunk);
        bool snapshot_again =
            request->why == DISCARD_INFLATED && request->base_is_parent && !request->page_poison;

        if (zero || snapshot_again) {
            released += drop_pages(block, offset, stop - offset);
        }
        offset = stop;
    }
    return released;
}

/* Runs of whole chunks that are not released yet; the others are anonymous. */
static bool discard_chunks(RamBlock *block, uint64_t first, uint64_t end,
                           const DiscardRequest *request, DiscardResult *result, GError **errp)
{
    while (first < end) {
        bool released = chunk_map_test(block->released, first);
        uint64_t stop = first + 1;
        uint64_t from = first << RAM_CHUNK_SHIFT, to;
        bool done = false;

        while (stop < end && chunk_map_test(block->released, stop) == released) {
            stop++;
        }
        to = MIN(block->size, stop << RAM_CHUNK_SHIFT);
        if (!released && !discard_remap_chunks(block, first, stop - first, &done, errp)) {
            return false;
        }
        if (done) {
            result->released += to - from;
            result->remapped += to - from;
        } else {
            result->released += discard_piece(block, from, to, request);
        }
        first = stop;
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
    /* A guest that expects a pattern in a released page would find zeros. */
    if (offset == end || request->inhibited ||
        (request->page_poison && request->poison_value != 0)) {
        *ret_result = result;
        return true;
    }
    switch (block->kind) {
    case RAM_ANONYMOUS:
        result.released = drop_pages(block, offset, end - offset);
        break;
    case RAM_SHARED:
        result.released = punch_pages(block, offset, end - offset);
        break;
    case RAM_FILE_PRIVATE:
        ok = discard_private(block, offset, end, request, &result, errp);
        break;
    case RAM_BACKEND_FILE:
        /* The user's file would show through again. */
        break;
    }
    log_printf(LOG_MEMORY,
               "ram_release: block=%s offset=%" G_GUINT64_FORMAT " released=%" G_GUINT64_FORMAT,
               block->name, offset, result.released);
    *ret_result = result;
    return ok;
}
