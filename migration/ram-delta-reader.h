/*
 * Taking apart the table of the section "ram-delta"; used by migration/snapshot-file.c.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MIGRATION_RAM_DELTA_READER_H
#define COWBIRD_MIGRATION_RAM_DELTA_READER_H

#include "migration/ram-delta.h"
#include "migration/snapshot-file.h"

/* Bytes that an extent takes in the table. */
#define RAM_DELTA_EXTENT_SIZE 16u

typedef struct RamDeltaHead {
    SnapshotParent parent;
    uint64_t data_offset; /* from the start of the stream */
    uint64_t data_length;
    uint32_t n_blocks;
} RamDeltaHead;

/* Each reads its part of the table in turn; what it allocates belongs to its result. */
bool ram_delta_get_head(ByteReader *in, uint32_t version, RamDeltaHead *ret_head, GError **errp);
bool ram_delta_get_block_head(ByteReader *in, SnapshotBlock *block, uint32_t *ret_n_extents,
                              uint32_t *ret_n_zeros, GError **errp);
/* data_pos: file offset of the block's data, moved behind it. */
bool ram_delta_get_block_extents(ByteReader *in, SnapshotBlock *block, uint32_t n_extents,
                                 uint32_t n_zeros, uint64_t *data_pos, GError **errp);

#endif
