/*
 * Memory mappings (VMAs) that this process may still make: at most 75 % of vm.max_map_count.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MEMORY_VMA_BUDGET_H
#define COWBIRD_MEMORY_VMA_BUDGET_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * A count that is kept between looks at /proc/self/maps. Zeros: nothing was counted yet. Not for
 * several threads at once.
 */
typedef struct VmaBudget {
    uint64_t limit;
    uint64_t used;      /* when it was counted, and what was taken since */
    gint64 count_again; /* monotonic time in us; not before */
} VmaBudget;

/*
 * Take @growth mappings (negative: give back). False = there are not that many; nothing is taken.
 * What gives back or takes none is always allowed. Looking takes at most a hundredth of the time.
 */
bool vma_budget_take(VmaBudget *budget, int growth);

/* Mappings left by a count made now. */
uint64_t vma_budget_left(void);

/* Mappings this process has in [start, start + length). */
uint64_t vma_count_in(const void *start, uint64_t length);

#endif
