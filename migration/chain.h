/*
 * A snapshot and the snapshots it rests on, from the full one at its base to itself.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MIGRATION_CHAIN_H
#define COWBIRD_MIGRATION_CHAIN_H

#include <glib.h>

#include "migration/snapshot-file.h"
#include "util/fds.h"

typedef struct SnapshotChain {
    GPtrArray *files; /* of SnapshotFile, base first */
} SnapshotChain;

/*
 * Find the ancestors of tip, which is taken over, also on failure. given: paths or "/dev/fdset/N"
 * that replace the paths kept in the files, NULL or empty = none; a file of the list that matches
 * is used wherever it stands. Each ancestor must have the uuid and length that its child names,
 * and the same RAM blocks and machine.
 */
SnapshotChain *snapshot_chain_open(SnapshotFile *tip, const GPtrArray *given, FdStore *fds,
                                   GError **errp);
/*
 * The first of the given files that is this snapshot; NULL without an error: none is. To be freed by the
 * caller.
 */
char *snapshot_chain_find_given(const SnapshotParent *want, const GPtrArray *given, FdStore *fds,
                                GError **errp);
void snapshot_chain_free(SnapshotChain *chain);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SnapshotChain, snapshot_chain_free)

static inline SnapshotFile *snapshot_chain_tip(const SnapshotChain *chain)
{
    return g_ptr_array_index(chain->files, chain->files->len - 1);
}

#endif
