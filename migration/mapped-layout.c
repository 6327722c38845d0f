/*
 * The arrangement of a RAM section whose pages lie at fixed offsets: heads, bitmaps, page regions.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "migration/mapped-layout.h"

#include "migration/stream.h"
#include "util/units.h"

#define MAPPED_RAM_VERSION 1
#define MAPPED_RAM_ALIGN MiB

void mapped_region_set(MappedRegion *region, uint64_t from, uint64_t to, bool present)
{
    uint64_t page = from / STREAM_PAGE_SIZE, end = to / STREAM_PAGE_SIZE;

    while (page < end) {
        unsigned long *word = &region->bitmap[page / 64];

        if (page % 64 == 0 && page + 64 <= end) {
            *word = present ? ~0ul : 0;
            page += 64;
            continue;
        }
        *word = present ? *word | 1ul << page % 64 : *word & ~(1ul << page % 64);
        page++;
    }
}

/* Appends the region's head and opens the segment after its pages. */
static GByteArray *place_region(MappedRegion *r, GByteArray *out, FileSegments *segments)
{
    const uint64_t head_size = 4 + 8 + 8 + 8;
    uint64_t bitmap_offset;

    r->bitmap_bytes = DIV_ROUND_UP(r->size / STREAM_PAGE_SIZE, 64) * 8;
    r->bitmap = g_malloc0(r->bitmap_bytes);
    byte_array_put_counted_string(out, r->name);
    byte_array_put_be64(out, r->size);
    bitmap_offset = file_segments_end(segments) + head_size;
    r->pages_offset = ROUND_UP(bitmap_offset + r->bitmap_bytes, MAPPED_RAM_ALIGN);
    byte_array_put_be32(out, MAPPED_RAM_VERSION);
    byte_array_put_be64(out, STREAM_PAGE_SIZE);
    byte_array_put_be64(out, bitmap_offset);
    byte_array_put_be64(out, r->pages_offset);
    return file_segments_open(segments, r->pages_offset + r->size);
}

static void put_ram_end(GByteArray *out)
{
    byte_array_put_be64(out, RAM_FLAG_EOS);
    stream_put_footer(out, STREAM_SECTION_ID_RAM);
    stream_put_section_more(out, STREAM_SECTION_END, STREAM_SECTION_ID_RAM);
    byte_array_put_be64(out, RAM_FLAG_EOS);
    stream_put_footer(out, STREAM_SECTION_ID_RAM);
}

void mapped_layout_place(FileSegments *segments, MappedRegion *const *regions, unsigned n)
{
    GByteArray *out = g_array_index(segments->list, FileSegment, 0).bytes;
    uint64_t total = 0;

    for (unsigned i = 0; i < n; i++) {
        total += regions[i]->size;
    }
    stream_put_section(out, STREAM_SECTION_START, STREAM_SECTION_ID_RAM, RAM_SECTION_NAME, 0,
                       RAM_SECTION_VERSION);
    byte_array_put_be64(out, total | RAM_FLAG_MEM_SIZE);
    for (unsigned i = 0; i < n; i++) {
        out = place_region(regions[i], out, segments);
    }
    put_ram_end(out);
}

void mapped_layout_finish(FileSegments *segments, MappedRegion *const *regions, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        /* x86 is little-endian: the words are as the file has them. */
        g_byte_array_append(g_array_index(segments->list, FileSegment, i).bytes,
                            (const uint8_t *)regions[i]->bitmap, regions[i]->bitmap_bytes);
        g_clear_pointer(&regions[i]->bitmap, g_free);
    }
}
