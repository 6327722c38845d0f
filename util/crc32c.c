/*
 * CRC-32C (Castagnoli): the SSE 4.2 instruction where there is one, else eight tables.
 *
 * The tables take eight bytes a step ("slicing by 8", Kounavis and Berry 2005): table k holds the
 * effect of a byte that is followed by k zero bytes.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "util/crc32c.h"

#include <glib.h>
#include <nmmintrin.h>
#include <string.h>

#define POLYNOMIAL_REFLECTED 0x82f63b78u

/* Constant after its first use. */
static uint32_t tables[8][256];

static void tables_fill(void)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;

        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ (crc & 1 ? POLYNOMIAL_REFLECTED : 0);
        }
        tables[0][byte] = crc;
    }
    for (unsigned byte = 0; byte < 256; byte++) {
        for (int k = 1; k < 8; k++) {
            uint32_t prev = tables[k - 1][byte];

            tables[k][byte] = (prev >> 8) ^ tables[0][prev & 0xff];
        }
    }
}

static void tables_init(void)
{
    static gsize done;

    if (g_once_init_enter(&done)) {
        tables_fill();
        g_once_init_leave(&done, 1);
    }
}

static uint64_t load_le64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
    return GUINT64_FROM_LE(v);
}

uint32_t crc32c_table(uint32_t crc, const void *data, size_t len)
{
    const uint8_t *p = data;

    tables_init();
    crc = ~crc;
    for (; len >= 8; p += 8, len -= 8) {
        uint64_t v = load_le64(p) ^ crc;

        crc = 0;
        for (int k = 0; k < 8; k++) {
            crc ^= tables[7 - k][(v >> (8 * k)) & 0xff];
        }
    }
    for (; len > 0; p++, len--) {
        crc = (crc >> 8) ^ tables[0][(crc ^ *p) & 0xff];
    }
    return ~crc;
}

__attribute__((target("sse4.2"))) uint32_t crc32c_sse42(uint32_t crc, const void *data, size_t len)
{
    const uint8_t *p = data;
    uint64_t acc = ~crc;

    for (; len >= 8; p += 8, len -= 8) {
        acc = _mm_crc32_u64(acc, load_le64(p));
    }
    for (; len > 0; p++, len--) {
        acc = _mm_crc32_u8((uint32_t)acc, *p);
    }
    return ~(uint32_t)acc;
}

bool crc32c_have_sse42(void)
{
    return __builtin_cpu_supports("sse4.2");
}

uint32_t crc32c(uint32_t crc, const void *data, size_t len)
{
    return crc32c_have_sse42() ? crc32c_sse42(crc, data, len) : crc32c_table(crc, data, len);
}
