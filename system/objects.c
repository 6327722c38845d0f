/*
 * -object: objects that users make, kept below /objects.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "system/objects.h"

#include "qapi/qapi-commands.h"
#include "qapi/visit.h"
#include "util/error.h"
#include "util/json.h"

bool objects_add(QomTree *tree, const ObjectOptions *options, GError **errp)
{
    static const char *const skip[] = { "qom-type", "id", NULL };
    const char *type_name = object_type_str(options->qom_type);
    g_autoptr(json_object) properties = qapi_to_json(&qapi_type_ObjectOptions, options);
    GType type = qom_type_require(tree->types, type_name, TYPE_OBJECT, errp);
    g_autoptr(Object) obj = NULL;

    if (!type) {
        return false;
    }
    obj = object_new(type, tree->root);
    if (!object_set_properties_json(obj, properties, skip, errp) || !object_complete(obj, errp)) {
        g_prefix_error(errp, "object '%s': ", options->id);
        return false;
    }
    return object_add_child(object_get_container(tree->root, "objects"), options->id, obj, errp);
}

bool qmp_object_del(QomTree *tree, const ObjectDelArg *arg, GError **errp)
{
    Object *obj = object_get_child(object_get_container(tree->root, "objects"), arg->id);
    ObjectClass *klass;

    if (!obj) {
        error_set(errp, "object '%s' not found", arg->id);
        return false;
    }
    klass = OBJECT_GET_CLASS(obj);
    if (klass->can_delete && !klass->can_delete(obj, errp)) {
        return false;
    }
    object_unparent(obj);
    return true;
}

bool qmp_object_add(QomTree *tree, const ObjectOptions *options, GError **errp)
{
    return objects_add(tree, options, errp);
}
