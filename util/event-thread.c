/*
 * A thread that runs an event loop of its own.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "util/event-thread.h"

#include <sys/syscall.h>
#include <unistd.h>

struct EventThread {
    GThread *thread;
    GMainContext *context;
    gint quit; /* atomic */
    GMutex lock;
    GCond cond; /* tid is known; a turn has come */
    int tid;
};

static void *event_thread_run(void *opaque)
{
    EventThread *t = opaque;

    g_main_context_push_thread_default(t->context);
    g_mutex_lock(&t->lock);
    t->tid = (int)syscall(SYS_gettid);
    g_cond_broadcast(&t->cond);
    g_mutex_unlock(&t->lock);
    while (!g_atomic_int_get(&t->quit)) {
        g_main_context_iteration(t->context, TRUE);
    }
    g_main_context_pop_thread_default(t->context);
    return NULL;
}

EventThread *event_thread_new(const char *name, GError **errp)
{
    EventThread *t = g_new0(EventThread, 1);

    g_mutex_init(&t->lock);
    g_cond_init(&t->cond);
    t->context = g_main_context_new();
    t->thread = g_thread_try_new(name, event_thread_run, t, errp);
    if (!t->thread) {
        event_thread_free(t);
        return NULL;
    }
    g_mutex_lock(&t->lock);
    while (t->tid == 0) {
        g_cond_wait(&t->cond, &t->lock);
    }
    g_mutex_unlock(&t->lock);
    return t;
}

void event_thread_free(EventThread *t)
{
    if (!t) {
        return;
    }
    if (t->thread) {
        g_atomic_int_set(&t->quit, TRUE);
        g_main_context_wakeup(t->context);
        g_thread_join(t->thread);
    }
    g_main_context_unref(t->context);
    g_cond_clear(&t->cond);
    g_mutex_clear(&t->lock);
    g_free(t);
}

GMainContext *event_thread_context(EventThread *t)
{
    return t->context;
}

int event_thread_id(const EventThread *t)
{
    return t->tid;
}

bool event_thread_is_current(const EventThread *t)
{
    return g_thread_self() == t->thread;
}

/* What the waiting thread has on its stack. */
typedef struct Turn {
    EventThread *thread;
    bool come;
} Turn;

static gboolean take_turn(gpointer opaque)
{
    Turn *turn = opaque;
    EventThread *t = turn->thread;

    g_mutex_lock(&t->lock);
    turn->come = true;
    g_cond_broadcast(&t->cond);
    g_mutex_unlock(&t->lock);
    return G_SOURCE_REMOVE;
}

void event_thread_wait_idle(EventThread *t)
{
    g_autoptr(GSource) source = NULL;
    Turn turn = { .thread = t };

    if (event_thread_is_current(t)) {
        return;
    }
    source = g_idle_source_new();
    g_source_set_priority(source, G_PRIORITY_HIGH);
    g_source_set_callback(source, take_turn, &turn, NULL);
    g_source_attach(source, t->context);
    g_mutex_lock(&t->lock);
    while (!turn.come) {
        g_cond_wait(&t->cond, &t->lock);
    }
    g_mutex_unlock(&t->lock);
}
