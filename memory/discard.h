/*
 * Pages given back to the host, and the record of the chunks that are anonymous since.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MEMORY_DISCARD_H
#define COWBIRD_MEMORY_DISCARD_H

#include "memory/chunk-map.h"
#include "memory/ram-block.h"

typedef enum DiscardWhy {
    DISCARD_REPORTED, /* free page reporting: only an offer */
    DISCARD_INFLATED, /* the balloon has it */
} DiscardWhy;

typedef struct DiscardRequest {
    DiscardWhy why;
    bool page_poison;      /* VIRTIO_BALLOON_F_PAGE_POISON is negotiated */
    uint32_t poison_value; /* then: what the guest expects in a released page */
    bool base_is_parent;   /* the one file mapped is the parent of the next increment */
    bool inhibited;        /* a save, an incoming state or pinned memory: release nothing */
} DiscardRequest;

/* In bytes; everything in the range that is in neither was left alone. */
typedef struct DiscardResult {
    uint64_t released;
    uint64_t remapped; /* of these: by whole chunks of a copy-on-write block */
} DiscardResult;

/*
 * Give [offset, offset + length) of a block back to the host. Clamped to the block; only whole host
 * pages inside the range are released. False = guest memory could not be repaired after a failed
 * mapping: the VM must stop. Leaving memory alone is success. To be called on the main thread.
 */
bool discard_range(RamBlock *block, uint64_t offset, uint64_t length, const DiscardRequest *request,
                   DiscardResult *ret_result, GError **errp);

/*
 * Anonymous memory over whole chunks of a copy-on-write block, which are then zero and marked as
 * released; false = see discard_range(). @ret_done: false when the process has too many mappings
 * (75 % of vm.max_map_count) or no memory and the chunks were left alone.
 */
bool discard_remap_chunks(RamBlock *block, uint64_t first_chunk, uint64_t n_chunks, bool *ret_done,
                          GError **errp);

/* Memory mappings this process may still make before 75 % of vm.max_map_count are used. */
unsigned discard_vma_budget(void);

#endif
