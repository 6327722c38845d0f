/*
 * Names of types: from GObject's type to the name users know, and back.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qom/object.h"

#include "util/error.h"
#include "util/suggest.h"

const QomType qom_base_types[] = {
    { "object", object_get_type },
    { "container", container_get_type },
    { .name = NULL },
};

static GQuark name_quark(void)
{
    return g_quark_from_static_string("cowbird-type-name");
}

void qom_type_set_name(GType type, const char *name)
{
    g_type_set_qdata(type, name_quark(), (gpointer)name);
}

const char *qom_type_name(GType type)
{
    const char *name = g_type_get_qdata(type, name_quark());

    return name ? name : g_type_name(type);
}

bool qom_type_is_a(GType type, const char *name)
{
    for (; type; type = g_type_parent(type)) {
        if (g_str_equal(qom_type_name(type), name)) {
            return true;
        }
    }
    return false;
}

GType qom_type_find(const QomType *const *types, const char *name)
{
    for (; *types; types++) {
        for (const QomType *t = *types; t->name; t++) {
            if (g_str_equal(t->name, name) || (t->alias && g_str_equal(t->alias, name))) {
                return t->get_type();
            }
        }
    }
    return 0;
}

/* Names of all types that a user could have meant, for the error. */
static char *suggest_type(const QomType *const *types, const char *name, GType base)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new();

    for (; *types; types++) {
        for (const QomType *t = *types; t->name; t++) {
            GType type = t->get_type();

            if (g_type_is_a(type, base) && !G_TYPE_IS_ABSTRACT(type)) {
                g_ptr_array_add(names, (gpointer)t->name);
            }
        }
    }
    g_ptr_array_add(names, NULL);
    return suggest_nearest(name, (const char *const *)names->pdata);
}

GType qom_type_require(const QomType *const *types, const char *name, GType base, GError **errp)
{
    GType type = qom_type_find(types, name);
    g_autofree char *hint = NULL;

    if (type && g_type_is_a(type, base)) {
        return type;
    }
    hint = suggest_type(types, name, base);
    if (type) {
        error_set(errp, "'%s' is not a kind of %s%s%s", name, qom_type_name(base), hint ? "; " : "",
                  hint ? hint : "");
    } else {
        error_set_class(errp, COWBIRD_ERROR_DEVICE_NOT_FOUND, "There is no %s type '%s'%s%s",
                        qom_type_name(base), name, hint ? "; " : "", hint ? hint : "");
    }
    return 0;
}
