/*
 * A piece of work that is divided among threads, with a limit on bytes per second and a flag to
 * give it up.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "migration/workers.h"

#include "util/error.h"

/* A cancelled transfer is noticed this soon while it waits for its turn. */
#define NAP_US 20000
#define THREADS_MAX 64u

void transfer_control_init(TransferControl *c, uint64_t bytes_per_second)
{
    *c = (TransferControl){ .bytes_per_second = bytes_per_second };
    g_mutex_init(&c->lock);
}

void transfer_control_clear(TransferControl *c)
{
    g_mutex_clear(&c->lock);
}

void transfer_control_set_limit(TransferControl *c, uint64_t bytes_per_second)
{
    g_mutex_lock(&c->lock);
    c->bytes_per_second = bytes_per_second;
    c->next_us = 0;
    g_mutex_unlock(&c->lock);
}

void transfer_control_cancel(TransferControl *c)
{
    g_atomic_int_set(&c->cancelled, 1);
}

bool transfer_control_check(const TransferControl *c, GError **errp)
{
    if (g_atomic_int_get(&c->cancelled)) {
        error_set(errp, "the migration was cancelled");
        return false;
    }
    return true;
}

/* Reserves the time that n bytes take; returns how long to wait first. */
static int64_t reserve(TransferControl *c, uint64_t n)
{
    int64_t now = g_get_monotonic_time(), wait = 0;

    g_mutex_lock(&c->lock);
    if (c->bytes_per_second) {
        double us = (double)n * G_USEC_PER_SEC / c->bytes_per_second;

        wait = MAX(c->next_us - now, 0);
        c->next_us = now + wait + (int64_t)MIN(us, (double)G_USEC_PER_SEC * 3600);
    }
    g_mutex_unlock(&c->lock);
    return wait;
}

bool transfer_control_wait(TransferControl *c, uint64_t n, GError **errp)
{
    int64_t until;

    if (!transfer_control_check(c, errp)) {
        return false;
    }
    until = reserve(c, n);
    if (until == 0) {
        return true;
    }
    until += g_get_monotonic_time();
    while (g_get_monotonic_time() < until) {
        g_usleep(MIN(until - g_get_monotonic_time() + 1, NAP_US));
        if (!transfer_control_check(c, errp)) {
            return false;
        }
    }
    return true;
}

typedef struct Work {
    size_t n_items;
    size_t next; /* atomic */
    int failed;  /* atomic */
    WorkerFunc fn;
    void *opaque;
    GMutex lock;
    GError *error; /* the first one */
} Work;

static void *work(void *opaque)
{
    Work *w = opaque;

    while (!g_atomic_int_get(&w->failed)) {
        size_t i = __atomic_fetch_add(&w->next, 1, __ATOMIC_RELAXED);
        GError *err = NULL;

        if (i >= w->n_items) {
            break;
        }
        if (w->fn(i, w->opaque, &err)) {
            continue;
        }
        g_mutex_lock(&w->lock);
        if (!w->error) {
            w->error = g_steal_pointer(&err);
        }
        g_mutex_unlock(&w->lock);
        g_clear_error(&err);
        g_atomic_int_set(&w->failed, 1);
    }
    return NULL;
}

bool workers_run(unsigned n_threads, size_t n_items, WorkerFunc fn, void *opaque, GError **errp)
{
    Work w = { .n_items = n_items, .fn = fn, .opaque = opaque };
    GThread *threads[THREADS_MAX];
    unsigned n = 0;

    g_mutex_init(&w.lock);
    /* No more threads than items; one that cannot be made leaves its share to the others. */
    while (n + 1 < MIN(n_threads, n_items) && n < THREADS_MAX) {
        threads[n] = g_thread_try_new("migration-io", work, &w, NULL);
        if (!threads[n]) {
            break;
        }
        n++;
    }
    work(&w);
    while (n) {
        g_thread_join(threads[--n]);
    }
    g_mutex_clear(&w.lock);
    if (w.error) {
        g_propagate_error(errp, w.error);
        return false;
    }
    return true;
}
