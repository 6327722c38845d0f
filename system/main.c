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
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define LAST_WORDS_US (200 * 1000)
#define READ_TO_WRITTEN_US (5 * 1000)

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

/*
 * libvirt reads our last words in a log when it sees us end, and another daemon takes them there from a pipe: what is
 * in it is read first, if its reader is not too slow.
 */
static void wait_until_read(int fd)
{
    gint64 end = g_get_monotonic_time() + LAST_WORDS_US;
    struct stat st;
    int unread;

    if (fstat(fd, &st) < 0 || !S_ISFIFO(st.st_mode)) {
        return;
    }
    while (ioctl(fd, FIONREAD, &unread) == 0 && unread > 0 && g_get_monotonic_time() < end) {
        g_usleep(1000);
    }
    g_usleep(READ_TO_WRITTEN_US);
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
    /* A reader that leaves and a file that may not grow are errors of write(2), not the end of the process. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    state.options = system_options_parse(argv, &err);
    if (!state.options || !settings_apply(state.options, &err)) {
        error_report("%s", err->message);
        system_options_free(state.options);
        wait_until_read(STDERR_FILENO);
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
    if (state.exit_status != EXIT_SUCCESS) {
        wait_until_read(STDERR_FILENO);
    }
    return state.exit_status;
}
