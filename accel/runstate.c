/*
 * The run state: transitions, listeners, and requests carried out on the main loop.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "accel/runstate.h"

#include "qapi/command.h"
#include "qapi/qapi-events.h"
#include "util/error.h"
#include "util/log.h"

/* What was asked for and not done yet; bits of pending. */
enum {
    REQUEST_STOP = 1,
    REQUEST_PANICKED = 2,
    REQUEST_POWERDOWN = 4,
    REQUEST_RESET = 8,
    REQUEST_SHUTDOWN = 16,
    /* Those that keep a vCPU from entering the guest. */
    REQUEST_HOLDS_VCPUS = REQUEST_STOP | REQUEST_PANICKED | REQUEST_RESET | REQUEST_SHUTDOWN,
};

typedef struct Listener {
    guint id;
    int priority;
    void (*fn)(void *opaque, bool running, RunState state);
    void *opaque;
} Listener;

struct RunStateControl {
    gint state; /* atomic; written by the main loop */
    QapiEventSink *events;
    void (*pause_all)(void *opaque);
    void (*resume_all)(void *opaque);
    void *vcpu_opaque;
    bool (*start_check)(void *opaque, GError **errp);
    void *start_check_opaque;
    RunStateHandlers handlers;
    void *handlers_opaque;
    GPtrArray *listeners; /* of Listener, highest priority first */
    guint next_id;
    bool no_reboot;
    const char *busy; /* why the VM may not start; NULL = it may */
    void (*stop_reply)(void *opaque, QapiReply *reply);
    void *stop_reply_opaque;

    GSource *source;
    gint pending; /* atomic; REQUEST_ bits */
    GMutex lock;  /* of what the requests carry */
    ShutdownCause reset_cause, shutdown_cause;
    RunState stop_state;
};

#define TO(s) (1u << RUN_STATE_##s)

/* Any state can end in these: errors come when they come, and a reset leads to prelaunch. */
#define ALWAYS \
    (TO(INTERNAL_ERROR) | TO(IO_ERROR) | TO(GUEST_PANICKED) | TO(SHUTDOWN) | TO(PRELAUNCH))

/* From each state (the index) the states that may follow. */
static const unsigned transitions[] = {
    [RUN_STATE_DEBUG] = ALWAYS | TO(RUNNING) | TO(PAUSED) | TO(FINISH_MIGRATE),
    [RUN_STATE_INMIGRATE] = ALWAYS | TO(RUNNING) | TO(PAUSED) | TO(POSTMIGRATE) | TO(SUSPENDED) |
                            TO(WATCHDOG) | TO(FINISH_MIGRATE),
    [RUN_STATE_INTERNAL_ERROR] = ALWAYS | TO(PAUSED) | TO(FINISH_MIGRATE),
    [RUN_STATE_IO_ERROR] = ALWAYS | TO(RUNNING) | TO(PAUSED) | TO(FINISH_MIGRATE),
    [RUN_STATE_PAUSED] = ALWAYS | TO(RUNNING) | TO(FINISH_MIGRATE) | TO(POSTMIGRATE) | TO(SAVE_VM) |
                         TO(RESTORE_VM) | TO(INMIGRATE),
    [RUN_STATE_POSTMIGRATE] = ALWAYS | TO(RUNNING) | TO(PAUSED) | TO(FINISH_MIGRATE),
    [RUN_STATE_PRELAUNCH] = ALWAYS | TO(RUNNING) | TO(PAUSED) | TO(INMIGRATE) | TO(SUSPENDED) |
                            TO(FINISH_MIGRATE) | TO(POSTMIGRATE),
    [RUN_STATE_FINISH_MIGRATE] = ALWAYS | TO(RUNNING) | TO(PAUSED) | TO(POSTMIGRATE) |
                                 TO(SUSPENDED) | TO(WATCHDOG) | TO(DEBUG),
    [RUN_STATE_RESTORE_VM] = ALWAYS | TO(RUNNING) | TO(PAUSED),
    [RUN_STATE_RUNNING] = ALWAYS | TO(DEBUG) | TO(PAUSED) | TO(FINISH_MIGRATE) | TO(SAVE_VM) |
                          TO(RESTORE_VM) | TO(SUSPENDED) | TO(WATCHDOG),
    [RUN_STATE_SAVE_VM] = ALWAYS | TO(RUNNING) | TO(PAUSED),
    [RUN_STATE_SHUTDOWN] = ALWAYS | TO(PAUSED) | TO(FINISH_MIGRATE),
    [RUN_STATE_SUSPENDED] = ALWAYS | TO(RUNNING) | TO(PAUSED) | TO(FINISH_MIGRATE),
    [RUN_STATE_WATCHDOG] = ALWAYS | TO(RUNNING) | TO(PAUSED) | TO(FINISH_MIGRATE),
    [RUN_STATE_GUEST_PANICKED] = ALWAYS | TO(RUNNING) | TO(PAUSED) | TO(FINISH_MIGRATE),
};

RunState runstate_get(const RunStateControl *rs)
{
    return g_atomic_int_get(&rs->state);
}

bool runstate_is_running(const RunStateControl *rs)
{
    return runstate_get(rs) == RUN_STATE_RUNNING;
}

static bool transition_allowed(RunState from, RunState to)
{
    return (unsigned)from < G_N_ELEMENTS(transitions) && (transitions[from] >> to & 1);
}

void runstate_set(RunStateControl *rs, RunState to)
{
    RunState from = runstate_get(rs);

    if (from == to) {
        return;
    }
    if (!transition_allowed(from, to)) {
        error_report("run state: '%s' cannot follow '%s'", run_state_str(to), run_state_str(from));
        return;
    }
    log_printf(LOG_DEVICE, "runstate_set: from=%s to=%s", run_state_str(from), run_state_str(to));
    g_atomic_int_set(&rs->state, to);
}

static void tell_listeners(RunStateControl *rs, bool running, RunState state)
{
    for (guint i = 0; i < rs->listeners->len; i++) {
        guint at = running ? rs->listeners->len - 1 - i : i;
        Listener *l = rs->listeners->pdata[at];

        l->fn(l->opaque, running, state);
    }
}

static void hold_vcpus(RunStateControl *rs)
{
    if (rs->pause_all) {
        rs->pause_all(rs->vcpu_opaque);
    }
}

static bool cause_is_guest(ShutdownCause cause)
{
    return cause >= SHUTDOWN_CAUSE_GUEST_SHUTDOWN;
}

static void carry_out_reset(RunStateControl *rs)
{
    bool running = runstate_is_running(rs);
    ShutdownCause cause;

    g_mutex_lock(&rs->lock);
    cause = rs->reset_cause;
    g_mutex_unlock(&rs->lock);
    if (running) {
        hold_vcpus(rs);
    }
    if (rs->handlers.reset) {
        rs->handlers.reset(rs->handlers_opaque, cause);
    }
    if (cause != SHUTDOWN_CAUSE_SUBSYSTEM_RESET) {
        qapi_event_send_reset(rs->events, cause_is_guest(cause), cause);
    }
    if (!running && runstate_get(rs) != RUN_STATE_INMIGRATE) {
        runstate_set(rs, RUN_STATE_PRELAUNCH);
    }
}

void runstate_stop(RunStateControl *rs, RunState to)
{
    if (!runstate_is_running(rs)) {
        runstate_set(rs, to);
        return;
    }
    hold_vcpus(rs);
    /* A reset that the guest has asked for and not got belongs to the state it stops in. */
    if (g_atomic_int_and((guint *)&rs->pending, ~REQUEST_RESET) & REQUEST_RESET) {
        carry_out_reset(rs);
    }
    runstate_set(rs, to);
    tell_listeners(rs, false, to);
    qapi_event_send_stop(rs->events);
}

void runstate_end(RunStateControl *rs)
{
    if (runstate_is_running(rs)) {
        hold_vcpus(rs);
        runstate_set(rs, RUN_STATE_SHUTDOWN);
        tell_listeners(rs, false, RUN_STATE_SHUTDOWN);
    }
}

static bool may_start(RunStateControl *rs, GError **errp)
{
    RunState state = runstate_get(rs);

    if (!runstate_check_not_busy(rs, errp)) {
        return false;
    }
    switch (state) {
    case RUN_STATE_SHUTDOWN:
    case RUN_STATE_INTERNAL_ERROR:
        error_set(errp, "the VM is in the state '%s': it must be reset (system_reset) first",
                  run_state_str(state));
        return false;
    case RUN_STATE_INMIGRATE:
        error_set(errp, "an incoming migration is not finished yet");
        return false;
    case RUN_STATE_FINISH_MIGRATE:
        error_set(errp, "a migration is being finished: wait for it or use migrate_cancel");
        return false;
    default:
        return !rs->start_check || rs->start_check(rs->start_check_opaque, errp);
    }
}

bool runstate_start(RunStateControl *rs, GError **errp)
{
    if (runstate_is_running(rs)) {
        return true;
    }
    if (!may_start(rs, errp)) {
        return false;
    }
    runstate_set(rs, RUN_STATE_RUNNING);
    qapi_event_send_resume(rs->events);
    tell_listeners(rs, true, RUN_STATE_RUNNING);
    if (rs->resume_all) {
        rs->resume_all(rs->vcpu_opaque);
    }
    return true;
}

/* --- Set-up --- */

void runstate_set_vcpu_ops(RunStateControl *rs, void (*pause_all)(void *opaque),
                           void (*resume_all)(void *opaque), void *opaque)
{
    rs->pause_all = pause_all;
    rs->resume_all = resume_all;
    rs->vcpu_opaque = opaque;
}

void runstate_set_start_check(RunStateControl *rs, bool (*check)(void *opaque, GError **errp),
                              void *opaque)
{
    rs->start_check = check;
    rs->start_check_opaque = opaque;
}

void runstate_set_no_reboot(RunStateControl *rs, bool no_reboot)
{
    rs->no_reboot = no_reboot;
}

void runstate_set_busy(RunStateControl *rs, const char *why)
{
    rs->busy = why;
}

bool runstate_check_not_busy(const RunStateControl *rs, GError **errp)
{
    if (rs->busy) {
        error_set(errp, "%s; wait for its end", rs->busy);
        return false;
    }
    return true;
}

void runstate_set_stop_reply(RunStateControl *rs, void (*fn)(void *opaque, QapiReply *reply),
                             void *opaque)
{
    rs->stop_reply = fn;
    rs->stop_reply_opaque = opaque;
}

void runstate_reply_to_stop(RunStateControl *rs, QapiReply *reply)
{
    if (rs->stop_reply) {
        rs->stop_reply(rs->stop_reply_opaque, reply);
    } else {
        qapi_reply_done(reply, NULL);
    }
}

void runstate_set_handlers(RunStateControl *rs, const RunStateHandlers *handlers, void *opaque)
{
    rs->handlers = *handlers;
    rs->handlers_opaque = opaque;
}

guint runstate_add_listener(RunStateControl *rs, int priority,
                            void (*fn)(void *opaque, bool running, RunState state), void *opaque)
{
    Listener *l = g_new(Listener, 1);
    guint at = 0;

    *l = (Listener){ ++rs->next_id, priority, fn, opaque };
    while (at < rs->listeners->len &&
           ((Listener *)rs->listeners->pdata[at])->priority >= priority) {
        at++;
    }
    g_ptr_array_insert(rs->listeners, at, l);
    return l->id;
}

void runstate_remove_listener(RunStateControl *rs, guint id)
{
    for (guint i = 0; i < rs->listeners->len; i++) {
        if (((Listener *)rs->listeners->pdata[i])->id == id) {
            g_ptr_array_remove_index(rs->listeners, i);
            return;
        }
    }
}

/* --- Requests --- */

static void request(RunStateControl *rs, int bit)
{
    g_atomic_int_or((guint *)&rs->pending, bit);
    g_main_context_wakeup(NULL);
}

void runstate_request_shutdown(RunStateControl *rs, ShutdownCause cause)
{
    g_mutex_lock(&rs->lock);
    rs->shutdown_cause = cause;
    g_mutex_unlock(&rs->lock);
    request(rs, REQUEST_SHUTDOWN);
}

void runstate_request_reset(RunStateControl *rs, ShutdownCause cause)
{
    if (rs->no_reboot && cause != SHUTDOWN_CAUSE_SUBSYSTEM_RESET) {
        runstate_request_shutdown(rs, cause);
        return;
    }
    g_mutex_lock(&rs->lock);
    rs->reset_cause = cause;
    g_mutex_unlock(&rs->lock);
    request(rs, REQUEST_RESET);
}

void runstate_request_powerdown(RunStateControl *rs)
{
    request(rs, REQUEST_POWERDOWN);
}

void runstate_request_panicked(RunStateControl *rs)
{
    request(rs, REQUEST_PANICKED);
}

void runstate_request_stop(RunStateControl *rs, RunState to)
{
    g_mutex_lock(&rs->lock);
    rs->stop_state = to;
    g_mutex_unlock(&rs->lock);
    request(rs, REQUEST_STOP);
}

bool runstate_stop_is_requested(const RunStateControl *rs)
{
    return g_atomic_int_get(&rs->pending) & REQUEST_HOLDS_VCPUS;
}

static void carry_out_shutdown(RunStateControl *rs, ShutdownCause cause)
{
    if (runstate_is_running(rs)) {
        hold_vcpus(rs);
    }
    qapi_event_send_shutdown(rs->events, cause_is_guest(cause), cause);
    if (rs->handlers.shutdown) {
        rs->handlers.shutdown(rs->handlers_opaque, cause);
    }
}

/* What @pending asks for, the most urgent first. */
static void carry_out(RunStateControl *rs, int pending)
{
    ShutdownCause shutdown_cause;
    RunState stop_state;

    g_mutex_lock(&rs->lock);
    shutdown_cause = rs->shutdown_cause;
    stop_state = rs->stop_state;
    g_mutex_unlock(&rs->lock);

    if (pending & REQUEST_STOP) {
        runstate_stop(rs, stop_state);
    }
    if ((pending & REQUEST_PANICKED) && rs->handlers.panicked) {
        rs->handlers.panicked(rs->handlers_opaque);
    }
    if (pending & REQUEST_SHUTDOWN) {
        carry_out_shutdown(rs, shutdown_cause);
    }
    if (pending & REQUEST_RESET) {
        carry_out_reset(rs);
    }
    if (pending & REQUEST_POWERDOWN) {
        qapi_event_send_powerdown(rs->events);
        if (rs->handlers.powerdown) {
            rs->handlers.powerdown(rs->handlers_opaque);
        }
    }
}

typedef struct RequestSource {
    GSource source;
    RunStateControl *rs;
} RequestSource;

static gboolean source_ready(GSource *source)
{
    return g_atomic_int_get(&((RequestSource *)source)->rs->pending) != 0;
}

static gboolean source_prepare(GSource *source, gint *timeout)
{
    *timeout = -1;
    return source_ready(source);
}

/*
 * The bits are cleared first, so that a request that comes meanwhile is not lost. No vCPU gets
 * away by that: the caller holds the big lock, and what stops vCPUs marks them as held before it
 * lets go of it.
 */
static gboolean source_dispatch(GSource *source, GSourceFunc callback, gpointer user_data)
{
    RunStateControl *rs = ((RequestSource *)source)->rs;
    int pending = g_atomic_int_and((guint *)&rs->pending, 0);

    carry_out(rs, pending);
    /* vCPUs that held still because of the request look again; after a shutdown they stay. */
    if (!(pending & REQUEST_SHUTDOWN) && runstate_is_running(rs) && rs->resume_all) {
        rs->resume_all(rs->vcpu_opaque);
    }
    return G_SOURCE_CONTINUE;
}

static GSourceFuncs request_source_funcs = {
    .prepare = source_prepare,
    .check = source_ready,
    .dispatch = source_dispatch,
};

RunStateControl *runstate_new(QapiEventSink *events)
{
    RunStateControl *rs = g_new0(RunStateControl, 1);

    rs->state = RUN_STATE_PRELAUNCH;
    rs->events = events;
    rs->listeners = g_ptr_array_new_with_free_func(g_free);
    g_mutex_init(&rs->lock);
    rs->source = g_source_new(&request_source_funcs, sizeof(RequestSource));
    ((RequestSource *)rs->source)->rs = rs;
    g_source_set_name(rs->source, "run state requests");
    g_source_set_priority(rs->source, G_PRIORITY_HIGH);
    g_source_attach(rs->source, NULL);
    return rs;
}

void runstate_free(RunStateControl *rs)
{
    if (!rs) {
        return;
    }
    g_source_destroy(rs->source);
    g_source_unref(rs->source);
    g_ptr_array_unref(rs->listeners);
    g_mutex_clear(&rs->lock);
    g_free(rs);
}
