/*
 * The parent of the next increment: the snapshot that RAM was restored from.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MIGRATION_PARENT_H
#define COWBIRD_MIGRATION_PARENT_H

#include "migration/chain.h"
#include "migration/internal.h"
#include "migration/ram-delta.h"

/* RAM rests on the first n files of the chain. */
void snapshot_origin_set_chain(SnapshotOrigin *origin, const SnapshotChain *chain, guint n);

/*
 * Can an increment over the origin be saved? An error says why not. The origin's own file must be there
 * still, or ram-parent must name a file that has the same. target_path: where the increment will be, so that the
 * parent's path can be kept relative to it; may be NULL. *ret_elsewhere: the parent is a file of ram-parent.
 */
bool parent_find(const MigrationState *s, const char *target_path, SnapshotParent *ret_parent,
                 bool *ret_elsewhere, GError **errp);

/* No file that the origin consists of has been changed or removed since it was restored. Any thread. */
bool parent_check_unchanged(const SnapshotOrigin *origin, GError **errp);

#endif
