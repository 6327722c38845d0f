/*
 * The parent of the next increment: the snapshot that the VM was restored from.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "migration/parent.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memory/base-guard.h"
#include "util/error.h"

void snapshot_origin_clear(SnapshotOrigin *origin)
{
    g_clear_pointer(&origin->path, g_free);
    g_clear_pointer(&origin->files, g_ptr_array_unref);
    *origin = (SnapshotOrigin){ 0 };
}

void snapshot_origin_set_chain(SnapshotOrigin *origin, const SnapshotChain *chain, guint n)
{
    const SnapshotFile *last = g_ptr_array_index(chain->files, n - 1);

    snapshot_origin_clear(origin);
    *origin = (SnapshotOrigin){
        .known = true, .info = last->info, .path = g_strdup(last->path), .start = last->start
    };
    origin->files = g_ptr_array_new_with_free_func((GDestroyNotify)ram_base_unref);
    for (guint i = 0; i < n; i++) {
        const SnapshotFile *file = g_ptr_array_index(chain->files, i);
        RamBase *base = ram_base_open(file->fd, file->path, &file->info.uuid, NULL);

        /* It was open a moment ago; without it nothing can be said of the file. */
        if (base) {
            g_ptr_array_add(origin->files, base);
        }
    }
}

/* What has lost its last name can never be found again when the increment is restored. */
static bool check_named(const RamBase *base, GError **errp)
{
    struct stat st;

    if (fstat(ram_base_fd(base), &st) == 0 && st.st_nlink == 0) {
        error_set(errp, "Snapshot %s has been removed", ram_base_path(base));
        return false;
    }
    return true;
}

bool parent_check_unchanged(const SnapshotOrigin *origin, GError **errp)
{
    for (guint i = 0; origin->files && i < origin->files->len; i++) {
        RamBase *base = g_ptr_array_index(origin->files, i);

        if (!ram_base_check_identity(base, errp) || !check_named(base, errp)) {
            g_prefix_error(errp, "an increment would rest on a file that is not what it was: ");
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

/* The name that the file has now. */
static char *present_path(const SnapshotOrigin *origin)
{
    const RamBase *last;
    g_autofree char *link = NULL, *path = NULL;

    if (!origin->files || origin->files->len == 0) {
        return g_strdup(origin->path);
    }
    last = g_ptr_array_index(origin->files, origin->files->len - 1);
    link = g_strdup_printf("/proc/self/fd/%d", ram_base_fd(last));
    path = g_file_read_link(link, NULL);
    return path && g_path_is_absolute(path) && access(path, F_OK) == 0 ? g_steal_pointer(&path)
                                                                       : g_strdup(origin->path);
}

/* The origin's file, or another that has the same; *ret_path may become NULL: without a known name. */
static bool find_file(const MigrationState *s, const SnapshotParent *want, char **ret_path,
                      bool *ret_elsewhere, GError **errp)
{
    g_autoptr(GError) changed = NULL;
    GError *err = NULL;

    *ret_elsewhere = !parent_check_unchanged(&s->origin, &changed);
    if (!*ret_elsewhere) {
        *ret_path = present_path(&s->origin);
        return true;
    }
    *ret_path =
        snapshot_chain_find_given(want, s->options.parameters->ram_parent, s->env.fds, &err);
    if (*ret_path) {
        return true;
    }
    if (err) {
        g_propagate_error(errp, err);
    } else {
        error_set(errp,
                  "%s; use ram-save-mode=full, or name a file that has the same with ram-parent",
                  changed->message);
    }
    return false;
}

bool parent_find(const MigrationState *s, const char *target_path, SnapshotParent *ret_parent,
                 bool *ret_elsewhere, GError **errp)
{
    const SnapshotOrigin *origin = &s->origin;
    g_autofree char *path = NULL;

    if (!origin->known) {
        error_set(errp, "an increment needs a parent, but this guest was not restored from a "
                        "snapshot; use ram-save-mode=full");
        return false;
    }
    *ret_parent = (SnapshotParent){ .uuid = origin->info.uuid,
                                    .length = origin->info.length,
                                    .start = origin->start };
    if (!check_blocks(s->env.ram, errp) || !find_file(s, ret_parent, &path, ret_elsewhere, errp)) {
        return false;
    }
    if (path) {
        ret_parent->path = path_hint(path, target_path);
    }
    return true;
}
