/*
 * Where each page of RAM lies that a chain of snapshots describes.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MIGRATION_CHAIN_MAP_H
#define COWBIRD_MIGRATION_CHAIN_MAP_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "migration/snapshot-file.h"

typedef enum ChainRunKind {
    CHAIN_RUN_DATA,
    CHAIN_RUN_ZERO,
    CHAIN_RUN_PARENT, /* not in this file: only in the map of an increment alone */
} ChainRunKind;

/* Whole pages of one block that come from one place. */
typedef struct ChainRun {
    uint64_t offset; /* in the block */
    uint64_t length;
    ChainRunKind kind;
    const SnapshotFile *file; /* CHAIN_RUN_DATA */
    uint64_t file_offset;
} ChainRun;

/*
 * The runs of a block in ascending order, without gaps, neighbours merged. files: base first; if
 * the first is an increment, what its parents have is CHAIN_RUN_PARENT. The caller unrefs.
 */
GArray *chain_map_block(SnapshotFile *const *files, guint n_files, const char *name);

#endif
