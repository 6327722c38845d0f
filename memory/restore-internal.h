/*
 * What the ways to restore share. Internal to memory/: restore.c decides, restore-source.c tells where the data
 * of a layer lies, restore-copy.c reads it, restore-cow.c maps it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MEMORY_RESTORE_INTERNAL_H
#define COWBIRD_MEMORY_RESTORE_INTERNAL_H

#include "memory/restore.h"

/* --- restore-source.c --- */

/* A run of a block and whether the base has data for it; bytes, whole pages. */
typedef bool (*SourceRunFunc)(uint64_t offset, uint64_t length, bool data, void *opaque,
                              GError **errp);

/*
 * Walk a block of the base in ascending order: runs that may hold data, by the bitmap or by SEEK_DATA, and
 * runs that are zero. They cover the block.
 */
bool source_walk(const RestoreLayer *layer, const RestoreBlock *rb, SourceRunFunc fn, void *opaque,
                 GError **errp);

/*
 * The next data that the base has for the block at or after @at, in whole pages of the block; false =
 * only holes are left. A file system without holes has data everywhere.
 */
bool source_next_data(const RestoreLayer *layer, const RestoreBlock *rb, uint64_t at,
                      uint64_t *ret_from, uint64_t *ret_end);

/*
 * Only the runs that the bitmap calls absent though the file has data there (a page that became zero after it
 * was written): a mapping of the file is wrong there.
 */
bool source_walk_stale(const RestoreLayer *layer, const RestoreBlock *rb, SourceRunFunc fn,
                       void *opaque, GError **errp);

/* --- restore-copy.c --- */

/* Runs to be read, then read all at once by several threads. */
typedef struct CopyPlan CopyPlan;
CopyPlan *copy_plan_new(unsigned threads, bool direct_io);
void copy_plan_free(CopyPlan *plan);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CopyPlan, copy_plan_free)
/* @base and @block must live until the run. */
void copy_plan_add(CopyPlan *plan, RamBase *base, RamBlock *block, const RestoreExtent *extent);
/* Read what was added and forget it. */
bool copy_plan_run(CopyPlan *plan, GError **errp);

/* Make the block ready to be copied into and add what its base has; holes become zero. */
bool restore_copy_base(CopyPlan *plan, const RestoreLayer *layer, const RestoreBlock *rb,
                       GError **errp);
/* Add a delta's extents and make its zero extents zero; lower layers have been run. */
void restore_copy_delta(CopyPlan *plan, const RestoreLayer *layer, const RestoreBlock *rb);

/* Drop all contents of a block at once, which leaves zeros; false = they must be overwritten. */
bool restore_drop_contents(RamBlock *block);

/* Zero bytes [offset, offset + length) of a block by writing; pages that are zero are only read. */
void restore_write_zeros(RamBlock *block, uint64_t offset, uint64_t length);

/* --- restore-cow.c --- */

/* Map the base over the block. Nothing was copied into it before. */
bool restore_cow_base(const RestoreRequest *request, const RestoreLayer *layer,
                      const RestoreBlock *rb, GError **errp);
/* Make zero what a delta says is zero: whole chunks become anonymous memory while that is possible. */
bool restore_cow_zeros(const RestoreBlock *rb, GError **errp);
/* Lay a delta over it: large extents mapped, others added to the plan, zero extents made zero. */
bool restore_cow_delta(CopyPlan *plan, const RestoreLayer *layer, const RestoreBlock *rb,
                       GError **errp);

#endif
