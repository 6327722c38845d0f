/*
 * The section "ram-delta" of an increment: which pages differ from the parent, packed in address
 * order behind a table of extents.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MIGRATION_RAM_DELTA_H
#define COWBIRD_MIGRATION_RAM_DELTA_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "memory/restore.h"
#include "util/uuid.h"

#define RAM_DELTA_SECTION_NAME "ram-delta"
#define RAM_DELTA_SECTION_VERSION 2

/* Changed pages closer than this are one extent: fewer, larger transfers. */
#define RAM_DELTA_COALESCE (UINT64_C(64) << 10)

/*
 * Packed data starts at a multiple of this in the file, so that it can be mapped; in a pipe, whose reader
 * may put the stream anywhere, at a multiple from the start of the stream.
 */
#define RAM_DELTA_ALIGN 4096u

/* The snapshot that an increment is laid over. uuid and length decide; path is a hint. */
typedef struct SnapshotParent {
    Uuid uuid;
    uint64_t length; /* of its stream */
    uint64_t start;  /* offset of the stream in its file */
    char *path;      /* owned; relative to the folder of the increment, or absolute; NULL: none */
} SnapshotParent;

void snapshot_parent_clear(SnapshotParent *parent);

/* What one block contributes; arrays of RestoreExtent. */
typedef struct DeltaBlock {
    const char *name;
    uint64_t length;
    GArray *extents; /* file_offset is filled in by ram_delta_put() */
    GArray *zeros;
} DeltaBlock;

/* What an increment consists of. */
typedef struct RamDeltaTable {
    const SnapshotParent *parent;
    DeltaBlock *blocks;
    unsigned n_blocks;
    uint64_t data_offset; /* file offset of the first extent's bytes; from ram_delta_put() */
    uint64_t data_length;
} RamDeltaTable;

/* The most bytes that the table takes, section head included. */
uint64_t ram_delta_table_size(const RamDeltaTable *table);

/*
 * Append section head and table to out, which holds the stream from its first byte on. base: file offset
 * of that byte, 0 in a pipe. Gives the data and each extent its place; the section's footer comes after the
 * data.
 */
void ram_delta_put(GByteArray *out, uint64_t base, RamDeltaTable *table);

#endif
