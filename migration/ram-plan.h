/*
 * What of guest RAM has to be saved: one scan of all blocks, kept until the file is written.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MIGRATION_RAM_PLAN_H
#define COWBIRD_MIGRATION_RAM_PLAN_H

#include "memory/pagemap.h"
#include "memory/ram-block.h"
#include "memory/restore.h"

typedef struct RamPlanBlock {
    RamBlock *block;
    GArray *ranges;   /* of PageRange: data and zero; what lies between is unchanged */
    GArray *released; /* of RestoreExtent without file_offset: runs of released chunks */
} RamPlanBlock;

typedef struct RamPlan {
    RamPlanBlock *blocks;
    unsigned n_blocks;
    uint64_t total; /* bytes of RAM */
    PagemapStats stats;
} RamPlan;

/*
 * vCPUs and I/O must be at rest, and stay so until the plan has been written; or a watch that began before
 * tells what is written after it began.
 */
bool ram_plan_scan(RamPlan *plan, RamList *ram, PagemapScanner *scanner, GError **errp);
void ram_plan_clear(RamPlan *plan);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(RamPlan, ram_plan_clear)

#endif
