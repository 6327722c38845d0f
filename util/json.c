/*
 * Small helpers over json-c: building objects, strict parsing of a whole text.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "util/json.h"

#include <string.h>

#include "util/error.h"

#define MAX_DEPTH 1024

void json_add_str(json_object *obj, const char *key, const char *str)
{
    if (str) {
        json_object_object_add(obj, key, json_object_new_string(str));
    }
}

void json_add_int(json_object *obj, const char *key, int64_t value)
{
    json_object_object_add(obj, key, json_object_new_int64(value));
}

void json_add_uint(json_object *obj, const char *key, uint64_t value)
{
    json_object_object_add(obj, key, json_object_new_uint64(value));
}

const char *json_get_str(json_object *obj, const char *key)
{
    json_object *member;

    if (!json_object_object_get_ex(obj, key, &member) ||
        !json_object_is_type(member, json_type_string)) {
        return NULL;
    }
    return json_object_get_string(member);
}

bool json_is_text(json_object *obj)
{
    return json_object_is_type(obj, json_type_string) &&
           strlen(json_object_get_string(obj)) == (size_t)json_object_get_string_len(obj);
}

json_object *json_parse_text(const char *text, size_t len, GError **errp)
{
    struct json_tokener *tok = json_tokener_new_ex(MAX_DEPTH);
    json_object *obj = NULL;
    enum json_tokener_error err;
    size_t used;

    if (len > G_MAXINT - 1) {
        error_set(errp, "JSON text of %zu bytes is too long", len);
        json_tokener_free(tok);
        return NULL;
    }
    json_tokener_set_flags(tok, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8 |
                                    JSON_TOKENER_ALLOW_TRAILING_CHARS);
    obj = json_tokener_parse_ex(tok, text, len);
    err = json_tokener_get_error(tok);
    if (err == json_tokener_continue) {
        /* A number needs something after it to be known to have ended. */
        obj = json_tokener_parse_ex(tok, "\n", 1);
        err = json_tokener_get_error(tok);
        used = len;
    } else {
        used = json_tokener_get_parse_end(tok);
    }
    json_tokener_free(tok);
    while (used < len && g_ascii_isspace(text[used])) {
        used++;
    }
    if (err != json_tokener_success || !obj || used < len) {
        error_set(errp, "Invalid JSON at byte %zu: %s", used,
                  err == json_tokener_continue  ? "the text ends too early"
                  : err != json_tokener_success ? json_tokener_error_desc(err)
                  : !obj                        ? "null is not a value here"
                                                : "more text after the value");
        json_object_put(obj);
        return NULL;
    }
    return obj;
}

char *json_to_text(json_object *obj)
{
    return g_strdup(json_object_to_json_string_ext(obj, JSON_C_TO_STRING_PLAIN |
                                                            JSON_C_TO_STRING_NOSLASHESCAPE));
}
