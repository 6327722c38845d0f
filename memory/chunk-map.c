/*
 * A set of 2 MiB chunks of a RAM block.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/chunk-map.h"

#include "util/units.h"

#define WORD_BITS 64

struct ChunkMap {
    uint64_t n_chunks;
    uint64_t n_set;
    uint64_t words[];
};

ChunkMap *chunk_map_new(uint64_t size_in_bytes)
{
    uint64_t n_chunks = DIV_ROUND_UP(size_in_bytes, RAM_CHUNK_SIZE);
    uint64_t n_words = DIV_ROUND_UP(n_chunks, WORD_BITS);
    ChunkMap *map = g_malloc0(sizeof(*map) + n_words * sizeof(map->words[0]));

    map->n_chunks = n_chunks;
    return map;
}

void chunk_map_free(ChunkMap *map)
{
    g_free(map);
}

void chunk_map_set(ChunkMap *map, uint64_t chunk)
{
    g_assert(chunk < map->n_chunks);
    if (!chunk_map_test(map, chunk)) {
        map->words[chunk / WORD_BITS] |= UINT64_C(1) << (chunk % WORD_BITS);
        map->n_set++;
    }
}

void chunk_map_clear(ChunkMap *map, uint64_t chunk)
{
    if (chunk_map_test(map, chunk)) {
        map->words[chunk / WORD_BITS] &= ~(UINT64_C(1) << (chunk % WORD_BITS));
        map->n_set--;
    }
}

void chunk_map_clear_all(ChunkMap *map)
{
    memset(map->words, 0, DIV_ROUND_UP(map->n_chunks, WORD_BITS) * sizeof(map->words[0]));
    map->n_set = 0;
}

bool chunk_map_test(const ChunkMap *map, uint64_t chunk)
{
    return map && chunk < map->n_chunks &&
           (map->words[chunk / WORD_BITS] >> (chunk % WORD_BITS) & 1) != 0;
}

uint64_t chunk_map_count(const ChunkMap *map)
{
    return map ? map->n_set : 0;
}

/* The first chunk at or after @from whose bit is @set; n_chunks when there is none. */
static uint64_t find_bit(const ChunkMap *map, uint64_t from, bool set)
{
    while (from < map->n_chunks) {
        uint64_t word = map->words[from / WORD_BITS];

        word = (set ? word : ~word) >> (from % WORD_BITS);
        if (word) {
            return MIN(from + __builtin_ctzll(word), map->n_chunks);
        }
        from = ROUND_DOWN(from, WORD_BITS) + WORD_BITS;
    }
    return map->n_chunks;
}

bool chunk_map_next_run(const ChunkMap *map, uint64_t from, uint64_t *ret_first, uint64_t *ret_end)
{
    uint64_t first;

    if (!map || map->n_set == 0) {
        return false;
    }
    first = find_bit(map, from, true);
    if (first >= map->n_chunks) {
        return false;
    }
    *ret_first = first;
    *ret_end = find_bit(map, first, false);
    return true;
}
