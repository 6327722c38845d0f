/*
 * Building the SMBIOS structures (DMTF DSP0134, versions 2.8 and 3.0).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/i386/smbios.h"

#include <string.h>

#include "util/le.h"
#include "util/units.h"

#define VENDOR "Cowbird"
#define DEVICE_SIZE_MAX (16 * GiB) /* of one memory module, as boards of today have them */
#define STRINGS_MAX 8

enum {
    TYPE_BIOS = 0,
    TYPE_SYSTEM = 1,
    TYPE_CHASSIS = 3,
    TYPE_PROCESSOR = 4,
    TYPE_MEMORY_ARRAY = 16,
    TYPE_MEMORY_DEVICE = 17,
    TYPE_MEMORY_RANGE = 19,
    TYPE_BOOT = 32,
    TYPE_END = 127,
};
/* Handles: the type in the high byte, a running number in the low one. */
#define HANDLE(type, n) ((uint16_t)((type) << 8 | (n)))
#define NO_HANDLE 0xfffe

/* One structure under construction. */
typedef struct Structure {
    uint8_t data[128];
    const char *strings[STRINGS_MAX];
    unsigned n_strings;
} Structure;

static Structure structure(uint8_t type, uint8_t len, uint16_t handle)
{
    Structure s = { 0 };

    s.data[0] = type;
    s.data[1] = len;
    put_le16(s.data + 2, handle);
    return s;
}

/* Adds a string and puts its number at the offset. */
static void set_string(Structure *s, unsigned offset, const char *text)
{
    if (text && *text) {
        g_assert(s->n_strings < STRINGS_MAX);
        s->strings[s->n_strings++] = text;
        s->data[offset] = (uint8_t)s->n_strings;
    }
}

static void finish(SmbiosTables *t, const Structure *s)
{
    guint start = t->bytes->len;

    g_byte_array_append(t->bytes, s->data, s->data[1]);
    for (unsigned i = 0; i < s->n_strings; i++) {
        g_byte_array_append(t->bytes, (const uint8_t *)s->strings[i],
                            (guint)strlen(s->strings[i]) + 1);
    }
    /* An empty set of strings is two zeros, another one ends with one more. */
    g_byte_array_append(t->bytes, (const uint8_t *)"\0", s->n_strings ? 1 : 2);
    t->count++;
    t->longest = MAX(t->longest, t->bytes->len - start);
}

static void add_bios(SmbiosTables *t)
{
    Structure s = structure(TYPE_BIOS, 24, HANDLE(TYPE_BIOS, 0));

    set_string(&s, 4, VENDOR);
    set_string(&s, 5, COWBIRD_VERSION);
    put_le16(s.data + 6, 0xf000); /* start segment */
    set_string(&s, 8, "01/01/2026");
    put_le64(s.data + 10, 1 << 3); /* characteristics are not given */
    s.data[19] = 0x10;             /* a virtual machine */
    s.data[22] = s.data[23] = 0xff;
    finish(t, &s);
}

/* Fields of a UUID up to the clock sequence are little-endian since version 2.6. */
static void put_uuid(uint8_t *out, const Uuid *uuid)
{
    static const uint8_t order[16] = { 3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15 };

    for (unsigned i = 0; i < 16; i++) {
        out[i] = uuid->data[order[i]];
    }
}

static void add_system(SmbiosTables *t, const SmbiosConfig *config)
{
    Structure s = structure(TYPE_SYSTEM, 27, HANDLE(TYPE_SYSTEM, 0));

    set_string(&s, 4, VENDOR);
    set_string(&s, 5, config->product);
    set_string(&s, 6, config->version);
    put_uuid(s.data + 8, &config->uuid);
    s.data[24] = 6; /* woken by the power switch */
    finish(t, &s);
}

static void add_chassis(SmbiosTables *t, const SmbiosConfig *config)
{
    Structure s = structure(TYPE_CHASSIS, 22, HANDLE(TYPE_CHASSIS, 0));

    set_string(&s, 4, VENDOR);
    s.data[5] = 1; /* other */
    set_string(&s, 6, config->version);
    s.data[9] = s.data[10] = s.data[11] = 3; /* states are safe */
    s.data[12] = 2;                          /* security status unknown */
    finish(t, &s);
}

static void add_processor(SmbiosTables *t, const SmbiosConfig *config, unsigned n)
{
    Structure s = structure(TYPE_PROCESSOR, 48, HANDLE(TYPE_PROCESSOR, n & 0xff));
    g_autofree char *socket = g_strdup_printf("CPU %u", n);

    set_string(&s, 4, socket);
    s.data[5] = 3; /* central processor */
    s.data[6] = 1; /* family: other */
    set_string(&s, 7, VENDOR);
    set_string(&s, 16, config->version);
    put_le16(s.data + 20, 2000); /* MHz; means nothing */
    put_le16(s.data + 22, 2000);
    s.data[24] = 0x41; /* populated, enabled */
    s.data[25] = 1;
    put_le16(s.data + 26, 0xffff); /* no cache structures */
    put_le16(s.data + 28, 0xffff);
    put_le16(s.data + 30, 0xffff);
    s.data[35] = s.data[36] = (uint8_t)MIN(config->cores, 255u);
    s.data[37] = (uint8_t)MIN(config->threads, 255u);
    put_le16(s.data + 38, 1 << 2); /* 64-bit capable */
    put_le16(s.data + 40, 1);      /* family 2 */
    put_le16(s.data + 42, (uint16_t)config->cores);
    put_le16(s.data + 44, (uint16_t)config->cores);
    put_le16(s.data + 46, (uint16_t)config->threads);
    finish(t, &s);
}

static void add_memory_array(SmbiosTables *t, uint64_t size, unsigned n_devices)
{
    Structure s = structure(TYPE_MEMORY_ARRAY, 23, HANDLE(TYPE_MEMORY_ARRAY, 0));
    uint64_t kib = size / KiB;

    s.data[4] = 1; /* location: other */
    s.data[5] = 3; /* system memory */
    s.data[6] = 6; /* multi-bit ECC */
    put_le32(s.data + 7, kib < 0x80000000 ? (uint32_t)kib : 0x80000000);
    put_le16(s.data + 11, NO_HANDLE);
    put_le16(s.data + 13, (uint16_t)n_devices);
    put_le64(s.data + 15, kib < 0x80000000 ? 0 : size);
    finish(t, &s);
}

static void add_memory_device(SmbiosTables *t, uint64_t size, unsigned n)
{
    Structure s = structure(TYPE_MEMORY_DEVICE, 40, HANDLE(TYPE_MEMORY_DEVICE, n & 0xff));
    g_autofree char *locator = g_strdup_printf("DIMM %u", n);

    put_le16(s.data + 4, HANDLE(TYPE_MEMORY_ARRAY, 0));
    put_le16(s.data + 6, NO_HANDLE);
    put_le16(s.data + 8, 0xffff);
    put_le16(s.data + 10, 0xffff);
    put_le16(s.data + 12, (uint16_t)(size / MiB)); /* at most 16384 */
    s.data[14] = 9;                                /* a DIMM */
    set_string(&s, 16, locator);
    s.data[18] = 7;                /* RAM */
    put_le16(s.data + 19, 1 << 1); /* other */
    set_string(&s, 23, VENDOR);
    finish(t, &s);
}

static void add_memory_range(SmbiosTables *t, uint64_t base, uint64_t size, unsigned n)
{
    Structure s = structure(TYPE_MEMORY_RANGE, 31, HANDLE(TYPE_MEMORY_RANGE, n));

    if (size == 0) {
        return;
    }
    if ((base + size - 1) / KiB < 0xffffffff) {
        put_le32(s.data + 4, (uint32_t)(base / KiB));
        put_le32(s.data + 8, (uint32_t)((base + size - 1) / KiB));
    } else {
        put_le32(s.data + 4, 0xffffffff);
        put_le32(s.data + 8, 0xffffffff);
        put_le64(s.data + 15, base);
        put_le64(s.data + 23, base + size - 1);
    }
    put_le16(s.data + 12, HANDLE(TYPE_MEMORY_ARRAY, 0));
    s.data[14] = 1; /* partition width */
    finish(t, &s);
}

static void add_memory(SmbiosTables *t, const SmbiosConfig *config)
{
    uint64_t size = config->below_4g + config->above_4g;
    unsigned n = (unsigned)DIV_ROUND_UP(size, DEVICE_SIZE_MAX);

    add_memory_array(t, size, n);
    for (unsigned i = 0; i < n; i++) {
        add_memory_device(t, MIN(size - i * DEVICE_SIZE_MAX, DEVICE_SIZE_MAX), i);
    }
    add_memory_range(t, 0, config->below_4g, 0);
    add_memory_range(t, 4 * GiB, config->above_4g, 1);
}

SmbiosTables *smbios_tables_new(const SmbiosConfig *config)
{
    SmbiosTables *t = g_new0(SmbiosTables, 1);
    Structure boot = structure(TYPE_BOOT, 11, HANDLE(TYPE_BOOT, 0));
    Structure end = structure(TYPE_END, 4, HANDLE(TYPE_END, 0));

    t->bytes = g_byte_array_new();
    add_bios(t);
    add_system(t, config);
    add_chassis(t, config);
    for (unsigned i = 0; i < config->sockets; i++) {
        add_processor(t, config, i);
    }
    add_memory(t, config);
    finish(t, &boot);
    finish(t, &end);
    return t;
}

void smbios_tables_free(SmbiosTables *t)
{
    if (t) {
        g_byte_array_unref(t->bytes);
        g_free(t);
    }
}

static uint8_t checksum(const uint8_t *p, unsigned len)
{
    uint8_t sum = 0;

    for (unsigned i = 0; i < len; i++) {
        sum = (uint8_t)(sum + p[i]);
    }
    return (uint8_t)-sum;
}

void smbios_anchor_21(const SmbiosTables *t, uint32_t address, uint8_t out[SMBIOS_ANCHOR_21_SIZE])
{
    memset(out, 0, SMBIOS_ANCHOR_21_SIZE);
    memcpy(out, "_SM_", 4);
    out[5] = SMBIOS_ANCHOR_21_SIZE;
    out[6] = 2;
    out[7] = 8;
    put_le16(out + 8, (uint16_t)t->longest);
    memcpy(out + 16, "_DMI_", 5);
    put_le16(out + 22, (uint16_t)t->bytes->len);
    put_le32(out + 24, address);
    put_le16(out + 28, (uint16_t)t->count);
    out[30] = 0x28;
    out[21] = checksum(out + 16, 15);
    out[4] = checksum(out, SMBIOS_ANCHOR_21_SIZE);
}

void smbios_anchor_30(const SmbiosTables *t, uint64_t address, uint8_t out[SMBIOS_ANCHOR_30_SIZE])
{
    memset(out, 0, SMBIOS_ANCHOR_30_SIZE);
    memcpy(out, "_SM3_", 5);
    out[6] = SMBIOS_ANCHOR_30_SIZE;
    out[7] = 3;
    out[10] = 1; /* revision of the entry point */
    put_le32(out + 12, t->bytes->len);
    put_le64(out + 16, address);
    out[5] = checksum(out, SMBIOS_ANCHOR_30_SIZE);
}
