/*
 * The arrangement of a RAM section whose pages lie at fixed offsets: heads, bitmaps, page regions.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MIGRATION_MAPPED_LAYOUT_H
#define COWBIRD_MIGRATION_MAPPED_LAYOUT_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "migration/snapshot-writer.h"

typedef struct MappedRegion {
    const char *name;
    uint64_t size;
    uint64_t pages_offset; /* absolute; of the block's first page */
    unsigned long *bitmap; /* one bit a page; owned */
    uint64_t bitmap_bytes;
} MappedRegion;

/*
 * Append the RAM section for n regions, whose name and size are given, to the last open segment:
 * one more segment is opened after each region's pages. Bitmaps are made, all clear.
 */
void mapped_layout_place(FileSegments *segments, MappedRegion *const *regions, unsigned n);

/* Pages are written: append the bitmaps where they belong, and free them. */
void mapped_layout_finish(FileSegments *segments, MappedRegion *const *regions, unsigned n);

/* Bytes from..to of the region are (not) in the file; whole pages. */
void mapped_region_set(MappedRegion *region, uint64_t from, uint64_t to, bool present);

#endif
