/*
 * What the parts of the monitor share.
 *
 *   monitor.c   the set          session.c   one monitor: its client, input, output
 *   events.c    event queue      dispatch.c  a message in, its reply out
 *   framer.c    bytes to JSON    qmp-*.c     the monitor's own commands
 *   human.c     commands in words     human-info.c, human-action.c   what these are
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MONITOR_INTERNAL_H
#define COWBIRD_MONITOR_INTERNAL_H

#include "monitor/byte-queue.h"
#include "monitor/framer.h"
#include "monitor/monitor.h"
#include "qapi/qapi-commands.h"

/* A message may be this long and this deep, as in QEMU. */
#define MONITOR_MAX_MESSAGE (64u << 20)
#define MONITOR_MAX_DEPTH 1024

struct MonitorSet {
    MonitorEnv env;
    GPtrArray *sessions;
    QapiEventSink sink;
    GThread *main_thread;
    GMutex lock; /* over events and events_source */
    GQueue events;
    GSource *events_source; /* NULL while nothing is scheduled */
    GPtrArray *limits;      /* of EventLimit *, see events.c; main loop only */
};

struct MonitorSession {
    unsigned refs;
    MonitorSet *set; /* NULL once the set has been freed */
    Chardev *chardev;
    bool pretty;
    bool open;       /* a client is there */
    bool negotiated; /* it has left capabilities negotiation */
    bool busy;       /* a deferred reply is owed to it */
    bool processing; /* process_input is on the stack */
    uint64_t client; /* changes with each client */
    JsonFramer *framer;
    ByteQueue in;       /* received, not yet looked at */
    ByteQueue out;      /* not yet taken by the chardev */
    guint drop_source;  /* the client will be dropped: it does not read */
    guint input_source; /* the rest of the input will be looked at */
};

/* session.c */
MonitorSession *session_new(MonitorSet *set, Chardev *chardev, bool pretty);
bool session_start(MonitorSession *session, GError **errp);
void session_stop(MonitorSession *session);
MonitorSession *session_ref(MonitorSession *session);
void session_unref(MonitorSession *session);
/* Send @message (taken) to the client, if there is one. */
void session_send(MonitorSession *session, json_object *message);
/* The deferred reply has been sent or dropped: go on with the input. */
void session_resume(MonitorSession *session);
void session_flush(MonitorSession *session, int timeout_ms);

/* dispatch.c */
/* Handle one message (borrowed). */
void dispatch_message(MonitorSession *session, json_object *message);
/* { "error": ... } from @error (taken) with @id (borrowed, has_id false: none). */
json_object *dispatch_error(GError *error, bool has_id, json_object *id);

/* events.c */
void events_init(MonitorSet *set);
void events_clear(MonitorSet *set);
/* Deliver what other threads have sent so far. */
void events_deliver(MonitorSet *set);

/* qmp-control.c */
/* The version as query-version and the greeting give it, a new reference. */
json_object *monitor_version(void);

/* human.c; the tables end with a NULL name, their opaque is the MonitorSet */
extern const MonitorHumanCommand human_action_commands[], human_info_commands[];
/* "" when the QMP command, a literal, has been carried out without arguments; NULL with an error. */
char *human_run_command(MonitorSet *set, const char *name, const char *args, GError **errp);
/* NULL: there is none, with an error. */
const QapiCommand *human_find_command(const MonitorSet *set, const char *name, GError **errp);
char *human_run(MonitorSet *set, const char *line, bool has_cpu_index, int64_t cpu_index,
                GError **errp);

#endif
