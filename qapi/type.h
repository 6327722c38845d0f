/*
 * Tables that describe the types of the schema (qapi/schema.json). scripts/qapi writes one table
 * per type into qapi-tables.c; everything that handles values (qapi/visit.h) walks these tables,
 * so there is no code per type.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef QAPI_TYPE_H
#define QAPI_TYPE_H

#include <glib.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct QapiType QapiType;
/* A QapiType that is known to be an enum. */
typedef struct QapiType QapiEnum;

typedef enum QapiKind {
    QAPI_KIND_STR,       /* char *, UTF-8 without NUL */
    QAPI_KIND_BOOL,      /* bool */
    QAPI_KIND_INT,       /* intN_t or uintN_t of QapiType.size bytes */
    QAPI_KIND_NUMBER,    /* double */
    QAPI_KIND_NULL,      /* nothing is stored */
    QAPI_KIND_ANY,       /* json_object * */
    QAPI_KIND_ENUM,      /* a C enum */
    QAPI_KIND_OBJECT,    /* a C struct: schema structs and flat unions */
    QAPI_KIND_ALTERNATE, /* a C struct { QapiJsonKind kind; union u; } */
    QAPI_KIND_LIST,      /* GArray * of scalars and enums, GPtrArray * of everything else */
} QapiKind;

/* JSON types as an alternate tells them apart. */
typedef enum QapiJsonKind {
    QAPI_JSON_NULL,
    QAPI_JSON_BOOL,
    QAPI_JSON_NUMBER,
    QAPI_JSON_STRING,
    QAPI_JSON_OBJECT,
    QAPI_JSON_ARRAY,
} QapiJsonKind;

#define QAPI_NO_HAS (-1)

/* A member of an object, inherited ones included, or a branch of an alternate. */
typedef struct QapiMember {
    const char *name;
    const QapiType *type;
    int offset;     /* in the C struct */
    int has_offset; /* of its `bool has_NAME`, QAPI_NO_HAS if there is none */
    bool optional;
} QapiMember;

struct QapiType {
    QapiKind kind;
    const char *name;
    unsigned size;             /* bytes of the C type */
    bool is_unsigned;          /* INT */
    bool is_size;              /* INT: key=value text may have a size suffix */
    unsigned n_values;         /* ENUM */
    const char *const *values; /* ENUM: n_values names and a NULL */
    const QapiType *element;   /* LIST */
    unsigned n_members;        /* OBJECT, ALTERNATE */
    const QapiMember *members;
    const QapiMember *tag;           /* OBJECT that is a union: the member that selects a branch */
    const QapiType *const *branches; /* by the value of the tag; NULL: no further members */
    int branch_offset;               /* of the union in the C struct */
};

extern const QapiType qapi_type_str, qapi_type_bool, qapi_type_number, qapi_type_null,
    qapi_type_any, qapi_type_int, qapi_type_int8, qapi_type_int16, qapi_type_int32, qapi_type_int64,
    qapi_type_uint8, qapi_type_uint16, qapi_type_uint32, qapi_type_uint64, qapi_type_size;

/* An object without members: the arguments of a command that takes none. */
extern const QapiType qapi_type_none;

/* True if C keeps a value of @type behind a pointer that may be NULL. */
bool qapi_type_is_pointer(const QapiType *type);

/* The name of an enum value; "?" if @value is none. */
const char *qapi_enum_str(const QapiEnum *type, int value);

/* The value called @name, or -1. */
int qapi_enum_find(const QapiEnum *type, const char *name);

/* The value called @name; an error names the nearest valid ones. */
bool qapi_enum_parse(const QapiEnum *type, const char *name, int *ret_value, GError **errp);

#endif
