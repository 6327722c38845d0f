/*
 * A snapshot and the snapshots it rests on, from the full one at its base to itself.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "migration/chain.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "util/error.h"

/* A longer chain is a mistake, or a circle. */
#define CHAIN_MAX 1024

void snapshot_chain_free(SnapshotChain *chain)
{
    if (chain) {
        g_ptr_array_unref(chain->files);
        g_free(chain);
    }
}

static bool is_parent(const SnapshotFile *file, const SnapshotParent *want)
{
    return uuid_equal(&file->info.uuid, &want->uuid) && file->info.length == want->length;
}

static bool check_parent(const SnapshotFile *child, const SnapshotFile *parent, GError **errp)
{
    if (!is_parent(parent, &child->parent)) {
        g_autofree char *want = uuid_to_string(&child->parent.uuid);
        g_autofree char *have = uuid_to_string(&parent->info.uuid);

        error_set(errp,
                  "snapshot '%s' rests on snapshot %s of %" PRIu64 " bytes, but '%s' is %s of "
                  "%" PRIu64 " bytes; name the right file with ram-parent",
                  child->path ? child->path : "(fd)", want, child->parent.length,
                  parent->path ? parent->path : "(fd)", have, parent->info.length);
        return false;
    }
    if (strcmp(child->config.machine_type, parent->config.machine_type) != 0 ||
        child->blocks->len != parent->blocks->len) {
        error_set(errp, "snapshot '%s' and its parent are of different machines",
                  child->path ? child->path : "(fd)");
        return false;
    }
    for (guint i = 0; i < child->blocks->len; i++) {
        const SnapshotBlock *b = g_ptr_array_index(child->blocks, i);
        const SnapshotBlock *p = snapshot_file_block(parent, b->name);

        if (!p || p->length != b->length) {
            error_set(errp, "RAM block '%s' of snapshot '%s' is not the same in its parent",
                      b->name, child->path ? child->path : "(fd)");
            return false;
        }
    }
    return true;
}

/* The path kept in the child is relative to the child's folder. */
static char *hint_path(const SnapshotFile *child)
{
    g_autofree char *dir = NULL;

    if (!child->parent.path) {
        return NULL;
    }
    if (g_path_is_absolute(child->parent.path) || !child->path) {
        return g_strdup(child->parent.path);
    }
    dir = g_path_get_dirname(child->path);
    return g_build_filename(dir, child->parent.path, NULL);
}

static SnapshotFile *open_path(const char *path, uint64_t start, FdStore *fds, GError **errp)
{
    int fd = fd_store_open(fds, path, O_RDONLY, 0, errp);

    return fd < 0 ? NULL : snapshot_file_open(fd, path, start, errp);
}

/* The first given file that is wanted; *errp stays NULL when none is. */
static SnapshotFile *find_given(const SnapshotParent *want, const GPtrArray *given, FdStore *fds,
                                GError **errp)
{
    for (guint i = 0; given && i < given->len; i++) {
        const char *path = g_ptr_array_index(given, i);
        g_autoptr(SnapshotFile) file = open_path(path, want->start, fds, errp);

        if (!file) {
            g_prefix_error(errp, "ram-parent '%s': ", path);
            return NULL;
        }
        if (is_parent(file, want)) {
            return g_steal_pointer(&file);
        }
    }
    return NULL;
}

char *snapshot_chain_find_given(const SnapshotParent *want, const GPtrArray *given, FdStore *fds,
                                GError **errp)
{
    g_autoptr(SnapshotFile) file = find_given(want, given, fds, errp);

    return file ? g_strdup(file->path) : NULL;
}

static SnapshotFile *find_parent(const SnapshotFile *child, const GPtrArray *given, FdStore *fds,
                                 GError **errp)
{
    g_autofree char *path = hint_path(child);
    SnapshotFile *file;
    GError *err = NULL;

    file = find_given(&child->parent, given, fds, &err);
    if (file || err) {
        if (err) {
            g_propagate_error(errp, err);
        }
        return file;
    }
    if (!path || (given && given->len)) {
        g_autofree char *uuid = uuid_to_string(&child->parent.uuid);

        error_set(errp,
                  "snapshot '%s' rests on snapshot %s of %" PRIu64
                  " bytes, which %s; name its file with ram-parent",
                  child->path ? child->path : "(fd)", uuid, child->parent.length,
                  path ? "is not among the files of ram-parent" : "has no known file");
        return NULL;
    }
    file = open_path(path, child->parent.start, fds, errp);
    if (!file) {
        g_prefix_error(errp, "the parent of snapshot '%s': ", child->path ? child->path : "(fd)");
    }
    return file;
}

SnapshotChain *snapshot_chain_open(SnapshotFile *tip, const GPtrArray *given, FdStore *fds,
                                   GError **errp)
{
    g_autoptr(SnapshotChain) chain = g_new0(SnapshotChain, 1);
    SnapshotFile *child = tip;

    chain->files = g_ptr_array_new_with_free_func((GDestroyNotify)snapshot_file_free);
    g_ptr_array_add(chain->files, tip);
    while (child->kind == SNAPSHOT_INCREMENTAL) {
        SnapshotFile *parent = find_parent(child, given, fds, errp);

        if (!parent) {
            return NULL;
        }
        g_ptr_array_insert(chain->files, 0, parent);
        if (!check_parent(child, parent, errp)) {
            return NULL;
        }
        if (chain->files->len > CHAIN_MAX) {
            error_set(errp, "snapshot '%s' rests on more than %d others",
                      tip->path ? tip->path : "(fd)", CHAIN_MAX);
            return NULL;
        }
        child = parent;
    }
    return g_steal_pointer(&chain);
}
