/*
 * The parts of the process, and who makes them.
 *
 *   main.c           order of start and end         startup.c       order in which a machine is built
 *   options.c        the command line               settings.c      what it says about the process itself
 *   main-loop.c      events, the big lock, signals  lifecycle.c     reset, shutdown, power button, panic
 *   objects.c        -object                        guest-ram.c     the main RAM block
 *   machine-setup.c  -machine, -smp, -rtc, ...      memory-control.c  what memory/ may do to the guest
 *   daemon.c         -daemonize, -pidfile           monitors.c      -qmp, -mon and words for people
 *   qtest.c          -qtest                         qtest-commands.c  its protocol
 *   sandbox.c        -sandbox                      dump-setup.c     dumps and migrations one after the other
 *   dirty-rate.c     how fast the guest writes      qmp-*.c         QMP commands that are nobody else's
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_SYSTEM_STATE_H
#define COWBIRD_SYSTEM_STATE_H

#include "accel/accel.h"
#include "dump/dump.h"
#include "hw/core/machine.h"
#include "memory/base-guard.h"
#include "migration/migration.h"
#include "monitor/monitor.h"
#include "qapi/command.h"
#include "qom/qmp.h"
#include "system/options.h"

typedef struct SystemState SystemState;
typedef struct Daemon Daemon;
typedef struct DirtyRate DirtyRate;
typedef struct QtestServer QtestServer;

struct SystemState {
    SystemOptions *options;
    Daemon *daemon;

    QomTree tree;
    FdStore *fds;
    ChardevRegistry *chardevs;
    MonitorSet *monitors;
    QapiEventSink *events;
    QapiContexts contexts;

    AddressMap *memory, *io;
    RamList *ram;
    VMStateRegistry *vmstate;
    ResetList *resets;
    RunStateControl *runstate;
    Accel *accel; /* NULL with -machine none */
    Machine *machine;
    char *cpu_model;
    CpuConfig cpu;
    MemoryControl memory_control;
    MigrationState *migration;
    DumpState *dump;
    QtestServer *qtest;    /* NULL without -qtest */
    DirtyRate *dirty_rate; /* NULL until calc-dirty-rate */

    RebootAction reboot_action;
    ShutdownAction shutdown_action;
    PanicAction panic_action;

    bool quit; /* the main loop ends */
    int exit_status;
};

#endif
