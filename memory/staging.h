/*
 * Memory that takes the place of a block's copy-on-write mapping, chunk by chunk. Internal to memory/.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MEMORY_STAGING_H
#define COWBIRD_MEMORY_STAGING_H

#include "memory/pagemap.h"
#include "memory/ram-base.h"

/* Files that RAM leaves, and a clone of each. */
typedef struct CloneSet {
    GPtrArray *bases; /* of RamBase, references */
    GArray *fds;      /* of int, owned, one per base; NULL: anonymous memory is used instead */
} CloneSet;

typedef struct Staging Staging;

/* The clone of @base in the set; -1 = the set has none. */
int clone_set_fd(const CloneSet *set, const RamBase *base);

/*
 * Address space as large as the block, with what will be moved: mappings of the clones at the places of
 * the files, or anonymous memory. @set must outlive it.
 */
Staging *staging_new(RamBlock *block, const CloneSet *set, GError **errp);
void staging_free(Staging *staging);
RamBlock *staging_block(const Staging *staging);

/*
 * Outside the pause, on any thread: read the chunk's contents from its files (anonymous staging) and
 * populate the pages that will be copied. @scanner may be NULL: less is populated then.
 */
bool staging_fill(Staging *staging, uint64_t chunk, PagemapScanner *scanner, GError **errp);

/*
 * While the guest stands and the chunk is claimed: copy the written pages and put the chunk in the
 * place of the block's memory. *bytes grows by what was copied.
 */
bool staging_move(Staging *staging, uint64_t chunk, PagemapScanner *scanner, uint64_t *bytes,
                  GError **errp);

/*
 * Adds to *bytes what anonymous staging of this block takes beyond the memory that it gives back: pages for which
 * the files have data, except those that are the guest's own and in memory already.
 */
bool staging_need(RamBlock *block, const CloneSet *set, PagemapScanner *scanner, uint64_t *bytes,
                  GError **errp);

/* Chunks of the block that depend on a file of the set and are not released. */
void staging_mark_chunks(RamBlock *block, const CloneSet *set, ChunkMap *ret_chunks);

#endif
