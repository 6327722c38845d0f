/*
 * Where unchanged pages of a copy-on-write block come from: runs of data in the files it maps.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MIGRATION_BASE_DATA_H
#define COWBIRD_MIGRATION_BASE_DATA_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/ram-block.h"

/* A run of whole pages that may be other than zero. */
typedef struct BaseRun {
    uint64_t from, to; /* in the block */
    int fd;            /* of the file that has them, or -1: only the mapping has */
    uint64_t file_offset;
} BaseRun;

/*
 * The first run at or after `from`, before `to`; holes of the files are skipped. False: the
 * rest is zero. The block's layout must be read-locked for as long as the fd is used.
 */
bool base_data_next(const RamBlock *block, uint64_t from, uint64_t to, BaseRun *ret_run);

#endif
