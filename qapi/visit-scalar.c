/*
 * Reads scalars: integers with their ranges, numbers, booleans, enums, strings.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qapi/visit-internal.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "util/error.h"
#include "util/json.h"
#include "util/suggest.h"
#include "util/units.h"

char *visit_path_text(const VisitPath *path)
{
    if (!path) {
        return g_strdup("argument");
    }
    g_autofree char *parent = path->parent ? visit_path_text(path->parent) : g_strdup("");

    if (!path->name) {
        return g_strdup_printf("%s[%zu]", path->parent ? parent : "argument", path->index);
    }
    return g_strdup_printf("%s%s%s", parent, path->parent ? "." : "", path->name);
}

bool visit_type_error(const VisitPath *path, const char *expected, GError **errp)
{
    g_autofree char *text = visit_path_text(path);

    error_set(errp, "Invalid parameter type for '%s', expected: %s", text, expected);
    return false;
}

QapiJsonKind visit_json_kind(const QapiType *type)
{
    switch (type->kind) {
    case QAPI_KIND_STR:
    case QAPI_KIND_ENUM:
        return QAPI_JSON_STRING;
    case QAPI_KIND_BOOL:
        return QAPI_JSON_BOOL;
    case QAPI_KIND_INT:
    case QAPI_KIND_NUMBER:
        return QAPI_JSON_NUMBER;
    case QAPI_KIND_LIST:
        return QAPI_JSON_ARRAY;
    case QAPI_KIND_OBJECT:
        return QAPI_JSON_OBJECT;
    default:
        return QAPI_JSON_NULL;
    }
}

int64_t visit_int_min(const QapiType *type)
{
    return type->is_unsigned ? 0 : INT64_MIN >> (64 - 8 * type->size);
}

uint64_t visit_int_max(const QapiType *type)
{
    return UINT64_MAX >> (64 - 8 * type->size + !type->is_unsigned);
}

void visit_store_int(const QapiType *type, void *slot, uint64_t bits)
{
    memcpy(slot, &bits, type->size); /* x86-64 is little-endian */
}

uint64_t visit_load_int(const QapiType *type, const void *slot)
{
    uint64_t bits = 0;
    unsigned shift = 64 - 8 * type->size;

    memcpy(&bits, slot, type->size);
    return type->is_unsigned ? bits : (uint64_t)((int64_t)(bits << shift) >> shift);
}

static bool range_error(const QapiType *type, const VisitPath *path, GError **errp)
{
    g_autofree char *text = visit_path_text(path);

    error_set(errp, "Parameter '%s' expects an integer from %" PRId64 " to %" PRIu64, text,
              visit_int_min(type), visit_int_max(type));
    return false;
}

/* An integer as sign and 64 bits, whichever way it came. */
typedef struct WideInt {
    bool negative;
    uint64_t bits;
} WideInt;

static WideInt int_from_json(json_object *json)
{
    int64_t value = json_object_get_int64(json);

    if (value < 0) {
        return (WideInt){ true, (uint64_t)value };
    }
    return (WideInt){ false, json_object_get_uint64(json) };
}

static bool int_from_text(const QapiType *type, const char *text, WideInt *ret)
{
    char *end;

    if (type->is_size) {
        ret->negative = false;
        return size_parse(text, 0, &ret->bits);
    }
    bool negative = *text == '-';
    const char *digits = text + negative;

    if (!g_ascii_isdigit(*digits)) {
        return false;
    }
    int base = digits[0] == '0' && (digits[1] | 0x20) == 'x' ? 16 : 10;

    errno = 0;
    uint64_t bits = g_ascii_strtoull(digits, &end, base);
    if (*end || errno || (negative && bits > (uint64_t)INT64_MAX + 1)) {
        return false;
    }
    ret->negative = negative && bits;
    ret->bits = negative ? -bits : bits;
    return true;
}

static bool read_int(const VisitMode *mode, const QapiType *type, json_object *json,
                     const VisitPath *path, void *slot, GError **errp)
{
    WideInt value;

    if (json_object_is_type(json, json_type_int)) {
        value = int_from_json(json);
    } else if (!mode->keyval || !json_object_is_type(json, json_type_string)) {
        return visit_type_error(path, "integer", errp);
    } else if (!int_from_text(type, json_object_get_string(json), &value)) {
        g_autofree char *text = visit_path_text(path);

        error_set(errp, "Parameter '%s' expects %s, not '%s'", text,
                  type->is_size ? "a size such as 4096, 512M or 2G" : "an integer",
                  json_object_get_string(json));
        return false;
    }
    bool fits = value.negative ? (int64_t)value.bits >= visit_int_min(type)
                               : value.bits <= visit_int_max(type);

    if (!fits) {
        return range_error(type, path, errp);
    }
    visit_store_int(type, slot, value.bits);
    return true;
}

bool qapi_parse_bool(const char *text, bool *ret_value)
{
    static const char *const words[] = { "off", "on", "no", "yes", "false", "true", "n", "y" };

    for (unsigned i = 0; i < G_N_ELEMENTS(words); i++) {
        if (strcmp(text, words[i]) == 0) {
            *ret_value = i % 2;
            return true;
        }
    }
    return false;
}

static bool read_bool(const VisitMode *mode, json_object *json, const VisitPath *path, bool *slot,
                      GError **errp)
{
    if (json_object_is_type(json, json_type_boolean)) {
        *slot = json_object_get_boolean(json);
        return true;
    }
    if (!mode->keyval || !json_object_is_type(json, json_type_string)) {
        return visit_type_error(path, "boolean", errp);
    }
    if (!qapi_parse_bool(json_object_get_string(json), slot)) {
        g_autofree char *text = visit_path_text(path);

        error_set(errp, "Parameter '%s' expects 'on' or 'off', not '%s'", text,
                  json_object_get_string(json));
        return false;
    }
    return true;
}

static bool read_number(const VisitMode *mode, json_object *json, const VisitPath *path,
                        double *slot, GError **errp)
{
    double value;

    if (json_object_is_type(json, json_type_double) || json_object_is_type(json, json_type_int)) {
        value = json_object_get_double(json);
    } else if (mode->keyval && json_object_is_type(json, json_type_string)) {
        const char *text = json_object_get_string(json);
        char *end;

        value = g_ascii_strtod(text, &end);
        if (end == text || *end) {
            return visit_type_error(path, "number", errp);
        }
    } else {
        return visit_type_error(path, "number", errp);
    }
    if (!isfinite(value)) {
        return visit_type_error(path, "finite number", errp);
    }
    *slot = value;
    return true;
}

/* The text of a JSON string, or NULL and an error. */
static const char *read_text(json_object *json, const VisitPath *path, GError **errp)
{
    if (!json_object_is_type(json, json_type_string)) {
        visit_type_error(path, "string", errp);
        return NULL;
    }
    if (!json_is_text(json)) {
        g_autofree char *where = visit_path_text(path);

        error_set(errp, "Parameter '%s' must not contain a NUL character", where);
        return NULL;
    }
    return json_object_get_string(json);
}

static bool read_enum(const QapiType *type, json_object *json, const VisitPath *path, int *slot,
                      GError **errp)
{
    const char *name = read_text(json, path, errp);

    if (!name) {
        return false;
    }
    int value = qapi_enum_find(type, name);

    if (value < 0) {
        g_autofree char *where = visit_path_text(path);
        g_autofree char *hint = suggest_nearest(name, type->values);

        error_set(errp, "Parameter '%s' does not accept value '%s'%s%s", where, name,
                  hint ? "; " : "", hint ? hint : "");
        return false;
    }
    *slot = value;
    return true;
}

static bool read_str(json_object *json, const VisitPath *path, char **slot, GError **errp)
{
    const char *text = read_text(json, path, errp);

    if (!text) {
        return false;
    }
    *slot = g_strdup(text);
    return true;
}

bool visit_read_scalar(const VisitMode *mode, const QapiType *type, json_object *json,
                       const VisitPath *path, void *slot, GError **errp)
{
    switch (type->kind) {
    case QAPI_KIND_STR:
        return read_str(json, path, slot, errp);
    case QAPI_KIND_BOOL:
        return read_bool(mode, json, path, slot, errp);
    case QAPI_KIND_INT:
        return read_int(mode, type, json, path, slot, errp);
    case QAPI_KIND_NUMBER:
        return read_number(mode, json, path, slot, errp);
    case QAPI_KIND_ENUM:
        return read_enum(type, json, path, slot, errp);
    case QAPI_KIND_NULL:
        return json_object_is_type(json, json_type_null) || visit_type_error(path, "null", errp);
    default:
        g_assert_not_reached();
    }
}
