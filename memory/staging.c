/*
 * Memory that takes the place of a block's copy-on-write mapping, chunk by chunk.
 *
 * To populate the private pages of the mapping would not do: a file's truncation takes pages away that
 * were copied from it (measured). So the mapping itself is replaced, by MREMAP_FIXED. For the moved
 * chunks to merge into one VMA again they come from one VMA, whose flags are set before and which has
 * an anon_vma before (it has been written to once).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/staging.h"

#include "memory/chunk-map.h"
#include "util/error.h"
#include "util/io.h"
#include "util/kernel-uapi.h"
#include "util/units.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define PAGE UINT64_C(4096)

struct Staging {
    RamBlock *block;
    uint8_t *area; /* place of block offset 0 */
    uint64_t area_size;
    bool anonymous;
    GArray *moved; /* of Span: parts of the area that are not ours any more */
};

/* Bytes of the area. */
typedef struct Span {
    uint64_t start, end;
} Span;

int clone_set_fd(const CloneSet *set, const RamBase *base)
{
    for (guint i = 0; set->fds && i < set->fds->len; i++) {
        if (set->bases->pdata[i] == base) {
            return g_array_index(set->fds, int, i);
        }
    }
    return -1;
}

static bool map_clones(Staging *staging, const CloneSet *set, GError **errp)
{
    for (guint i = 0; i < staging->block->mappings->len; i++) {
        const RamMapping *m = staging->block->mappings->pdata[i];
        int fd = clone_set_fd(set, m->base);
        void *at = staging->area + m->offset;

        if (fd < 0) {
            fd = ram_base_fd(m->base);
        }
        if (mmap(at, m->length, PROT_READ | PROT_WRITE,
                 ram_block_private_flags(staging->block) | MAP_FIXED, fd,
                 m->file_offset) == MAP_FAILED) {
            error_set_errno(errp, errno, "RAM block '%s': cannot map the clone of %s",
                            staging->block->name, ram_base_path(m->base));
            return false;
        }
        /* Refused by kernels without huge pages. */
        (void)madvise(at, m->length, MADV_NOHUGEPAGE);
        if (!ram_block_apply_policy_at(staging->block, at, m->length, errp)) {
            return false;
        }
    }
    return true;
}

/* One page more than the block: writing it gives the VMA its anon_vma. */
static bool map_anonymous(Staging *staging, GError **errp)
{
    uint64_t size = staging->block->size + staging->block->page_size;
    void *got = mmap(staging->area, size, PROT_READ | PROT_WRITE,
                     ram_block_private_flags(staging->block) | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

    if (got == MAP_FAILED) {
        error_set_errno(errp, errno, "RAM block '%s': cannot map memory to detach it to",
                        staging->block->name);
        return false;
    }
    (void)madvise(staging->area, size, MADV_NOHUGEPAGE);
    if (!ram_block_apply_policy_at(staging->block, staging->area, size, errp)) {
        return false;
    }
    staging->area[staging->block->size] = 1;
    return true;
}

Staging *staging_new(RamBlock *block, const CloneSet *set, GError **errp)
{
    Staging *staging = g_new0(Staging, 1);

    staging->block = block;
    staging->anonymous = set->fds == NULL;
    staging->moved = g_array_new(FALSE, FALSE, sizeof(Span));
    staging->area_size = block->size + RAM_CHUNK_SIZE;
    staging->area = ram_reserve_address_space(staging->area_size, RAM_CHUNK_SIZE, errp);
    if (!staging->area ||
        !(staging->anonymous ? map_anonymous(staging, errp) : map_clones(staging, set, errp))) {
        staging_free(staging);
        return NULL;
    }
    return staging;
}

static gint compare_spans(gconstpointer a, gconstpointer b)
{
    const Span *x = a, *y = b;

    return x->start < y->start ? -1 : x->start > y->start;
}

/* Where something was moved away the kernel may long have put another mapping: a thread's stack, say. */
static void unmap_rest(Staging *staging)
{
    uint64_t pos = 0;

    g_array_sort(staging->moved, compare_spans);
    for (guint i = 0; i <= staging->moved->len; i++) {
        const Span end = { staging->area_size, staging->area_size };
        const Span *next = i < staging->moved->len ? &g_array_index(staging->moved, Span, i) : &end;

        if (next->start > pos) {
            munmap(staging->area + pos, next->start - pos);
        }
        pos = next->end;
    }
}

void staging_free(Staging *staging)
{
    if (staging->area) {
        unmap_rest(staging);
    }
    g_array_unref(staging->moved);
    g_free(staging);
}

RamBlock *staging_block(const Staging *staging)
{
    return staging->block;
}

/* --- Pieces: what of a range of the block each mapping has --- */

typedef struct Piece {
    RamBase *base;
    uint64_t offset, length, file_offset;
} Piece;

/* The part of a mapping inside [start, end); false = none. */
static bool piece_of(const RamMapping *m, uint64_t start, uint64_t end, Piece *ret_piece)
{
    uint64_t from = MAX(start, m->offset);
    uint64_t to = MIN(end, m->offset + m->length);

    if (from >= to) {
        return false;
    }
    *ret_piece = (Piece){
        .base = m->base,
        .offset = from,
        .length = to - from,
        .file_offset = m->file_offset + (from - m->offset),
    };
    return true;
}

static uint64_t chunk_start(uint64_t chunk)
{
    return chunk << RAM_CHUNK_SHIFT;
}

static uint64_t chunk_end(const RamBlock *block, uint64_t chunk)
{
    return MIN(block->size, (chunk + 1) << RAM_CHUNK_SHIFT);
}

/* The next data of a piece at or after *pos (bytes of the file); false = only holes are left. */
static bool next_data(const Piece *piece, uint64_t pos, uint64_t *ret_from, uint64_t *ret_to)
{
    uint64_t end = piece->file_offset + piece->length;
    int fd = ram_base_fd(piece->base);
    off_t data, hole;

    if (pos >= end) {
        return false;
    }
    data = lseek(fd, pos, SEEK_DATA);
    if (data < 0 && errno == ENXIO) {
        return false;
    }
    *ret_from = data < 0 ? pos : (uint64_t)data;
    if (*ret_from >= end) {
        return false;
    }
    hole = lseek(fd, *ret_from, SEEK_HOLE);
    *ret_to = hole < 0 ? end : MIN(end, (uint64_t)hole);
    return true;
}

static bool ignore_range(const PageRange *range, void *opaque)
{
    return true;
}

/* Bytes of [from, to) of the block for which staging takes memory that the process has not got yet. */
static bool add_need(RamBlock *block, uint64_t from, uint64_t to, PagemapScanner *scanner,
                     uint64_t *bytes, GError **errp)
{
    while (from < to) {
        uint64_t first = UINT64_MAX, last = 0, stop;
        PagemapStats stats = { 0 };

        if (chunk_map_next_run(block->released, from >> RAM_CHUNK_SHIFT, &first, &last) &&
            first <= from >> RAM_CHUNK_SHIFT) {
            from = last << RAM_CHUNK_SHIFT;
            continue;
        }
        stop = first > to >> RAM_CHUNK_SHIFT ? to : MIN(to, first << RAM_CHUNK_SHIFT);
        if (!pagemap_scan_private(scanner, block->host + from, stop - from, ignore_range, NULL,
                                  &stats, errp)) {
            return false;
        }
        *bytes += stop - from - (stats.data_pages - stats.swapped_pages) * PAGE;
        from = stop;
    }
    return true;
}

bool staging_need(RamBlock *block, const CloneSet *set, PagemapScanner *scanner, uint64_t *bytes,
                  GError **errp)
{
    for (guint i = 0; i < block->mappings->len; i++) {
        const RamMapping *m = block->mappings->pdata[i];
        Piece piece;
        uint64_t from, to;

        if (!g_ptr_array_find(set->bases, m->base, NULL) || !piece_of(m, 0, block->size, &piece)) {
            continue;
        }
        for (uint64_t pos = piece.file_offset; next_data(&piece, pos, &from, &to); pos = to) {
            /* File systems with small blocks have holes that end within a page. */
            uint64_t start = ROUND_DOWN(piece.offset + (from - piece.file_offset), PAGE);
            uint64_t end = ROUND_UP(piece.offset + (to - piece.file_offset), PAGE);

            if (!add_need(block, start, end, scanner, bytes, errp)) {
                return false;
            }
        }
    }
    return true;
}

void staging_mark_chunks(RamBlock *block, const CloneSet *set, ChunkMap *ret_chunks)
{
    for (guint i = 0; i < block->mappings->len; i++) {
        const RamMapping *m = block->mappings->pdata[i];
        uint64_t last = (m->offset + m->length - 1) >> RAM_CHUNK_SHIFT;

        if (!g_ptr_array_find(set->bases, m->base, NULL)) {
            continue;
        }
        for (uint64_t chunk = m->offset >> RAM_CHUNK_SHIFT; chunk <= last; chunk++) {
            if (!chunk_map_test(block->released, chunk)) {
                chunk_map_set(ret_chunks, chunk);
            }
        }
    }
}

/*
 * The files still have all that the range maps. A truncation makes the file shorter before it takes
 * pages away (truncate_setsize in the kernel), so what was read or copied before this is whole.
 */
static bool check_whole(RamBlock *block, uint64_t start, uint64_t end, GError **errp)
{
    for (guint i = 0; i < block->mappings->len; i++) {
        Piece piece;

        if (piece_of(block->mappings->pdata[i], start, end, &piece) &&
            ram_base_bytes_from(piece.base, piece.file_offset) < piece.length) {
            error_set(errp, "RAM block '%s': %s was truncated", block->name,
                      ram_base_path(piece.base));
            return false;
        }
    }
    return true;
}

/* --- Filling --- */

static bool read_piece(Staging *staging, const Piece *piece, GError **errp)
{
    uint64_t from, to;

    for (uint64_t pos = piece->file_offset; next_data(piece, pos, &from, &to); pos = to) {
        uint8_t *at = staging->area + piece->offset + (from - piece->file_offset);

        if (!pread_full(ram_base_fd(piece->base), at, to - from, from, errp)) {
            g_prefix_error(errp, "RAM block '%s': cannot detach from %s: ", staging->block->name,
                           ram_base_path(piece->base));
            return false;
        }
    }
    return true;
}

/* Pages that are private now will be written in the pause: no fault shall come then. */
static bool populate_range(const PageRange *range, void *opaque)
{
    uint8_t *start = opaque;

    /* Fails before 5.14 and when memory is short: then the fault comes later. */
    (void)madvise(start + range->offset, range->length, MADV_POPULATE_WRITE);
    return true;
}

bool staging_fill(Staging *staging, uint64_t chunk, PagemapScanner *scanner, GError **errp)
{
    RamBlock *block = staging->block;
    uint64_t start = chunk_start(chunk), end = chunk_end(block, chunk);

    for (guint i = 0; staging->anonymous && i < block->mappings->len; i++) {
        Piece piece;

        if (piece_of(block->mappings->pdata[i], start, end, &piece) &&
            !read_piece(staging, &piece, errp)) {
            return false;
        }
    }
    if (scanner && !pagemap_scan_private(scanner, block->host + start, end - start, populate_range,
                                         staging->area + start, NULL, errp)) {
        return false;
    }
    /* A hole may have been a truncated file. */
    return check_whole(block, start, end, errp);
}

/* --- Moving --- */

typedef struct CopyPrivate {
    const uint8_t *from;
    uint8_t *to;
    uint64_t bytes;
} CopyPrivate;

static bool copy_range(const PageRange *range, void *opaque)
{
    CopyPrivate *copy = opaque;

    if (range->kind == PAGE_ZERO) {
        memset(copy->to + range->offset, 0, range->length);
    } else {
        memcpy(copy->to + range->offset, copy->from + range->offset, range->length);
    }
    copy->bytes += range->length;
    return true;
}

/*
 * A failed mremap may have unmapped the guest's memory already (mremap(2) does so first). Then there is
 * memory again, but what it held is lost.
 */
static void mend_hole(RamBlock *block, uint64_t start, uint64_t length)
{
    void *at = block->host + start;
    void *got = mmap(at, length, PROT_READ | PROT_WRITE,
                     ram_block_private_flags(block) | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

    if (got == MAP_FAILED) {
        return;
    }
    if (got != at) {
        /* Kernels before 4.17 do not know the flag and take the address for a hint. */
        munmap(got, length);
        return;
    }
    if (block->list) {
        ram_list_report_lost(block->list, "moved memory could not be put in its place", block,
                             start);
    }
}

static bool move_range(Staging *staging, uint64_t start, uint64_t length, GError **errp)
{
    const Span span = { start, start + length };
    RamBlock *block = staging->block;

    if (mremap(staging->area + start, length, length, MREMAP_MAYMOVE | MREMAP_FIXED,
               block->host + start) == MAP_FAILED) {
        error_set_errno(errp, errno,
                        "RAM block '%s': cannot move 0x%" G_GINT64_MODIFIER
                        "x bytes at 0x%" G_GINT64_MODIFIER "x",
                        block->name, length, start);
        mend_hole(block, start, length);
        return false;
    }
    g_array_append_val(staging->moved, span);
    return true;
}

/* An mremap must not cross mappings, so each piece of the chunk is moved by itself. */
static bool move_pieces(Staging *staging, uint64_t start, uint64_t end, GError **errp)
{
    RamBlock *block = staging->block;

    for (guint i = 0; i < block->mappings->len; i++) {
        Piece piece;

        if (piece_of(block->mappings->pdata[i], start, end, &piece) &&
            !move_range(staging, piece.offset, piece.length, errp)) {
            return false;
        }
    }
    return true;
}

bool staging_move(Staging *staging, uint64_t chunk, PagemapScanner *scanner, uint64_t *bytes,
                  GError **errp)
{
    RamBlock *block = staging->block;
    uint64_t start = chunk_start(chunk), end = chunk_end(block, chunk);
    CopyPrivate copy = { .from = block->host + start, .to = staging->area + start };
    bool ok;

    if (!pagemap_scan_private(scanner, copy.from, end - start, copy_range, &copy, NULL, errp) ||
        !check_whole(block, start, end, errp)) {
        return false;
    }
    *bytes += copy.bytes;
    g_rw_lock_writer_lock(&block->layout);
    if (staging->anonymous) {
        ok = move_range(staging, start, end - start, errp);
        if (ok) {
            if (!block->released) {
                block->released = chunk_map_new(block->size);
            }
            chunk_map_set(block->released, chunk);
        }
    } else {
        ok = move_pieces(staging, start, end, errp);
    }
    g_rw_lock_writer_unlock(&block->layout);
    return ok;
}
