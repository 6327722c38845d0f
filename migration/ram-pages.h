/*
 * A sequential stream: RAM as a run of pages, for pipes and sockets; both directions.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MIGRATION_RAM_PAGES_H
#define COWBIRD_MIGRATION_RAM_PAGES_H

#include <glib.h>
#include <stdbool.h>

#include "migration/ram-plan.h"
#include "migration/snapshot-writer.h"
#include "migration/stream.h"
#include "migration/workers.h"

typedef struct RamPagesWrite {
    int fd; /* borrowed; becomes non-blocking, so that a cancel is noticed */
    RamList *ram;
    const RamPlan *plan;
    TransferControl *control;
} RamPagesWrite;

/* The whole stream. state->info is completed. */
bool ram_pages_write(const RamPagesWrite *w, CapturedState *state, GError **errp);

typedef struct RamPagesRead {
    int fd; /* borrowed */
    RamList *ram;
    const int *cancelled;     /* atomic */
    const char *machine_type; /* that the stream must name */
    /* Results, owned by the caller. */
    StreamConfig config;
    SnapshotInfo info;
    GByteArray *tail; /* sections of the devices and all after them */
} RamPagesRead;

/*
 * Read the whole stream, pages into the blocks of r->ram, which are all zero elsewhere
 * afterwards. The checksum has been verified on success.
 */
bool ram_pages_read(RamPagesRead *r, GError **errp);

#endif
