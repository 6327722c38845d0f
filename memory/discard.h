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

/* What is done with whole chunks of a copy-on-write block. */
typedef enum DiscardPolicy {
    DISCARD_POLICY_REMAP,    /* they become zero and are never read from the file again */
    DISCARD_POLICY_DONTNEED, /* MADV_DONTNEED: the snapshot shows again; only to measure against */
} DiscardPolicy;

typedef struct DiscardRequest {
    DiscardWhy why;
    DiscardPolicy policy;
    bool page_poison;      /* VIRTIO_BALLOON_F_PAGE_POISON is negotiated */
    uint32_t poison_value; /* then: what the guest expects in a released page */
} DiscardRequest;

/* In bytes; everything in the range that is in neither was left alone. */
typedef struct DiscardResult {
    uint64_t released;
    uint64_t remapped; /* of these: by whole chunks of a copy-on-write block */
} DiscardResult;

/*
 * Give [offset, offset + length) of a block back to the host. Clamped to the block; only whole host
 * pages inside the range are released, and no chunk in which I/O is under way is remapped (nor should
 * the caller have the range mapped by guest_map_iov). Leaving memory alone is success. Takes time by
 * the length of the range, some 15 to 50 us a chunk. False = guest memory could not be repaired after a
 * failed mapping: MemoryControl.lost was asked to stop the VM. One call at a time, and none while the main loop
 * works (a detach moves chunks there): the big lock is held.
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

/*
 * While inhibited, discard_range() releases nothing and counts what it was asked for. Counted: as
 * many calls of allow as of inhibit. @why goes to the log only. Main thread.
 */
void ram_discard_inhibit(RamList *list, const char *why);
void ram_discard_allow(RamList *list, const char *why);
bool ram_discard_is_inhibited(const RamList *list);

#endif
