/*
 * A set of 2 MiB chunks of a RAM block, one bit each.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MEMORY_CHUNK_MAP_H
#define COWBIRD_MEMORY_CHUNK_MAP_H

#include "memory/ram-block.h"

ChunkMap *chunk_map_new(uint64_t size_in_bytes);
void chunk_map_free(ChunkMap *map);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ChunkMap, chunk_map_free)
void chunk_map_set(ChunkMap *map, uint64_t chunk);
void chunk_map_clear(ChunkMap *map, uint64_t chunk);
void chunk_map_clear_all(ChunkMap *map);
/* A NULL map is empty. */
bool chunk_map_test(const ChunkMap *map, uint64_t chunk);
uint64_t chunk_map_count(const ChunkMap *map);
/*
 * The next run of set chunks at or after @from: [*ret_first, *ret_end) in chunks. False = none.
 */
bool chunk_map_next_run(const ChunkMap *map, uint64_t from, uint64_t *ret_first, uint64_t *ret_end);

#endif
