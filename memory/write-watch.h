/*
 * Which pages are written while the guest runs: for a save that sends most of RAM before it stops it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MEMORY_WRITE_WATCH_H
#define COWBIRD_MEMORY_WRITE_WATCH_H

#include "memory/pagemap.h"
#include "memory/ram-block.h"

typedef struct WriteWatch WriteWatch;

/*
 * Watch all blocks of the list from now on; no memory may be given back meanwhile (ram_discard_inhibit).
 * Costs what has been touched. NULL with an error where the kernel (before 6.7) or a back end (shared
 * memory, hugetlb) does not allow it.
 */
WriteWatch *write_watch_new(RamList *list, GError **errp);
void write_watch_free(WriteWatch *watch);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WriteWatch, write_watch_free)

/*
 * Tell @fn, as PAGE_DATA, the pages of a block that may have been written, by anybody, since the watch
 * began or since this was called last. Some of them may be unwritten or zero, or be told twice. Any thread.
 */
bool write_watch_take(WriteWatch *watch, const RamBlock *block, PageRangeFunc fn, void *opaque,
                      GError **errp);

#endif
