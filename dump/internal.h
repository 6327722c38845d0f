/*
 * What the files of dump/ share: the state behind the commands, and how a dump is begun.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_DUMP_INTERNAL_H
#define COWBIRD_DUMP_INTERNAL_H

#include "dump/dump.h"
#include "dump/format.h"
#include "qapi/command.h"
#include "qapi/qapi-types.h"

typedef struct DumpJob DumpJob;

struct DumpState {
    DumpEnv env;
    Accel *accel; /* NULL: no CPUs */
    DumpJob *job; /* NULL: none is being written */
    DumpStatus status;
    uint64_t completed; /* atomic; bytes of guest memory dealt with */
    uint64_t total;
};

typedef bool (*DumpWriteFunc)(DumpOutput *out, const DumpContents *contents, GError **errp);

typedef struct DumpRequest {
    const char *protocol;
    uint64_t begin, length; /* length 0 = all memory */
    DumpWriteFunc write;
} DumpRequest;

/*
 * Stops the guest and starts the thread that writes. @reply is answered when the dump has ended; NULL = nobody waits. False with
 * an error: nothing has changed, and @reply still belongs to the caller.
 */
bool dump_begin(DumpState *s, const DumpRequest *request, QapiReply *reply, GError **errp);

DumpQueryResult dump_result(const DumpState *s);

#endif
