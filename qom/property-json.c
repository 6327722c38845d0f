/*
 * Property values as JSON: read, written, described.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qom/property.h"

#include "qapi/visit.h"
#include "util/error.h"
#include "util/json.h"
#include "util/suggest.h"
#include "util/units.h"

#include <errno.h>
#include <string.h>

/* What the number of a kind may be. */
typedef struct NumberRange {
    int64_t min;
    uint64_t max;
} NumberRange;

static NumberRange range_of(QomPropKind kind)
{
    switch (kind) {
    case QOM_UINT8:
        return (NumberRange){ 0, UINT8_MAX };
    case QOM_UINT16:
        return (NumberRange){ 0, UINT16_MAX };
    case QOM_UINT32:
        return (NumberRange){ 0, UINT32_MAX };
    case QOM_INT32:
        return (NumberRange){ INT32_MIN, INT32_MAX };
    case QOM_INT64:
        return (NumberRange){ INT64_MIN, INT64_MAX };
    default:
        return (NumberRange){ 0, UINT64_MAX };
    }
}

static const char *kind_name(QomPropKind kind)
{
    static const char *const names[] = {
        [QOM_BOOL] = "bool",     [QOM_UINT8] = "uint8",   [QOM_UINT16] = "uint16",
        [QOM_UINT32] = "uint32", [QOM_UINT64] = "uint64", [QOM_INT32] = "int32",
        [QOM_INT64] = "int64",   [QOM_SIZE] = "size",     [QOM_STRING] = "str",
        [QOM_ENUM] = "enum",     [QOM_LINK] = "link",     [QOM_CUSTOM] = "any",
    };

    return names[kind];
}

char *qom_property_type_name(const QomProperty *prop)
{
    if (prop->type_name) {
        return g_strdup(prop->type_name);
    }
    if (prop->kind == QOM_ENUM) {
        return g_strdup(prop->enum_type->name);
    }
    if (prop->kind == QOM_LINK) {
        return g_strdup_printf("link<%s>", prop->link_type ? prop->link_type : "object");
    }
    return g_strdup(kind_name(prop->kind));
}

json_object *qom_property_default_json(const QomProperty *prop)
{
    switch (prop->kind) {
    case QOM_BOOL:
        return json_object_new_boolean(prop->def);
    case QOM_INT32:
    case QOM_INT64:
        return json_object_new_int64(prop->def);
    case QOM_ENUM:
        return json_object_new_string(qapi_enum_str(prop->enum_type, prop->def));
    case QOM_STRING:
        return prop->def_str ? json_object_new_string(prop->def_str) : NULL;
    case QOM_LINK:
    case QOM_CUSTOM:
        return NULL;
    default:
        return json_object_new_uint64(prop->def);
    }
}

static json_object *link_to_json(Object *target)
{
    g_autofree char *path = target ? object_path(target) : NULL;

    return json_object_new_string(path ? path : "");
}

static json_object *get_field(Object *obj, const QomProperty *prop)
{
    const void *field = qom_field(obj, prop);
    const char *text;

    switch (prop->kind) {
    case QOM_BOOL:
        return json_object_new_boolean(*(const bool *)field);
    case QOM_UINT8:
        return json_object_new_int64(*(const uint8_t *)field);
    case QOM_UINT16:
        return json_object_new_int64(*(const uint16_t *)field);
    case QOM_UINT32:
        return json_object_new_int64(*(const uint32_t *)field);
    case QOM_UINT64:
    case QOM_SIZE:
        return json_object_new_uint64(*(const uint64_t *)field);
    case QOM_INT32:
        return json_object_new_int64(*(const int32_t *)field);
    case QOM_INT64:
        return json_object_new_int64(*(const int64_t *)field);
    case QOM_STRING:
        text = *(char *const *)field;
        return json_object_new_string(text ? text : "");
    case QOM_ENUM:
        return json_object_new_string(qapi_enum_str(prop->enum_type, *(const int *)field));
    case QOM_LINK:
        return link_to_json(*(Object *const *)field);
    case QOM_CUSTOM:
        break;
    }
    return NULL;
}

const QomProperty *qom_class_require_property(gpointer klass, const char *name, GError **errp)
{
    const QomProperty *prop = qom_class_find_property(klass, name);
    g_autoptr(GPtrArray) props = NULL;
    g_autoptr(GPtrArray) names = NULL;
    g_autofree char *hint = NULL;

    if (prop) {
        return prop;
    }
    props = qom_class_list_properties(klass);
    names = g_ptr_array_new();
    for (guint i = 0; i < props->len; i++) {
        g_ptr_array_add(names, (gpointer)((const QomProperty *)props->pdata[i])->name);
    }
    g_ptr_array_add(names, NULL);
    hint = suggest_nearest(name, (const char *const *)names->pdata);
    error_set(errp, "'%s' has no property '%s'%s%s", qom_type_name(G_TYPE_FROM_CLASS(klass)), name,
              hint ? "; " : "", hint ? hint : "");
    return NULL;
}

static const QomProperty *require_property(Object *obj, const char *name, GError **errp)
{
    return qom_class_require_property(G_OBJECT_GET_CLASS(obj), name, errp);
}

json_object *object_get_property_json(Object *obj, const char *name, GError **errp)
{
    const QomProperty *prop = require_property(obj, name, errp);

    if (!prop) {
        return NULL;
    }
    if (prop->child) {
        return object_get_property_json(object_get_child(obj, prop->child), name, errp);
    }
    if (prop->get) {
        return prop->get(obj, errp);
    }
    if (prop->kind == QOM_CUSTOM) {
        error_set(errp, "'%s': property '%s' cannot be read", object_type_name(obj), name);
        return NULL;
    }
    return get_field(obj, prop);
}

static bool bool_from_json(json_object *value, bool *ret)
{
    static const char *const yes[] = { "on", "true", "yes", "y", NULL };
    static const char *const no[] = { "off", "false", "no", "n", NULL };

    if (json_object_is_type(value, json_type_boolean)) {
        *ret = json_object_get_boolean(value);
        return true;
    }
    if (json_object_is_type(value, json_type_string)) {
        const char *text = json_object_get_string(value);

        *ret = g_strv_contains(yes, text);
        return *ret || g_strv_contains(no, text);
    }
    return false;
}

/* Text of a number, decimal or 0x..., negative only where the kind is signed. */
static bool number_from_text(QomPropKind kind, const char *text, uint64_t *ret)
{
    char *end;

    if (kind == QOM_SIZE) {
        return size_parse(text, 0, ret);
    }
    if (!g_ascii_isdigit(*text) && *text != '-') {
        return false;
    }
    errno = 0;
    if (*text == '-') {
        *ret = (uint64_t)strtoll(text, &end, 0);
        return errno == 0 && *end == '\0' && end != text && range_of(kind).min < 0;
    }
    *ret = strtoull(text, &end, 0);
    return errno == 0 && *end == '\0';
}

/* The number as bits of a 64-bit integer, in the range of the kind. */
static bool number_from_json(QomPropKind kind, json_object *value, uint64_t *ret)
{
    NumberRange range = range_of(kind);
    bool negative;
    uint64_t bits;

    if (json_object_is_type(value, json_type_int)) {
        negative = json_object_get_int64(value) < 0;
        bits = negative ? (uint64_t)json_object_get_int64(value) : json_object_get_uint64(value);
    } else if (json_object_is_type(value, json_type_string) &&
               number_from_text(kind, json_object_get_string(value), &bits)) {
        negative = *json_object_get_string(value) == '-';
    } else {
        return false;
    }
    if (negative ? (int64_t)bits < range.min : bits > range.max) {
        return false;
    }
    *ret = bits;
    return true;
}

static void store_number(void *field, QomPropKind kind, uint64_t value)
{
    switch (kind) {
    case QOM_UINT8:
        *(uint8_t *)field = value;
        break;
    case QOM_UINT16:
        *(uint16_t *)field = value;
        break;
    case QOM_UINT32:
    case QOM_INT32:
        *(uint32_t *)field = value;
        break;
    default:
        *(uint64_t *)field = value;
    }
}

static bool set_link(Object *obj, const QomProperty *prop, json_object *value, GError **errp)
{
    const char *text = json_object_get_string(value);
    Object *target = NULL;

    if (*text) {
        target = obj->root ? object_find(obj->root, text, TYPE_OBJECT) : NULL;
        if (!target || (prop->link_type && !object_is_a(target, prop->link_type))) {
            error_set(errp, "'%s': property '%s': there is no %s '%s'", object_type_name(obj),
                      prop->name, prop->link_type ? prop->link_type : "object", text);
            return false;
        }
    }
    g_set_object((Object **)qom_field(obj, prop), target);
    return true;
}

static bool wrong_value(Object *obj, const QomProperty *prop, json_object *value, GError **errp)
{
    g_autofree char *type = qom_property_type_name(prop);
    NumberRange range = range_of(prop->kind);
    g_autofree char *limits = NULL;

    if (prop->kind != QOM_BOOL && prop->kind != QOM_STRING && prop->kind != QOM_LINK) {
        limits = g_strdup_printf(" from %" PRId64 " to %" PRIu64, range.min, range.max);
    } else if (prop->kind == QOM_BOOL) {
        limits = g_strdup(" ('on' or 'off')");
    }
    error_set(errp, "'%s': property '%s' takes a %s%s, not %s", object_type_name(obj), prop->name,
              type, limits ? limits : "", json_object_to_json_string(value));
    return false;
}

static bool set_enum(Object *obj, const QomProperty *prop, json_object *value, GError **errp)
{
    int number;

    if (!qapi_enum_parse(prop->enum_type, json_object_get_string(value), &number, errp)) {
        g_prefix_error(errp, "'%s': property '%s': ", object_type_name(obj), prop->name);
        return false;
    }
    *(int *)qom_field(obj, prop) = number;
    return true;
}

static bool set_field(Object *obj, const QomProperty *prop, json_object *value, GError **errp)
{
    bool is_text = json_object_is_type(value, json_type_string);
    void *field = qom_field(obj, prop);
    uint64_t number;

    switch (prop->kind) {
    case QOM_BOOL:
        return bool_from_json(value, field) || wrong_value(obj, prop, value, errp);
    case QOM_STRING:
        if (!is_text) {
            return wrong_value(obj, prop, value, errp);
        }
        g_free(*(char **)field);
        *(char **)field = g_strdup(json_object_get_string(value));
        return true;
    case QOM_ENUM:
        return is_text ? set_enum(obj, prop, value, errp) : wrong_value(obj, prop, value, errp);
    case QOM_LINK:
        return is_text ? set_link(obj, prop, value, errp) : wrong_value(obj, prop, value, errp);
    default:
        if (!number_from_json(prop->kind, value, &number)) {
            return wrong_value(obj, prop, value, errp);
        }
        store_number(field, prop->kind, number);
        return true;
    }
}

/* Custom setters get a boolean where their declared type says so, whatever the spelling. */
static bool set_custom(Object *obj, const QomProperty *prop, json_object *value, GError **errp)
{
    bool flag;

    if (g_strcmp0(prop->type_name, "bool") == 0) {
        json_object *boolean;
        bool ok;

        if (!bool_from_json(value, &flag)) {
            error_set(errp, "'%s': property '%s' takes 'on' or 'off', not %s",
                      object_type_name(obj), prop->name, json_object_to_json_string(value));
            return false;
        }
        boolean = json_object_new_boolean(flag);
        ok = prop->set(obj, boolean, errp);
        json_object_put(boolean);
        return ok;
    }
    return prop->set(obj, value, errp);
}

bool object_set_property_json(Object *obj, const char *name, json_object *value, GError **errp)
{
    const QomProperty *prop = require_property(obj, name, errp);

    if (!prop) {
        return false;
    }
    if (prop->child) {
        return object_set_property_json(object_get_child(obj, prop->child), name, value, errp);
    }
    if ((prop->flags & QOM_PROP_READ_ONLY) || (prop->kind == QOM_CUSTOM && !prop->set)) {
        error_set(errp, "'%s': property '%s' is read-only", object_type_name(obj), name);
        return false;
    }
    if (obj->completed && !(prop->flags & QOM_PROP_LATE)) {
        error_set(errp, "'%s': property '%s' cannot be changed any more: the object is in use",
                  object_type_name(obj), name);
        return false;
    }
    if (json_object_is_type(value, json_type_string) && !json_is_text(value)) {
        error_set(errp, "'%s': property '%s' takes no text with a NUL character",
                  object_type_name(obj), name);
        return false;
    }
    return prop->set ? set_custom(obj, prop, value, errp) : set_field(obj, prop, value, errp);
}

bool object_set_property_str(Object *obj, const char *name, const char *value, GError **errp)
{
    json_object *text = json_object_new_string(value);
    bool ok = object_set_property_json(obj, name, text, errp);

    json_object_put(text);
    return ok;
}

bool object_set_properties_json(Object *obj, json_object *dict, const char *const *skip,
                                GError **errp)
{
    json_object_object_foreach(dict, name, value)
    {
        if (skip && g_strv_contains(skip, name)) {
            continue;
        }
        if (!object_set_property_json(obj, name, value, errp)) {
            return false;
        }
    }
    return true;
}
