/*
 * Inside of qom/: access to the values that property tables describe.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_QOM_PROPERTY_H
#define COWBIRD_QOM_PROPERTY_H

#include "qom/object.h"

/* The field of a property with storage. */
static inline void *qom_field(Object *obj, const QomProperty *prop)
{
    return (char *)obj + prop->offset;
}

/* Fills the fields of a new object with the defaults of all its classes. */
void qom_set_defaults(Object *obj);
/* Frees strings and drops references held in fields. */
void qom_release_values(Object *obj);
/* GObject's accessors, for g_object_get and g_object_set in the program itself. */
void qom_gobject_get(GObject *gobj, guint id, GValue *value, GParamSpec *pspec);
void qom_gobject_set(GObject *gobj, guint id, const GValue *value, GParamSpec *pspec);

#endif
