/*
 * The section "ram-released" of a snapshot: which chunks of RAM the guest had given back.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MIGRATION_RAM_RELEASED_H
#define COWBIRD_MIGRATION_RAM_RELEASED_H

#include "migration/snapshot-file.h"

#define RAM_RELEASED_SECTION_NAME "ram-released"
#define RAM_RELEASED_SECTION_VERSION 1

/* Released chunks of one block. */
typedef struct ReleasedBlock {
    const char *name;
    const GArray
        *runs; /* of RestoreExtent without file_offset: whole chunks, ascending; NULL = none */
} ReleasedBlock;

/* Append the section, or nothing when no chunk of any block is released. */
void ram_released_put(GByteArray *out, const ReleasedBlock *blocks, unsigned n);

/* The most bytes that the section's body can have for these blocks of a file. */
uint64_t ram_released_max_size(const SnapshotFile *file);

/*
 * Read the section's body into the blocks of the file. Refuses runs that are not whole chunks inside
 * the block, and in an increment chunks of which it does not tell every page.
 */
bool ram_released_get(ByteReader *in, uint32_t version, SnapshotFile *file, GError **errp);

#endif
