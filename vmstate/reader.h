/*
 * Bounds-checked reading of big-endian values from a byte buffer.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_VMSTATE_READER_H
#define COWBIRD_VMSTATE_READER_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* A cursor over bytes owned by somebody else. pos never exceeds len. */
typedef struct ByteReader {
    const uint8_t *data;
    size_t len;
    size_t pos;
} ByteReader;

/* Starts reading @len bytes at @data, which must outlive the reader. */
static inline ByteReader byte_reader_init(const void *data, size_t len)
{
    return (ByteReader){ .data = data, .len = len, .pos = 0 };
}

/* How many bytes are left. */
static inline size_t byte_reader_left(const ByteReader *in)
{
    return in->len - in->pos;
}

/*
 * Each get consumes its bytes and returns true, or leaves the reader where it was and returns
 * false with an error that names the offset.
 */
bool byte_reader_get_u8(ByteReader *in, uint8_t *ret, GError **errp);
bool byte_reader_get_be16(ByteReader *in, uint16_t *ret, GError **errp);
bool byte_reader_get_be32(ByteReader *in, uint32_t *ret, GError **errp);
bool byte_reader_get_be64(ByteReader *in, uint64_t *ret, GError **errp);
bool byte_reader_get_bytes(ByteReader *in, void *ret, size_t len, GError **errp);
bool byte_reader_skip(ByteReader *in, size_t len, GError **errp);

/*
 * A string of one length byte and that many characters; the caller frees it. NUL inside is an
 * error.
 */
bool byte_reader_get_counted_string(ByteReader *in, char **ret, GError **errp);

/* Appending, the other direction. */
void byte_array_put_u8(GByteArray *out, uint8_t v);
void byte_array_put_be16(GByteArray *out, uint16_t v);
void byte_array_put_be32(GByteArray *out, uint32_t v);
void byte_array_put_be64(GByteArray *out, uint64_t v);
/* @s has at most 255 characters. */
void byte_array_put_counted_string(GByteArray *out, const char *s);

#endif
