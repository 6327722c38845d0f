/*
 * Objects with names, paths and property tables: a thin layer over GObject.
 *
 * Every object that a user can name derives from Object. Objects form a tree of which each object owns
 * its children; the path of an object ("/machine/peripheral/net0") is made of the names on the way.
 * A class describes its properties in one static table (QomProperty); values are kept in the instance
 * structure at the offset given there, and are read and written as JSON by QMP, -object and -device.
 *
 * A type is defined with QOM_DEFINE_TYPE, which gives it the name users know ("isa-serial"), and is
 * listed in a QomType table so that it can be found by that name.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_QOM_OBJECT_H
#define COWBIRD_QOM_OBJECT_H

#include <glib-object.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct QapiType QapiType;

/*
 * Declares the type Type: its typedefs, PREFIX_get_type() and the casts UPPER(), UPPER_CLASS() and
 * UPPER_GET_CLASS(). The structures _Type and _TypeClass are written out after it.
 */
#define QOM_DECLARE_TYPE(Type, prefix, UPPER) \
    typedef struct _##Type Type;              \
    QOM_DECLARE_TYPE_OF(Type, prefix, UPPER)

/* The same when Type itself is declared elsewhere, with any structure tag. */
#define QOM_DECLARE_TYPE_OF(Type, prefix, UPPER)                                 \
    typedef struct _##Type##Class Type##Class;                                   \
    GType prefix##_get_type(void);                                               \
    G_DEFINE_AUTOPTR_CLEANUP_FUNC(Type, g_object_unref)                          \
    G_GNUC_UNUSED static inline Type *UPPER(gpointer obj)                        \
    {                                                                            \
        return G_TYPE_CHECK_INSTANCE_CAST(obj, prefix##_get_type(), Type);       \
    }                                                                            \
    G_GNUC_UNUSED static inline Type##Class *UPPER##_CLASS(gpointer klass)       \
    {                                                                            \
        return G_TYPE_CHECK_CLASS_CAST(klass, prefix##_get_type(), Type##Class); \
    }                                                                            \
    G_GNUC_UNUSED static inline Type##Class *UPPER##_GET_CLASS(gpointer obj)     \
    {                                                                            \
        return G_TYPE_INSTANCE_GET_CLASS(obj, prefix##_get_type(), Type##Class); \
    }

/* The same for a type whose class adds nothing to its parent's class (ParentClass). */
#define QOM_DECLARE_FINAL_TYPE(Type, prefix, UPPER, ParentClass) \
    QOM_DECLARE_TYPE(Type, prefix, UPPER)                        \
    struct _##Type##Class {                                      \
        ParentClass parent_class;                                \
    };

/*
 * Defines a type declared above; like G_DEFINE_TYPE it wants prefix_init() and prefix_class_init().
 * qom_name is the name that users know.
 */
#define QOM_DEFINE_TYPE(Type, prefix, qom_name, PARENT_TYPE) \
    G_DEFINE_TYPE_WITH_CODE(Type, prefix, PARENT_TYPE,       \
                            qom_type_set_name(g_define_type_id, qom_name))
#define QOM_DEFINE_ABSTRACT_TYPE(Type, prefix, qom_name, PARENT_TYPE) \
    G_DEFINE_ABSTRACT_TYPE_WITH_CODE(Type, prefix, PARENT_TYPE,       \
                                     qom_type_set_name(g_define_type_id, qom_name))

#define TYPE_OBJECT (object_get_type())
QOM_DECLARE_TYPE(Object, object, OBJECT)

typedef enum QomPropKind {
    QOM_BOOL,   /* bool */
    QOM_UINT8,  /* uint8_t */
    QOM_UINT16, /* uint16_t */
    QOM_UINT32, /* uint32_t */
    QOM_UINT64, /* uint64_t */
    QOM_INT32,  /* int32_t */
    QOM_INT64,  /* int64_t */
    QOM_SIZE,   /* uint64_t, bytes; text may carry K, M, G, T */
    QOM_STRING, /* char *, owned by the object, may be NULL */
    QOM_ENUM,   /* int, a value of enum_type */
    QOM_LINK,   /* Object *, referenced by the object, may be NULL; text is an id or a path */
    QOM_CUSTOM, /* no storage: get and set below */
} QomPropKind;

typedef enum QomPropFlags {
    QOM_PROP_READ_ONLY = 1 << 0, /* cannot be set from outside */
    QOM_PROP_LATE = 1 << 1,      /* may be set after the object was completed or realized */
} QomPropFlags;

typedef struct QomProperty {
    const char *name;
    QomPropKind kind;
    size_t offset;             /* of the field in the instance structure */
    int64_t def;               /* default of bool, number (cast to its type) and enum */
    const char *def_str;       /* default of a string */
    const QapiType *enum_type; /* QOM_ENUM: the QAPI enumeration */
    const char *link_type;     /* QOM_LINK: name of the type that the target must have */
    const char *description;   /* shown by device-list-properties; may be NULL */
    unsigned flags;            /* QomPropFlags */
    const char *type_name;     /* type shown to users, NULL: derived from kind */
    /* The property is that of the same name of this child of the object; offset, get and set are not used. */
    const char *child;
    /* If present they replace the access by offset (required for QOM_CUSTOM; set NULL = read-only). */
    json_object *(*get)(Object *obj, GError **errp);
    bool (*set)(Object *obj, json_object *value, GError **errp);
} QomProperty;

/* Ends a property table. */
#define QOM_PROPERTY_END \
    {                    \
        .name = NULL     \
    }

struct _Object {
    GObject parent_instance;
    char *name;          /* in the parent; NULL outside the tree */
    Object *parent;      /* not a reference */
    Object *root;        /* of the tree it is in or made for: where links are looked up */
    GPtrArray *children; /* of Object *, references, in order; NULL while there are none */
    bool completed;      /* complete() ran, or the device is realized: most properties are fixed */
};

struct _ObjectClass {
    GObjectClass parent_class;
    bool user_creatable; /* by -object and object-add */
    /* Called once when all properties are set by -object/object-add; may be NULL. */
    bool (*complete)(Object *obj, GError **errp);
    /* object-del: false with an error if somebody uses the object; may be NULL. */
    bool (*can_delete)(Object *obj, GError **errp);
};

/* One line of the table of types that users can name. */
typedef struct QomType {
    const char *name;
    GType (*get_type)(void);
    const char *alias; /* a second name, or left out */
} QomType;

/*
 * Functions take several tables (const QomType *const *types), ended by NULL; each table is ended by a
 * line without name. This one has what is in this folder.
 */
extern const QomType qom_base_types[];

/* Types. */

/* Gives a GType the name that users know (a constant); used by QOM_DEFINE_TYPE. */
void qom_type_set_name(GType type, const char *name);
/* Name that users know, or GObject's own name. */
const char *qom_type_name(GType type);
/* True if the type, or one it is derived from, has that name. */
bool qom_type_is_a(GType type, const char *name);
/* Finds a type by name or alias; 0 if there is none. */
GType qom_type_find(const QomType *const *types, const char *name);
/* As above; an unknown name is an error that offers the nearest names of types derived from base. */
GType qom_type_require(const QomType *const *types, const char *name, GType base, GError **errp);

/* Installs a static table of properties; call in class_init. */
void qom_class_install(gpointer klass, const QomProperty *table);
/* The table line of a property of that exact name, own or inherited; NULL if there is none. */
const QomProperty *qom_class_find_property(gpointer klass, const char *name);
/* As above; an unknown name is an error that offers the nearest ones. */
const QomProperty *qom_class_require_property(gpointer klass, const char *name, GError **errp);
/* All properties, parents' first, as const QomProperty *; free the array with g_ptr_array_unref. */
GPtrArray *qom_class_list_properties(gpointer klass);
/* The type of a property as users see it: "bool", "uint32", "str", "size", "link<TYPE>", enum's name. */
char *qom_property_type_name(const QomProperty *prop);
/* The default as JSON, or NULL if the property has none. */
json_object *qom_property_default_json(const QomProperty *prop);

/* The tree. */

/* A plain container object (type "container"). */
#define TYPE_CONTAINER (container_get_type())
QOM_DECLARE_TYPE(Container, container, CONTAINER)
struct _Container {
    Object parent_instance;
};
struct _ContainerClass {
    ObjectClass parent_class;
};

/*
 * An object with its defaults, made for the tree of root (may be NULL), as are the children that its own init gives it.
 * Caller owns the reference.
 */
Object *object_new(GType type, Object *root);
/* Puts child under parent, which takes a reference. A name in use is an error. */
bool object_add_child(Object *parent, const char *name, Object *child, GError **errp);
/* Puts a child whose name is "prefix[N]" with the first free N. Cannot fail. */
void object_add_child_numbered(Object *parent, const char *prefix, Object *child);
/* The child container of that name, made if missing (not a new reference). */
Object *object_get_container(Object *parent, const char *name);
/* Takes the object out of the tree and drops the tree's reference. */
void object_unparent(Object *obj);
/* Child by name or NULL (not a reference). */
Object *object_get_child(Object *parent, const char *name);
/* "/machine/peripheral/net0"; "/" for the root. Free with g_free. */
char *object_path(Object *obj);
/* Object at an absolute path, or NULL; not a reference. */
Object *object_resolve(Object *root, const char *path);
/*
 * As above; a text without leading '/' is a name searched in the whole tree, the first object of a type
 * derived from type in order of addition. NULL if there is none; not a reference.
 */
Object *object_find(Object *root, const char *name_or_path, GType type);
/* Name of its type as users know it. */
const char *object_type_name(Object *obj);
/* True if obj is of the named type or of one derived from it. */
bool object_is_a(Object *obj, const char *type_name);

/* Properties. All errors name the object's type, the property and the value. */

/* Value as JSON, owned by the caller; NULL: error. An unset string or link is "". */
json_object *object_get_property_json(Object *obj, const char *name, GError **errp);
/* Sets from JSON; numbers and booleans may be given as text as on a command line ("2G", "on"). */
bool object_set_property_json(Object *obj, const char *name, json_object *value, GError **errp);
/* Sets from the text of a command line. */
bool object_set_property_str(Object *obj, const char *name, const char *value, GError **errp);
/* Sets all members of an object; names in skip (NULL-terminated, may be NULL) are left out. */
bool object_set_properties_json(Object *obj, json_object *dict, const char *const *skip,
                                GError **errp);
/* Marks the properties as fixed after running the class's complete(). */
bool object_complete(Object *obj, GError **errp);

#endif
