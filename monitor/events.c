/*
 * Events: from any thread to every client that has left negotiation.
 *
 * An event sent on the main loop's thread goes out at once, so one that a command handler sends
 * comes before the command's reply. One from another thread is queued for the main loop.
 *
 * Events that a guest can cause as often as it likes are sent at most once a second for each of what they are about;
 * meanwhile the newest is held and the others are forgotten.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "monitor/internal.h"

#include "util/json.h"

#define LIMIT_MS 1000

typedef struct QueuedEvent {
    const char *name; /* a constant of the generated code */
    json_object *data;
    int64_t time_us;
} QueuedEvent;

static void queued_event_free(void *event)
{
    json_object_put(((QueuedEvent *)event)->data);
    g_free(event);
}

static json_object *event_message(const QueuedEvent *event)
{
    json_object *message = json_object_new_object();
    json_object *timestamp = json_object_new_object();

    json_object_object_add(timestamp, "seconds",
                           json_object_new_int64(event->time_us / G_USEC_PER_SEC));
    json_object_object_add(timestamp, "microseconds",
                           json_object_new_int64(event->time_us % G_USEC_PER_SEC));
    json_object_object_add(message, "timestamp", timestamp);
    json_object_object_add(message, "event", json_object_new_string(event->name));
    if (event->data) {
        json_object_object_add(message, "data", json_object_get(event->data));
    }
    return message;
}

static void deliver(MonitorSet *set, const QueuedEvent *event)
{
    for (unsigned i = 0; i < set->sessions->len; i++) {
        MonitorSession *session = set->sessions->pdata[i];

        if (session->negotiated) {
            session_send(session, event_message(event));
        }
    }
}

/* ---- Limited events; main loop only ---- */

/* The member of the data that tells what the event is about; NULL: there is one of it. */
static const struct {
    const char *name, *key;
} limited[] = {
    { "BALLOON_CHANGE", NULL },
    { "RTC_CHANGE", NULL },
    { "VSERPORT_CHANGE", "id" },
};

/* One was sent less than LIMIT_MS ago. */
typedef struct EventLimit {
    MonitorSet *set;
    const char *name;
    char *key;
    QueuedEvent *held; /* the newest since, or NULL */
    guint timer;
} EventLimit;

static void event_limit_free(void *opaque)
{
    EventLimit *limit = opaque;

    if (limit->held) {
        queued_event_free(limit->held);
    }
    if (limit->timer) {
        g_source_remove(limit->timer);
    }
    g_free(limit->key);
    g_free(limit);
}

static gboolean on_limit(void *opaque)
{
    EventLimit *limit = opaque;

    if (!limit->held) {
        limit->timer = 0;
        g_ptr_array_remove_fast(limit->set->limits, limit);
        return G_SOURCE_REMOVE;
    }
    deliver(limit->set, limit->held);
    g_clear_pointer(&limit->held, queued_event_free);
    return G_SOURCE_CONTINUE;
}

static EventLimit *find_limit(MonitorSet *set, const char *name, const char *key)
{
    for (guint i = 0; i < set->limits->len; i++) {
        EventLimit *limit = g_ptr_array_index(set->limits, i);

        if (g_str_equal(limit->name, name) && g_strcmp0(limit->key, key) == 0) {
            return limit;
        }
    }
    return NULL;
}

/* True: the event (taken then) has to wait. */
static bool hold(MonitorSet *set, QueuedEvent *event)
{
    for (size_t i = 0; i < G_N_ELEMENTS(limited); i++) {
        const char *key = NULL;
        EventLimit *limit;

        if (!g_str_equal(limited[i].name, event->name)) {
            continue;
        }
        key = limited[i].key ? json_get_str(event->data, limited[i].key) : NULL;
        limit = find_limit(set, event->name, key);
        if (limit) {
            g_clear_pointer(&limit->held, queued_event_free);
            limit->held = event;
            return true;
        }
        limit = g_new0(EventLimit, 1);
        *limit = (EventLimit){ .set = set, .name = event->name, .key = g_strdup(key) };
        limit->timer = g_timeout_add(LIMIT_MS, on_limit, limit);
        g_ptr_array_add(set->limits, limit);
    }
    return false;
}

/* ---- The queue ---- */

void events_deliver(MonitorSet *set)
{
    for (;;) {
        g_mutex_lock(&set->lock);
        QueuedEvent *event = g_queue_pop_head(&set->events);
        g_mutex_unlock(&set->lock);
        if (!event) {
            return;
        }
        if (!hold(set, event)) {
            deliver(set, event);
            queued_event_free(event);
        }
    }
}

static gboolean on_events(void *opaque)
{
    MonitorSet *set = opaque;

    g_mutex_lock(&set->lock);
    g_clear_pointer(&set->events_source, g_source_unref);
    g_mutex_unlock(&set->lock);
    events_deliver(set);
    return G_SOURCE_REMOVE;
}

static void sink_send(void *opaque, const char *name, json_object *data)
{
    MonitorSet *set = opaque;
    QueuedEvent *event = g_new0(QueuedEvent, 1);

    event->name = name;
    event->data = data;
    event->time_us = g_get_real_time();
    g_mutex_lock(&set->lock);
    g_queue_push_tail(&set->events, event);
    if (g_thread_self() != set->main_thread && !set->events_source) {
        set->events_source = g_idle_source_new();
        g_source_set_priority(set->events_source, G_PRIORITY_DEFAULT);
        g_source_set_callback(set->events_source, on_events, set, NULL);
        g_source_attach(set->events_source, NULL);
    }
    g_mutex_unlock(&set->lock);
    if (g_thread_self() == set->main_thread) {
        events_deliver(set);
    }
}

void events_init(MonitorSet *set)
{
    set->main_thread = g_thread_self();
    g_mutex_init(&set->lock);
    g_queue_init(&set->events);
    set->limits = g_ptr_array_new_with_free_func(event_limit_free);
    set->sink = (QapiEventSink){ .send = sink_send, .opaque = set };
}

void events_clear(MonitorSet *set)
{
    if (set->events_source) {
        g_source_destroy(set->events_source);
        g_source_unref(set->events_source);
    }
    g_ptr_array_unref(set->limits);
    g_queue_clear_full(&set->events, queued_event_free);
    g_mutex_clear(&set->lock);
}
