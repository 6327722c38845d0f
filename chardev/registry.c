/*
 * The chardevs of the process, by id, and the table of their types.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "chardev/backend.h"

#include <string.h>

#include "qapi/visit.h"
#include "util/error.h"
#include "util/suggest.h"

struct ChardevRegistry {
    Object *container; /* its children are the chardevs */
    FdStore *fds;      /* not owned */
};

const QomType chardev_types[] = {
    { "chardev", chardev_get_type, NULL },
    { "chardev-null", chardev_null_get_type, NULL },
    { "chardev-stdio", chardev_stdio_get_type, NULL },
    { "chardev-file", chardev_file_get_type, NULL },
    { "chardev-pty", chardev_pty_get_type, NULL },
    { "chardev-socket", chardev_socket_get_type, NULL },
    { "chardev-pipe", chardev_pipe_get_type, NULL },
    { "chardev-ringbuf", chardev_ringbuf_get_type, NULL },
    { NULL, NULL, NULL },
};

static GType type_of(ChardevBackendKind kind)
{
    g_autofree char *name = g_strconcat("chardev-", chardev_backend_kind_str(kind), NULL);
    const QomType *line = chardev_types;

    while (strcmp(line->name, name) != 0) {
        line++;
    }
    return line->get_type();
}

ChardevRegistry *chardev_registry_new(FdStore *fds)
{
    ChardevRegistry *registry = g_new0(ChardevRegistry, 1);

    registry->container = object_new(TYPE_CONTAINER, NULL);
    registry->fds = fds;
    return registry;
}

static guint chardev_count(ChardevRegistry *registry)
{
    return registry->container->children ? registry->container->children->len : 0;
}

static Chardev *chardev_at(ChardevRegistry *registry, guint i)
{
    return registry->container->children->pdata[i];
}

void chardev_registry_outlive(ChardevRegistry *registry)
{
    for (unsigned i = 0; i < chardev_count(registry); i++) {
        Chardev *chr = chardev_at(registry, i);

        if (CHARDEV_GET_CLASS(chr)->outlive) {
            CHARDEV_GET_CLASS(chr)->outlive(chr);
        }
    }
}

void chardev_registry_free(ChardevRegistry *registry)
{
    if (!registry) {
        return;
    }
    while (chardev_count(registry) > 0) {
        Chardev *chr = chardev_at(registry, chardev_count(registry) - 1);

        chardev_close(chr);
        object_unparent(OBJECT(chr));
    }
    object_unparent(registry->container);
    g_object_unref(registry->container);
    g_free(registry);
}

Object *chardev_registry_container(ChardevRegistry *registry)
{
    return registry->container;
}

Chardev *chardev_open(ChardevRegistry *registry, const ChardevOptions *options, GError **errp)
{
    g_autoptr(Object) obj = object_new(type_of(options->backend), registry->container);

    if (!object_add_child(registry->container, options->id, obj, errp)) {
        g_prefix_error(errp, "-chardev: ");
        return NULL;
    }
    if (!chardev_start(CHARDEV(obj), options, registry->fds, errp)) {
        chardev_close(CHARDEV(obj));
        object_unparent(obj);
        return NULL;
    }
    return CHARDEV(obj);
}

Chardev *chardev_new(ChardevRegistry *registry, json_object *options, GError **errp)
{
    g_autoptr(ChardevOptions) opts = qapi_from_keyval(&qapi_type_ChardevOptions, options, errp);

    return opts ? chardev_open(registry, opts, errp) : NULL;
}

Chardev *chardev_find(ChardevRegistry *registry, const char *id)
{
    return (Chardev *)object_get_child(registry->container, id);
}

Chardev *chardev_get(ChardevRegistry *registry, const char *id, GError **errp)
{
    g_autoptr(GPtrArray) ids = g_ptr_array_new();
    g_autofree char *hint = NULL;
    Chardev *chr = chardev_find(registry, id);

    if (chr) {
        return chr;
    }
    for (guint i = 0; i < chardev_count(registry); i++) {
        g_ptr_array_add(ids, (char *)chardev_id(chardev_at(registry, i)));
    }
    g_ptr_array_add(ids, NULL);
    hint = suggest_nearest(id, (const char *const *)ids->pdata);
    error_set_class(errp, COWBIRD_ERROR_DEVICE_NOT_FOUND, "Chardev '%s' not found%s%s", id,
                    hint ? ": " : "", hint ?: "");
    return NULL;
}

bool chardev_remove(ChardevRegistry *registry, const char *id, GError **errp)
{
    Chardev *chr = chardev_get(registry, id, errp);

    if (!chr) {
        return false;
    }
    if (chr->frontend_open) {
        error_set(errp, "Chardev '%s' is in use by a device or monitor", id);
        return false;
    }
    chardev_close(chr);
    object_unparent(OBJECT(chr));
    return true;
}

void chardev_foreach(ChardevRegistry *registry, ChardevFunc fn, void *user)
{
    for (guint i = 0; i < chardev_count(registry); i++) {
        fn(user, chardev_at(registry, i));
    }
}
