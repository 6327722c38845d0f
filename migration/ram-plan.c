/*
 * What of guest RAM has to be saved: one scan of all blocks, kept until the file is written.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "migration/ram-plan.h"

static bool keep_range(const PageRange *range, void *opaque)
{
    GArray *ranges = opaque;

    g_array_append_val(ranges, *range);
    return true;
}

bool ram_plan_scan(RamPlan *plan, RamList *ram, PagemapScanner *scanner, GError **errp)
{
    unsigned n = ram_list_count(ram);

    *plan = (RamPlan){ .blocks = g_new0(RamPlanBlock, n), .total = ram_list_total(ram) };
    for (unsigned i = 0; i < n; i++) {
        RamPlanBlock *b = &plan->blocks[i];

        b->block = ram_list_get(ram, i);
        b->ranges = g_array_new(FALSE, FALSE, sizeof(PageRange));
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
    }
    g_clear_pointer(&plan->blocks, g_free);
    plan->n_blocks = 0;
}
