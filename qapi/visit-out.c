/*
 * Writes values as JSON, and copies them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qapi/visit-internal.h"

#include <string.h>

static json_object *write_value(const QapiType *type, const void *slot);

/* Whether the member is there: what no pointer and no has_NAME says is. */
static bool member_present(const QapiMember *member, const char *object)
{
    if (member->has_offset != QAPI_NO_HAS) {
        return *(const bool *)(object + member->has_offset);
    }
    if (member->optional && qapi_type_is_pointer(member->type)) {
        return *(void *const *)(object + member->offset) != NULL;
    }
    return true;
}

static void write_members(const QapiType *type, const char *object, json_object *json)
{
    for (unsigned i = 0; i < type->n_members; i++) {
        const QapiMember *member = &type->members[i];

        if (member_present(member, object)) {
            json_object_object_add(json, member->name,
                                   write_value(member->type, object + member->offset));
        }
    }
}

static json_object *write_object(const QapiType *type, const char *object)
{
    json_object *json = json_object_new_object();
    const QapiType *branch = visit_branch(type, object);

    write_members(type, object, json);
    if (branch) {
        write_members(branch, object + type->branch_offset, json);
    }
    return json;
}

static const QapiMember *current_branch(const QapiType *type, const void *object)
{
    QapiJsonKind kind = *(const QapiJsonKind *)object;

    for (unsigned i = 0; i < type->n_members; i++) {
        if (visit_json_kind(type->members[i].type) == kind) {
            return &type->members[i];
        }
    }
    return NULL;
}

static json_object *write_alternate(const QapiType *type, const char *object)
{
    const QapiMember *branch = current_branch(type, object);

    return branch ? write_value(branch->type, object + branch->offset) : NULL;
}

static json_object *write_list(const QapiType *type, const void *list)
{
    json_object *json = json_object_new_array();

    if (qapi_type_is_pointer(type->element)) {
        const GPtrArray *array = list;

        for (unsigned i = 0; array && i < array->len; i++) {
            json_object_array_add(json, write_value(type->element, &array->pdata[i]));
        }
        return json;
    }
    const GArray *array = list;

    for (unsigned i = 0; array && i < array->len; i++) {
        json_object_array_add(json,
                              write_value(type->element, array->data + i * type->element->size));
    }
    return json;
}

static json_object *write_int(const QapiType *type, const void *slot)
{
    uint64_t bits = visit_load_int(type, slot);

    return type->is_unsigned ? json_object_new_uint64(bits) : json_object_new_int64(bits);
}

/* JSON has only valid UTF-8; names of files may be anything. */
static json_object *write_str(const char *text)
{
    if (!text) {
        return json_object_new_string("");
    }
    g_autofree char *valid = g_utf8_validate(text, -1, NULL) ? NULL : g_utf8_make_valid(text, -1);

    return json_object_new_string(valid ? valid : text);
}

static json_object *write_value(const QapiType *type, const void *slot)
{
    const void *pointer = qapi_type_is_pointer(type) ? *(void *const *)slot : NULL;

    switch (type->kind) {
    case QAPI_KIND_STR:
        return write_str(pointer);
    case QAPI_KIND_BOOL:
        return json_object_new_boolean(*(const bool *)slot);
    case QAPI_KIND_INT:
        return write_int(type, slot);
    case QAPI_KIND_NUMBER:
        return json_object_new_double(*(const double *)slot);
    case QAPI_KIND_ENUM:
        return json_object_new_string(qapi_enum_str(type, *(const int *)slot));
    case QAPI_KIND_ANY:
        return json_object_get((json_object *)pointer);
    case QAPI_KIND_OBJECT:
        return pointer ? write_object(type, pointer) : json_object_new_object();
    case QAPI_KIND_ALTERNATE:
        return pointer ? write_alternate(type, pointer) : NULL;
    case QAPI_KIND_LIST:
        return write_list(type, pointer);
    default:
        return NULL;
    }
}

json_object *qapi_to_json(const QapiType *type, const void *value)
{
    g_return_val_if_fail(qapi_type_is_pointer(type), NULL);
    return write_value(type, &value);
}

void *qapi_clone(const QapiType *type, const void *value)
{
    if (!value) {
        return NULL;
    }
    json_object *json = qapi_to_json(type, value);
    void *copy = qapi_from_json(type, json, NULL);

    json_object_put(json);
    return copy;
}
