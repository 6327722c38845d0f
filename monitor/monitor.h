/*
 * QMP monitors: each serves one chardev, one client after another; together they are a MonitorSet.
 *
 * All functions but the event sink's send belong to the main loop.
 *
 *     MonitorEnv env = { .fds = fds, .commands = &qapi_command_table, .contexts = &contexts,
 *                        .human = human_commands, .human_opaque = state };
 *     MonitorSet *set = monitor_set_new(&env);
 *     QapiEventSink *sink = monitor_event_sink(set);     before anything that sends events
 *     monitor_add(set, chardev, false, errp);            for each -qmp, -mon
 *     monitor_set_flush(set, 1000);                      before the process ends
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MONITOR_MONITOR_H
#define COWBIRD_MONITOR_MONITOR_H

#include "chardev/chardev.h"
#include "qapi/command.h"
#include "qapi/event.h"
#include "util/fds.h"

typedef struct MonitorSet MonitorSet;

/*
 * A command that exists only in words (human-monitor-command). What human-*.c know is built in. @run is
 * given the words after the name and answers with an owned text that ends in a newline, or NULL
 * and an error.
 */
typedef struct MonitorHumanCommand {
    const char *name; /* "info registers" */
    const char *help; /* a line */
    char *(*run)(void *opaque, const char *args, bool has_cpu_index, int64_t cpu_index,
                 GError **errp);
    const char *command; /* instead of run: the QMP command that it is, without arguments */
} MonitorHumanCommand;

/* What monitors work with. It outlives the MonitorSet, as chardevs do; contexts may be filled later. */
typedef struct MonitorEnv {
    FdStore *fds;
    const QapiCommandTable *commands;
    const QapiContexts *contexts;
    const MonitorHumanCommand *human; /* ends with a NULL name; may be NULL */
    void *human_opaque;
} MonitorEnv;

/* Made on the thread of the main loop. */
MonitorSet *monitor_set_new(const MonitorEnv *env);
void monitor_set_free(MonitorSet *set);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(MonitorSet, monitor_set_free)

/* Where events are sent to; any thread. Owned by the set. */
QapiEventSink *monitor_event_sink(MonitorSet *set);

/* Serve QMP on @chardev (borrowed), which has no other front end. @pretty: JSON over lines. */
bool monitor_add(MonitorSet *set, Chardev *chardev, bool pretty, GError **errp);

/* Deliver events sent so far and write out what clients take within @timeout_ms. */
void monitor_set_flush(MonitorSet *set, int timeout_ms);

#endif
