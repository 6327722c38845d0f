/*
 * What of guest RAM has to be saved: one scan of all blocks, kept until the file is written.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "migration/ram-plan.h"

#include "memory/chunk-map.h"

static bool keep_range(const PageRange *range, void *opaque)
{
    GArray *ranges = opaque;

    g_array_append_val(ranges, *range);
    return true;
}

/*
 * Taken before the scan: while files are held no chunk stops being released, so the scan tells every
 * page of these.
 */
static GArray *find_released(RamBlock *block)
{
    GArray *runs = g_array_new(FALSE, FALSE, sizeof(RestoreExtent));
    uint64_t first, end;

    g_rw_lock_reader_lock(&block->layout);
    for (uint64_t at = 0; chunk_map_next_run(block->released, at, &first, &end); at = end) {
        uint64_t from = first << RAM_CHUNK_SHIFT;
        RestoreExtent run = { .offset = from,
                              .length = MIN(block->size, end << RAM_CHUNK_SHIFT) - from };

        g_array_append_val(runs, run);
    }
    g_rw_lock_reader_unlock(&block->layout);
    return runs;
}

bool ram_plan_scan(RamPlan *plan, RamList *ram, PagemapScanner *scanner, GError **errp)
{
    unsigned n = ram_list_count(ram);

    *plan = (RamPlan){ .blocks = g_new0(RamPlanBlock, n), .total = ram_list_total(ram) };
    for (unsigned i = 0; i < n; i++) {
        RamPlanBlock *b = &plan->blocks[i];

        b->block = ram_list_get(ram, i);
        b->ranges = g_array_new(FALSE, FALSE, sizeof(PageRange));
        b->released = find_released(b->block);
        plan->n_blocks++;
        if (!pagemap_scan_block(scanner, b->block, keep_range, b->ranges, &plan->stats, errp)) {
            ram_plan_clear(plan);
            return false;
        }
    }
    return true;
}

void ram_plan_clear(RamPlan *plan)
{
    for (unsigned i = 0; i < plan->n_blocks; i++) {
        g_array_unref(plan->blocks[i].ranges);
        g_array_unref(plan->blocks[i].released);
    }
    g_clear_pointer(&plan->blocks, g_free);
    plan->n_blocks = 0;
}
