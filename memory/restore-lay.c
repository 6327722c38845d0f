/*
 * An increment laid over restored RAM by copying, so that its file is not needed afterwards.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/restore-internal.h"

static bool lay_block(CopyPlan *plan, const RestoreLayer *layer, const RestoreBlock *rb,
                      GError **errp)
{
    RestoreBlock zeros_only = *rb;

    if (rb->block->kind == RAM_FILE_PRIVATE) {
        rb->block->pages_laid = true;
        if (!restore_cow_zeros(rb, errp)) {
            return false;
        }
        for (size_t i = 0; layer->base && i < rb->n_extents; i++) {
            copy_plan_add(plan, layer->base, rb->block, &rb->extents[i]);
        }
        return true;
    }
    zeros_only.n_extents = 0;
    restore_copy_delta(plan, layer, layer->base ? rb : &zeros_only);
    return true;
}

bool restore_lay(const RestoreLayer *layer, unsigned threads, bool direct_io, GError **errp)
{
    g_autoptr(CopyPlan) plan = copy_plan_new(threads, direct_io);

    for (size_t i = 0; i < layer->n_blocks; i++) {
        if (!lay_block(plan, layer, &layer->blocks[i], errp)) {
            return false;
        }
    }
    return copy_plan_run(plan, errp);
}
