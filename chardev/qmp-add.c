/*
 * chardev-add and chardev-remove: the nested options of QMP become those of -chardev.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "chardev/chardev.h"
#include "qapi/qapi-commands.h"
#include "util/error.h"
#include "util/json.h"

#include <string.h>

static void copy_members(json_object *into, json_object *from)
{
    json_object_object_foreach(from, key, value)
    {
        json_object_object_add(into, key, json_object_get(value));
    }
}

static void rename_member(json_object *options, const char *from, const char *to)
{
    json_object *value;

    if (json_object_object_get_ex(options, from, &value)) {
        json_object_object_add(options, to, json_object_get(value));
        json_object_object_del(options, from);
    }
}

/* {"type": "unix", "data": {"path": P}}: the members of data say where; those of "fd" call the descriptor "str". */
static bool flatten_address(json_object *options, GError **errp)
{
    json_object *address, *data;

    if (!json_object_object_get_ex(options, "addr", &address)) {
        return true;
    }
    if (!json_object_is_type(address, json_type_object) ||
        !json_object_object_get_ex(address, "data", &data) ||
        !json_object_is_type(data, json_type_object)) {
        error_set(errp, "'addr' must be an object with 'type' and an object 'data', not %s",
                  json_object_to_json_string(address));
        return false;
    }
    copy_members(options, data);
    rename_member(options, "str", "fd");
    json_object_object_del(options, "addr");
    return true;
}

static bool is_true(json_object *options, const char *name, bool by_default)
{
    json_object *value;

    return json_object_object_get_ex(options, name, &value) ? json_object_get_boolean(value)
                                                            : by_default;
}

/* Listening unless told otherwise, and never waiting: the main loop answers for all the others. */
static bool settle_socket(json_object *options, GError **errp)
{
    bool server = is_true(options, "server", true);

    if (server && is_true(options, "wait", false)) {
        error_set(errp, "'wait' must be false: the VMM does not stand still for a client");
        return false;
    }
    json_object_object_del(options, "wait");
    json_object_object_add(options, "server", json_object_new_boolean(server));
    if (server) {
        json_object_object_add(options, "wait", json_object_new_boolean(false));
    }
    return flatten_address(options, errp);
}

static json_object *flatten(const ChardevAddArg *arg, GError **errp)
{
    g_autoptr(json_object) options = json_object_new_object();
    g_autoptr(json_object) backend = qapi_to_json(&qapi_type_ChardevBackend, arg->backend);
    ChardevBackendKind kind = arg->backend->type;

    copy_members(options, json_object_object_get(backend, "data"));
    if (kind == CHARDEV_BACKEND_KIND_FILE) {
        rename_member(options, "out", "path");
    } else if (kind == CHARDEV_BACKEND_KIND_PIPE) {
        rename_member(options, "device", "path");
    } else if (kind == CHARDEV_BACKEND_KIND_SOCKET && !settle_socket(options, errp)) {
        return NULL;
    }
    json_add_str(options, "backend", chardev_backend_kind_str(kind));
    json_add_str(options, "id", arg->id);
    return g_steal_pointer(&options);
}

ChardevReturn *qmp_chardev_add(ChardevRegistry *registry, const ChardevAddArg *arg, GError **errp)
{
    g_autoptr(json_object) options = flatten(arg, errp);
    Chardev *chr = options ? chardev_new(registry, options, errp) : NULL;
    g_autofree char *filename = NULL;
    ChardevReturn *result;

    if (!chr) {
        g_prefix_error(errp, "chardev-add '%s': ", arg->id);
        return NULL;
    }
    result = g_new0(ChardevReturn, 1);
    filename = chardev_filename(chr);
    if (g_str_has_prefix(filename, "pty:")) {
        result->pty = g_strdup(filename + strlen("pty:"));
    }
    return result;
}

bool qmp_chardev_remove(ChardevRegistry *registry, const ChardevRemoveArg *arg, GError **errp)
{
    return chardev_remove(registry, arg->id, errp);
}
