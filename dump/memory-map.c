/*
 * The guest's physical memory for a dump.
 *
 * A page of a copy-on-write guest that was never written is read from its file and not through the mapping, and
 * what shared memory holds is read from its descriptor: a dump maps nothing that was not mapped before.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "dump/memory-map.h"

#include <errno.h>
#include <unistd.h>

#include "memory/base-guard.h"
#include "util/error.h"
#include "util/units.h"

#define PAGE UINT64_C(4096)

/* --- Ranges --- */

static void add_range(GArray *ranges, const AddressRange *r)
{
    DumpRange *last = ranges->len ? &g_array_index(ranges, DumpRange, ranges->len - 1) : NULL;
    DumpRange range = { r->base, r->size, r->block, r->block_offset };

    if (last && last->block == r->block && last->address + last->length == r->base &&
        last->block_offset + last->length == r->block_offset) {
        last->length += r->size;
    } else {
        g_array_append_val(ranges, range);
    }
}

static void note_ranges(void *opaque, const AddressRange *removed, size_t n_removed,
                        const AddressRange *added, size_t n_added)
{
    for (size_t i = 0; i < n_added; i++) {
        if (added[i].kind == ADDRESS_RAM) {
            add_range(opaque, &added[i]);
        }
    }
}

/* Leaves what lies in [begin, end). */
static void clip_ranges(GArray *ranges, uint64_t begin, uint64_t end)
{
    guint kept = 0;

    for (guint i = 0; i < ranges->len; i++) {
        DumpRange r = g_array_index(ranges, DumpRange, i);
        uint64_t from = MAX(r.address, begin), to = MIN(r.address + r.length, end);

        if (from < to) {
            r.block_offset += from - r.address;
            r.address = from;
            r.length = to - from;
            g_array_index(ranges, DumpRange, kept++) = r;
        }
    }
    g_array_set_size(ranges, kept);
}

DumpMap *dump_map_new(AddressMap *memory, uint64_t begin, uint64_t length, GError **errp)
{
    g_autoptr(DumpMap) map = g_new0(DumpMap, 1);
    AddressMapListener listener;

    map->ranges = g_array_new(FALSE, FALSE, sizeof(DumpRange));
    map->pieces = g_array_new(FALSE, FALSE, sizeof(DumpPiece));
    listener = (AddressMapListener){ note_ranges, map->ranges };
    address_map_add_listener(memory, &listener);
    address_map_remove_listener(memory, map->ranges);
    if (length) {
        clip_ranges(map->ranges, begin, begin + MIN(length, UINT64_MAX - begin));
    }
    for (guint i = 0; i < map->ranges->len; i++) {
        map->total += g_array_index(map->ranges, DumpRange, i).length;
    }
    if (map->total == 0) {
        error_set(errp, length ? "there is no RAM in the part of memory to dump (begin, length)"
                               : "the machine has no RAM to dump");
        return NULL;
    }
    return g_steal_pointer(&map);
}

void dump_map_free(DumpMap *map)
{
    if (map) {
        g_array_unref(map->ranges);
        g_array_unref(map->pieces);
        g_free(map);
    }
}

/* --- What one block holds: pieces whose address is the offset in the block --- */

/* Where a file has data, kept between questions: few of them reach the file system. */
typedef struct FileData {
    int fd;
    int64_t asked, data, hole; /* [asked, data) is a hole, [data, hole) is not */
} FileData;

typedef struct BlockScan {
    const RamBlock *block;
    GArray *pieces;
    uint64_t cursor;  /* what lies before is accounted for */
    guint next;       /* of the block's mappings */
    bool shared_data; /* data pages are read from block->fd, not from our mapping of it */
    FileData file;
} BlockScan;

static void add_memory(BlockScan *s, uint64_t start, uint64_t end)
{
    DumpPiece piece = { start, end - start, s->block->host + start, -1, 0 };

    g_array_append_val(s->pieces, piece);
}

static void ask_file(FileData *f, int fd, int64_t at)
{
    if (f->fd == fd && at >= f->asked && at < f->hole) {
        return;
    }
    *f = (FileData){ fd, at, lseek(fd, at, SEEK_DATA), INT64_MAX };
    if (f->data < 0) {
        /* Nothing but a hole, or a file system that cannot tell. */
        f->data = errno == ENXIO ? INT64_MAX : at;
    }
    if (f->data != INT64_MAX) {
        int64_t hole = lseek(fd, f->data, SEEK_HOLE);

        f->hole = hole > f->data ? hole : INT64_MAX;
    }
}

/* [start, end) of the block is in @fd, @shift bytes further on. */
static void add_file(BlockScan *s, uint64_t start, uint64_t end, int fd, uint64_t shift)
{
    while (start < end) {
        int64_t at = start + shift;
        uint64_t from, to;

        ask_file(&s->file, fd, at);
        from = ROUND_DOWN((uint64_t)MAX(at, s->file.data) - shift, PAGE);
        to = MIN(end, ROUND_UP((uint64_t)s->file.hole - shift, PAGE));
        if (from >= end) {
            return;
        }
        DumpPiece piece = { from, to - from, NULL, fd, from + shift };

        g_array_append_val(s->pieces, piece);
        start = to;
    }
}

/* Pages as the mapped snapshot files have them; where no file is mapped any more memory has the same. */
static void add_unchanged(BlockScan *s, uint64_t start, uint64_t end)
{
    const GPtrArray *mappings = s->block->mappings;

    while (start < end) {
        const RamMapping *m = NULL;
        uint64_t to = end;

        while (mappings && s->next < mappings->len) {
            m = mappings->pdata[s->next];
            if (m->offset + m->length > start) {
                break;
            }
            m = NULL;
            s->next++;
        }
        if (m && m->offset <= start) {
            to = MIN(end, m->offset + m->length);
            add_file(s, start, to, ram_base_fd(m->base), m->file_offset - m->offset);
        } else {
            to = m ? MIN(end, m->offset) : end;
            add_memory(s, start, to);
        }
        start = to;
    }
}

/* Pages that the scan does not tell of, up to @end. */
static void add_gap(BlockScan *s, uint64_t end)
{
    if (s->cursor >= end) {
        return;
    }
    if (s->block->kind == RAM_FILE_PRIVATE) {
        add_unchanged(s, s->cursor, end);
    } else if (s->block->kind == RAM_BACKEND_FILE) {
        add_file(s, s->cursor, end, s->block->fd, s->block->fd_offset);
    }
    s->cursor = end;
}

static bool add_range_of_pages(const PageRange *range, void *opaque)
{
    BlockScan *s = opaque;
    uint64_t end = range->offset + range->length;

    add_gap(s, range->offset);
    if (range->kind == PAGE_DATA) {
        if (s->shared_data) {
            add_file(s, range->offset, end, s->block->fd, s->block->fd_offset);
        } else {
            add_memory(s, range->offset, end);
        }
    }
    s->cursor = end;
    return true;
}

/*
 * Of a private mapping of the user's file only our own pages are looked for: the rest is in the file. Private huge
 * pages cannot be told from the file's, so those are read through the mapping.
 */
static GArray *scan_block(RamBlock *block, PagemapScanner *scanner, GError **errp)
{
    BlockScan s = { .block = block,
                    .pieces = g_array_new(FALSE, FALSE, sizeof(DumpPiece)),
                    .shared_data = block->kind == RAM_SHARED,
                    .file.fd = -1 };
    bool ok;

    if (block->kind == RAM_BACKEND_FILE && !block->hugetlb) {
        ok = pagemap_scan_private(scanner, block->host, block->size, add_range_of_pages, &s, NULL,
                                  errp);
    } else {
        ok = pagemap_scan_block(scanner, block, add_range_of_pages, &s, NULL, errp);
    }
    if (!ok) {
        g_array_unref(s.pieces);
        return NULL;
    }
    g_rw_lock_reader_lock(&block->layout);
    add_gap(&s, block->size);
    g_rw_lock_reader_unlock(&block->layout);
    return s.pieces;
}

/* --- From offsets in blocks to addresses --- */

static guint first_piece_after(const GArray *pieces, uint64_t offset)
{
    guint low = 0, high = pieces->len;

    while (low < high) {
        guint mid = (low + high) / 2;
        const DumpPiece *p = &g_array_index(pieces, DumpPiece, mid);

        if (p->address + p->length <= offset) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

static void show_in_range(DumpMap *map, const DumpRange *r, const GArray *pieces)
{
    uint64_t end = r->block_offset + r->length;

    for (guint i = first_piece_after(pieces, r->block_offset); i < pieces->len; i++) {
        DumpPiece p = g_array_index(pieces, DumpPiece, i);
        uint64_t from = MAX(p.address, r->block_offset), to = MIN(p.address + p.length, end);

        if (from >= to) {
            break;
        }
        p.host = p.host ? p.host + (from - p.address) : NULL;
        p.file_offset += p.host ? 0 : from - p.address;
        p.address = from - r->block_offset + r->address;
        p.length = to - from;
        g_array_append_val(map->pieces, p);
    }
}

bool dump_map_scan(DumpMap *map, PagemapScanner *scanner, GError **errp)
{
    g_autoptr(GHashTable) blocks =
        g_hash_table_new_full(NULL, NULL, NULL, (GDestroyNotify)g_array_unref);

    for (guint i = 0; i < map->ranges->len; i++) {
        const DumpRange *r = &g_array_index(map->ranges, DumpRange, i);
        GArray *pieces = g_hash_table_lookup(blocks, r->block);

        if (!pieces) {
            pieces = scan_block(r->block, scanner, errp);
            if (!pieces) {
                return false;
            }
            g_hash_table_insert(blocks, r->block, pieces);
        }
        show_in_range(map, r, pieces);
    }
    return true;
}
