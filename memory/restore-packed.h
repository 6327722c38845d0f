/*
 * Guest RAM out of a file in which pages lie packed, at any place, in the order in which they were
 * written.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MEMORY_RESTORE_PACKED_H
#define COWBIRD_MEMORY_RESTORE_PACKED_H

#include "memory/restore.h"

/* Whole pages of a block: zero, or at file_offset of the file. */
typedef struct PackedRun {
    RamBlock *block;
    uint64_t offset, length;
    uint64_t file_offset;
    bool zero;
} PackedRun;

/*
 * Fill all blocks of the list from the runs: of runs that overlap the later one counts, what is in none is
 * zero. The runs lie inside their blocks and the file. threads: 0 = as many as there are CPUs, at most
 * 8. On an error the contents of the blocks are undefined and the VM must not run.
 */
bool restore_packed(RamList *list, RamBase *base, const PackedRun *runs, size_t n_runs,
                    unsigned threads, GError **errp);

#endif
