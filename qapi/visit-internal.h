/*
 * What the parts of the visitors share.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef QAPI_VISIT_INTERNAL_H
#define QAPI_VISIT_INTERNAL_H

#include "qapi/visit.h"

/* Where in the input a value stands: a chain of frames on the C stack, innermost first. */
typedef struct VisitPath {
    const struct VisitPath *parent;
    const char *name; /* of the member; NULL: element number `index` of the parent */
    size_t index;
} VisitPath;

/* How input is read. */
typedef struct VisitMode {
    bool keyval; /* scalars may be strings */
} VisitMode;

/* "channels[0].uri"; "argument" for the root. Owned by the caller. */
char *visit_path_text(const VisitPath *path);

/* "Invalid parameter type for 'x', expected: string". Returns false. */
bool visit_type_error(const VisitPath *path, const char *expected, GError **errp);

/* Read a scalar, an enum or a string into @slot, which is what C keeps for @type. */
bool visit_read_scalar(const VisitMode *mode, const QapiType *type, json_object *json,
                       const VisitPath *path, void *slot, GError **errp);

/* The JSON type of the values of @type, as an alternate tells them apart. */
QapiJsonKind visit_json_kind(const QapiType *type);

/* The bounds of an integer type; the lower one is 0 for unsigned types. */
int64_t visit_int_min(const QapiType *type);
uint64_t visit_int_max(const QapiType *type);

/* Store the integer @bits, already in range, in @slot; read it back sign-extended. */
void visit_store_int(const QapiType *type, void *slot, uint64_t bits);
uint64_t visit_load_int(const QapiType *type, const void *slot);

/* Free what a member's @slot owns, without the slot itself. */
void visit_clear(const QapiType *type, void *slot);

/* The branch of union @type that @value has selected, or NULL. */
const QapiType *visit_branch(const QapiType *type, const void *value);

#endif
