/*
 * One outgoing migration: what its thread and the main loop share.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MIGRATION_SAVE_H
#define COWBIRD_MIGRATION_SAVE_H

#include "migration/channel.h"
#include "migration/internal.h"
#include "util/job-thread.h"
#include "migration/publish.h"
#include "migration/ram-delta.h"
#include "migration/ram-plan.h"
#include "migration/snapshot-writer.h"

struct SaveJob {
    MigrationState *s;
    JobThread thread;
    MigrationAddress *address;
    /* One of the two: a regular file, or a stream (opened by the thread if it has to wait). */
    PublishTarget *target;
    StreamChannel *stream;
    bool incremental;
    bool live; /* the guest runs on while memory is sent, if that can be done */
    SnapshotParent parent;
    bool parent_elsewhere; /* it is a file of ram-parent: what the guest came from has changed */
    unsigned threads;
    TransferControl control;
    CapturedState state;
    RamPlan plan;
    bool scanned; /* atomic: plan.stats are there */
    bool stopped, captured, was_running, ok;
    RunState old_state;
    GError *error;
    GPtrArray *cancel_replies; /* of QapiReply, to those who want it to end */
};

/* --- migration/save-target.c --- */

/*
 * Open a file or take the fd that the address names, check that it may be written and that an
 * increment is possible. Other addresses are opened by the thread.
 */
bool save_open_target(SaveJob *job, GError **errp);

/* --- migration/migration.c --- */
const char *blocker_reason(const MigrationState *s, guint i);

#endif
