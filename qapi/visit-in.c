/*
 * Reads values from JSON: objects with their members and branches, lists, alternates.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qapi/visit-internal.h"

#include <string.h>

#include "util/error.h"
#include "util/suggest.h"

static bool read_value(const VisitMode *mode, const QapiType *type, json_object *json,
                       const VisitPath *path, void *slot, GError **errp);

static const QapiMember *find_member(const QapiType *type, const char *name)
{
    for (unsigned i = 0; type && i < type->n_members; i++) {
        if (strcmp(type->members[i].name, name) == 0) {
            return &type->members[i];
        }
    }
    return NULL;
}

static bool unexpected_error(const QapiType *type, const QapiType *branch, const VisitPath *path,
                             GError **errp)
{
    g_autofree char *where = visit_path_text(path);
    g_autoptr(GPtrArray) valid = g_ptr_array_new();

    for (unsigned i = 0; i < type->n_members; i++) {
        g_ptr_array_add(valid, (void *)type->members[i].name);
    }
    for (unsigned i = 0; branch && i < branch->n_members; i++) {
        g_ptr_array_add(valid, (void *)branch->members[i].name);
    }
    g_autofree char *hint = NULL;

    if (valid->len) {
        g_ptr_array_add(valid, NULL);
        hint = suggest_nearest(path->name, (const char *const *)valid->pdata);
    }
    error_set(errp, "Parameter '%s' is unexpected%s%s", where, hint ? "; " : "", hint ? hint : "");
    return false;
}

static bool check_unexpected(const QapiType *type, const QapiType *branch, json_object *json,
                             const VisitPath *path, GError **errp)
{
    json_object_object_foreach(json, name, value)
    {
        VisitPath here = { .parent = path, .name = name };

        (void)value;
        if (!find_member(type, name) && !find_member(branch, name)) {
            return unexpected_error(type, branch, &here, errp);
        }
    }
    return true;
}

/* Read the members of @type, without those of its branch, into @object. */
static bool read_members(const VisitMode *mode, const QapiType *type, json_object *json,
                         const VisitPath *path, char *object, GError **errp)
{
    for (unsigned i = 0; i < type->n_members; i++) {
        const QapiMember *member = &type->members[i];
        VisitPath here = { .parent = path, .name = member->name };
        json_object *value = NULL;

        if (!json_object_object_get_ex(json, member->name, &value)) {
            if (!member->optional) {
                g_autofree char *where = visit_path_text(&here);

                error_set(errp, "Parameter '%s' is missing", where);
                return false;
            }
            continue;
        }
        if (!read_value(mode, member->type, value, &here, object + member->offset, errp)) {
            return false;
        }
        if (member->has_offset != QAPI_NO_HAS) {
            *(bool *)(object + member->has_offset) = true;
        }
    }
    return true;
}

const QapiType *visit_branch(const QapiType *type, const void *value)
{
    if (!type->tag) {
        return NULL;
    }
    int tag = *(const int *)((const char *)value + type->tag->offset);

    return tag >= 0 && (unsigned)tag < type->tag->type->n_values ? type->branches[tag] : NULL;
}

static bool read_object_into(const VisitMode *mode, const QapiType *type, json_object *json,
                             const VisitPath *path, char *object, GError **errp)
{
    if (!read_members(mode, type, json, path, object, errp)) {
        return false;
    }
    const QapiType *branch = visit_branch(type, object);

    if (branch && !read_members(mode, branch, json, path, object + type->branch_offset, errp)) {
        return false;
    }
    return check_unexpected(type, branch, json, path, errp);
}

static bool read_object(const VisitMode *mode, const QapiType *type, json_object *json,
                        const VisitPath *path, void **slot, GError **errp)
{
    if (!json_object_is_type(json, json_type_object)) {
        return visit_type_error(path, "object", errp);
    }
    void *object = g_malloc0(type->size);

    if (!read_object_into(mode, type, json, path, object, errp)) {
        qapi_free(type, object);
        return false;
    }
    *slot = object;
    return true;
}

static QapiJsonKind kind_of_json(json_object *json)
{
    switch (json_object_get_type(json)) {
    case json_type_boolean:
        return QAPI_JSON_BOOL;
    case json_type_int:
    case json_type_double:
        return QAPI_JSON_NUMBER;
    case json_type_string:
        return QAPI_JSON_STRING;
    case json_type_object:
        return QAPI_JSON_OBJECT;
    case json_type_array:
        return QAPI_JSON_ARRAY;
    default:
        return QAPI_JSON_NULL;
    }
}

static bool alternate_error(const QapiType *type, const VisitPath *path, GError **errp)
{
    static const char *const words[] = {
        [QAPI_JSON_NULL] = "null",     [QAPI_JSON_BOOL] = "boolean",  [QAPI_JSON_NUMBER] = "number",
        [QAPI_JSON_STRING] = "string", [QAPI_JSON_OBJECT] = "object", [QAPI_JSON_ARRAY] = "array",
    };
    g_autoptr(GString) expected = g_string_new(NULL);

    for (unsigned i = 0; i < type->n_members; i++) {
        g_string_append_printf(expected, "%s%s", i ? " or " : "",
                               words[visit_json_kind(type->members[i].type)]);
    }
    return visit_type_error(path, expected->str, errp);
}

/* The branch for @json; key=value text that no string branch takes goes to a scalar one. */
static const QapiMember *choose_branch(const VisitMode *mode, const QapiType *type,
                                       json_object *json)
{
    QapiJsonKind kind = kind_of_json(json);
    const QapiMember *scalar = NULL;

    for (unsigned i = 0; i < type->n_members; i++) {
        QapiJsonKind branch_kind = visit_json_kind(type->members[i].type);

        if (branch_kind == kind) {
            return &type->members[i];
        }
        if (branch_kind == QAPI_JSON_NUMBER || branch_kind == QAPI_JSON_BOOL) {
            scalar = &type->members[i];
        }
    }
    return mode->keyval && kind == QAPI_JSON_STRING ? scalar : NULL;
}

static bool read_alternate(const VisitMode *mode, const QapiType *type, json_object *json,
                           const VisitPath *path, void **slot, GError **errp)
{
    const QapiMember *branch = choose_branch(mode, type, json);

    if (!branch) {
        return alternate_error(type, path, errp);
    }
    char *object = g_malloc0(type->size);

    *(QapiJsonKind *)object = visit_json_kind(branch->type);
    if (!read_value(mode, branch->type, json, path, object + branch->offset, errp)) {
        g_free(object);
        return false;
    }
    *slot = object;
    return true;
}

/* Append one element to the GArray or GPtrArray @list. */
static bool read_element(const VisitMode *mode, const QapiType *element, json_object *json,
                         const VisitPath *path, void *list, GError **errp)
{
    if (qapi_type_is_pointer(element)) {
        void *value = NULL;

        if (!read_value(mode, element, json, path, &value, errp)) {
            return false;
        }
        g_ptr_array_add(list, value);
        return true;
    }
    uint64_t scalar = 0;

    if (!read_value(mode, element, json, path, &scalar, errp)) {
        return false;
    }
    g_array_append_vals(list, &scalar, 1);
    return true;
}

/* The two ends of "0-3", or false if @json is no such range or an end is bad. */
static bool split_range(const QapiType *element, json_object *json, uint64_t *ret_first,
                        uint64_t *ret_last)
{
    const VisitMode mode = { .keyval = true };

    if (element->kind != QAPI_KIND_INT || !json_object_is_type(json, json_type_string)) {
        return false;
    }
    g_auto(GStrv) ends = g_strsplit(json_object_get_string(json), "-", 2);

    if (!ends[0] || !*ends[0] || !ends[1]) {
        return false;
    }
    json_object *first = json_object_new_string(ends[0]);
    json_object *last = json_object_new_string(ends[1]);
    uint64_t low = 0, high = 0;
    bool ok = visit_read_scalar(&mode, element, first, NULL, &low, NULL) &&
              visit_read_scalar(&mode, element, last, NULL, &high, NULL);

    json_object_put(first);
    json_object_put(last);
    *ret_first = low;
    *ret_last = high;
    return ok && low <= high && high - low < 65536;
}

static bool read_keyval_element(const VisitMode *mode, const QapiType *element, json_object *json,
                                const VisitPath *path, void *list, GError **errp)
{
    uint64_t first, last;

    if (!mode->keyval || !split_range(element, json, &first, &last)) {
        return read_element(mode, element, json, path, list, errp);
    }
    for (uint64_t value = first; value <= last; value++) {
        g_array_append_vals(list, &value, 1);
    }
    return true;
}

/* Elements from an array, or from the only element itself. */
static bool read_elements(const VisitMode *mode, const QapiType *type, json_object *json,
                          const VisitPath *path, void *list, GError **errp)
{
    if (json_object_is_type(json, json_type_array)) {
        for (size_t i = 0; i < json_object_array_length(json); i++) {
            VisitPath here = { .parent = path, .index = i };

            if (!read_keyval_element(mode, type->element, json_object_array_get_idx(json, i), &here,
                                     list, errp)) {
                return false;
            }
        }
        return true;
    }
    if (mode->keyval && json_object_is_type(json, json_type_string)) {
        return read_keyval_element(mode, type->element, json, path, list, errp);
    }
    return visit_type_error(path, "array", errp);
}

static bool read_list(const VisitMode *mode, const QapiType *type, json_object *json,
                      const VisitPath *path, void **slot, GError **errp)
{
    void *list = qapi_type_is_pointer(type->element)
                     ? (void *)g_ptr_array_new()
                     : (void *)g_array_new(FALSE, FALSE, type->element->size);

    if (!read_elements(mode, type, json, path, list, errp)) {
        qapi_free(type, list);
        return false;
    }
    *slot = list;
    return true;
}

static bool read_value(const VisitMode *mode, const QapiType *type, json_object *json,
                       const VisitPath *path, void *slot, GError **errp)
{
    switch (type->kind) {
    case QAPI_KIND_OBJECT:
        return read_object(mode, type, json, path, slot, errp);
    case QAPI_KIND_ALTERNATE:
        return read_alternate(mode, type, json, path, slot, errp);
    case QAPI_KIND_LIST:
        return read_list(mode, type, json, path, slot, errp);
    case QAPI_KIND_ANY:
        *(json_object **)slot = json_object_get(json);
        return true;
    default:
        return visit_read_scalar(mode, type, json, path, slot, errp);
    }
}

static void *read_root(const VisitMode *mode, const QapiType *type, json_object *json,
                       GError **errp)
{
    void *value = NULL;

    g_return_val_if_fail(qapi_type_is_pointer(type), NULL);
    return read_value(mode, type, json, NULL, &value, errp) ? value : NULL;
}

void *qapi_from_json(const QapiType *type, json_object *json, GError **errp)
{
    return read_root(&(VisitMode){ .keyval = false }, type, json, errp);
}

void *qapi_from_keyval(const QapiType *type, json_object *json, GError **errp)
{
    return read_root(&(VisitMode){ .keyval = true }, type, json, errp);
}
