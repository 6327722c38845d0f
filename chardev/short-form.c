/*
 * Short forms of chardevs: what -serial, -monitor and -qmp take ("pty", "unix:/run/x,server=on").
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "chardev/chardev.h"

#include <string.h>

#include "util/error.h"
#include "util/json.h"
#include "util/keyval.h"
#include "util/suggest.h"

typedef json_object *ParseFunc(const char *rest, GError **errp);

/* The rest is a file name to its last byte. */
static json_object *parse_path(const char *rest, GError **errp)
{
    json_object *obj = json_object_new_object();

    json_add_str(obj, "path", rest);
    return obj;
}

static json_object *parse_unix(const char *rest, GError **errp)
{
    return keyval_parse(rest, "path", errp);
}

/* HOST:PORT[,key=value...]; HOST may be empty or a numeric IPv6 address in brackets. */
static json_object *parse_tcp(const char *rest, GError **errp)
{
    g_autoptr(json_object) obj = NULL;
    const char *end = strchrnul(rest, ',');
    const char *bracket = rest[0] == '[' ? memchr(rest, ']', end - rest) : NULL;
    const char *colon = memchr(bracket ?: rest, ':', end - (bracket ?: rest));
    g_autofree char *host = NULL, *port = NULL;

    if (!colon || (bracket && colon != bracket + 1)) {
        error_set(errp, "'tcp:%s' is not of the form tcp:HOST:PORT", rest);
        return NULL;
    }
    host = bracket ? g_strndup(rest + 1, bracket - rest - 1) : g_strndup(rest, colon - rest);
    port = g_strndup(colon + 1, end - colon - 1);
    obj = keyval_parse(*end ? end + 1 : end, NULL, errp);
    if (obj) {
        json_add_str(obj, "host", host);
        json_add_str(obj, "port", port);
    }
    return g_steal_pointer(&obj);
}

/* The forms; those that end in ':' have something behind it. */
static const struct {
    const char *form;
    const char *backend;
    ParseFunc *parse;
} forms[] = {
    { "null", "null", NULL },        { "stdio", "stdio", NULL },
    { "pty", "pty", NULL },          { "file:", "file", parse_path },
    { "pipe:", "pipe", parse_path }, { "unix:", "socket", parse_unix },
    { "tcp:", "socket", parse_tcp },
};

static bool form_matches(const char *form, const char *text)
{
    return g_str_has_suffix(form, ":") ? g_str_has_prefix(text, form) : strcmp(form, text) == 0;
}

static void set_unknown(const char *text, GError **errp)
{
    const char *names[G_N_ELEMENTS(forms) + 2] = { "chardev:" };
    size_t len = strcspn(text, ":,");
    g_autofree char *word = g_strndup(text, text[len] == ':' ? len + 1 : len);
    g_autofree char *hint = NULL;

    for (size_t i = 0; i < G_N_ELEMENTS(forms); i++) {
        names[i + 1] = forms[i].form;
    }
    hint = suggest_nearest(word, names);
    error_set(errp, "Unknown character device '%s'%s%s", text, hint ? ": " : "", hint ?: "");
}

static json_object *parse_short(const char *id, const char *text, GError **errp)
{
    for (size_t i = 0; i < G_N_ELEMENTS(forms); i++) {
        json_object *obj;

        if (!form_matches(forms[i].form, text)) {
            continue;
        }
        obj = forms[i].parse ? forms[i].parse(text + strlen(forms[i].form), errp)
                             : json_object_new_object();
        if (obj) {
            json_add_str(obj, "backend", forms[i].backend);
            json_add_str(obj, "id", id);
        }
        return obj;
    }
    set_unknown(text, errp);
    return NULL;
}

Chardev *chardev_new_short(ChardevRegistry *registry, const char *id, const char *text,
                           GError **errp)
{
    g_autoptr(json_object) options = NULL;

    if (g_str_has_prefix(text, "chardev:")) {
        return chardev_get(registry, text + strlen("chardev:"), errp);
    }
    if (g_str_has_prefix(text, "mon:")) {
        error_set(errp,
                  "'%s' is not supported: a monitor and a serial port cannot share a chardev; use "
                  "-serial %s and -qmp with a socket",
                  text, text + strlen("mon:"));
        return NULL;
    }
    options = parse_short(id, text, errp);
    return options ? chardev_new(registry, options, errp) : NULL;
}
