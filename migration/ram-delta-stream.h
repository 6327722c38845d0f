/*
 * An increment written to a pipe or socket.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MIGRATION_RAM_DELTA_STREAM_H
#define COWBIRD_MIGRATION_RAM_DELTA_STREAM_H

#include "migration/ram-delta.h"
#include "migration/ram-pages.h"

/* The whole stream over that parent. state->info is completed. */
bool ram_delta_write_stream(const RamPagesWrite *w, const SnapshotParent *parent,
                            CapturedState *state, GError **errp);

#endif
