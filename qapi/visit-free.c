/*
 * Frees values.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qapi/visit-internal.h"

static void clear_members(const QapiType *type, char *object)
{
    for (unsigned i = 0; i < type->n_members; i++) {
        visit_clear(type->members[i].type, object + type->members[i].offset);
    }
}

static void free_object(const QapiType *type, char *object)
{
    const QapiType *branch = visit_branch(type, object);

    if (branch) {
        clear_members(branch, object + type->branch_offset);
    }
    clear_members(type, object);
    g_free(object);
}

static void free_alternate(const QapiType *type, char *object)
{
    QapiJsonKind kind = *(QapiJsonKind *)object;

    for (unsigned i = 0; i < type->n_members; i++) {
        if (visit_json_kind(type->members[i].type) == kind) {
            visit_clear(type->members[i].type, object + type->members[i].offset);
        }
    }
    g_free(object);
}

static void free_list(const QapiType *type, void *list)
{
    if (!qapi_type_is_pointer(type->element)) {
        g_array_unref(list);
        return;
    }
    gsize len;
    /* Stolen first, so that an element_free_func of the list does not free them again. */
    g_autofree gpointer *elements = g_ptr_array_steal(list, &len);

    for (gsize i = 0; i < len; i++) {
        qapi_free(type->element, elements[i]);
    }
    g_ptr_array_unref(list);
}

void qapi_free(const QapiType *type, void *value)
{
    if (!value) {
        return;
    }
    switch (type->kind) {
    case QAPI_KIND_STR:
        g_free(value);
        break;
    case QAPI_KIND_ANY:
        json_object_put(value);
        break;
    case QAPI_KIND_OBJECT:
        free_object(type, value);
        break;
    case QAPI_KIND_ALTERNATE:
        free_alternate(type, value);
        break;
    case QAPI_KIND_LIST:
        free_list(type, value);
        break;
    default:
        g_return_if_reached();
    }
}

void visit_clear(const QapiType *type, void *slot)
{
    if (qapi_type_is_pointer(type)) {
        qapi_free(type, *(void **)slot);
        *(void **)slot = NULL;
    }
}
