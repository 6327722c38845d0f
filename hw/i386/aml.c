/*
 * Writing ACPI machine language (ACPI specification 6.4, chapter 20).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/i386/aml.h"

#include <string.h>

#include "util/le.h"

enum {
    BYTE_PREFIX = 0x0a,
    WORD_PREFIX = 0x0b,
    DWORD_PREFIX = 0x0c,
    STRING_PREFIX = 0x0d,
    QWORD_PREFIX = 0x0e,
    OP_NAME = 0x08,
    OP_SCOPE = 0x10,
    OP_BUFFER = 0x11,
    OP_PACKAGE = 0x12,
    OP_METHOD = 0x14,
    OP_DUAL_NAME = 0x2e,
    OP_MULTI_NAME = 0x2f,
    OP_EXT = 0x5b,
    OP_LOCAL0 = 0x60,
    OP_ARG0 = 0x68,
    OP_IF = 0xa0,
    EXT_OP_REGION = 0x80,
    EXT_FIELD = 0x81,
    EXT_DEVICE = 0x82,
};

static void put_byte(GByteArray *out, unsigned value)
{
    uint8_t b = (uint8_t)value;

    g_byte_array_append(out, &b, 1);
}

static void put_number(GByteArray *out, uint64_t value, unsigned bytes)
{
    uint8_t b[8];

    put_le64(b, value);
    g_byte_array_append(out, b, bytes);
}

void aml_init(Aml *a, GByteArray *out)
{
    a->out = out;
    a->open = g_array_new(FALSE, FALSE, sizeof(guint));
}

void aml_finish(Aml *a)
{
    g_assert(a->open->len == 0);
    g_array_unref(a->open);
}

/* Encodes len, which does not count the encoding itself, as PkgLength; returns the number of bytes. */
static unsigned encode_package_length(uint8_t *out, uint32_t len)
{
    unsigned extra = len + 1 < 0x40 ? 0 : len + 2 < 0x1000 ? 1 : len + 3 < 0x100000 ? 2 : 3;

    len += 1 + extra;
    if (extra == 0) {
        out[0] = (uint8_t)len;
        return 1;
    }
    out[0] = (uint8_t)(extra << 6 | (len & 0xf));
    for (unsigned i = 0; i < extra; i++) {
        out[1 + i] = (uint8_t)(len >> (4 + 8 * i));
    }
    return 1 + extra;
}

static void insert_bytes(GByteArray *out, guint at, const uint8_t *bytes, guint n)
{
    guint tail = out->len - at;

    g_byte_array_set_size(out, out->len + n);
    memmove(out->data + at + n, out->data + at, tail);
    memcpy(out->data + at, bytes, n);
}

static void aml_begin(Aml *a)
{
    g_array_append_val(a->open, a->out->len);
}

void aml_end(Aml *a)
{
    guint at = g_array_index(a->open, guint, a->open->len - 1);
    uint8_t length[4];
    unsigned n = encode_package_length(length, a->out->len - at);

    g_array_set_size(a->open, a->open->len - 1);
    insert_bytes(a->out, at, length, n);
}

static void put_segment(GByteArray *out, const char *text, size_t len)
{
    g_assert(len >= 1 && len <= 4);
    g_byte_array_append(out, (const uint8_t *)text, (guint)len);
    for (; len < 4; len++) {
        put_byte(out, '_');
    }
}

void aml_path(Aml *a, const char *path)
{
    g_auto(GStrv) segments = NULL;
    guint n;

    for (; *path == '\\' || *path == '^'; path++) {
        put_byte(a->out, (uint8_t)*path);
    }
    segments = g_strsplit(path, ".", -1);
    n = g_strv_length(segments);
    if (n == 0) {
        put_byte(a->out, 0);
    } else if (n == 2) {
        put_byte(a->out, OP_DUAL_NAME);
    } else if (n > 2) {
        put_byte(a->out, OP_MULTI_NAME);
        put_byte(a->out, n);
    }
    for (guint i = 0; i < n; i++) {
        put_segment(a->out, segments[i], strlen(segments[i]));
    }
}

void aml_begin_scope(Aml *a, const char *path)
{
    put_byte(a->out, OP_SCOPE);
    aml_begin(a);
    aml_path(a, path);
}

void aml_begin_device(Aml *a, const char *path)
{
    put_byte(a->out, OP_EXT);
    put_byte(a->out, EXT_DEVICE);
    aml_begin(a);
    aml_path(a, path);
}

void aml_begin_method(Aml *a, const char *path, unsigned n_args, bool serialized)
{
    put_byte(a->out, OP_METHOD);
    aml_begin(a);
    aml_path(a, path);
    put_byte(a->out, n_args | (serialized ? 8u : 0u));
}

void aml_begin_if(Aml *a)
{
    put_byte(a->out, OP_IF);
    aml_begin(a);
}

void aml_begin_package(Aml *a, unsigned n_elements)
{
    g_assert(n_elements <= UINT8_MAX);
    put_byte(a->out, OP_PACKAGE);
    aml_begin(a);
    put_byte(a->out, n_elements);
}

void aml_begin_field(Aml *a, const char *region, AmlAccess access)
{
    put_byte(a->out, OP_EXT);
    put_byte(a->out, EXT_FIELD);
    aml_begin(a);
    aml_path(a, region);
    put_byte(a->out, access); /* no lock, the other bits are preserved */
}

void aml_field_unit(Aml *a, const char *name, unsigned bits)
{
    g_assert(bits < 0x40);
    put_segment(a->out, name, strlen(name));
    put_byte(a->out, bits);
}

void aml_name(Aml *a, const char *path)
{
    put_byte(a->out, OP_NAME);
    aml_path(a, path);
}

void aml_op_region(Aml *a, const char *path, AmlSpace space, uint32_t offset, uint32_t len)
{
    put_byte(a->out, OP_EXT);
    put_byte(a->out, EXT_OP_REGION);
    aml_path(a, path);
    put_byte(a->out, space);
    aml_int(a, offset);
    aml_int(a, len);
}

void aml_op(Aml *a, AmlOp op)
{
    put_byte(a->out, op);
}

void aml_int(Aml *a, uint64_t value)
{
    if (value <= 1) {
        put_byte(a->out, (unsigned)value);
    } else if (value <= UINT8_MAX) {
        put_byte(a->out, BYTE_PREFIX);
        put_number(a->out, value, 1);
    } else if (value <= UINT16_MAX) {
        put_byte(a->out, WORD_PREFIX);
        put_number(a->out, value, 2);
    } else if (value <= UINT32_MAX) {
        put_byte(a->out, DWORD_PREFIX);
        put_number(a->out, value, 4);
    } else {
        put_byte(a->out, QWORD_PREFIX);
        put_number(a->out, value, 8);
    }
}

guint aml_dword(Aml *a, uint32_t value)
{
    put_byte(a->out, DWORD_PREFIX);
    put_number(a->out, value, 4);
    return a->out->len - 4;
}

void aml_string(Aml *a, const char *text)
{
    put_byte(a->out, STRING_PREFIX);
    g_byte_array_append(a->out, (const uint8_t *)text, (guint)strlen(text) + 1);
}

void aml_eisa_id(Aml *a, const char *id)
{
    uint32_t letters = (uint32_t)((id[0] - 0x40) << 10 | (id[1] - 0x40) << 5 | (id[2] - 0x40));
    uint32_t product = (uint32_t)g_ascii_strtoull(id + 3, NULL, 16);

    g_assert(strlen(id) == 7);
    /* The number is kept with its most significant byte first. */
    put_byte(a->out, DWORD_PREFIX);
    put_number(a->out, GUINT32_SWAP_LE_BE(letters << 16 | product), 4);
}

void aml_local(Aml *a, unsigned n)
{
    put_byte(a->out, OP_LOCAL0 + n);
}

void aml_arg(Aml *a, unsigned n)
{
    put_byte(a->out, OP_ARG0 + n);
}

void aml_no_target(Aml *a)
{
    put_byte(a->out, 0);
}

/* ---- resource descriptors (ACPI 6.4, section 6.4) ---- */

GByteArray *aml_res_new(void)
{
    return g_byte_array_new();
}

void aml_res_io(GByteArray *res, uint16_t base, uint8_t count)
{
    put_byte(res, 0x47);
    put_byte(res, 1); /* all 16 address bits are decoded */
    put_number(res, base, 2);
    put_number(res, base, 2);
    put_byte(res, 1);
    put_byte(res, count);
}

void aml_res_irq(GByteArray *res, unsigned irq)
{
    put_byte(res, 0x22); /* without flags: edge-triggered, active high, exclusive */
    put_number(res, 1u << irq, 2);
}

void aml_res_gsi(GByteArray *res, const uint32_t *irqs, unsigned n, bool level)
{
    put_byte(res, 0x89);
    put_number(res, 2 + 4 * n, 2);
    put_byte(res, level ? 0x09 : 0x03); /* consumer; level and shared, or edge */
    put_byte(res, n);
    for (unsigned i = 0; i < n; i++) {
        put_number(res, irqs[i], 4);
    }
}

void aml_res_memory32(GByteArray *res, uint32_t base, uint32_t size, bool writable)
{
    put_byte(res, 0x86);
    put_number(res, 9, 2);
    put_byte(res, writable);
    put_number(res, base, 4);
    put_number(res, size, 4);
}

/* Address space descriptor of 2, 4 or 8 byte numbers: fixed, positive decode, producer. */
static void res_window(GByteArray *res, unsigned bytes, uint8_t type, uint8_t type_flags,
                       AmlWindow w)
{
    static const uint8_t tags[] = { [2] = 0x88, [4] = 0x87, [8] = 0x8a };

    put_byte(res, tags[bytes]);
    put_number(res, 3 + 5 * bytes, 2);
    put_byte(res, type);
    put_byte(res, 0x0c); /* minimum and maximum are fixed */
    put_byte(res, type_flags);
    put_number(res, 0, bytes);
    put_number(res, w.base, bytes);
    put_number(res, w.base + w.size - 1, bytes);
    put_number(res, 0, bytes);
    put_number(res, w.size, bytes);
}

void aml_res_bus_window(GByteArray *res, uint16_t first, uint16_t last)
{
    res_window(res, 2, 2, 0, (AmlWindow){ .base = first, .size = (uint64_t)last - first + 1 });
}

void aml_res_io_window(GByteArray *res, AmlWindow w)
{
    if (w.size) {
        res_window(res, 4, 1, 3, w); /* entire range */
    }
}

void aml_res_memory_window(GByteArray *res, AmlWindow w)
{
    if (w.size) {
        /* Read-write; below 4 GiB with 4-byte numbers, which every OS understands. */
        res_window(res, w.base + w.size <= UINT64_C(0x100000000) ? 4 : 8, 0, 1, w);
    }
}

void aml_resources(Aml *a, GByteArray *res)
{
    put_byte(res, 0x79);
    put_byte(res, 0); /* checksum 0: not checked */
    put_byte(a->out, OP_BUFFER);
    aml_begin(a);
    aml_int(a, res->len);
    g_byte_array_append(a->out, res->data, res->len);
    aml_end(a);
    g_byte_array_unref(res);
}
