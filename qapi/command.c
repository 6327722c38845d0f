/*
 * Runs commands: arguments from JSON, the handler, its result to JSON.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qapi/command.h"

#include "qapi/introspect.h"
#include "qapi/visit.h"
#include "util/error.h"
#include "util/json.h"

struct QapiReply {
    QapiReplyFn fn;
    void *opaque;
};

QapiReply *qapi_reply_new(QapiReplyFn fn, void *opaque)
{
    QapiReply *reply = g_new0(QapiReply, 1);

    reply->fn = fn;
    reply->opaque = opaque;
    return reply;
}

void qapi_reply_done(QapiReply *reply, json_object *ret)
{
    reply->fn(reply->opaque, ret, NULL);
    g_free(reply);
}

void qapi_reply_error(QapiReply *reply, GError *error)
{
    reply->fn(reply->opaque, NULL, error);
    g_free(reply);
}

void qapi_reply_drop(QapiReply *reply)
{
    g_free(reply);
}

static int compare_name(const void *name, const void *command)
{
    return strcmp(name, ((const QapiCommand *)command)->name);
}

const QapiCommand *qapi_command_find(const QapiCommandTable *table, const char *name)
{
    return bsearch(name, table->commands, table->n_commands, sizeof(QapiCommand), compare_name);
}

/* Fill in @call but for the reply; finish_call ends what this has made. */
static bool prepare_call(const QapiCommand *command, const QapiContexts *contexts,
                         json_object *args, QapiCall *call, GError **errp)
{
    call->ctx = contexts->ctx[command->context];
    if (!call->ctx) {
        error_set(errp, "The command %s has nothing to work on in this process", command->name);
        return false;
    }
    if (command->raw) {
        call->arg = args;
        return true;
    }
    g_autoptr(json_object) none = json_object_new_object();
    const QapiType *type = command->arg_type ? command->arg_type : &qapi_type_none;

    call->arg = qapi_from_json(type, args ? args : none, errp);
    return call->arg != NULL;
}

static void finish_call(const QapiCommand *command, QapiCall *call)
{
    if (!command->raw) {
        qapi_free(command->arg_type ? command->arg_type : &qapi_type_none, call->arg);
    }
}

bool qapi_command_invoke(const QapiCommand *command, const QapiContexts *contexts,
                         json_object *args, json_object **ret_value, GError **errp)
{
    QapiCall call = { 0 };

    g_return_val_if_fail(!command->deferred, false);
    if (!prepare_call(command, contexts, args, &call, errp)) {
        return false;
    }
    bool ok = command->invoke(&call, errp);
    finish_call(command, &call);
    if (!ok) {
        return false;
    }
    if (command->raw || !command->ret_type) {
        *ret_value = call.ret_value;
        return true;
    }
    *ret_value = qapi_to_json(command->ret_type, call.ret_value);
    qapi_free(command->ret_type, call.ret_value);
    return true;
}

bool qapi_command_invoke_deferred(const QapiCommand *command, const QapiContexts *contexts,
                                  json_object *args, QapiReply *reply, GError **errp)
{
    QapiCall call = { .reply = reply };

    g_return_val_if_fail(command->deferred, false);
    if (!prepare_call(command, contexts, args, &call, errp)) {
        return false;
    }
    bool ok = command->invoke(&call, errp);
    finish_call(command, &call);
    return ok;
}

json_object *qapi_schema_introspect(void)
{
    return json_tokener_parse(qapi_schema_text);
}
