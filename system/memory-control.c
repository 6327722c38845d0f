/*
 * What memory/ may do to the running guest: hold its vCPUs, and tell that its memory changed or is lost.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "system/memory-control.h"

#include "qapi/qapi-events.h"
#include "system/state.h"
#include "util/error.h"

static void hold_vcpus(void *opaque)
{
    SystemState *state = opaque;

    if (state->accel) {
        accel_pause(state->accel);
    }
}

static void release_vcpus(void *opaque)
{
    SystemState *state = opaque;

    if (state->accel) {
        accel_resume(state->accel);
    }
}

static bool guest_runs(void *opaque)
{
    SystemState *state = opaque;

    return runstate_is_running(state->runstate);
}

static void memory_lost(void *opaque, const char *reason, RamBlock *block, uint64_t offset,
                        const char *file)
{
    SystemState *state = opaque;
    MemoryFailureFlags flags = { .action_required = true, .recursive = false };

    error_report("guest RAM is lost: block '%s', offset 0x%" PRIx64 ", file '%s': %s", block->name,
                 offset, file ? file : "unknown", reason);
    runstate_stop(state->runstate, RUN_STATE_IO_ERROR);
    qapi_event_send_memory_failure(state->events, MEMORY_FAILURE_RECIPIENT_HYPERVISOR,
                                   MEMORY_FAILURE_ACTION_FATAL, &flags);
    qapi_event_send_ram_lost(state->events, block->name, offset, file, reason);
}

/* Nothing is lost yet, but would be as soon as the file changes: the guest stops before that. */
static void no_memory_to_detach(void *opaque, const char *reason, const char *file)
{
    SystemState *state = opaque;
    MemoryFailureFlags flags = { .action_required = false, .recursive = false };

    error_report("guest RAM cannot be detached from '%s': %s", file, reason);
    runstate_stop(state->runstate, RUN_STATE_IO_ERROR);
    qapi_event_send_memory_failure(state->events, MEMORY_FAILURE_RECIPIENT_HYPERVISOR,
                                   MEMORY_FAILURE_ACTION_FATAL, &flags);
}

static void base_detached(void *opaque, const char *file, const char *reason, bool reflink,
                          uint64_t bytes_copied)
{
    SystemState *state = opaque;
    RamDetachReason why;

    if (!ram_detach_reason_parse(reason, &why, NULL)) {
        why = RAM_DETACH_REASON_REQUESTED;
    }
    info_report("guest RAM no longer depends on '%s' (%s, %" PRIu64 " bytes copied)", file, reason,
                bytes_copied);
    qapi_event_send_ram_base_detached(state->events, file, why, reflink);
}

static void stop_may_be_answered(void *opaque, const GError *error)
{
    QapiReply *reply = opaque;

    if (error) {
        qapi_reply_error(reply, g_error_copy(error));
    } else {
        qapi_reply_done(reply, NULL);
    }
}

/* Whoever asked may truncate the file that the guest was restored from as soon as it has the answer. */
static void answer_stop(void *opaque, QapiReply *reply)
{
    SystemState *state = opaque;

    ram_list_finish_drain(state->ram, stop_may_be_answered, reply);
}

void memory_control_init(SystemState *state)
{
    state->memory_control = (MemoryControl){
        .pause = hold_vcpus,
        .resume = release_vcpus,
        .runs = guest_runs,
        .lost = memory_lost,
        .no_memory = no_memory_to_detach,
        .detached = base_detached,
        .opaque = state,
    };
    runstate_set_stop_reply(state->runstate, answer_stop, state);
}
