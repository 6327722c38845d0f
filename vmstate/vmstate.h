/*
 * Device state as tables: one list of fields is read in both directions, and described in JSON.
 *
 * The wire is that of QEMU's vmstate: big-endian scalars without padding, then subsections
 * (0x05, length of the name, name, be32 version, fields). The macros carry QEMU's names:
 * (field, state) for members, _V adds the version that introduced the field, _TEST a function
 * that tells whether the field is there.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_VMSTATE_VMSTATE_H
#define COWBIRD_VMSTATE_VMSTATE_H

#include <json-c/json.h>
#include <stddef.h>

#include "vmstate/reader.h"

typedef struct VMStateDescription VMStateDescription;
typedef struct VMStateField VMStateField;

/* How one element of a field travels. @size is that of the element in memory. */
typedef struct VMStateInfo {
    const char *name; /* the type in the JSON description */
    void (*put)(GByteArray *out, const void *p, size_t size);
    bool (*get)(ByteReader *in, void *p, size_t size, GError **errp);
} VMStateInfo;

typedef enum {
    VMS_SINGLE = 0,        /* one element */
    VMS_ARRAY = 1,         /* num elements inside the structure */
    VMS_VARRAY_UINT32 = 2, /* the count is the uint32_t at num_offset, at most num when inline */
    VMS_STRUCT = 4,        /* elements are described by vmsd */
    VMS_ALLOC = 8,    /* the field is a pointer to the elements; loading allocates with g_malloc */
    VMS_POINTER = 16, /* the field is a pointer to elements that exist already */
} VMStateFlags;

struct VMStateField {
    const char *name;
    size_t offset;
    size_t size; /* of one element in memory */
    uint32_t num;
    size_t num_offset;
    const VMStateInfo *info;
    const VMStateDescription *vmsd;
    /* Structures whose table depends on the object: gives it for the element, in place of vmsd. */
    const VMStateDescription *(*choose)(void *element);
    int flags;
    int version_id; /* the field is there since this version */
    bool (*field_exists)(void *opaque, int version_id);
};

struct VMStateDescription {
    const char *name; /* a subsection's name is "parent-name/own-name" */
    int version_id;
    int minimum_version_id;
    /* Called before anything is read; false with an error refuses. */
    bool (*pre_load)(void *opaque, GError **errp);
    /* Called after all fields and subsections were read. */
    bool (*post_load)(void *opaque, int version_id, GError **errp);
    void (*pre_save)(void *opaque);
    /* A subsection is saved only if this returns true. */
    bool (*needed)(void *opaque);
    const VMStateField *fields;                   /* ends with VMSTATE_END_OF_LIST() */
    const VMStateDescription *const *subsections; /* NULL-terminated, or NULL */
};

/*
 * Appends the state of @opaque: pre_save, fields, subsections. No header: the section's name
 * and version are the caller's.
 */
void vmstate_save(GByteArray *out, const VMStateDescription *vmsd, void *opaque);

/*
 * Reads what vmstate_save wrote, as of @version. Never reads or writes out of bounds whatever the
 * bytes are. On failure @opaque may be half loaded.
 */
bool vmstate_load(ByteReader *in, const VMStateDescription *vmsd, void *opaque, int version,
                  GError **errp);

/*
 * The JSON description of what vmstate_save just wrote for @opaque: vmsd_name, version,
 * fields, subsections. The caller owns the reference.
 */
json_object *vmstate_describe(const VMStateDescription *vmsd, void *opaque);

extern const VMStateInfo vmstate_info_bool;
extern const VMStateInfo vmstate_info_uint8;
extern const VMStateInfo vmstate_info_uint16;
extern const VMStateInfo vmstate_info_uint32;
extern const VMStateInfo vmstate_info_uint64;
extern const VMStateInfo vmstate_info_int8;
extern const VMStateInfo vmstate_info_int16;
extern const VMStateInfo vmstate_info_int32;
extern const VMStateInfo vmstate_info_int64;
extern const VMStateInfo vmstate_info_buffer;        /* bytes as they are */
extern const VMStateInfo vmstate_info_unused_buffer; /* zeros out, skipped in */

/* Offsets that fail to compile when the member is not of the type. */
#define VMSTATE_TYPE_CHECK(a, b) (0 * sizeof(char[__builtin_types_compatible_p(a, b) ? 1 : -1]))
#define VMSTATE_OFFSET(state, field, type) \
    (offsetof(state, field) + VMSTATE_TYPE_CHECK(type, __typeof__(((state *)0)->field)))
#define VMSTATE_OFFSET_ELEMENT(state, field, type) \
    (offsetof(state, field) + VMSTATE_TYPE_CHECK(type, __typeof__(((state *)0)->field[0])))
#define VMSTATE_OFFSET_POINTER(state, field, type) \
    (offsetof(state, field) + VMSTATE_TYPE_CHECK(type *, __typeof__(((state *)0)->field)))
#define VMSTATE_CAPACITY(state, field) G_N_ELEMENTS(((state *)0)->field)

#define VMSTATE_SINGLE_TEST(f, s, test, v, i, t)                                                  \
    {                                                                                             \
        .name = #f, .offset = VMSTATE_OFFSET(s, f, t), .size = sizeof(t), .num = 1, .info = &(i), \
        .flags = VMS_SINGLE, .version_id = (v), .field_exists = (test)                            \
    }
#define VMSTATE_SINGLE(f, s, v, i, t) VMSTATE_SINGLE_TEST(f, s, NULL, v, i, t)
#define VMSTATE_ARRAY_TEST(f, s, n, test, v, i, t)                                          \
    {                                                                                       \
        .name = #f,                                                                         \
        .offset = VMSTATE_OFFSET_ELEMENT(s, f, t) +                                         \
                  0 * sizeof(char[(n) == VMSTATE_CAPACITY(s, f) ? 1 : -1]),                 \
        .size = sizeof(t), .num = (n), .info = &(i), .flags = VMS_ARRAY, .version_id = (v), \
        .field_exists = (test)                                                              \
    }
#define VMSTATE_ARRAY(f, s, n, v, i, t) VMSTATE_ARRAY_TEST(f, s, n, NULL, v, i, t)

#define VMSTATE_BOOL_V(f, s, v) VMSTATE_SINGLE(f, s, v, vmstate_info_bool, bool)
#define VMSTATE_UINT8_V(f, s, v) VMSTATE_SINGLE(f, s, v, vmstate_info_uint8, uint8_t)
#define VMSTATE_UINT16_V(f, s, v) VMSTATE_SINGLE(f, s, v, vmstate_info_uint16, uint16_t)
#define VMSTATE_UINT32_V(f, s, v) VMSTATE_SINGLE(f, s, v, vmstate_info_uint32, uint32_t)
#define VMSTATE_UINT64_V(f, s, v) VMSTATE_SINGLE(f, s, v, vmstate_info_uint64, uint64_t)
#define VMSTATE_INT8_V(f, s, v) VMSTATE_SINGLE(f, s, v, vmstate_info_int8, int8_t)
#define VMSTATE_INT16_V(f, s, v) VMSTATE_SINGLE(f, s, v, vmstate_info_int16, int16_t)
#define VMSTATE_INT32_V(f, s, v) VMSTATE_SINGLE(f, s, v, vmstate_info_int32, int32_t)
#define VMSTATE_INT64_V(f, s, v) VMSTATE_SINGLE(f, s, v, vmstate_info_int64, int64_t)

#define VMSTATE_BOOL(f, s) VMSTATE_BOOL_V(f, s, 0)
#define VMSTATE_UINT8(f, s) VMSTATE_UINT8_V(f, s, 0)
#define VMSTATE_UINT16(f, s) VMSTATE_UINT16_V(f, s, 0)
#define VMSTATE_UINT32(f, s) VMSTATE_UINT32_V(f, s, 0)
#define VMSTATE_UINT64(f, s) VMSTATE_UINT64_V(f, s, 0)
#define VMSTATE_INT8(f, s) VMSTATE_INT8_V(f, s, 0)
#define VMSTATE_INT16(f, s) VMSTATE_INT16_V(f, s, 0)
#define VMSTATE_INT32(f, s) VMSTATE_INT32_V(f, s, 0)
#define VMSTATE_INT64(f, s) VMSTATE_INT64_V(f, s, 0)

#define VMSTATE_BOOL_TEST(f, s, t) VMSTATE_SINGLE_TEST(f, s, t, 0, vmstate_info_bool, bool)
#define VMSTATE_UINT8_TEST(f, s, t) VMSTATE_SINGLE_TEST(f, s, t, 0, vmstate_info_uint8, uint8_t)
#define VMSTATE_UINT16_TEST(f, s, t) VMSTATE_SINGLE_TEST(f, s, t, 0, vmstate_info_uint16, uint16_t)
#define VMSTATE_UINT32_TEST(f, s, t) VMSTATE_SINGLE_TEST(f, s, t, 0, vmstate_info_uint32, uint32_t)
#define VMSTATE_UINT64_TEST(f, s, t) VMSTATE_SINGLE_TEST(f, s, t, 0, vmstate_info_uint64, uint64_t)
#define VMSTATE_INT32_TEST(f, s, t) VMSTATE_SINGLE_TEST(f, s, t, 0, vmstate_info_int32, int32_t)
#define VMSTATE_INT64_TEST(f, s, t) VMSTATE_SINGLE_TEST(f, s, t, 0, vmstate_info_int64, int64_t)

#define VMSTATE_BOOL_ARRAY_V(f, s, n, v) VMSTATE_ARRAY(f, s, n, v, vmstate_info_bool, bool)
#define VMSTATE_UINT8_ARRAY_V(f, s, n, v) VMSTATE_ARRAY(f, s, n, v, vmstate_info_uint8, uint8_t)
#define VMSTATE_UINT16_ARRAY_V(f, s, n, v) VMSTATE_ARRAY(f, s, n, v, vmstate_info_uint16, uint16_t)
#define VMSTATE_UINT32_ARRAY_V(f, s, n, v) VMSTATE_ARRAY(f, s, n, v, vmstate_info_uint32, uint32_t)
#define VMSTATE_UINT64_ARRAY_V(f, s, n, v) VMSTATE_ARRAY(f, s, n, v, vmstate_info_uint64, uint64_t)
#define VMSTATE_INT32_ARRAY_V(f, s, n, v) VMSTATE_ARRAY(f, s, n, v, vmstate_info_int32, int32_t)
#define VMSTATE_INT64_ARRAY_V(f, s, n, v) VMSTATE_ARRAY(f, s, n, v, vmstate_info_int64, int64_t)

#define VMSTATE_BOOL_ARRAY(f, s, n) VMSTATE_BOOL_ARRAY_V(f, s, n, 0)
#define VMSTATE_UINT8_ARRAY(f, s, n) VMSTATE_UINT8_ARRAY_V(f, s, n, 0)
#define VMSTATE_UINT16_ARRAY(f, s, n) VMSTATE_UINT16_ARRAY_V(f, s, n, 0)
#define VMSTATE_UINT32_ARRAY(f, s, n) VMSTATE_UINT32_ARRAY_V(f, s, n, 0)
#define VMSTATE_UINT64_ARRAY(f, s, n) VMSTATE_UINT64_ARRAY_V(f, s, n, 0)
#define VMSTATE_INT32_ARRAY(f, s, n) VMSTATE_INT32_ARRAY_V(f, s, n, 0)
#define VMSTATE_INT64_ARRAY(f, s, n) VMSTATE_INT64_ARRAY_V(f, s, n, 0)

/* uint8_t f[N], as bytes. */
#define VMSTATE_BUFFER_TEST(f, s, test, v)                                                        \
    {                                                                                             \
        .name = #f, .offset = VMSTATE_OFFSET_ELEMENT(s, f, uint8_t), .size = sizeof(((s *)0)->f), \
        .num = 1, .info = &vmstate_info_buffer, .flags = VMS_SINGLE, .version_id = (v),           \
        .field_exists = (test)                                                                    \
    }
#define VMSTATE_BUFFER_V(f, s, v) VMSTATE_BUFFER_TEST(f, s, NULL, v)
#define VMSTATE_BUFFER(f, s) VMSTATE_BUFFER_V(f, s, 0)

/* @n bytes on the wire that nobody uses any more. */
#define VMSTATE_UNUSED(n)                                                             \
    {                                                                                 \
        .name = "unused", .size = (n), .num = 1, .info = &vmstate_info_unused_buffer, \
        .flags = VMS_SINGLE                                                           \
    }

/* A structure with a table of its own, inside this one. */
#define VMSTATE_STRUCT_TEST(f, s, test, v, d, t)                                                  \
    {                                                                                             \
        .name = #f, .offset = VMSTATE_OFFSET(s, f, t), .size = sizeof(t), .num = 1, .vmsd = &(d), \
        .flags = VMS_STRUCT, .version_id = (v), .field_exists = (test)                            \
    }
#define VMSTATE_STRUCT(f, s, v, d, t) VMSTATE_STRUCT_TEST(f, s, NULL, v, d, t)
#define VMSTATE_STRUCT_ARRAY_TEST(f, s, n, test, v, d, t)                             \
    {                                                                                 \
        .name = #f,                                                                   \
        .offset = VMSTATE_OFFSET_ELEMENT(s, f, t) +                                   \
                  0 * sizeof(char[(n) == VMSTATE_CAPACITY(s, f) ? 1 : -1]),           \
        .size = sizeof(t), .num = (n), .vmsd = &(d), .flags = VMS_STRUCT | VMS_ARRAY, \
        .version_id = (v), .field_exists = (test)                                     \
    }
#define VMSTATE_STRUCT_ARRAY(f, s, n, v, d, t) VMSTATE_STRUCT_ARRAY_TEST(f, s, n, NULL, v, d, t)

/* t *f, which points at one structure before saving and before loading. */
#define VMSTATE_STRUCT_POINTER_TEST(f, s, test, v, d, t)                                           \
    {                                                                                              \
        .name = #f, .offset = VMSTATE_OFFSET_POINTER(s, f, t), .size = sizeof(t), .num = 1,        \
        .vmsd = &(d), .flags = VMS_STRUCT | VMS_POINTER, .version_id = (v), .field_exists = (test) \
    }
#define VMSTATE_STRUCT_POINTER(f, s, d, t) VMSTATE_STRUCT_POINTER_TEST(f, s, NULL, 0, d, t)

/*
 * Arrays whose length is the uint32_t member @fn, which stands earlier in the table. Inline
 * (t f[N]): a length over N is refused. _ALLOC (t *f): the old array is freed with g_free and a new
 * one allocated; a length that the bytes left cannot hold is refused.
 */
#define VMSTATE_VARRAY_UINT32(f, s, fn, v, i, t)                                      \
    {                                                                                 \
        .name = #f, .offset = VMSTATE_OFFSET_ELEMENT(s, f, t), .size = sizeof(t),     \
        .num = VMSTATE_CAPACITY(s, f), .num_offset = VMSTATE_OFFSET(s, fn, uint32_t), \
        .info = &(i), .flags = VMS_VARRAY_UINT32, .version_id = (v)                   \
    }
#define VMSTATE_VARRAY_UINT32_ALLOC(f, s, fn, v, i, t)                                      \
    {                                                                                       \
        .name = #f, .offset = VMSTATE_OFFSET_POINTER(s, f, t), .size = sizeof(t), .num = 0, \
        .num_offset = VMSTATE_OFFSET(s, fn, uint32_t), .info = &(i),                        \
        .flags = VMS_VARRAY_UINT32 | VMS_ALLOC, .version_id = (v)                           \
    }
#define VMSTATE_STRUCT_VARRAY_UINT32(f, s, fn, v, d, t)                               \
    {                                                                                 \
        .name = #f, .offset = VMSTATE_OFFSET_ELEMENT(s, f, t), .size = sizeof(t),     \
        .num = VMSTATE_CAPACITY(s, f), .num_offset = VMSTATE_OFFSET(s, fn, uint32_t), \
        .vmsd = &(d), .flags = VMS_STRUCT | VMS_VARRAY_UINT32, .version_id = (v)      \
    }
#define VMSTATE_STRUCT_VARRAY_UINT32_ALLOC(f, s, fn, v, d, t)                               \
    {                                                                                       \
        .name = #f, .offset = VMSTATE_OFFSET_POINTER(s, f, t), .size = sizeof(t), .num = 0, \
        .num_offset = VMSTATE_OFFSET(s, fn, uint32_t), .vmsd = &(d),                        \
        .flags = VMS_STRUCT | VMS_VARRAY_UINT32 | VMS_ALLOC, .version_id = (v)              \
    }

#define VMSTATE_END_OF_LIST() \
    {                         \
        .name = NULL          \
    }

#endif
