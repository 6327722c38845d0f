/*
 * What migration needs of the machine while it saves and loads.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "system/restore-hooks.h"

#include "hw/misc/vmgenid.h"
#include "system/lifecycle.h"
#include "system/state.h"
#include "util/error.h"
#include "util/log.h"

#define TIME_TO_ASK_MS 300

static bool cpu_digest(void *opaque, uint8_t ret_digest[MIGRATION_CPU_DIGEST_LEN], GError **errp)
{
    SystemState *state = opaque;

    memset(ret_digest, 0, MIGRATION_CPU_DIGEST_LEN);
    if (state->accel) {
        G_STATIC_ASSERT(sizeof(CpuDigest) == MIGRATION_CPU_DIGEST_LEN);
        memcpy(ret_digest, accel_cpuid_digest(state->accel), sizeof(CpuDigest));
    }
    return true;
}

/* Registers are read into our memory now: no vCPU ioctl may come between the scan and the end of the copy. */
static bool quiesce(void *opaque, GError **errp)
{
    SystemState *state = opaque;

    return !state->accel || accel_fetch_state(state->accel, errp);
}

/* A guest that runs from an older state again is told. */
static bool after_load(void *opaque, GError **errp)
{
    return vmgenid_after_load(((SystemState *)opaque)->machine, errp);
}

static gboolean on_told(void *opaque)
{
    lifecycle_quit(opaque, EXIT_FAILURE);
    return G_SOURCE_REMOVE;
}

/* Who asked by QMP asks for the reason when it sees the event, and gets it if we are still there. */
static void fail(SystemState *state)
{
    const char *incoming = state->options->incoming;

    if (incoming && strcmp(incoming, "defer") == 0) {
        g_timeout_add(TIME_TO_ASK_MS, on_told, state);
    } else {
        lifecycle_quit(state, EXIT_FAILURE);
    }
}

static void incoming_done(void *opaque, const GError *err, bool exit_wanted)
{
    SystemState *state = opaque;

    if (!err) {
        log_printf(LOG_STARTUP, "state loaded, guest %s",
                   runstate_is_running(state->runstate) ? "runs" : "waits");
    } else if (exit_wanted) {
        fail(state);
    }
}

MigrationHooks restore_hooks(SystemState *state)
{
    return (MigrationHooks){
        .quiesce = quiesce,
        .cpu_digest = cpu_digest,
        .after_load = after_load,
        .incoming_done = incoming_done,
        .opaque = state,
    };
}
