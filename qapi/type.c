/*
 * Questions about the tables of qapi/type.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qapi/type.h"

#include "util/error.h"
#include "util/suggest.h"

const QapiType qapi_type_none = {
    .kind = QAPI_KIND_OBJECT,
    .name = "none",
    .size = 1,
};

bool qapi_type_is_pointer(const QapiType *type)
{
    switch (type->kind) {
    case QAPI_KIND_STR:
    case QAPI_KIND_ANY:
    case QAPI_KIND_OBJECT:
    case QAPI_KIND_ALTERNATE:
    case QAPI_KIND_LIST:
        return true;
    default:
        return false;
    }
}

const char *qapi_enum_str(const QapiEnum *type, int value)
{
    if (value < 0 || (unsigned)value >= type->n_values) {
        return "?";
    }
    return type->values[value];
}

int qapi_enum_find(const QapiEnum *type, const char *name)
{
    for (unsigned i = 0; i < type->n_values; i++) {
        if (strcmp(type->values[i], name) == 0) {
            return i;
        }
    }
    return -1;
}

bool qapi_enum_parse(const QapiEnum *type, const char *name, int *ret_value, GError **errp)
{
    g_autofree char *hint = NULL;
    int value = qapi_enum_find(type, name);

    if (value < 0) {
        hint = suggest_nearest(name, type->values);
        error_set(errp, "invalid value '%s'%s%s", name, hint ? "; " : "", hint ? hint : "");
        return false;
    }
    *ret_value = value;
    return true;
}
