/*
 * Values of schema types: from JSON, from key=value text, to JSON, copies, and their end.
 *
 * A value is what qapi-types.h declares: a struct made with g_new0, a string, a list. Optional
 * members are NULL, or have a `bool has_NAME` where NULL does not exist. A list is a GArray of
 * scalars or enums, or a GPtrArray; lists made here have no element_free_func, and qapi_free
 * frees the elements of any list by type, so a list a handler makes may have one or not.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef QAPI_VISIT_H
#define QAPI_VISIT_H

#include "qapi/type.h"

/*
 * The value of the object, list, alternate or string type @type that @json holds. Strict: a member
 * that is missing, unknown, of the wrong type or out of range is an error with its full path.
 * Returns NULL on error; qapi_free ends it.
 */
void *qapi_from_json(const QapiType *type, json_object *json, GError **errp);

/*
 * The same from util/keyval.h: numbers ("0x10"), sizes ("2G") and booleans ("on", "off") may be
 * strings; a list of one may be its element alone; a list of integers may have ranges ("0-3").
 */
void *qapi_from_keyval(const QapiType *type, json_object *json, GError **errp);

/* A new reference to the JSON form of @value; absent members are left out. */
json_object *qapi_to_json(const QapiType *type, const void *value);

/* Free @value and all it owns. NULL is fine. */
void qapi_free(const QapiType *type, void *value);

/* An independent copy of @value. */
void *qapi_clone(const QapiType *type, const void *value);

/* on, yes, true, y; off, no, false, n. */
bool qapi_parse_bool(const char *text, bool *ret_value);

#endif
