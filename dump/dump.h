/*
 * Dumps of the guest's memory for debuggers: dump-guest-memory and what is asked about it.
 *
 * A file here each: dump.c (one dump from the command to its end), memory-map.c (what lies where, and where its bytes are
 * read), output.c (the file or pipe), notes.c (registers), elf.c and kdump.c (the two formats), qmp.c.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_DUMP_DUMP_H
#define COWBIRD_DUMP_DUMP_H

#include "accel/accel.h"
#include "util/fds.h"

typedef struct DumpState DumpState;

/* What the rest of the machine is told; all on the main loop. */
typedef struct DumpHooks {
    /* A dump begins: false with an error when guest memory is being saved or loaded. Else it stays put until the end. */
    bool (*begin)(void *opaque, GError **errp);
    void (*end)(void *opaque);
    void *opaque;
} DumpHooks;

/* Nothing is owned; everything outlives the state. */
typedef struct DumpEnv {
    RunStateControl *runstate;
    QapiEventSink *events; /* NULL: events are dropped */
    RamList *ram;
    AddressMap *memory;
    FdStore *fds;
    DumpHooks hooks;
} DumpEnv;

/* @env is copied. */
DumpState *dump_new(const DumpEnv *env);
/* Where registers come from; until it is called, and with NULL, a machine has no CPUs to dump. */
void dump_set_accel(DumpState *s, Accel *accel);
/* Gives up what runs and waits for its thread. NULL is allowed. */
void dump_free(DumpState *s);

#endif
