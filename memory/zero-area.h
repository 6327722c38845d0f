/*
 * Zero memory put in the place of part of a block, so that neighbours become one mapping. Internal to memory/.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MEMORY_ZERO_AREA_H
#define COWBIRD_MEMORY_ZERO_AREA_H

#include "memory/ram-block.h"

/*
 * Private anonymous memory, with the block's policy, over [offset, offset + length), whole pages. False:
 * the old mapping is still there, or nothing is mapped any more; errno tells why. *ret_merges: it
 * becomes one mapping with neighbours that were made the same way.
 */
bool zero_area_map(RamBlock *block, uint64_t offset, uint64_t length, bool *ret_merges);

/* Unmap the block's area, if it has one. */
void zero_area_free(RamBlock *block);

#endif
