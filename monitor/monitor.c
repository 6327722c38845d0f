/*
 * The set of monitors.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "monitor/internal.h"

MonitorSet *monitor_set_new(const MonitorEnv *env)
{
    MonitorSet *set = g_new0(MonitorSet, 1);

    set->env = *env;
    set->sessions = g_ptr_array_new();
    events_init(set);
    return set;
}

void monitor_set_free(MonitorSet *set)
{
    for (unsigned i = 0; i < set->sessions->len; i++) {
        session_stop(set->sessions->pdata[i]);
    }
    g_ptr_array_unref(set->sessions);
    events_clear(set);
    g_free(set);
}

QapiEventSink *monitor_event_sink(MonitorSet *set)
{
    return &set->sink;
}

bool monitor_add(MonitorSet *set, Chardev *chardev, bool pretty, GError **errp)
{
    MonitorSession *session = session_new(set, chardev, pretty);

    if (!session_start(session, errp)) {
        session_unref(session);
        return false;
    }
    g_ptr_array_add(set->sessions, session);
    return true;
}

void monitor_set_flush(MonitorSet *set, int timeout_ms)
{
    events_deliver(set);
    for (unsigned i = 0; i < set->sessions->len; i++) {
        session_flush(set->sessions->pdata[i], timeout_ms);
    }
}
