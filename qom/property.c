/*
 * Property tables: installed in a class, listed, and kept in the fields of an object.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qom/property.h"

#include "qapi/visit.h"

static GQuark table_quark(void)
{
    return g_quark_from_static_string("cowbird-property-table");
}

static const QomProperty *own_table(GType type)
{
    return g_type_get_qdata(type, table_quark());
}

typedef void (*PropertyFn)(const QomProperty *prop, void *opaque);

/* Calls fn for the properties of the parents first, then for the type's own. */
static void foreach_property(GType type, PropertyFn fn, void *opaque)
{
    if (type != TYPE_OBJECT) {
        foreach_property(g_type_parent(type), fn, opaque);
    }
    for (const QomProperty *p = own_table(type); p && p->name; p++) {
        fn(p, opaque);
    }
}

static GParamSpec *make_pspec(const QomProperty *p)
{
    GParamFlags f = G_PARAM_READWRITE | G_PARAM_STATIC_NICK | G_PARAM_STATIC_BLURB;

    if (p->child) {
        return NULL;
    }
    switch (p->kind) {
    case QOM_BOOL:
        return g_param_spec_boolean(p->name, NULL, p->description, p->def, f);
    case QOM_UINT8:
        return g_param_spec_uint(p->name, NULL, p->description, 0, UINT8_MAX, p->def, f);
    case QOM_UINT16:
        return g_param_spec_uint(p->name, NULL, p->description, 0, UINT16_MAX, p->def, f);
    case QOM_UINT32:
        return g_param_spec_uint(p->name, NULL, p->description, 0, UINT32_MAX, p->def, f);
    case QOM_UINT64:
    case QOM_SIZE:
        return g_param_spec_uint64(p->name, NULL, p->description, 0, UINT64_MAX, p->def, f);
    case QOM_INT32:
    case QOM_ENUM:
        return g_param_spec_int(p->name, NULL, p->description, INT32_MIN, INT32_MAX, p->def, f);
    case QOM_INT64:
        return g_param_spec_int64(p->name, NULL, p->description, INT64_MIN, INT64_MAX, p->def, f);
    case QOM_STRING:
        return g_param_spec_string(p->name, NULL, p->description, p->def_str, f);
    case QOM_LINK:
        return g_param_spec_object(p->name, NULL, p->description, TYPE_OBJECT, f);
    case QOM_CUSTOM:
        break;
    }
    return NULL;
}

const QomProperty *qom_class_find_property(gpointer klass, const char *name)
{
    for (GType type = G_TYPE_FROM_CLASS(klass); type != G_TYPE_OBJECT; type = g_type_parent(type)) {
        for (const QomProperty *p = own_table(type); p && p->name; p++) {
            if (g_str_equal(p->name, name)) {
                return p;
            }
        }
    }
    return NULL;
}

static void append_property(const QomProperty *prop, void *opaque)
{
    g_ptr_array_add(opaque, (gpointer)prop);
}

GPtrArray *qom_class_list_properties(gpointer klass)
{
    GPtrArray *list = g_ptr_array_new();

    foreach_property(G_TYPE_FROM_CLASS(klass), append_property, list);
    return list;
}

static void set_default(const QomProperty *prop, void *opaque)
{
    void *field = qom_field(opaque, prop);

    if (prop->child) {
        return;
    }
    switch (prop->kind) {
    case QOM_BOOL:
        *(bool *)field = prop->def;
        break;
    case QOM_UINT8:
        *(uint8_t *)field = prop->def;
        break;
    case QOM_UINT16:
        *(uint16_t *)field = prop->def;
        break;
    case QOM_UINT32:
    case QOM_INT32:
    case QOM_ENUM:
        *(uint32_t *)field = prop->def;
        break;
    case QOM_UINT64:
    case QOM_INT64:
    case QOM_SIZE:
        *(uint64_t *)field = prop->def;
        break;
    case QOM_STRING:
        *(char **)field = g_strdup(prop->def_str);
        break;
    case QOM_LINK:
    case QOM_CUSTOM:
        break;
    }
}

void qom_set_defaults(Object *obj)
{
    foreach_property(G_OBJECT_TYPE(obj), set_default, obj);
}

static void release_value(const QomProperty *prop, void *opaque)
{
    if (prop->child) {
        return;
    }
    if (prop->kind == QOM_STRING) {
        g_clear_pointer((char **)qom_field(opaque, prop), g_free);
    } else if (prop->kind == QOM_LINK) {
        g_clear_object((Object **)qom_field(opaque, prop));
    }
}

void qom_release_values(Object *obj)
{
    foreach_property(G_OBJECT_TYPE(obj), release_value, obj);
}

static const QomProperty *property_of(GParamSpec *pspec)
{
    return g_param_spec_get_qdata(pspec, g_quark_from_static_string("cowbird-property"));
}

/* GObject's accessors, for g_object_get and g_object_set in the program itself. */
static void gobject_get(GObject *gobj, guint id, GValue *value, GParamSpec *pspec)
{
    const QomProperty *prop = property_of(pspec);
    void *field = qom_field(OBJECT(gobj), prop);

    switch (prop->kind) {
    case QOM_BOOL:
        g_value_set_boolean(value, *(bool *)field);
        break;
    case QOM_UINT8:
        g_value_set_uint(value, *(uint8_t *)field);
        break;
    case QOM_UINT16:
        g_value_set_uint(value, *(uint16_t *)field);
        break;
    case QOM_UINT32:
        g_value_set_uint(value, *(uint32_t *)field);
        break;
    case QOM_UINT64:
    case QOM_SIZE:
        g_value_set_uint64(value, *(uint64_t *)field);
        break;
    case QOM_INT32:
    case QOM_ENUM:
        g_value_set_int(value, *(int32_t *)field);
        break;
    case QOM_INT64:
        g_value_set_int64(value, *(int64_t *)field);
        break;
    case QOM_STRING:
        g_value_set_string(value, *(char **)field);
        break;
    case QOM_LINK:
        g_value_set_object(value, *(Object **)field);
        break;
    case QOM_CUSTOM:
        break;
    }
}

static void gobject_set(GObject *gobj, guint id, const GValue *value, GParamSpec *pspec)
{
    const QomProperty *prop = property_of(pspec);
    void *field = qom_field(OBJECT(gobj), prop);

    switch (prop->kind) {
    case QOM_BOOL:
        *(bool *)field = g_value_get_boolean(value);
        break;
    case QOM_UINT8:
        *(uint8_t *)field = g_value_get_uint(value);
        break;
    case QOM_UINT16:
        *(uint16_t *)field = g_value_get_uint(value);
        break;
    case QOM_UINT32:
        *(uint32_t *)field = g_value_get_uint(value);
        break;
    case QOM_UINT64:
    case QOM_SIZE:
        *(uint64_t *)field = g_value_get_uint64(value);
        break;
    case QOM_INT32:
    case QOM_ENUM:
        *(int32_t *)field = g_value_get_int(value);
        break;
    case QOM_INT64:
        *(int64_t *)field = g_value_get_int64(value);
        break;
    case QOM_STRING:
        g_free(*(char **)field);
        *(char **)field = g_value_dup_string(value);
        break;
    case QOM_LINK:
        g_set_object((Object **)field, g_value_get_object(value));
        break;
    case QOM_CUSTOM:
        break;
    }
}

void qom_class_install(gpointer klass, const QomProperty *table)
{
    GObjectClass *gclass = G_OBJECT_CLASS(klass);
    GQuark quark = g_quark_from_static_string("cowbird-property");
    guint id = 1;

    g_type_set_qdata(G_TYPE_FROM_CLASS(klass), table_quark(), (gpointer)table);
    /* GObject does not inherit these two. */
    gclass->get_property = gobject_get;
    gclass->set_property = gobject_set;
    for (const QomProperty *p = table; p->name; p++, id++) {
        GParamSpec *pspec = make_pspec(p);

        if (pspec) {
            g_param_spec_set_qdata(pspec, quark, (gpointer)p);
            g_object_class_install_property(gclass, id, pspec);
        }
    }
}
