/*
 * One incoming migration: what its thread and the main loop share.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MIGRATION_INCOMING_H
#define COWBIRD_MIGRATION_INCOMING_H

#include "memory/restore.h"
#include "migration/chain.h"
#include "migration/channel.h"
#include "migration/internal.h"
#include "util/job-thread.h"

struct IncomingJob {
    MigrationState *s;
    JobThread thread;
    MigrationAddress *address;
    MigrationOptions options; /* as they were at the start */
    bool exit_on_error;
    int fd;         /* of a regular file, or -1 */
    char *path;     /* of fd, if known */
    uint64_t start; /* of the stream in fd */
    int listener;   /* of unix: and tcp: until the peer is there, or -1 */
    StreamChannel *stream;
    int cancelled;
    uint8_t cpu_digest[MIGRATION_CPU_DIGEST_LEN];
    unsigned n_mapped; /* so many blocks of the list have their contents already */
    /* What was found. */
    SnapshotChain *chain;
    bool lay_tip; /* the newest of the chain is copied over the others and not needed afterwards */
    SnapshotInfo info;
    GByteArray *tail;
    struct PageInput *input; /* while a stream is read */
    uint64_t restore_time_us;
    bool ok;
    GError *error;
};

/* --- migration/incoming-load.c --- */

/* RAM and all else is read; job->ok or job->error tells the end. */
void incoming_load_thread(void *opaque);

RestoreRequest incoming_request(const IncomingJob *job);
/* Find the ancestors of tip, which is taken over. */
bool incoming_open_chain(IncomingJob *job, SnapshotFile *tip, GError **errp);
/* Fill the blocks that are there and have no contents yet. */
bool incoming_restore_layers(IncomingJob *job, RestoreRequest *request, GError **errp);
bool incoming_load_chain(IncomingJob *job, GError **errp);

/* So many files of the chain RAM rests on. */
static inline guint incoming_layers(const IncomingJob *job)
{
    return job->chain->files->len - (job->lay_tip ? 1 : 0);
}

#endif
