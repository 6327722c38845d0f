/*
 * Guest RAM out of a file in which pages lie packed.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/restore-packed.h"

#include "memory/restore-internal.h"
#include "util/units.h"

#define PAGE UINT64_C(4096)
/* In the map of a block, instead of a file offset. */
#define NO_PAGE UINT64_MAX

/* Where in the file each page of the block is. */
static uint64_t *map_pages(const RamBlock *block, const PackedRun *runs, size_t n_runs)
{
    uint64_t pages = block->size / PAGE;
    uint64_t *map = g_new(uint64_t, pages);

    for (uint64_t i = 0; i < pages; i++) {
        map[i] = NO_PAGE;
    }
    for (size_t k = 0; k < n_runs; k++) {
        const PackedRun *run = &runs[k];

        for (uint64_t i = 0; run->block == block && i < run->length / PAGE; i++) {
            map[run->offset / PAGE + i] = run->zero ? NO_PAGE : run->file_offset + i * PAGE;
        }
    }
    return map;
}

static void add_block(CopyPlan *plan, RamBase *base, RamBlock *block, const uint64_t *map)
{
    uint64_t pages = block->size / PAGE;

    for (uint64_t i = 0, end; i < pages; i = end) {
        for (end = i + 1;
             end < pages && map[i] != NO_PAGE && map[end] == map[i] + (end - i) * PAGE;) {
            end++;
        }
        if (map[i] != NO_PAGE) {
            RestoreExtent extent = { .offset = i * PAGE,
                                     .length = (end - i) * PAGE,
                                     .file_offset = map[i] };

            copy_plan_add(plan, base, block, &extent);
        }
    }
}

/* What cannot be dropped is overwritten where no page comes. */
static void clear_rest(RamBlock *block, const uint64_t *map)
{
    for (uint64_t i = 0; i < block->size / PAGE; i++) {
        if (map[i] == NO_PAGE) {
            restore_write_zeros(block, i * PAGE, PAGE);
        }
    }
}

bool restore_packed(RamList *list, RamBase *base, const PackedRun *runs, size_t n_runs,
                    unsigned threads, GError **errp)
{
    g_autoptr(CopyPlan) plan = copy_plan_new(threads, false);

    for (unsigned i = 0; i < ram_list_count(list); i++) {
        RamBlock *block = ram_list_get(list, i);
        g_autofree uint64_t *map = map_pages(block, runs, n_runs);

        if (!restore_drop_contents(block)) {
            clear_rest(block, map);
        }
        add_block(plan, base, block, map);
    }
    return copy_plan_run(plan, errp);
}
