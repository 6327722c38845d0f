/*
 * Pages that the balloon has, in chunks of which it has a part.
 *
 * One table of pointers per block, from chunk number to the chunk's bits; most are NULL.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/inflate-map.h"

#define PAGES_PER_CHUNK (1u << (RAM_CHUNK_SHIFT - INFLATE_PAGE_SHIFT))

typedef struct PartChunk {
    uint64_t bits[PAGES_PER_CHUNK / 64];
    unsigned count; /* of bits set */
} PartChunk;

typedef struct PartBlock {
    const RamBlock *block;
    uint64_t n_chunks;
    PartChunk **chunks;
} PartBlock;

struct InflateMap {
    GPtrArray *blocks; /* of PartBlock */
    PartBlock *last;   /* asked for last; NULL = none */
    uint64_t n_pages, n_chunks;
};

static void part_block_free(void *opaque)
{
    PartBlock *b = opaque;

    for (uint64_t i = 0; i < b->n_chunks; i++) {
        g_free(b->chunks[i]);
    }
    g_free(b->chunks);
    g_free(b);
}

InflateMap *inflate_map_new(void)
{
    InflateMap *map = g_new0(InflateMap, 1);

    map->blocks = g_ptr_array_new_with_free_func(part_block_free);
    return map;
}

void inflate_map_free(InflateMap *map)
{
    if (map) {
        g_ptr_array_unref(map->blocks);
        g_free(map);
    }
}

static PartBlock *find_block(InflateMap *map, const RamBlock *block)
{
    if (map->last && map->last->block == block) {
        return map->last;
    }
    for (guint i = 0; i < map->blocks->len; i++) {
        PartBlock *b = map->blocks->pdata[i];

        if (b->block == block) {
            map->last = b;
            return b;
        }
    }
    return NULL;
}

static PartBlock *need_block(InflateMap *map, const RamBlock *block)
{
    PartBlock *b = find_block(map, block);

    if (!b) {
        b = g_new0(PartBlock, 1);
        b->block = block;
        b->n_chunks = ram_block_chunks(block);
        b->chunks = g_new0(PartChunk *, b->n_chunks);
        g_ptr_array_add(map->blocks, b);
        map->last = b;
    }
    return b;
}

/* The place of the pointer to the chunk around @page; NULL = the block is not known. */
static PartChunk **find_chunk(PartBlock *b, uint64_t page)
{
    uint64_t chunk = page / PAGES_PER_CHUNK;

    return b && chunk < b->n_chunks ? &b->chunks[chunk] : NULL;
}

/* The last chunk of a block may be short. */
static unsigned pages_in_chunk(const RamBlock *block, uint64_t page)
{
    uint64_t first = page - page % PAGES_PER_CHUNK;
    uint64_t left = (block->size >> INFLATE_PAGE_SHIFT) - first;

    return MIN(left, PAGES_PER_CHUNK);
}

static void drop_chunk(InflateMap *map, PartChunk **place)
{
    map->n_pages -= (*place)->count;
    map->n_chunks--;
    g_clear_pointer(place, g_free);
}

bool inflate_map_set(InflateMap *map, RamBlock *block, uint64_t page)
{
    PartChunk **place = find_chunk(need_block(map, block), page);
    unsigned bit = page % PAGES_PER_CHUNK;
    uint64_t mask = UINT64_C(1) << (bit % 64);
    PartChunk *chunk;

    if (!*place) {
        *place = g_new0(PartChunk, 1);
        map->n_chunks++;
    }
    chunk = *place;
    if (chunk->bits[bit / 64] & mask) {
        return false;
    }
    chunk->bits[bit / 64] |= mask;
    chunk->count++;
    map->n_pages++;
    if (chunk->count < pages_in_chunk(block, page)) {
        return false;
    }
    drop_chunk(map, place);
    return true;
}

void inflate_map_clear(InflateMap *map, RamBlock *block, uint64_t page)
{
    PartChunk **place = find_chunk(find_block(map, block), page);
    unsigned bit = page % PAGES_PER_CHUNK;
    uint64_t mask = UINT64_C(1) << (bit % 64);

    if (!place || !*place || !((*place)->bits[bit / 64] & mask)) {
        return;
    }
    (*place)->bits[bit / 64] &= ~mask;
    (*place)->count--;
    map->n_pages--;
    if ((*place)->count == 0) {
        drop_chunk(map, place);
    }
}

bool inflate_map_has_chunk(InflateMap *map, const RamBlock *block, uint64_t page)
{
    PartChunk **place = find_chunk(find_block(map, block), page);

    return place && *place;
}

void inflate_map_reset(InflateMap *map)
{
    map->last = NULL;
    g_ptr_array_set_size(map->blocks, 0);
    map->n_pages = 0;
    map->n_chunks = 0;
}

uint64_t inflate_map_pages(const InflateMap *map)
{
    return map->n_pages;
}

uint64_t inflate_map_chunks(const InflateMap *map)
{
    return map->n_chunks;
}
