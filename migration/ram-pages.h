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
#include "migration/stream-frame.h"
#include "migration/workers.h"

/* A run of pages crosses no multiple of this, so that two threads of a reader share no huge page. */
#define RAM_RUN_MAX (UINT64_C(2) << 20)

typedef struct RamPagesWrite {
    int fd; /* borrowed; becomes non-blocking, so that a cancel is noticed */
    RamList *ram;
    const RamPlan *plan;
    TransferControl *control;
} RamPagesWrite;

/* The whole stream of a guest that is stopped. state->info is completed. */
bool ram_pages_write(const RamPagesWrite *w, CapturedState *state, GError **errp);

/* A stream in pieces: w->plan is not used. Everything is borrowed until it is freed. */
typedef struct RamPagesStream RamPagesStream;
RamPagesStream *ram_pages_open(const RamPagesWrite *w, const StreamConfig *config, GError **errp);
void ram_pages_free(RamPagesStream *stream);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(RamPagesStream, ram_pages_free)

/* All of RAM, as the plan says; zero pages are left out. */
bool ram_pages_put_all(RamPagesStream *stream, const RamPlan *plan, GError **errp);
/* Once more the plan's ranges of data, which may be zero by now. */
bool ram_pages_put_again(RamPagesStream *stream, const RamPlan *plan, GError **errp);
/* What follows RAM. state->info is completed. */
bool ram_pages_finish(RamPagesStream *stream, CapturedState *state, GError **errp);

typedef struct RamPagesRead {
    RamList *ram;
    /* Results, owned by the caller. */
    SnapshotInfo info;
    GByteArray *tail; /* sections of the devices and all after them */
    GArray *runs;     /* of PackedRun, when the stream is in a file */
} RamPagesRead;

/*
 * Read the stream behind its head, whose RAM section is given. From a pipe or socket pages go into the blocks
 * of r->ram, which are all zero elsewhere afterwards; from a file they are only noted in r->runs, and RAM is
 * not touched. The checksum has been verified on success.
 */
bool ram_pages_read(RamPagesRead *r, PageInput *in, const StreamSection *section, GError **errp);

#endif
