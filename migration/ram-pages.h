/*
 * A sequential stream: RAM as a run of pages, for pipes and sockets; both directions.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MIGRATION_RAM_PAGES_H
#define COWBIRD_MIGRATION_RAM_PAGES_H

#include <glib.h>
#include <stdbool.h>

#include "memory/restore-packed.h"
#include "migration/ram-plan.h"
#include "migration/snapshot-writer.h"
#include "migration/stream.h"
#include "migration/workers.h"

/* A run of pages crosses no multiple of this, so that two threads of a reader share no huge page. */
#define RAM_RUN_MAX (UINT64_C(2) << 20)

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
    GArray *runs;     /* of PackedRun, by ram_pages_index() */
} RamPagesRead;

/*
 * Read the whole stream, pages into the blocks of r->ram, which are all zero elsewhere
 * afterwards. The checksum has been verified on success.
 */
bool ram_pages_read(RamPagesRead *r, GError **errp);

/*
 * The same of a stream that begins at `start` of a regular file, but pages are only noted in r->runs and
 * RAM is not touched.
 */
bool ram_pages_index(RamPagesRead *r, uint64_t start, GError **errp);

#endif
