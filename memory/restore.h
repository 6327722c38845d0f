/*
 * Guest RAM out of snapshot files: modes, eligibility, report.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MEMORY_RESTORE_H
#define COWBIRD_MEMORY_RESTORE_H

#include "memory/base-guard.h"
#include "memory/ram-block.h"

/* The values are those of the QAPI enum RamRestoreMode, without on-demand. */
typedef enum RestoreMode {
    RESTORE_AUTO,
    RESTORE_COPY,
    RESTORE_COPY_ON_WRITE,
} RestoreMode;

/* Bytes of a block and where they lie in the file; any alignment is possible for file_offset. */
typedef struct RestoreExtent {
    uint64_t offset;
    uint64_t length;
    uint64_t file_offset;
} RestoreExtent;

/*
 * One block in one layer.
 *
 * In the base (layer 0) the block lies as a whole at pages_offset: page N at pages_offset + N * 4096.
 * `present`: one bit per 4 KiB page, little-endian words; a page whose bit is clear is zero whatever the
 * file has there. NULL = the file is right as it lies, holes being zero.
 *
 * In a delta (layers 1 and up) `extents` are laid over the layers below and `zeros` (file_offset
 * unused) make pages zero again; both ascending, page-aligned, without overlap. Layers go from the base
 * to the tip.
 *
 * `released`, in the tip only (file_offset unused): whole chunks that are to be anonymous memory again. A
 * delta tells every page of them; of those of a base only chunks without data become so.
 */
typedef struct RestoreBlock {
    RamBlock *block;
    uint64_t pages_offset;
    const unsigned long *present;
    const RestoreExtent *extents;
    size_t n_extents;
    const RestoreExtent *zeros;
    size_t n_zeros;
    const RestoreExtent *released;
    size_t n_released;
} RestoreBlock;

typedef struct RestoreLayer {
    RamBase *base; /* the file; restore takes references of its own */
    RestoreBlock *blocks;
    size_t n_blocks;
} RestoreLayer;

typedef struct RestoreRequest {
    RestoreMode mode;
    bool fallback; /* ineligible blocks are copied; off = they are an error (copy-on-write only) */
    bool refuse_copy; /* an ineligible block is an error in any mode, before anything is touched */
    const RestoreLayer *layers;
    size_t n_layers;
    unsigned threads;     /* for copying; 0 = as many as there are CPUs, at most 8 */
    bool direct_io;       /* copy past the page cache where alignment allows */
    bool hugepage_hint;   /* debug property: MADV_HUGEPAGE on the mapping, to measure its harm */
    bool memory_pinned;   /* vhost-user or VFIO have guest RAM: nothing is eligible */
    const char *obstacle; /* why no block is eligible, known to the caller; NULL = none */
    /* Called when the layers are there and no detach can begin yet: restore_lay(). May be NULL. */
    bool (*lay)(void *opaque, GError **errp);
    void *opaque;
} RestoreRequest;

/*
 * Fill the blocks named by the layers. The files are checked to be regular and as long as the ranges
 * they promise, in every mode, before anything is touched. Must run before a vCPU has run and before any
 * device has taken a pointer. On an error the contents of the blocks are undefined and the VM must not
 * run. @control may be NULL when the list has a guard already. Takes from a few hundred microseconds
 * (copy-on-write) to as long as reading the file takes.
 */
bool restore_ram(RamList *list, const RestoreRequest *request, const MemoryControl *control,
                 GError **errp);

/*
 * Lay one more delta over blocks that restore_ram() has filled, by copying: its file is neither mapped nor
 * guarded and may go afterwards, and the blocks keep resting on the files below. layer->base NULL: only zeros
 * are made, and the caller writes the extents' bytes into the blocks. @threads and @direct_io as in a request.
 * On an error the contents of the blocks are undefined.
 */
bool restore_lay(const RestoreLayer *layer, unsigned threads, bool direct_io, GError **errp);

/* All blocks were filled by other means, for that reason; for the report. */
void restore_report_copied(RamList *list, const char *reason);

/* What query-ram-restore says of a block; counted now. Pages are of 4 KiB. */
typedef struct RestoreBlockInfo {
    const RamRestoreReport *report;
    uint64_t private_pages;
    uint64_t resident_pages;
    uint64_t swapped_pages;
    uint64_t chunks_released;
    uint64_t mappings;
} RestoreBlockInfo;

bool restore_query_block(RamBlock *block, RestoreBlockInfo *ret_info, GError **errp);

/* "copy", "copy-on-write" or "none". */
const char *ram_restore_used_name(RamRestoreUsed used);

#endif
