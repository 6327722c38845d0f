/*
 * cowbird-system-x86_64: from the command line to a running virtual machine, and to its end.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "system/daemon.h"
#include "system/help.h"
#include "system/main-loop.h"
#include "system/settings.h"
#include "system/startup.h"
#include "system/state.h"
#include "util/error.h"
#include "util/log.h"

#include <signal.h>
#include <stdlib.h>

/* Others may connect and read the pid file as soon as this has returned. */
static bool go_live(SystemState *state, GError **errp)
{
    const char *pidfile = state->options->pidfile;

    return (!pidfile || daemon_write_pidfile(state->daemon, pidfile, errp)) &&
           main_loop_watch_signals(state, errp) && daemon_ready(state->daemon, errp);
}

static bool run(SystemState *state, GError **errp)
{
    state->daemon = daemon_start(state->options->daemonize, errp);
    if (!state->daemon || !startup_build(state, errp) || !go_live(state, errp)) {
        return false;
    }
    main_loop_run(state);
    return true;
}

int main(int argc, char **argv)
{
    SystemState state = { .exit_status = EXIT_SUCCESS };
    g_autoptr(GError) err = NULL;
    gint64 entry = g_get_monotonic_time();

    g_set_prgname("cowbird-system-x86_64");
    if (help_show(argv, system_types)) {
        return EXIT_SUCCESS;
    }
    signal(SIGPIPE, SIG_IGN);
    state.options = system_options_parse(argv, &err);
    if (!state.options || !settings_apply(state.options, &err)) {
        error_report("%s", err->message);
        system_options_free(state.options);
        return EXIT_FAILURE;
    }
    log_printf(LOG_STARTUP, "main was entered %" G_GINT64_FORMAT " us ago",
               g_get_monotonic_time() - entry);
    if (!run(&state, &err)) {
        error_report("%s", err->message);
        state.exit_status = EXIT_FAILURE;
    }
    startup_undo(&state);
    daemon_free(state.daemon);
    system_options_free(state.options);
    return state.exit_status;
}
