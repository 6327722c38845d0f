/*
 * A thread that works for the main loop and calls back into it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_UTIL_JOB_THREAD_H
#define COWBIRD_UTIL_JOB_THREAD_H

#include <glib.h>
#include <stdbool.h>

typedef struct JobThread {
    GThread *thread;
    GMutex lock;
    GCond cond;
    bool abandoned; /* under lock: nobody runs the main loop any more */
    void (*run)(void *opaque);
    void (*end)(void *opaque);
    void *opaque;
    GSource *end_source;
} JobThread;

/*
 * Start a thread that calls run(opaque) and, once that has returned, end(opaque) on the main
 * loop, where job_thread_join() is called first of all.
 */
void job_thread_start(JobThread *job, const char *name, void (*run)(void *opaque),
                      void (*end)(void *opaque), void *opaque);

/*
 * From the thread: have fn(opaque) run on the main loop and wait for it. False: abandoned, it was
 * not and will not be called.
 */
bool job_call_main(JobThread *job, void (*fn)(void *opaque), void *opaque);

/* From end(). */
void job_thread_join(JobThread *job);

/* Instead of end(), from the main thread: waits for the thread; end() will not be called. */
void job_thread_abandon(JobThread *job);

#endif
