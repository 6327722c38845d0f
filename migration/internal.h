/*
 * The state of migration, shared by the files that save, load and tell about it.
 *
 * Everything here belongs to the main loop's thread. A job's thread has what it needs in its own
 * structure and comes back by job_call_main().
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MIGRATION_INTERNAL_H
#define COWBIRD_MIGRATION_INTERNAL_H

#include <sys/types.h>

#include "memory/pagemap.h"
#include "memory/restore.h"
#include "migration/migration.h"
#include "migration/options.h"
#include "migration/snapshot-info.h"
#include "migration/workers.h"
#include "qapi/command.h"
#include "qapi/qapi-types.h"

typedef struct SaveJob SaveJob;
typedef struct IncomingJob IncomingJob;

/* The snapshot that the next increment would rest on: what RAM was restored from. */
typedef struct SnapshotOrigin {
    bool known;
    SnapshotInfo info;
    char *path; /* NULL: it came as a stream, or nobody can tell */
    uint64_t start;
    GPtrArray *files; /* of RamBase: it and all it rests on, base first; NULL: a stream */
} SnapshotOrigin;

/* The section "globalstate": the run state at the moment of saving, as text. */
typedef struct GlobalState {
    uint32_t size;
    uint8_t runstate[100];
} GlobalState;

/* What query-migrate tells; kept after the end. Times are of the monotonic clock, 0 = not yet. */
typedef struct MigrationReport {
    MigrationStatus status;
    char *error;
    bool outgoing;
    int64_t started_us, captured_us, stopped_us, ended_us;
    uint64_t ram_total, done_bytes, written_bytes, normal_pages, zero_pages, total_bytes;
    PagemapStats scan;
    int scan_path;   /* RamScan */
    unsigned passes; /* over memory */
    bool have_ram, multifd;
} MigrationReport;

struct MigrationState {
    MigrationEnv env;
    MigrationOptions options;
    PagemapScanner *scanner;
    GlobalState global;
    SnapshotOrigin origin;
    MigrationReport report;
    GPtrArray *blockers;   /* of MigrationBlocker */
    SaveJob *save;         /* while one runs */
    IncomingJob *incoming; /* while one runs */
    IncomingJob *prepared; /* of -incoming: RAM is mapped, the rest is to come */
    bool incoming_pending;
    bool capturing;
    /* Of the last restore, for query-ram-restore. */
    RestoreMode restore_requested;
    uint64_t restore_time_us;
};

/* Sets the status and sends the event MIGRATION if it is wanted. */
void migration_set_status(MigrationState *s, MigrationStatus status);
void snapshot_origin_clear(SnapshotOrigin *origin);
/* Begins a report. */
void migration_begin(MigrationState *s, bool outgoing);

/* Replaces the scanner by one of this way. */
bool migration_set_scan(MigrationState *s, RamScan scan, GError **errp);

/* --- migration/save.c --- */
bool save_start(MigrationState *s, const char *uri, GError **errp);
/* reply: to be answered when the job has ended. */
void save_cancel(SaveJob *job, QapiReply *reply);
/* Figures of the running job. */
void save_update_report(const SaveJob *job, MigrationReport *report);
void save_set_bandwidth(SaveJob *job, uint64_t bytes_per_second);
/* Cancel and wait; for migration_free(). */
void save_abandon(SaveJob *job);

/* --- migration/incoming.c --- */
bool incoming_start(MigrationState *s, const char *uri, bool exit_on_error, GError **errp);
/*
 * Map RAM from the file that uri names, if it is one and can be mapped; else nothing happens, and
 * incoming_start() finds out why.
 */
void incoming_prepare(MigrationState *s, const char *uri);
void incoming_drop_prepared(MigrationState *s);
void incoming_abandon(IncomingJob *job);

#endif
