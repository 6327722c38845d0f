/*
 * A thread that runs an event loop of its own.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_UTIL_EVENT_THREAD_H
#define COWBIRD_UTIL_EVENT_THREAD_H

#include <glib.h>
#include <stdbool.h>

typedef struct EventThread EventThread;

/*
 * Starts the thread; its name (cut to what the kernel shows, 15 bytes) may carry the id of an object. NULL with an error
 * when no thread can be made.
 */
EventThread *event_thread_new(const char *name, GError **errp);
/*
 * Ends the thread once the source that it dispatches has returned. What is still attached to its context is dropped. Not to be
 * called on the thread itself. NULL is allowed.
 */
void event_thread_free(EventThread *thread);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EventThread, event_thread_free)

/* Where sources are attached to run on the thread; valid as long as the thread. Any thread. */
GMainContext *event_thread_context(EventThread *thread);
/* Its Linux thread id. */
int event_thread_id(const EventThread *thread);
bool event_thread_is_current(const EventThread *thread);

/*
 * Returns when every dispatch that was under way has returned: a source that was destroyed before the call
 * is not running any more. On the thread itself it returns at once.
 */
void event_thread_wait_idle(EventThread *thread);

#endif
