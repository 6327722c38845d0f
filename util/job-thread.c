/*
 * A thread that works for the main loop and calls back into it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "util/job-thread.h"

#include <signal.h>

typedef struct MainCall {
    JobThread *job;
    void (*fn)(void *opaque);
    void *opaque;
    bool done; /* under job->lock */
} MainCall;

static gboolean run_call(gpointer opaque)
{
    MainCall *call = opaque;

    call->fn(call->opaque);
    g_mutex_lock(&call->job->lock);
    call->done = true;
    g_cond_broadcast(&call->job->cond);
    g_mutex_unlock(&call->job->lock);
    return G_SOURCE_REMOVE;
}

static GSource *attach(GSourceFunc fn, gpointer opaque)
{
    GSource *source = g_idle_source_new();

    g_source_set_priority(source, G_PRIORITY_HIGH);
    g_source_set_callback(source, fn, opaque, NULL);
    g_source_attach(source, NULL);
    return source;
}

bool job_call_main(JobThread *job, void (*fn)(void *opaque), void *opaque)
{
    MainCall call = { .job = job, .fn = fn, .opaque = opaque };
    GSource *source;

    g_mutex_lock(&job->lock);
    if (job->abandoned) {
        g_mutex_unlock(&job->lock);
        return false;
    }
    source = attach(run_call, &call);
    while (!call.done && !job->abandoned) {
        g_cond_wait(&job->cond, &job->lock);
    }
    /* Abandoned: the main thread waits for this one, so the source is not being run. */
    if (!call.done) {
        g_source_destroy(source);
    }
    g_mutex_unlock(&job->lock);
    g_source_unref(source);
    return call.done;
}

static gboolean run_end(gpointer opaque)
{
    JobThread *job = opaque;

    job->end(job->opaque);
    return G_SOURCE_REMOVE;
}

static void *thread_main(void *opaque)
{
    JobThread *job = opaque;
    sigset_t set;

    /* A reader that leaves is the error EPIPE, not the end of the process. */
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    job->run(job->opaque);
    g_mutex_lock(&job->lock);
    if (!job->abandoned) {
        job->end_source = attach(run_end, job);
    }
    g_mutex_unlock(&job->lock);
    return NULL;
}

void job_thread_start(JobThread *job, const char *name, void (*run)(void *opaque),
                      void (*end)(void *opaque), void *opaque)
{
    *job = (JobThread){ .run = run, .end = end, .opaque = opaque };
    g_mutex_init(&job->lock);
    g_cond_init(&job->cond);
    job->thread = g_thread_new(name, thread_main, job);
}

void job_thread_join(JobThread *job)
{
    g_thread_join(job->thread);
    if (job->end_source) {
        g_source_destroy(job->end_source);
        g_source_unref(job->end_source);
    }
    g_mutex_clear(&job->lock);
    g_cond_clear(&job->cond);
}

void job_thread_abandon(JobThread *job)
{
    g_mutex_lock(&job->lock);
    job->abandoned = true;
    g_cond_broadcast(&job->cond);
    g_mutex_unlock(&job->lock);
    job_thread_join(job);
}
