/*
 * The parent of the next increment: the snapshot that the VM was restored from.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MIGRATION_PARENT_H
#define COWBIRD_MIGRATION_PARENT_H

#include "migration/internal.h"
#include "migration/ram-delta.h"

/*
 * Can an increment over the origin be saved? An error says why not. target_path: where it will
 * be, so that the parent's path can be kept relative to it; may be NULL.
 */
bool parent_find(const MigrationState *s, const char *target_path, SnapshotParent *ret_parent,
                 GError **errp);

/* No file that RAM is mapped from has been changed. Any thread. */
bool parent_check_unchanged(RamList *ram, GError **errp);

#endif
