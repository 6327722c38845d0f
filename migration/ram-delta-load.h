/*
 * An increment that comes through a pipe or socket, read: first its table, then, when its parent has been
 * restored, its pages.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MIGRATION_RAM_DELTA_LOAD_H
#define COWBIRD_MIGRATION_RAM_DELTA_LOAD_H

#include "memory/ram-block.h"
#include "migration/snapshot-file.h"
#include "migration/stream-frame.h"

/* The section after the stream's head is an increment's. */
bool ram_delta_is_section(const StreamSection *section);

/*
 * Read the table into a SnapshotFile without a file (fd -1) and, so far, without info and tail. head's
 * configuration becomes its own. Only blocks of this machine are taken, so what has to be kept is bounded
 * by its memory.
 */
SnapshotFile *ram_delta_load_table(PageInput *in, StreamHead *head, RamList *ram, GError **errp);

/* Read the bytes of all extents into the blocks; the section's footer is next. */
bool ram_delta_load_pages(PageInput *in, const SnapshotFile *file, RamList *ram, GError **errp);

#endif
