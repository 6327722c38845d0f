/*
 * Commands: how handlers look and how they are reached.
 *
 * WRITING A HANDLER. The schema says what exists; qapi/qapi-commands.h (generated) declares one
 * function for each command, called qmp_ and the name with '-' turned into '_'. Write it beside
 * what it commands, include "qapi/qapi-commands.h", and the linker finds it. The forms:
 *
 *   no result:            bool qmp_cont(RunStateControl *ctx, GError **errp);
 *   with arguments:       bool qmp_migrate(MigrationState *ctx, const MigrateArg *arg, GError **errp);
 *   result:               StatusInfo *qmp_query_status(RunStateControl *ctx, GError **errp);
 *                         an owned struct, GPtrArray *, char * or json_object *; NULL is an error
 *   'deferred': true      bool qmp_stop(RunStateControl *ctx, QapiReply *reply, GError **errp);
 *                         true: the handler has called, or will call once, qapi_reply_done or
 *                         qapi_reply_error (on the main loop); false: an error, reply untouched
 *   'gen': false          json_object *qmp_x(Ctx *ctx, json_object *args, GError **errp)
 *
 * ctx is the context named by the schema file's pragma: an opaque `typedef struct X X`. Handlers
 * run on the main loop with nothing held but what the main loop holds.
 *
 * WHO GIVES THE CONTEXTS. system/ fills a QapiContexts:
 *
 *   context            schema                         struct is defined by, handlers are in
 *   RunStateControl    run-state.json                 accel/runstate.h; accel/ (quit, system_*: too)
 *   Machine            machine.json                   hw/core/machine.h; hw/ or system/
 *   SystemState        options.json (query-name,      system/
 *                      query-command-line-options)
 *   QomTree            qom.json (device-list-         qom/: struct QomTree { Object *root; the type
 *                      properties too)                table ... }; qom/qmp.c
 *   ChardevRegistry    char.json                      chardev/; chardev/qmp.c
 *   MigrationState     migration.json, ram.json       migration/; migration/qmp.c
 *   MonitorSession     control.json, misc.json        monitor/ sets it itself for each command
 *
 * DEFERRED are: stop, query-migrate, ram-detach. A handler that is ready at once calls
 * qapi_reply_done(reply, NULL) or qapi_reply_done(reply, qapi_to_json(&qapi_type_MigrationInfo, info)).
 *
 * TYPES. "qapi/qapi-types.h": enums `RUN_STATE_PAUSED`, `run_state_str(v)`, `run_state_parse(text,
 * &v, errp)`; structs, `qapi_type_Foo` tables, `qapi_free_Foo`, g_autoptr(Foo). A command with
 * arguments written in place has them in `struct <CommandInCamelCase>Arg`. C keywords and `unix`,
 * `linux` get a `q_` in front. Lists of structs or strings: GPtrArray; of scalars or enums: GArray.
 *
 * LINKING. Types, tables, events and visitors are in libqapi. The command table refers to every
 * handler, so meson's `qapi_commands_src` is compiled into cowbird-system-x86_64 alone; unit tests
 * link qapi_dep without any handler.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef QAPI_COMMAND_H
#define QAPI_COMMAND_H

#include "qapi/type.h"

#define QAPI_MAX_CONTEXTS 16

/* The objects commands work on, by QAPI_CONTEXT_... of qapi-commands.h; NULL: not there. */
typedef struct QapiContexts {
    void *ctx[QAPI_MAX_CONTEXTS];
} QapiContexts;

/* Where the answer of a deferred command goes. */
typedef struct QapiReply QapiReply;
typedef void (*QapiReplyFn)(void *opaque, json_object *ret, GError *error);

/* @fn is called once with an owned result (NULL: none) or an owned error. */
QapiReply *qapi_reply_new(QapiReplyFn fn, void *opaque);

/* Answer with @ret (taken; NULL: the command has no result) and free @reply. */
void qapi_reply_done(QapiReply *reply, json_object *ret);

/* Answer with @error (taken) and free @reply. */
void qapi_reply_error(QapiReply *reply, GError *error);

/* Free @reply without an answer, for whoever made it when the handler has refused. */
void qapi_reply_drop(QapiReply *reply);

/* What a thunk is given and gives back. */
typedef struct QapiCall {
    void *ctx;
    void *arg;        /* of the arg_type; the JSON arguments with gen:false; NULL if it has none */
    QapiReply *reply; /* deferred commands */
    void *ret_value;  /* out: of the ret_type; JSON with gen:false */
} QapiCall;

typedef struct QapiCommand {
    const char *name;
    const QapiType *arg_type; /* NULL: takes none */
    const QapiType *ret_type; /* NULL: gives none */
    unsigned context;
    bool deferred;
    bool raw; /* gen:false */
    bool (*invoke)(QapiCall *call, GError **errp);
} QapiCommand;

/* All commands, sorted by name. */
typedef struct QapiCommandTable {
    const QapiCommand *commands;
    unsigned n_commands;
} QapiCommandTable;

/* The command called @name, or NULL. */
const QapiCommand *qapi_command_find(const QapiCommandTable *table, const char *name);

/*
 * Run a command that is not deferred with @args (NULL: none). Sets *@ret_value to a new reference,
 * NULL if it gives no result.
 */
bool qapi_command_invoke(const QapiCommand *command, const QapiContexts *contexts,
                         json_object *args, json_object **ret_value, GError **errp);

/*
 * Run a deferred command. True: @reply is or will be answered. False: an error, and @reply still
 * belongs to the caller.
 */
bool qapi_command_invoke_deferred(const QapiCommand *command, const QapiContexts *contexts,
                                  json_object *args, QapiReply *reply, GError **errp);

/* The answer to query-qmp-schema, a new reference. */
json_object *qapi_schema_introspect(void);

#endif
