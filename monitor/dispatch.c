/*
 * From a message to its reply: the rules of QMP's request object, negotiation, deferred replies.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "monitor/internal.h"

#include <string.h>

#include "util/error.h"
#include "util/json.h"
#include "util/suggest.h"

/* A request object taken apart; everything is borrowed from it. */
typedef struct Request {
    const char *name;
    json_object *arguments; /* NULL: none */
    bool has_id;
    json_object *id;
} Request;

static json_object *with_id(json_object *reply, bool has_id, json_object *id)
{
    if (has_id) {
        json_object_object_add(reply, "id", json_object_get(id));
    }
    return reply;
}

json_object *dispatch_error(GError *error, bool has_id, json_object *id)
{
    json_object *reply = json_object_new_object();
    json_object *body = json_object_new_object();
    g_autofree char *text = g_utf8_make_valid(error->message, -1);

    json_add_str(body, "class", error_class_name(error));
    json_add_str(body, "desc", text);
    json_object_object_add(reply, "error", body);
    g_error_free(error);
    return with_id(reply, has_id, id);
}

/* { "return": ... } with @ret (taken; NULL: an empty object). */
static json_object *success(json_object *ret, bool has_id, json_object *id)
{
    json_object *reply = json_object_new_object();

    json_object_object_add(reply, "return", ret ? ret : json_object_new_object());
    return with_id(reply, has_id, id);
}

static bool read_execute(json_object *value, Request *request, GError **errp)
{
    if (!json_is_text(value)) {
        error_set(errp, "QMP input member 'execute' must be a string%s",
                  json_object_is_type(value, json_type_string) ? " without NUL" : "");
        return false;
    }
    request->name = json_object_get_string(value);
    return true;
}

static bool read_member(const char *key, json_object *value, Request *request, GError **errp)
{
    if (strcmp(key, "execute") == 0) {
        return read_execute(value, request, errp);
    }
    if (strcmp(key, "arguments") == 0) {
        request->arguments = value;
        if (!json_object_is_type(value, json_type_object)) {
            error_set(errp, "QMP input member 'arguments' must be an object");
            return false;
        }
        return true;
    }
    if (strcmp(key, "id") != 0) {
        error_set(errp, "QMP input member '%s' is unexpected", key);
        return false;
    }
    return true;
}

static bool read_request(json_object *message, Request *request, GError **errp)
{
    request->has_id = json_object_object_get_ex(message, "id", &request->id);
    json_object_object_foreach(message, key, value)
    {
        if (!read_member(key, value, request, errp)) {
            return false;
        }
    }
    if (!request->name) {
        error_set(errp, "QMP input lacks member 'execute'");
        return false;
    }
    return true;
}

static bool not_found(const QapiCommandTable *table, const char *name, GError **errp)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new();

    for (unsigned i = 0; i < table->n_commands; i++) {
        g_ptr_array_add(names, (void *)table->commands[i].name);
    }
    g_ptr_array_add(names, NULL);
    g_autofree char *hint = suggest_nearest(name, (const char *const *)names->pdata);

    error_set_class(errp, COWBIRD_ERROR_COMMAND_NOT_FOUND, "The command %s has not been found%s%s",
                    name, hint ? "; " : "", hint ? hint : "");
    return false;
}

static bool find_command(MonitorSession *session, const char *name, const QapiCommand **ret_command,
                         GError **errp)
{
    const QapiCommandTable *table = session->set->env.commands;
    bool negotiates = strcmp(name, "qmp_capabilities") == 0;

    if (!session->negotiated && !negotiates) {
        error_set_class(errp, COWBIRD_ERROR_COMMAND_NOT_FOUND,
                        "Expecting capabilities negotiation with 'qmp_capabilities'");
        return false;
    }
    if (session->negotiated && negotiates) {
        error_set_class(errp, COWBIRD_ERROR_COMMAND_NOT_FOUND,
                        "Capabilities negotiation is already complete, command ignored");
        return false;
    }
    *ret_command = qapi_command_find(table, name);
    return *ret_command || not_found(table, name, errp);
}

/* ---- Deferred replies ---- */

typedef struct Deferred {
    MonitorSession *session;
    uint64_t client;
    bool has_id;
    json_object *id;
} Deferred;

static void deferred_free(Deferred *deferred)
{
    session_unref(deferred->session);
    json_object_put(deferred->id);
    g_free(deferred);
}

static void on_deferred(void *opaque, json_object *ret, GError *error)
{
    Deferred *deferred = opaque;
    MonitorSession *session = deferred->session;
    json_object *reply = error ? dispatch_error(error, deferred->has_id, deferred->id)
                               : success(ret, deferred->has_id, deferred->id);

    if (session->set && session->client == deferred->client) {
        session->busy = false;
        events_deliver(session->set);
        session_send(session, reply);
        session_resume(session);
    } else {
        json_object_put(reply);
    }
    deferred_free(deferred);
}

static bool run_deferred(MonitorSession *session, const QapiCommand *command,
                         const QapiContexts *contexts, const Request *request, GError **errp)
{
    Deferred *deferred = g_new0(Deferred, 1);
    QapiReply *reply = qapi_reply_new(on_deferred, deferred);

    deferred->session = session_ref(session);
    deferred->client = session->client;
    deferred->has_id = request->has_id;
    deferred->id = json_object_get(request->id);
    session->busy = true;
    if (qapi_command_invoke_deferred(command, contexts, request->arguments, reply, errp)) {
        return true;
    }
    session->busy = false;
    qapi_reply_drop(reply);
    deferred_free(deferred);
    return false;
}

/* ---- Dispatch ---- */

/* True: *@ret is the result, or *@ret_later says that the reply has come or will come by itself. */
static bool run_request(MonitorSession *session, json_object *message, Request *request,
                        json_object **ret, bool *ret_later, GError **errp)
{
    const QapiCommand *command;

    if (!read_request(message, request, errp) ||
        !find_command(session, request->name, &command, errp)) {
        return false;
    }
    QapiContexts contexts = *session->set->env.contexts;

    contexts.ctx[QAPI_CONTEXT_MONITOR_SESSION] = session;
    *ret_later = command->deferred;
    if (command->deferred) {
        return run_deferred(session, command, &contexts, request, errp);
    }
    return qapi_command_invoke(command, &contexts, request->arguments, ret, errp);
}

void dispatch_message(MonitorSession *session, json_object *message)
{
    Request request = { 0 };
    json_object *ret = NULL;
    bool later = false;
    GError *error = NULL;
    json_object *reply;

    if (run_request(session, message, &request, &ret, &later, &error)) {
        if (later) {
            return;
        }
        reply = success(ret, request.has_id, request.id);
    } else {
        reply = dispatch_error(error, request.has_id, request.id);
    }
    events_deliver(session->set);
    session_send(session, reply);
}
