/*
 * The run state of the VM: who may change it, who is told, and requests from any thread.
 *
 * Everything but the functions marked "any thread" is called on the main loop's thread.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_ACCEL_RUNSTATE_H
#define COWBIRD_ACCEL_RUNSTATE_H

#include <glib.h>
#include <stdbool.h>

#include "qapi/command.h"
#include "qapi/event.h"
#include "qapi/qapi-types.h"

typedef struct RunStateControl RunStateControl;

/* Starts in prelaunch. @events may be NULL; it is not owned. */
RunStateControl *runstate_new(QapiEventSink *events);
void runstate_free(RunStateControl *rs);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(RunStateControl, runstate_free)

/* Any thread. */
RunState runstate_get(const RunStateControl *rs);
bool runstate_is_running(const RunStateControl *rs);

/*
 * How vCPUs are held and let go; set once by the accelerator. pause_all returns when all have
 * stopped.
 */
void runstate_set_vcpu_ops(RunStateControl *rs, void (*pause_all)(void *opaque),
                           void (*resume_all)(void *opaque), void *opaque);

/*
 * Stops the VM with the state @to: vCPUs, then listeners, then the STOP event. When it is stopped
 * already only the state changes, if @to may follow it.
 */
void runstate_stop(RunStateControl *rs, RunState to);

/*
 * The process ends: as runstate_stop(), but nobody outside is told. After it no device does anything of
 * itself.
 */
void runstate_end(RunStateControl *rs);

/*
 * Lets the VM run: listeners, RESUME event, vCPUs. Nothing happens when it runs already. Refused
 * while the state needs something else first (incoming migration, a reset after shutdown or an
 * internal error).
 */
bool runstate_start(RunStateControl *rs, GError **errp);

/*
 * Changes the state of a VM that is not running, as migration does (inmigrate, finish-migrate,
 * postmigrate …). A transition that is not in the table is reported and not made.
 */
void runstate_set(RunStateControl *rs, RunState to);

/*
 * @fn is told after vCPUs stopped and before they run. Stopping goes from high to low priority,
 * starting from low to high: what produces work (devices) stops before what it needs. Returns an
 * id.
 */
guint runstate_add_listener(RunStateControl *rs, int priority,
                            void (*fn)(void *opaque, bool running, RunState state), void *opaque);
void runstate_remove_listener(RunStateControl *rs, guint id);

/* Asked before the VM may run: false with an error refuses (lost memory, a failed memory slot). */
void runstate_set_start_check(RunStateControl *rs, bool (*check)(void *opaque, GError **errp),
                              void *opaque);

/*
 * While @why is set (NULL = no more) the VM is neither started nor reset: its memory is being read. The text
 * is told to who tries; it is not copied.
 */
void runstate_set_busy(RunStateControl *rs, const char *why);
/* False with an error while it is set. */
bool runstate_check_not_busy(const RunStateControl *rs, GError **errp);

/*
 * Who answers the command "stop" once the VM has stopped (it may wait until RAM needs its file no
 * more); without it the answer comes at once.
 */
void runstate_set_stop_reply(RunStateControl *rs, void (*fn)(void *opaque, QapiReply *reply),
                             void *opaque);
void runstate_reply_to_stop(RunStateControl *rs, QapiReply *reply);

/* -no-reboot: a reset, whoever asks, is a shutdown. */
void runstate_set_no_reboot(RunStateControl *rs, bool no_reboot);

/* What the process does on a request; system/ sets it. Called on the main loop.
 * The events RESET, SHUTDOWN and POWERDOWN are sent here, not by the handlers. */
typedef struct RunStateHandlers {
    /* Put every device and vCPU into its reset state; vCPUs are held meanwhile. */
    void (*reset)(void *opaque, ShutdownCause cause);
    void (*shutdown)(void *opaque, ShutdownCause cause); /* end or stay, as -no-shutdown says */
    void (*powerdown)(void *opaque);                     /* press the button */
    void (*panicked)(void *opaque);                      /* pvpanic: report, stop or go on */
} RunStateHandlers;
void runstate_set_handlers(RunStateControl *rs, const RunStateHandlers *handlers, void *opaque);

/*
 * Requests, any thread (a vCPU, a signal watch, QMP): noted at once, carried out on the main
 * loop, the same one twice counts once. A vCPU that asks for reset or shutdown does not enter the
 * guest again before it was carried out.
 */
void runstate_request_reset(RunStateControl *rs, ShutdownCause cause);
void runstate_request_shutdown(RunStateControl *rs, ShutdownCause cause);
void runstate_request_powerdown(RunStateControl *rs);
void runstate_request_panicked(RunStateControl *rs);
/* Stop with this state (io-error, internal-error, guest-panicked, paused). */
void runstate_request_stop(RunStateControl *rs, RunState to);

/* Any thread: a request that stops vCPUs is noted and not carried out yet. */
bool runstate_stop_is_requested(const RunStateControl *rs);

#endif
