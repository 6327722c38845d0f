/*
 * What a detach consists of. Internal to memory/: detach-start.c decides what is to be done, detach-fill.c
 * fills staging memory in threads, detach.c moves it over the guest's memory and ends.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MEMORY_DETACH_INTERNAL_H
#define COWBIRD_MEMORY_DETACH_INTERNAL_H

#include "memory/guard-internal.h"
#include "memory/staging.h"

#define DETACH_FILLERS_MAX 4
/* Chunks filled ahead of the moves: written pages exist twice in them. */
#define DETACH_WINDOW 16

typedef struct DetachChunk {
    Staging *staging;
    RamBlock *block;
    uint64_t chunk;
    gint filled; /* atomic */
    bool moved;
} DetachChunk;

struct DetachJob {
    BaseGuard *guard;
    CloneSet set;
    char *reason;
    bool background; /* a drain: nobody waits for the file yet */
    DetachDone done;
    void *opaque;
    gint64 deadline, expiry;
    GArray *begun_as; /* of struct stat, one per base */
    GPtrArray *stagings;
    GArray *chunks; /* of DetachChunk, in order of moving; not resized once threads run */
    guint first;    /* chunks before are moved */
    guint n_moved;
    bool holding;     /* the guest stands until the end */
    bool told;        /* all is moved, and who waited for a drain knows */
    gint64 next_move; /* in the background: not before */
    gint64 next_look; /* whether the files have names still */
    uint64_t bytes_copied;
    guint timer;

    GThread *fillers[DETACH_FILLERS_MAX];
    unsigned n_fillers;
    GMutex lock; /* of what follows */
    GCond room;
    guint next; /* to fill */
    guint filled_ahead;
    guint n_filling;
    bool no_window;
    bool held_back; /* no chunk is begun; set and cleared on the main loop only */
    bool cancelled;
    GError *error; /* the first one */
};

static inline DetachChunk *detach_chunk(DetachJob *job, guint i)
{
    return &g_array_index(job->chunks, DetachChunk, i);
}

/* --- detach-start.c --- */

/* Fill in set.fds, stagings and chunks: to clones of the files where there can be some, else to memory. */
bool detach_prepare(DetachJob *job, GError **errp);
/* Of clones that no file was given. */
void detach_close_clones(DetachJob *job);

/* --- detach-fill.c --- */

/* Have at least that many threads. */
void detach_fillers_start(DetachJob *job, unsigned n);
/* As many as there may be. */
unsigned detach_fillers_most(void);
/* Fill whatever is left, however far ahead of the moves. */
void detach_fillers_unleash(DetachJob *job);
/*
 * No thread begins a chunk until they are let go again: they would take the CPU and the lock of the address
 * space from who pauses the guest. False = some are at one still.
 */
bool detach_fillers_hold_back(DetachJob *job);
void detach_fillers_let_go(DetachJob *job);
void detach_fillers_stop(DetachJob *job);
/* A filled chunk was moved: there is room for the next one. */
void detach_fillers_advance(DetachJob *job);
/* Takes ownership of @error; later ones are dropped. */
void detach_fail(DetachJob *job, GError *error);
bool detach_has_failed(DetachJob *job);

#endif
