/*
 * Which pages an increment has: from the scan to the table.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MIGRATION_RAM_DELTA_TABLE_H
#define COWBIRD_MIGRATION_RAM_DELTA_TABLE_H

#include "migration/ram-delta.h"
#include "migration/ram-plan.h"

/* One extent and where its bytes are. */
typedef struct DeltaPiece {
    uint8_t *host;
    uint64_t length;
    uint64_t file_offset;
} DeltaPiece;

/*
 * Make the table of what the plan found; parent and plan must outlive it. Changed pages at most `coalesce`
 * bytes apart share an extent. Looks at every data page: zero pages need no room.
 */
void ram_delta_table_make(RamDeltaTable *table, const SnapshotParent *parent, const RamPlan *plan,
                          uint64_t coalesce, uint64_t *ret_zero_pages);
void ram_delta_table_clear(RamDeltaTable *table);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(RamDeltaTable, ram_delta_table_clear)

/* The extents in the order of their bytes, which have no gaps, after ram_delta_put(); of DeltaPiece. */
GArray *ram_delta_table_pieces(const RamDeltaTable *table, const RamPlan *plan);

#endif
