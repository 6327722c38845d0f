/*
 * Pages that the balloon has, kept only for chunks of which it has a part: when the last page of a chunk comes, the
 * chunk can be given back as a whole and needs no record any more.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MEMORY_INFLATE_MAP_H
#define COWBIRD_MEMORY_INFLATE_MAP_H

#include "memory/ram-block.h"

/* A page of the balloon: 4 KiB, whatever the page size of the host or of the block. */
#define INFLATE_PAGE_SHIFT 12

typedef struct InflateMap InflateMap;

/* Pages are numbered from the start of their block; a number beyond its end is not allowed. */
InflateMap *inflate_map_new(void);
void inflate_map_free(InflateMap *map);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(InflateMap, inflate_map_free)

/*
 * The balloon has this page (nothing new if it had it already). True: its chunk has just become full, and is forgotten.
 * Allocates for the first page of a chunk only.
 */
bool inflate_map_set(InflateMap *map, RamBlock *block, uint64_t page);
/* The guest has the page again. A page that is not known is none. A chunk without pages is freed. */
void inflate_map_clear(InflateMap *map, RamBlock *block, uint64_t page);
/* Some page of the chunk around this page is known. */
bool inflate_map_has_chunk(InflateMap *map, const RamBlock *block, uint64_t page);
/* Forgets everything. */
void inflate_map_reset(InflateMap *map);

/* What is known: pages, and chunks that they lie in. */
uint64_t inflate_map_pages(const InflateMap *map);
uint64_t inflate_map_chunks(const InflateMap *map);

#endif
