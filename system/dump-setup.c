/*
 * Dumps of guest memory and migrations keep out of each other's way.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "system/dump-setup.h"

#include "system/state.h"
#include "util/error.h"

static bool begin(void *opaque, GError **errp)
{
    SystemState *state = opaque;

    if (migration_incoming_pending(state->migration)) {
        error_set(errp, "the guest is waiting for an incoming migration: there is nothing to dump");
        return false;
    }
    if (migration_is_saving(state->migration)) {
        error_set(errp, "a migration is running; wait for its end or use migrate_cancel");
        return false;
    }
    migration_add_blocker(state->migration, state->dump,
                          "a dump of the guest's memory is being written");
    return true;
}

static void end(void *opaque)
{
    SystemState *state = opaque;

    migration_remove_blocker(state->migration, state->dump);
}

DumpState *dump_setup(SystemState *state)
{
    DumpEnv env = {
        .runstate = state->runstate,
        .events = state->events,
        .ram = state->ram,
        .memory = state->memory,
        .fds = state->fds,
        .hooks = { .begin = begin, .end = end, .opaque = state },
    };

    return dump_new(&env);
}
