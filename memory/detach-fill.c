/*
 * The threads that fill the staging memory of a detach, chunk by chunk, while the guest runs.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/detach-internal.h"

static bool must_wait(const DetachJob *job)
{
    return !job->cancelled && !job->error && job->next < job->chunks->len &&
           (job->held_back || (!job->no_window && job->filled_ahead >= DETACH_WINDOW));
}

/* The next chunk to fill; NULL = none is left or the job has failed. */
static DetachChunk *next_to_fill(DetachJob *job)
{
    DetachChunk *c = NULL;

    g_mutex_lock(&job->lock);
    while (must_wait(job)) {
        g_cond_wait(&job->room, &job->lock);
    }
    if (!job->cancelled && !job->error && job->next < job->chunks->len) {
        c = detach_chunk(job, job->next++);
        job->filled_ahead++;
        job->n_filling++;
    }
    g_mutex_unlock(&job->lock);
    return c;
}

static void end_filling(DetachJob *job)
{
    g_mutex_lock(&job->lock);
    job->n_filling--;
    g_mutex_unlock(&job->lock);
}

void detach_fail(DetachJob *job, GError *error)
{
    g_mutex_lock(&job->lock);
    if (job->error) {
        g_error_free(error);
    } else {
        job->error = error;
    }
    g_cond_broadcast(&job->room);
    g_mutex_unlock(&job->lock);
}

bool detach_has_failed(DetachJob *job)
{
    bool failed;

    g_mutex_lock(&job->lock);
    failed = job->error != NULL;
    g_mutex_unlock(&job->lock);
    return failed;
}

static gpointer fill_thread(gpointer opaque)
{
    DetachJob *job = opaque;
    g_autoptr(PagemapScanner) scanner = pagemap_scanner_new_quiet(NULL);
    DetachChunk *c;

    while ((c = next_to_fill(job)) != NULL) {
        GError *err = NULL;
        bool ok = staging_fill(c->staging, c->chunk, scanner, &err);

        end_filling(job);
        if (!ok) {
            detach_fail(job, err);
            break;
        }
        g_atomic_int_set(&c->filled, 1);
    }
    return NULL;
}

unsigned detach_fillers_most(void)
{
    return MIN(DETACH_FILLERS_MAX, g_get_num_processors());
}

void detach_fillers_start(DetachJob *job, unsigned n)
{
    while (job->n_fillers < n) {
        job->fillers[job->n_fillers++] = g_thread_new("detach", fill_thread, job);
    }
}

void detach_fillers_unleash(DetachJob *job)
{
    g_mutex_lock(&job->lock);
    job->no_window = true;
    g_cond_broadcast(&job->room);
    g_mutex_unlock(&job->lock);
}

bool detach_fillers_hold_back(DetachJob *job)
{
    bool idle;

    g_mutex_lock(&job->lock);
    job->held_back = true;
    idle = job->n_filling == 0;
    g_mutex_unlock(&job->lock);
    return idle;
}

void detach_fillers_let_go(DetachJob *job)
{
    if (!job->held_back) {
        return;
    }
    g_mutex_lock(&job->lock);
    job->held_back = false;
    g_cond_broadcast(&job->room);
    g_mutex_unlock(&job->lock);
}

void detach_fillers_stop(DetachJob *job)
{
    g_mutex_lock(&job->lock);
    job->cancelled = true;
    g_cond_broadcast(&job->room);
    g_mutex_unlock(&job->lock);
    for (unsigned i = 0; i < job->n_fillers; i++) {
        g_thread_join(job->fillers[i]);
    }
    job->n_fillers = 0;
}

void detach_fillers_advance(DetachJob *job)
{
    g_mutex_lock(&job->lock);
    job->filled_ahead--;
    g_cond_signal(&job->room);
    g_mutex_unlock(&job->lock);
}
