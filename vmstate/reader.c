/*
 * Bounds-checked reading, and appending, of big-endian values.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "vmstate/reader.h"

#include <string.h>

#include "util/error.h"

static bool take(ByteReader *in, size_t len, const uint8_t **ret, GError **errp)
{
    if (byte_reader_left(in) < len) {
        error_set(errp, "the data ends at offset %zu of %zu where %zu more bytes are expected",
                  in->pos, in->len, len);
        return false;
    }
    *ret = in->data + in->pos;
    in->pos += len;
    return true;
}

bool byte_reader_get_bytes(ByteReader *in, void *ret, size_t len, GError **errp)
{
    const uint8_t *p;

    if (!take(in, len, &p, errp)) {
        return false;
    }
    if (len > 0) {
        memcpy(ret, p, len);
    }
    return true;
}

bool byte_reader_skip(ByteReader *in, size_t len, GError **errp)
{
    const uint8_t *p;

    return take(in, len, &p, errp);
}

bool byte_reader_get_u8(ByteReader *in, uint8_t *ret, GError **errp)
{
    return byte_reader_get_bytes(in, ret, 1, errp);
}

bool byte_reader_get_be16(ByteReader *in, uint16_t *ret, GError **errp)
{
    uint16_t v;

    if (!byte_reader_get_bytes(in, &v, sizeof(v), errp)) {
        return false;
    }
    *ret = GUINT16_FROM_BE(v);
    return true;
}

bool byte_reader_get_be32(ByteReader *in, uint32_t *ret, GError **errp)
{
    uint32_t v;

    if (!byte_reader_get_bytes(in, &v, sizeof(v), errp)) {
        return false;
    }
    *ret = GUINT32_FROM_BE(v);
    return true;
}

bool byte_reader_get_be64(ByteReader *in, uint64_t *ret, GError **errp)
{
    uint64_t v;

    if (!byte_reader_get_bytes(in, &v, sizeof(v), errp)) {
        return false;
    }
    *ret = GUINT64_FROM_BE(v);
    return true;
}

bool byte_reader_get_counted_string(ByteReader *in, char **ret, GError **errp)
{
    size_t start = in->pos;
    const uint8_t *p;
    uint8_t len;

    if (!byte_reader_get_u8(in, &len, errp)) {
        return false;
    }
    if (!take(in, len, &p, errp)) {
        in->pos = start;
        return false;
    }
    if (memchr(p, 0, len)) {
        in->pos = start;
        error_set(errp, "the name at offset %zu contains a zero byte", start);
        return false;
    }
    *ret = g_strndup((const char *)p, len);
    return true;
}

void byte_array_put_u8(GByteArray *out, uint8_t v)
{
    g_byte_array_append(out, &v, 1);
}

void byte_array_put_be16(GByteArray *out, uint16_t v)
{
    v = GUINT16_TO_BE(v);
    g_byte_array_append(out, (const uint8_t *)&v, sizeof(v));
}

void byte_array_put_be32(GByteArray *out, uint32_t v)
{
    v = GUINT32_TO_BE(v);
    g_byte_array_append(out, (const uint8_t *)&v, sizeof(v));
}

void byte_array_put_be64(GByteArray *out, uint64_t v)
{
    v = GUINT64_TO_BE(v);
    g_byte_array_append(out, (const uint8_t *)&v, sizeof(v));
}

void byte_array_put_counted_string(GByteArray *out, const char *s)
{
    size_t len = strlen(s);

    g_assert(len <= UINT8_MAX);
    byte_array_put_u8(out, len);
    g_byte_array_append(out, (const uint8_t *)s, len);
}
