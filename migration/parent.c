/*
 * The parent of the next increment: the snapshot that the VM was restored from.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "migration/parent.h"

#include <stdlib.h>
#include <string.h>

#include "memory/base-guard.h"
#include "util/error.h"

/* After a detach onto a clone of the file the clone has what the parent had. */
static bool block_check_unchanged(RamBlock *block, GError **errp)
{
    RamBase *last = NULL;
    bool ok = true;

    if (block->report.detached) {
        return true;
    }
    g_rw_lock_reader_lock(&block->layout);
    for (guint i = 0; ok && block->kind == RAM_FILE_PRIVATE && i < block->mappings->len; i++) {
        RamMapping *map = g_ptr_array_index(block->mappings, i);

        if (map->base != last) {
            last = map->base;
            ok = ram_base_check_identity(last, errp);
        }
    }
    g_rw_lock_reader_unlock(&block->layout);
    return ok;
}

bool parent_check_unchanged(RamList *ram, GError **errp)
{
    for (unsigned i = 0; i < ram_list_count(ram); i++) {
        if (!block_check_unchanged(ram_list_get(ram, i), errp)) {
            g_prefix_error(errp, "an increment would rest on a file that has changed: ");
            return false;
        }
    }
    return true;
}

/*
 * Blocks that were copied are complete in an increment, so they are right; but if nothing is a
 * mapping any more, the increment would hold all of RAM.
 */
static bool check_blocks(RamList *ram, GError **errp)
{
    const RamBlock *largest = NULL;
    bool any = false;

    for (unsigned i = 0; i < ram_list_count(ram); i++) {
        const RamBlock *block = ram_list_get(ram, i);

        any |= block->report.increment_possible;
        if (!largest || block->size > largest->size) {
            largest = block;
        }
        if (block->report.detached && !block->report.increment_possible) {
            largest = block;
            any = false;
            break;
        }
    }
    if (!any) {
        error_set(errp, "an increment is not possible: %s",
                  largest && largest->report.increment_obstacle
                      ? largest->report.increment_obstacle
                      : "memory was not restored copy-on-write; use ram-save-mode=full");
        return false;
    }
    return true;
}

/* Absolute and without symbolic links, or as it is when there is no such file. */
static char *resolve(const char *path)
{
    char *real = realpath(path, NULL);
    char *copy = g_strdup(real ? real : path);

    free(real);
    return copy;
}

/* The bare name when both are in one folder, so that the folder can be moved. */
static char *path_hint(const char *parent, const char *target)
{
    g_autofree char *full = resolve(parent), *dir = g_path_get_dirname(full);
    g_autofree char *target_dir = NULL, *real_target_dir = NULL;

    if (!target) {
        return g_steal_pointer(&full);
    }
    target_dir = g_path_get_dirname(target);
    real_target_dir = resolve(target_dir);
    return strcmp(dir, real_target_dir) == 0 ? g_path_get_basename(full) : g_steal_pointer(&full);
}

bool parent_find(const MigrationState *s, const char *target_path, SnapshotParent *ret_parent,
                 GError **errp)
{
    const SnapshotOrigin *origin = &s->origin;

    if (!origin->known) {
        error_set(errp, "an increment needs a parent, but this guest was not restored from a "
                        "snapshot; use ram-save-mode=full");
        return false;
    }
    if (!check_blocks(s->env.ram, errp) || !parent_check_unchanged(s->env.ram, errp)) {
        return false;
    }
    *ret_parent = (SnapshotParent){ .uuid = origin->info.uuid,
                                    .length = origin->info.length,
                                    .start = origin->start };
    if (origin->path) {
        ret_parent->path = path_hint(origin->path, target_path);
    }
    return true;
}
