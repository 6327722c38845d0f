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
#endif
