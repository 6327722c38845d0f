/*
 * The tree of objects: names, children, paths.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qom/property.h"

#include "util/error.h"

#include <string.h>

QOM_DEFINE_ABSTRACT_TYPE(Object, object, "object", G_TYPE_OBJECT)
QOM_DEFINE_TYPE(Container, container, "container", TYPE_OBJECT)

static void object_constructed(GObject *gobj)
{
    qom_set_defaults(OBJECT(gobj));
    G_OBJECT_CLASS(object_parent_class)->constructed(gobj);
}

static void object_dispose(GObject *gobj)
{
    Object *obj = OBJECT(gobj);

    while (obj->children && obj->children->len > 0) {
        object_unparent(g_ptr_array_index(obj->children, obj->children->len - 1));
    }
    qom_release_values(obj);
    G_OBJECT_CLASS(object_parent_class)->dispose(gobj);
}

static void object_finalize(GObject *gobj)
{
    Object *obj = OBJECT(gobj);

    g_free(obj->name);
    if (obj->children) {
        g_ptr_array_unref(obj->children);
    }
    G_OBJECT_CLASS(object_parent_class)->finalize(gobj);
}

static void object_init(Object *obj)
{
}

static void object_class_init(ObjectClass *klass)
{
    GObjectClass *gclass = G_OBJECT_CLASS(klass);

    gclass->constructed = object_constructed;
    gclass->dispose = object_dispose;
    gclass->finalize = object_finalize;
}

static void container_init(Container *container)
{
}

static void container_class_init(ContainerClass *klass)
{
}

static void set_root(Object *obj, Object *root)
{
    obj->root = root;
    for (guint i = 0; obj->children && i < obj->children->len; i++) {
        set_root(g_ptr_array_index(obj->children, i), root);
    }
}

Object *object_new(GType type, Object *root)
{
    Object *obj = OBJECT(g_object_new(type, NULL));

    set_root(obj, root);
    return obj;
}

static void add_child(Object *parent, char *owned_name, Object *child)
{
    g_assert(!child->parent);
    if (!parent->children) {
        parent->children = g_ptr_array_new();
    }
    child->name = owned_name;
    child->parent = parent;
    child->root = parent->root ? parent->root : parent;
    g_ptr_array_add(parent->children, g_object_ref(child));
}

bool object_add_child(Object *parent, const char *name, Object *child, GError **errp)
{
    if (!*name || strchr(name, '/')) {
        error_set(errp, "'%s' cannot be the name of an object: it is empty or contains '/'", name);
        return false;
    }
    if (object_get_child(parent, name)) {
        g_autofree char *path = object_path(parent);

        error_set(errp, "The id '%s' is already in use (%s/%s)", name, path, name);
        return false;
    }
    add_child(parent, g_strdup(name), child);
    return true;
}

void object_add_child_numbered(Object *parent, const char *prefix, Object *child)
{
    unsigned n = parent->children ? parent->children->len : 0;
    g_autofree char *name = g_strdup_printf("%s[%u]", prefix, n);

    /* Children that left make room below their count, never above the names in use. */
    while (object_get_child(parent, name)) {
        g_free(name);
        name = g_strdup_printf("%s[%u]", prefix, ++n);
    }
    add_child(parent, g_steal_pointer(&name), child);
}

Object *object_get_container(Object *parent, const char *name)
{
    Object *obj = object_get_child(parent, name);

    if (!obj) {
        obj = object_new(TYPE_CONTAINER, NULL);
        add_child(parent, g_strdup(name), obj);
        g_object_unref(obj);
    }
    return obj;
}

void object_unparent(Object *obj)
{
    Object *parent = obj->parent;

    if (parent) {
        obj->parent = NULL;
        g_clear_pointer(&obj->name, g_free);
        g_ptr_array_remove(parent->children, obj);
        g_object_unref(obj);
    }
}

Object *object_get_child(Object *parent, const char *name)
{
    for (guint i = 0; parent->children && i < parent->children->len; i++) {
        Object *child = g_ptr_array_index(parent->children, i);

        if (g_str_equal(child->name, name)) {
            return child;
        }
    }
    return NULL;
}

char *object_path(Object *obj)
{
    GString *path = g_string_new(NULL);

    for (; obj->parent; obj = obj->parent) {
        g_string_prepend(path, obj->name);
        g_string_prepend_c(path, '/');
    }
    if (path->len == 0) {
        g_string_append_c(path, '/');
    }
    return g_string_free(path, FALSE);
}

Object *object_resolve(Object *root, const char *path)
{
    g_auto(GStrv) names = g_strsplit(path, "/", -1);
    Object *obj = root;

    if (path[0] != '/') {
        return NULL;
    }
    for (char **name = names; *name && obj; name++) {
        if (**name) {
            obj = object_get_child(obj, *name);
        }
    }
    return obj;
}

static Object *find_named(Object *obj, const char *name, GType type)
{
    for (guint i = 0; obj->children && i < obj->children->len; i++) {
        Object *child = g_ptr_array_index(obj->children, i);
        Object *found;

        if (g_str_equal(child->name, name) && g_type_is_a(G_OBJECT_TYPE(child), type)) {
            return child;
        }
        found = find_named(child, name, type);
        if (found) {
            return found;
        }
    }
    return NULL;
}

Object *object_find(Object *root, const char *name_or_path, GType type)
{
    Object *obj;

    if (name_or_path[0] != '/') {
        return find_named(root, name_or_path, type);
    }
    obj = object_resolve(root, name_or_path);
    return obj && g_type_is_a(G_OBJECT_TYPE(obj), type) ? obj : NULL;
}

const char *object_type_name(Object *obj)
{
    return qom_type_name(G_OBJECT_TYPE(obj));
}

bool object_is_a(Object *obj, const char *type_name)
{
    return qom_type_is_a(G_OBJECT_TYPE(obj), type_name);
}

bool object_complete(Object *obj, GError **errp)
{
    ObjectClass *klass = OBJECT_GET_CLASS(obj);

    if (klass->complete && !klass->complete(obj, errp)) {
        return false;
    }
    obj->completed = true;
    return true;
}
