/*
 * The guest's physical memory for a dump: which addresses are RAM, and where the bytes that may be other than zero
 * are read without touching a page that the guest has not touched.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_DUMP_MEMORY_MAP_H
#define COWBIRD_DUMP_MEMORY_MAP_H

#include "memory/address-map.h"
#include "memory/pagemap.h"

/* Physical addresses that show one block; neighbours that go on in the block are one range. In bytes. */
typedef struct DumpRange {
    uint64_t address;
    uint64_t length;
    RamBlock *block;
    uint64_t block_offset;
} DumpRange;

/* A run of bytes: in our memory (@host), or in a file (@host NULL). What is in no piece is zero. */
typedef struct DumpPiece {
    uint64_t address;
    uint64_t length;
    const uint8_t *host;
    int fd; /* not owned */
    uint64_t file_offset;
} DumpPiece;

typedef struct DumpMap {
    GArray *ranges; /* of DumpRange, ascending */
    GArray *pieces; /* of DumpPiece, ascending; each lies in one range; empty before the scan */
    uint64_t total; /* bytes of all ranges */
} DumpMap;

/*
 * The RAM and ROM between @begin and @begin + @length, or all of it with length 0; an error when there is
 * none. Main thread.
 */
DumpMap *dump_map_new(AddressMap *memory, uint64_t begin, uint64_t length, GError **errp);
void dump_map_free(DumpMap *map);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(DumpMap, dump_map_free)

/*
 * Finds the pieces, by one look at the page tables and at the holes of the files behind them. The guest
 * is at rest and the files are held (ram_list_hold_files) from before until the pieces were read. Any thread.
 */
bool dump_map_scan(DumpMap *map, PagemapScanner *scanner, GError **errp);

#endif
