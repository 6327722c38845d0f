/*
 * QMP commands that list, read and set objects, types and their properties.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qom/qmp.h"

#include "qapi/qapi-commands.h"
#include "util/error.h"

static Object *find_object(QomTree *tree, const char *path, GError **errp)
{
    Object *obj = object_find(tree->root, path, TYPE_OBJECT);

    if (!obj) {
        error_set_class(errp, COWBIRD_ERROR_DEVICE_NOT_FOUND, "Device '%s' not found", path);
    }
    return obj;
}

static void add_info(GPtrArray *list, const char *name, char *owned_type, const char *description)
{
    ObjectPropertyInfo *info = g_new0(ObjectPropertyInfo, 1);

    info->name = g_strdup(name);
    info->type = owned_type;
    info->description = g_strdup(description);
    g_ptr_array_add(list, info);
}

/* All properties of a class, inherited ones first. */
static GPtrArray *list_class(gpointer klass, bool with_default)
{
    g_autoptr(GPtrArray) props = qom_class_list_properties(klass);
    GPtrArray *list = g_ptr_array_new();

    for (guint i = 0; i < props->len; i++) {
        const QomProperty *prop = g_ptr_array_index(props, i);

        add_info(list, prop->name, qom_property_type_name(prop), prop->description);
        if (with_default) {
            ObjectPropertyInfo *info = g_ptr_array_index(list, list->len - 1);

            info->default_value = qom_property_default_json(prop);
        }
    }
    return list;
}

GPtrArray *qmp_qom_list(QomTree *tree, const QomListArg *arg, GError **errp)
{
    Object *obj = find_object(tree, arg->path, errp);
    GPtrArray *list;

    if (!obj) {
        return NULL;
    }
    list = list_class(G_OBJECT_GET_CLASS(obj), false);
    add_info(list, "type", g_strdup("string"), NULL);
    for (guint i = 0; obj->children && i < obj->children->len; i++) {
        Object *child = g_ptr_array_index(obj->children, i);

        add_info(list, child->name, g_strdup_printf("child<%s>", object_type_name(child)), NULL);
    }
    return list;
}

json_object *qmp_qom_get(QomTree *tree, const QomGetArg *arg, GError **errp)
{
    Object *obj = find_object(tree, arg->path, errp);
    Object *child;

    if (!obj) {
        return NULL;
    }
    child = object_get_child(obj, arg->property);
    if (child) {
        g_autofree char *path = object_path(child);

        return json_object_new_string(path);
    }
    if (g_str_equal(arg->property, "type")) {
        return json_object_new_string(object_type_name(obj));
    }
    return object_get_property_json(obj, arg->property, errp);
}

bool qmp_qom_set(QomTree *tree, const QomSetArg *arg, GError **errp)
{
    Object *obj = find_object(tree, arg->path, errp);

    return obj && object_set_property_json(obj, arg->property, arg->value, errp);
}

static void add_type(GPtrArray *list, GType type, const QomListTypesArg *arg)
{
    bool abstract = G_TYPE_IS_ABSTRACT(type);
    ObjectTypeInfo *info;

    if ((abstract && !(arg->has_abstract && arg->abstract)) ||
        (arg->implements && !qom_type_is_a(type, arg->implements))) {
        return;
    }
    info = g_new0(ObjectTypeInfo, 1);
    info->name = g_strdup(qom_type_name(type));
    info->has_abstract = abstract;
    info->abstract = abstract;
    if (type != TYPE_OBJECT) {
        info->parent = g_strdup(qom_type_name(g_type_parent(type)));
    }
    g_ptr_array_add(list, info);
}

GPtrArray *qmp_qom_list_types(QomTree *tree, const QomListTypesArg *arg, GError **errp)
{
    GPtrArray *list = g_ptr_array_new();

    for (const QomType *const *table = tree->types; *table; table++) {
        for (const QomType *t = *table; t->name; t++) {
            add_type(list, t->get_type(), arg);
        }
    }
    return list;
}

static GPtrArray *list_type(GType type)
{
    gpointer klass = g_type_class_ref(type);
    GPtrArray *list = list_class(klass, true);

    g_type_class_unref(klass);
    return list;
}

GPtrArray *qmp_qom_list_properties(QomTree *tree, const QomListPropertiesArg *arg, GError **errp)
{
    GType type = qom_type_find(tree->types, arg->typename);

    return type ? list_type(type) : g_ptr_array_new();
}

GPtrArray *qmp_device_list_properties(QomTree *tree, const DeviceListPropertiesArg *arg,
                                      GError **errp)
{
    GType type = qom_type_find(tree->types, arg->typename);

    if (!type || !qom_type_is_a(type, "device")) {
        error_set_class(errp, COWBIRD_ERROR_DEVICE_NOT_FOUND, "Device '%s' not found",
                        arg->typename);
        return NULL;
    }
    return list_type(type);
}
