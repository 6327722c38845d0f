/*
 * The "a=1,b.c=2" syntax of the command line, parsed into JSON.
 *
 * Every leaf first goes into a tree of objects; a second walk turns objects whose keys are list
 * indexes into arrays.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "util/keyval.h"

#include <string.h>

#include "util/error.h"
#include "util/json.h"

#define MAX_FRAGMENT 127
#define MAX_NESTING 32

/* One element "key=value" of the text, cut out. */
typedef struct Element {
    char *key;
    char *value;
} Element;

static void element_clear(Element *element)
{
    g_free(element->key);
    g_free(element->value);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Element, element_clear)

/* The value at *text up to a single comma, ",," standing for ','; *text is left behind the comma. */
static char *take_value(const char **text)
{
    GString *value = g_string_new(NULL);
    const char *p = *text;

    for (; *p; p++) {
        if (*p == ',' && *++p != ',') {
            break;
        }
        g_string_append_c(value, *p);
    }
    *text = p;
    return g_string_free(value, FALSE);
}

static bool set_bare_error(const char *word, const char *implied_key, GError **errp)
{
    if (*word == '\0') {
        error_set(errp, "Expected a parameter before ','%s",
                  implied_key ? "" : " (a comma in a value is written ',,')");
    } else if (g_str_has_prefix(word, "no") && word[2]) {
        error_set(errp, "Expected '=' after parameter '%s': write '%s=on', or '%s=off' for '%s'",
                  word, word, word + 2, word);
    } else {
        error_set(errp, "Expected '=' after parameter '%s': write '%s=on' or '%s=off'", word, word,
                  word);
    }
    return false;
}

/* The next element at *text; implied_key is not NULL only for the first one. */
static bool take_element(const char **text, const char *implied_key, Element *element,
                         GError **errp)
{
    size_t len = strcspn(*text, "=,");

    if ((*text)[len] != '=') {
        if (implied_key && len > 0) {
            element->key = g_strdup(implied_key);
            element->value = take_value(text);
            return true;
        } else {
            g_autofree char *word = g_strndup(*text, len);

            return set_bare_error(word, implied_key, errp);
        }
    }
    element->key = g_strndup(*text, len);
    *text += len + 1;
    element->value = take_value(text);
    return true;
}

static bool is_index(const char *fragment)
{
    return fragment[0] && fragment[strspn(fragment, "0123456789")] == '\0';
}

static bool fragment_ok(const char *fragment, bool first)
{
    size_t len = strlen(fragment);

    if (is_index(fragment)) {
        return !first && len <= 9 && (fragment[0] != '0' || len == 1);
    }
    if (!g_ascii_isalpha(fragment[0]) && !g_str_has_prefix(fragment, "__")) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (!g_ascii_isalnum(fragment[i]) && !strchr("-_", fragment[i])) {
            return false;
        }
    }
    return len <= MAX_FRAGMENT;
}

static bool put_leaf(json_object *root, const Element *element, GError **errp)
{
    g_auto(GStrv) path = g_strsplit(element->key, ".", MAX_NESTING + 1);
    guint depth = g_strv_length(path);
    json_object *at = root;

    for (guint i = 0; i < depth; i++) {
        json_object *next = NULL;
        bool leaf = i + 1 == depth;

        if (depth > MAX_NESTING || !fragment_ok(path[i], i == 0)) {
            error_set(errp, "Invalid parameter '%s'", element->key);
            return false;
        }
        json_object_object_get_ex(at, path[i], &next);
        if (next && json_object_is_type(next, json_type_object) == leaf) {
            error_set(errp, "Parameter '%s' is used both with a value and with members",
                      element->key);
            return false;
        }
        if (leaf) {
            next = json_object_new_string(element->value);
            json_object_object_add(at, path[i], next);
        } else if (!next) {
            next = json_object_new_object();
            json_object_object_add(at, path[i], next);
        }
        at = next;
    }
    if (depth == 0) {
        error_set(errp, "Expected a parameter before '='");
        return false;
    }
    return true;
}

static json_object *listify(json_object *obj, const char *name, GError **errp);

/* Replace each object among obj's members by its array where it is one. */
static bool listify_members(json_object *obj, GError **errp)
{
    json_object_object_foreach(obj, key, member)
    {
        json_object *list;

        if (!json_object_is_type(member, json_type_object)) {
            continue;
        }
        list = listify(member, key, errp);
        if (!list) {
            return false;
        }
        if (list != member) {
            /* Replacing the value of an existing key keeps the walk valid. */
            json_object_object_add(obj, key, list);
        }
    }
    return true;
}

/* obj itself, or a new array of its members "0", "1", ...; NULL on error. */
static json_object *listify(json_object *obj, const char *name, GError **errp)
{
    int members = json_object_object_length(obj), indexes = 0;
    json_object *list;

    if (!listify_members(obj, errp)) {
        return NULL;
    }
    json_object_object_foreach(obj, key, member)
    {
        indexes += is_index(key) && member;
    }
    if (indexes == 0) {
        return obj;
    }
    if (indexes != members) {
        error_set(errp, "Parameters '%s.*' mix list indexes and names", name);
        return NULL;
    }
    list = json_object_new_array();
    for (int i = 0; i < members; i++) {
        g_autofree char *index = g_strdup_printf("%d", i);
        json_object *member_at = json_object_object_get(obj, index);

        if (!member_at) {
            error_set(errp, "Parameter '%s.%d' is missing", name, i);
            json_object_put(list);
            return NULL;
        }
        json_object_array_add(list, json_object_get(member_at));
    }
    return list;
}

json_object *keyval_parse(const char *text, const char *implied_key, GError **errp)
{
    g_autoptr(json_object) root = json_object_new_object();
    const char *p = text;

    if (!g_utf8_validate(text, -1, NULL)) {
        error_set(errp, "The option is not valid UTF-8");
        return NULL;
    }
    while (*p) {
        g_auto(Element) element = { NULL, NULL };

        if (!take_element(&p, p == text ? implied_key : NULL, &element, errp) ||
            !put_leaf(root, &element, errp)) {
            return NULL;
        }
    }
    if (!listify_members(root, errp)) {
        return NULL;
    }
    return g_steal_pointer(&root);
}

json_object *keyval_or_json_parse(const char *text, const char *implied_key, GError **errp)
{
    g_autoptr(json_object) obj = NULL;

    if (text[0] != '{') {
        return keyval_parse(text, implied_key, errp);
    }
    obj = json_parse_text(text, strlen(text), errp);
    if (obj && !json_object_is_type(obj, json_type_object)) {
        error_set(errp, "Expected a JSON object");
        return NULL;
    }
    return g_steal_pointer(&obj);
}
