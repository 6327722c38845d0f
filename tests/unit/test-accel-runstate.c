/*
 * Tests of the run state: transitions, listeners, events, requests from other threads.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <glib.h>
#include <string.h>

#include "accel/runstate.h"
#include "util/error.h"

/* Everything that happens is written down, one word each. */
typedef struct Fixture {
    GString *log;
    QapiEventSink sink;
    RunStateControl *rs;
    bool refuse_start;
    bool stop_at_shutdown;
} Fixture;

static void note(Fixture *f, const char *word)
{
    g_string_append_printf(f->log, "%s%s", f->log->len ? " " : "", word);
}

static void send_event(void *opaque, const char *name, json_object *data)
{
    Fixture *f = opaque;
    json_object *reason = data ? json_object_object_get(data, "reason") : NULL;

    note(f, name);
    if (reason) {
        note(f, json_object_get_string(reason));
        note(f, json_object_get_string(json_object_object_get(data, "guest")));
    }
    json_object_put(data);
}

static void on_pause(void *opaque)
{
    note(opaque, "pause");
}

static void on_resume(void *opaque)
{
    note(opaque, "resume");
}

static void on_reset(void *opaque, ShutdownCause cause)
{
    note(opaque, "reset");
}

static void on_shutdown(void *opaque, ShutdownCause cause)
{
    Fixture *f = opaque;

    note(f, "shutdown");
    if (f->stop_at_shutdown) {
        runstate_stop(f->rs, RUN_STATE_SHUTDOWN);
    }
}

static void on_powerdown(void *opaque)
{
    note(opaque, "button");
}

static void on_panicked(void *opaque)
{
    note(opaque, "panicked");
}

static bool on_check(void *opaque, GError **errp)
{
    if (((Fixture *)opaque)->refuse_start) {
        error_set(errp, "not now");
        return false;
    }
    return true;
}

static void listen_high(void *opaque, bool running, RunState state)
{
    note(opaque, running ? "high+" : "high-");
}

static void listen_low(void *opaque, bool running, RunState state)
{
    note(opaque, running ? "low+" : "low-");
}

static void set_up(Fixture *f, gconstpointer data)
{
    static const RunStateHandlers handlers = { on_reset, on_shutdown, on_powerdown, on_panicked };

    f->log = g_string_new("");
    f->sink = (QapiEventSink){ send_event, f };
    f->rs = runstate_new(&f->sink);
    runstate_set_vcpu_ops(f->rs, on_pause, on_resume, f);
    runstate_set_handlers(f->rs, &handlers, f);
    runstate_set_start_check(f->rs, on_check, f);
}

static void tear_down(Fixture *f, gconstpointer data)
{
    runstate_free(f->rs);
    g_string_free(f->log, TRUE);
}

static void expect(Fixture *f, const char *log)
{
    g_assert_cmpstr(f->log->str, ==, log);
    g_string_truncate(f->log, 0);
}

static void run_loop(void)
{
    while (g_main_context_iteration(NULL, FALSE)) {
    }
}

static void start(Fixture *f)
{
    g_assert_true(runstate_start(f->rs, NULL));
    g_string_truncate(f->log, 0);
}

static void test_start_stop(Fixture *f, gconstpointer data)
{
    g_assert_cmpint(runstate_get(f->rs), ==, RUN_STATE_PRELAUNCH);
    guint low = runstate_add_listener(f->rs, -5, listen_low, f);

    runstate_add_listener(f->rs, 5, listen_high, f);
    g_assert_true(runstate_start(f->rs, NULL));
    expect(f, "RESUME low+ high+ resume");
    g_assert_true(runstate_is_running(f->rs));
    g_assert_true(runstate_start(f->rs, NULL));
    expect(f, "");
    runstate_stop(f->rs, RUN_STATE_PAUSED);
    expect(f, "pause high- low- STOP");
    runstate_stop(f->rs, RUN_STATE_PAUSED);
    expect(f, "");
    runstate_remove_listener(f->rs, low);
    g_assert_true(runstate_start(f->rs, NULL));
    expect(f, "RESUME high+ resume");
}

static void test_transitions(Fixture *f, gconstpointer data)
{
    g_autoptr(GError) err = NULL;

    start(f);
    runstate_stop(f->rs, RUN_STATE_FINISH_MIGRATE);
    g_assert_false(runstate_start(f->rs, &err));
    g_assert_nonnull(strstr(err->message, "migration"));
    g_clear_error(&err);
    runstate_set(f->rs, RUN_STATE_POSTMIGRATE);
    runstate_set(f->rs, RUN_STATE_SAVE_VM); /* not in the table: reported, not made */
    g_assert_cmpint(runstate_get(f->rs), ==, RUN_STATE_POSTMIGRATE);
    start(f);
    runstate_stop(f->rs, RUN_STATE_INTERNAL_ERROR);
    g_assert_false(runstate_start(f->rs, &err));
    g_assert_nonnull(strstr(err->message, "reset"));
    g_clear_error(&err);
    runstate_request_reset(f->rs, SHUTDOWN_CAUSE_HOST_QMP_SYSTEM_RESET);
    run_loop();
    g_assert_cmpint(runstate_get(f->rs), ==, RUN_STATE_PRELAUNCH);
    runstate_set(f->rs, RUN_STATE_INMIGRATE);
    g_assert_false(runstate_start(f->rs, &err));
    g_assert_nonnull(strstr(err->message, "incoming"));
    g_clear_error(&err);
    runstate_set(f->rs, RUN_STATE_PAUSED);
    f->refuse_start = true;
    g_assert_false(runstate_start(f->rs, &err));
    g_assert_cmpstr(err->message, ==, "not now");
}

static void test_reset(Fixture *f, gconstpointer data)
{
    runstate_request_reset(f->rs, SHUTDOWN_CAUSE_HOST_QMP_SYSTEM_RESET);
    expect(f, "");
    run_loop();
    expect(f, "reset RESET host-qmp-system-reset false");
    start(f);
    runstate_request_reset(f->rs, SHUTDOWN_CAUSE_GUEST_RESET);
    runstate_request_reset(f->rs, SHUTDOWN_CAUSE_GUEST_RESET);
    g_assert_true(runstate_stop_is_requested(f->rs));
    run_loop();
    expect(f, "pause reset RESET guest-reset true resume");
    g_assert_false(runstate_stop_is_requested(f->rs));
    g_assert_true(runstate_is_running(f->rs));
}

/* The guest asks for a reset, and somebody stops it first: it stops after the reset. */
static void test_reset_then_stop(Fixture *f, gconstpointer data)
{
    start(f);
    runstate_request_reset(f->rs, SHUTDOWN_CAUSE_GUEST_RESET);
    runstate_stop(f->rs, RUN_STATE_FINISH_MIGRATE);
    expect(f, "pause pause reset RESET guest-reset true STOP");
    run_loop();
    expect(f, "");
    g_assert_cmpint(runstate_get(f->rs), ==, RUN_STATE_FINISH_MIGRATE);
}

static void test_no_reboot(Fixture *f, gconstpointer data)
{
    runstate_set_no_reboot(f->rs, true);
    start(f);
    runstate_request_reset(f->rs, SHUTDOWN_CAUSE_GUEST_RESET);
    run_loop();
    expect(f, "pause SHUTDOWN guest-reset true shutdown");
    runstate_request_reset(f->rs, SHUTDOWN_CAUSE_SUBSYSTEM_RESET);
    run_loop();
    expect(f, "pause reset resume");
}

static void test_shutdown(Fixture *f, gconstpointer data)
{
    g_autoptr(GError) err = NULL;

    f->stop_at_shutdown = true;
    start(f);
    runstate_request_shutdown(f->rs, SHUTDOWN_CAUSE_GUEST_SHUTDOWN);
    run_loop();
    expect(f, "pause SHUTDOWN guest-shutdown true shutdown pause STOP");
    g_assert_cmpint(runstate_get(f->rs), ==, RUN_STATE_SHUTDOWN);
    g_assert_false(runstate_start(f->rs, &err));
}

static void test_others(Fixture *f, gconstpointer data)
{
    start(f);
    runstate_request_powerdown(f->rs);
    g_assert_false(runstate_stop_is_requested(f->rs));
    run_loop();
    expect(f, "POWERDOWN button resume");
    runstate_request_panicked(f->rs);
    run_loop();
    expect(f, "panicked resume");
    runstate_request_stop(f->rs, RUN_STATE_IO_ERROR);
    g_assert_true(runstate_stop_is_requested(f->rs));
    run_loop();
    expect(f, "pause STOP");
    g_assert_cmpint(runstate_get(f->rs), ==, RUN_STATE_IO_ERROR);
}

static gpointer ask_for_stop(gpointer opaque)
{
    g_usleep(50000);
    runstate_request_stop(((Fixture *)opaque)->rs, RUN_STATE_PAUSED);
    return NULL;
}

/* A request from another thread wakes the main loop. */
static void test_thread(Fixture *f, gconstpointer data)
{
    GThread *t;

    start(f);
    t = g_thread_new("asker", ask_for_stop, f);
    while (runstate_is_running(f->rs)) {
        g_main_context_iteration(NULL, TRUE);
    }
    g_thread_join(t);
    expect(f, "pause STOP");
}

#define ADD(name, fn) g_test_add("/accel/runstate/" name, Fixture, NULL, set_up, fn, tear_down)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("start-stop", test_start_stop);
    ADD("transitions", test_transitions);
    ADD("reset", test_reset);
    ADD("reset-then-stop", test_reset_then_stop);
    ADD("no-reboot", test_no_reboot);
    ADD("shutdown", test_shutdown);
    ADD("others", test_others);
    ADD("thread", test_thread);
    return g_test_run();
}
