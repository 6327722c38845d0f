/*
 * How scalars and buffers travel.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "vmstate/vmstate.h"

#include <string.h>

#include "util/error.h"

/* memcpy-free: elements of a table are aligned for their type. */
#define DEFINE_INTEGER(bits, ctype, wire_name, sign)                                  \
    static void put_##sign##bits(GByteArray *out, const void *p, size_t size)         \
    {                                                                                 \
        byte_array_put_be##bits(out, *(const uint##bits##_t *)p);                     \
    }                                                                                 \
    static bool get_##sign##bits(ByteReader *in, void *p, size_t size, GError **errp) \
    {                                                                                 \
        return byte_reader_get_be##bits(in, p, errp);                                 \
    }                                                                                 \
    const VMStateInfo vmstate_info_##ctype = { wire_name, put_##sign##bits, get_##sign##bits }

DEFINE_INTEGER(16, uint16, "uint16", u);
DEFINE_INTEGER(32, uint32, "uint32", u);
DEFINE_INTEGER(64, uint64, "uint64", u);
DEFINE_INTEGER(16, int16, "int16", s);
DEFINE_INTEGER(32, int32, "int32", s);
DEFINE_INTEGER(64, int64, "int64", s);

static void put_8(GByteArray *out, const void *p, size_t size)
{
    byte_array_put_u8(out, *(const uint8_t *)p);
}

static bool get_8(ByteReader *in, void *p, size_t size, GError **errp)
{
    return byte_reader_get_u8(in, p, errp);
}

const VMStateInfo vmstate_info_uint8 = { "uint8", put_8, get_8 };
const VMStateInfo vmstate_info_int8 = { "int8", put_8, get_8 };

static void put_bool(GByteArray *out, const void *p, size_t size)
{
    byte_array_put_u8(out, *(const bool *)p);
}

static bool get_bool(ByteReader *in, void *p, size_t size, GError **errp)
{
    uint8_t v;

    if (!byte_reader_get_u8(in, &v, errp)) {
        return false;
    }
    if (v > 1) {
        error_set(errp, "%u is not a truth value", v);
        return false;
    }
    *(bool *)p = v;
    return true;
}

const VMStateInfo vmstate_info_bool = { "bool", put_bool, get_bool };

static void put_buffer(GByteArray *out, const void *p, size_t size)
{
    g_byte_array_append(out, p, size);
}

static bool get_buffer(ByteReader *in, void *p, size_t size, GError **errp)
{
    return byte_reader_get_bytes(in, p, size, errp);
}

const VMStateInfo vmstate_info_buffer = { "buffer", put_buffer, get_buffer };

static void put_unused(GByteArray *out, const void *p, size_t size)
{
    guint at = out->len;

    g_byte_array_set_size(out, at + size);
    memset(out->data + at, 0, size);
}

static bool get_unused(ByteReader *in, void *p, size_t size, GError **errp)
{
    return byte_reader_skip(in, size, errp);
}

const VMStateInfo vmstate_info_unused_buffer = { "unused_buffer", put_unused, get_unused };
