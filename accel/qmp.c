/*
 * The commands of run-state.json: query-status, stop, cont, system_reset, system_powerdown, quit.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "accel/runstate.h"
#include "qapi/qapi-commands.h"
#include "util/error.h"

StatusInfo *qmp_query_status(RunStateControl *rs, GError **errp)
{
    StatusInfo *info = g_new0(StatusInfo, 1);

    info->running = runstate_is_running(rs);
    info->status = runstate_get(rs);
    return info;
}

bool qmp_stop(RunStateControl *rs, QapiReply *reply, GError **errp)
{
    /* In save-vm the VM would run on by itself when its memory has been read. */
    if (runstate_is_running(rs) || runstate_get(rs) == RUN_STATE_SAVE_VM) {
        runstate_stop(rs, RUN_STATE_PAUSED);
    }
    runstate_reply_to_stop(rs, reply);
    return true;
}

bool qmp_cont(RunStateControl *rs, GError **errp)
{
    return runstate_start(rs, errp);
}

bool qmp_system_reset(RunStateControl *rs, GError **errp)
{
    RunState state = runstate_get(rs);

    if (!runstate_check_not_busy(rs, errp)) {
        return false;
    }
    /* A reset writes guest RAM, which is being read or filled. */
    if (state == RUN_STATE_INMIGRATE || state == RUN_STATE_FINISH_MIGRATE ||
        state == RUN_STATE_SAVE_VM || state == RUN_STATE_RESTORE_VM) {
        error_set(errp, "the VM cannot be reset in the state '%s'; wait until it has ended",
                  run_state_str(state));
        return false;
    }
    runstate_request_reset(rs, SHUTDOWN_CAUSE_HOST_QMP_SYSTEM_RESET);
    return true;
}

bool qmp_system_powerdown(RunStateControl *rs, GError **errp)
{
    runstate_request_powerdown(rs);
    return true;
}

bool qmp_quit(RunStateControl *rs, GError **errp)
{
    runstate_request_shutdown(rs, SHUTDOWN_CAUSE_HOST_QMP_QUIT);
    return true;
}
