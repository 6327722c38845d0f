/*
 * What follows a reset, a shutdown, the power button and a guest's panic.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "system/lifecycle.h"

#include "qapi/qapi-commands.h"
#include "qapi/qapi-events.h"
#include "system/state.h"
#include "util/error.h"

void lifecycle_quit(SystemState *state, int status)
{
    state->quit = true;
    state->exit_status = MAX(state->exit_status, status);
}

/* Devices, images and boot registers first: the accelerator then takes the vCPUs to what was set. */
static void on_reset(void *opaque, ShutdownCause cause)
{
    SystemState *state = opaque;
    g_autoptr(GError) err = NULL;

    reset_run(state->resets);
    if (state->accel && !accel_reset(state->accel, &err)) {
        error_report("reset: %s", err->message);
        runstate_request_stop(state->runstate, RUN_STATE_INTERNAL_ERROR);
    }
}

/* Who asks from outside wants the process to end, whatever -no-shutdown says. */
static bool must_end(ShutdownCause cause)
{
    return cause == SHUTDOWN_CAUSE_HOST_QMP_QUIT || cause == SHUTDOWN_CAUSE_HOST_SIGNAL ||
           cause == SHUTDOWN_CAUSE_HOST_ERROR;
}

static void on_shutdown(void *opaque, ShutdownCause cause)
{
    SystemState *state = opaque;

    if (state->machine->exit_requested) {
        lifecycle_quit(state, state->machine->exit_status);
        return;
    }
    if (!must_end(cause) && state->shutdown_action == SHUTDOWN_ACTION_PAUSE) {
        runstate_stop(state->runstate, RUN_STATE_SHUTDOWN);
        return;
    }
    lifecycle_quit(state, cause == SHUTDOWN_CAUSE_HOST_ERROR ? EXIT_FAILURE : EXIT_SUCCESS);
}

static void on_powerdown(void *opaque)
{
    SystemState *state = opaque;

    irq_pulse(&state->machine->power_button);
}

static void on_panicked(void *opaque)
{
    SystemState *state = opaque;
    PanicAction action = state->panic_action;

    if (action == PANIC_ACTION_SHUTDOWN && state->shutdown_action == SHUTDOWN_ACTION_PAUSE) {
        action = PANIC_ACTION_PAUSE;
    }
    switch (action) {
    case PANIC_ACTION__MAX:
    case PANIC_ACTION_NONE:
        qapi_event_send_guest_panicked(state->events, GUEST_PANIC_ACTION_RUN);
        break;
    case PANIC_ACTION_PAUSE:
        qapi_event_send_guest_panicked(state->events, GUEST_PANIC_ACTION_PAUSE);
        runstate_stop(state->runstate, RUN_STATE_GUEST_PANICKED);
        break;
    case PANIC_ACTION_EXIT_FAILURE:
        state->exit_status = EXIT_FAILURE;
        /* fall through */
    case PANIC_ACTION_SHUTDOWN:
        qapi_event_send_guest_panicked(state->events, GUEST_PANIC_ACTION_POWEROFF);
        runstate_stop(state->runstate, RUN_STATE_GUEST_PANICKED);
        runstate_request_shutdown(state->runstate, SHUTDOWN_CAUSE_GUEST_PANIC);
        break;
    }
}

static const RunStateHandlers handlers = {
    .reset = on_reset,
    .shutdown = on_shutdown,
    .powerdown = on_powerdown,
    .panicked = on_panicked,
};

static void take_actions(SystemState *state, const ActionOptions *a)
{
    if (a->has_reboot) {
        state->reboot_action = a->reboot;
    }
    if (a->has_shutdown) {
        state->shutdown_action = a->shutdown;
    }
    if (a->has_panic) {
        state->panic_action = a->panic;
    }
    runstate_set_no_reboot(state->runstate, state->reboot_action == REBOOT_ACTION_SHUTDOWN);
}

bool qmp_set_action(SystemState *state, const ActionOptions *arg, GError **errp)
{
    take_actions(state, arg);
    return true;
}

void lifecycle_init(SystemState *state)
{
    static const ActionOptions nothing;
    const SystemOptions *o = state->options;

    state->reboot_action = o->no_reboot ? REBOOT_ACTION_SHUTDOWN : REBOOT_ACTION_RESET;
    state->shutdown_action = o->no_shutdown ? SHUTDOWN_ACTION_PAUSE : SHUTDOWN_ACTION_POWEROFF;
    state->panic_action = PANIC_ACTION_SHUTDOWN;
    take_actions(state, o->action ? o->action : &nothing);
    runstate_set_handlers(state->runstate, &handlers, state);
}
