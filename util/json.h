/*
 * Small helpers over json-c: building objects, strict parsing of a whole text.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_UTIL_JSON_H
#define COWBIRD_UTIL_JSON_H

#include <glib.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

static inline void json_object_unref(json_object *obj)
{
    json_object_put(obj);
}
/* g_autoptr(json_object) drops one reference. */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(json_object, json_object_unref)

/* Add a member; obj takes the value. A NULL str adds nothing. */
void json_add_str(json_object *obj, const char *key, const char *str);
void json_add_int(json_object *obj, const char *key, int64_t value);
void json_add_uint(json_object *obj, const char *key, uint64_t value);

/* The string member key, or NULL when it is absent or no string; owned by obj. */
const char *json_get_str(json_object *obj, const char *key);

/* Whether obj is a string that C text can hold: a NUL in it would cut it off unnoticed. */
bool json_is_text(json_object *obj);

/*
 * Parse exactly one value (at most 1024 levels deep) with nothing but white space after it. Owned
 * by the caller; NULL on error, with the place in the text. The text "null" is an error.
 */
json_object *json_parse_text(const char *text, size_t len, GError **errp);

/* Compact text, owned by the caller. */
char *json_to_text(json_object *obj);

#endif
