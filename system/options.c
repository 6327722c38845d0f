/*
 * Reading the command line by the table of options.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "system/options.h"

#include "qapi/visit.h"
#include "util/error.h"
#include "util/json.h"
#include "util/keyval.h"
#include "util/suggest.h"

static void *field_of(SystemOptions *o, const OptionSpec *spec)
{
    return (char *)o + spec->offset;
}

static const OptionSpec *find_spec(const char *arg, GError **errp)
{
    g_autoptr(GPtrArray) names = NULL;
    g_autofree char *hint = NULL;
    const char *name = arg + (arg[1] == '-' ? 2 : 1);

    if (arg[0] != '-') {
        error_set(errp, "unexpected argument '%s': options begin with '-'", arg);
        return NULL;
    }
    for (const OptionSpec *spec = option_table; spec->name; spec++) {
        if (g_str_equal(spec->name, name)) {
            return spec;
        }
    }
    names = g_ptr_array_new();
    for (const OptionSpec *spec = option_table; spec->name; spec++) {
        g_ptr_array_add(names, (gpointer)spec->name);
    }
    g_ptr_array_add(names, NULL);
    hint = suggest_nearest(name, (const char *const *)names->pdata);
    error_set(errp, "there is no option '%s'%s%s", arg, hint ? "; " : " (see -help)",
              hint ? hint : "");
    return NULL;
}

static GPtrArray *list_field(SystemOptions *o, const OptionSpec *spec)
{
    GPtrArray **list = field_of(o, spec);

    if (!*list) {
        *list = g_ptr_array_new();
    }
    return *list;
}

static json_object *parse_argument(const OptionSpec *spec, const char *text, GError **errp)
{
    if (spec->parse) {
        return spec->parse(text, spec->implied, errp);
    }
    return keyval_or_json_parse(text, spec->implied, errp);
}

/* Members of a later one replace those of an earlier one. Takes dict. */
static void merge(json_object **into, json_object *dict)
{
    if (!*into) {
        *into = dict;
        return;
    }
    json_object_object_foreach(dict, key, value)
    {
        json_object_object_add(*into, key, json_object_get(value));
    }
    json_object_put(dict);
}

static void unref_json(gpointer json)
{
    json_object_put(json);
}

static bool add_dict(SystemOptions *o, const OptionSpec *spec, json_object **merged,
                     const char *text, GError **errp)
{
    json_object *dict = parse_argument(spec, text, errp);
    void *value;

    if (!dict) {
        return false;
    }
    if (spec->store == OPTION_MERGED) {
        merge(merged, dict);
        return true;
    }
    if (!spec->type) {
        g_ptr_array_add(list_field(o, spec), dict);
        return true;
    }
    value = qapi_from_keyval(spec->type, dict, errp);
    json_object_put(dict);
    if (value) {
        g_ptr_array_add(list_field(o, spec), value);
    }
    return value != NULL;
}

static void set_string(void *field, const char *firm, const char *text)
{
    char **to = field;

    if (!firm || g_strcmp0(*to, firm) != 0) {
        g_free(*to);
        *to = g_strdup(text);
    }
}

static bool add_argument(SystemOptions *o, const OptionSpec *spec, json_object **merged,
                         const char *text, GError **errp)
{
    switch (spec->store) {
    case OPTION_NONE:
        if (!g_str_equal(text, "none")) {
            error_set(errp, "'%s' is not possible: %s; valid: 'none'", text, spec->reason);
            return false;
        }
        /* fall through */
    case OPTION_STRING:
        set_string(field_of(o, spec), spec->firm, text);
        return true;
    case OPTION_STRINGS:
        g_ptr_array_add(list_field(o, spec), g_strdup(text));
        return true;
    default:
        return add_dict(o, spec, merged, text, errp);
    }
}

/* merged: what options that add up have said, by line of the table, as json_object or NULL. */
static bool finish_merged(SystemOptions *o, GPtrArray *merged, GError **errp)
{
    for (int i = 0; option_table[i].name; i++) {
        const OptionSpec *spec = &option_table[i];
        void **field = field_of(o, spec);

        if (!merged->pdata[i]) {
            continue;
        }
        if (!spec->type) {
            *field = g_steal_pointer(&merged->pdata[i]);
            continue;
        }
        *field = qapi_from_keyval(spec->type, merged->pdata[i], errp);
        if (!*field) {
            g_prefix_error(errp, "-%s: ", spec->name);
            return false;
        }
    }
    return true;
}

static bool read_arguments(SystemOptions *o, char **argv, GPtrArray *merged, GError **errp)
{
    for (char **arg = argv + 1; *arg; arg++) {
        const OptionSpec *spec = find_spec(*arg, errp);

        if (!spec) {
            return false;
        }
        if (spec->store == OPTION_FLAG) {
            *(bool *)field_of(o, spec) = true;
            continue;
        }
        if (spec->store == OPTION_REFUSED) {
            error_set(errp, "-%s is not possible: %s", spec->name, spec->reason);
            return false;
        }
        if (!arg[1]) {
            error_set(errp, "-%s: its argument (%s) is missing", spec->name, spec->argument);
            return false;
        }
        arg++;
        if (!add_argument(o, spec, (json_object **)&merged->pdata[spec - option_table], *arg,
                          errp)) {
            g_prefix_error(errp, "-%s %s: ", spec->name, *arg);
            return false;
        }
    }
    return finish_merged(o, merged, errp);
}

SystemOptions *system_options_parse(char **argv, GError **errp)
{
    g_autoptr(SystemOptions) o = g_new0(SystemOptions, 1);
    g_autoptr(GPtrArray) merged = g_ptr_array_new_with_free_func(unref_json);
    int n = 0;

    while (option_table[n].name) {
        n++;
    }
    g_ptr_array_set_size(merged, n);
    return read_arguments(o, argv, merged, errp) ? g_steal_pointer(&o) : NULL;
}

static void free_element(const OptionSpec *spec, void *element)
{
    if (spec->store == OPTION_STRINGS) {
        g_free(element);
    } else if (spec->type) {
        qapi_free(spec->type, element);
    } else {
        json_object_put(element);
    }
}

static void free_list(const OptionSpec *spec, GPtrArray *list)
{
    for (guint i = 0; list && i < list->len; i++) {
        free_element(spec, g_ptr_array_index(list, i));
    }
    if (list) {
        g_ptr_array_unref(list);
    }
}

void system_options_free(SystemOptions *o)
{
    for (const OptionSpec *spec = option_table; o && spec->name; spec++) {
        void **field = field_of(o, spec);

        switch (spec->store) {
        case OPTION_FLAG:
        case OPTION_REFUSED:
            break;
        case OPTION_STRING:
        case OPTION_NONE:
            g_free(*field);
            break;
        case OPTION_MERGED:
            free_element(spec, *field);
            break;
        default:
            free_list(spec, *field);
        }
    }
    g_free(o);
}
