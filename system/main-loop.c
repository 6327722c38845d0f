/*
 * The main loop: GLib's, with the big lock released while it sleeps, and the signals that end the process.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "system/main-loop.h"

#include "system/state.h"
#include "util/error.h"

#include <errno.h>
#include <glib-unix.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* A poll function and a signal handler get no argument: this is where they find what they need. */
static Accel *lock_owner;
static int signal_fd = -1;
static volatile sig_atomic_t signal_number;
static volatile sig_atomic_t signal_sender;

static gint poll_without_lock(GPollFD *fds, guint n, gint timeout)
{
    gint ready;

    accel_unlock(lock_owner);
    ready = g_poll(fds, n, timeout);
    accel_lock(lock_owner);
    return ready;
}

void main_loop_share_lock(SystemState *state)
{
    if (state->accel) {
        lock_owner = state->accel;
        g_main_context_set_poll_func(NULL, poll_without_lock);
    }
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    int saved = errno;
    uint64_t one = 1;

    signal_number = number;
    signal_sender = info->si_code <= 0 ? info->si_pid : 0;
    /* Fails only when the counter is full, and then the loop is awake already. */
    if (write(signal_fd, &one, sizeof(one)) < 0) {
        signal_number = number;
    }
    errno = saved;
}

static gboolean signal_arrived(gint fd, GIOCondition condition, gpointer opaque)
{
    SystemState *state = opaque;
    uint64_t count;

    if (read(fd, &count, sizeof(count)) == sizeof(count)) {
        info_report("terminating on signal %d from pid %d", (int)signal_number, (int)signal_sender);
        runstate_request_shutdown(state->runstate, SHUTDOWN_CAUSE_HOST_SIGNAL);
    }
    return G_SOURCE_CONTINUE;
}

bool main_loop_watch_signals(SystemState *state, GError **errp)
{
    static const int numbers[] = { SIGTERM, SIGINT, SIGHUP };
    struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART };

    signal_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (signal_fd < 0) {
        error_set_errno(errp, errno, "cannot create an eventfd for signals");
        return false;
    }
    g_unix_fd_add_full(G_PRIORITY_HIGH, signal_fd, G_IO_IN, signal_arrived, state, NULL);
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < G_N_ELEMENTS(numbers); i++) {
        sigaction(numbers[i], &action, NULL);
    }
    return true;
}

void main_loop_run(SystemState *state)
{
    while (!state->quit) {
        g_main_context_iteration(NULL, TRUE);
    }
}
