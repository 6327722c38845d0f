/*
 * The ACPI tables around the DSDT: RSDP, RSDT, XSDT, FADT, FACS, MADT, WAET.
 *
 * Sources: ACPI specification 6.4, chapter 5; the Windows ACPI Emulated Devices Table of Microsoft.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/i386/acpi-tables.h"

#include <string.h>

#include "util/le.h"

#define HEADER_SIZE 36
#define FADT_SIZE 244 /* revision 3 */
#define FACS_SIZE 64

/* Interrupt sources of the ISA bus that are level-triggered: the PCI links and the SCI. */
static const uint8_t level_irqs[] = { 5, 9, 10, 11 };

static uint8_t *grow(GByteArray *blob, guint n)
{
    guint at = blob->len;

    g_byte_array_set_size(blob, at + n);
    if (n > 0) {
        memset(blob->data + at, 0, n);
    }
    return blob->data + at;
}

static void align(GByteArray *blob, guint to)
{
    grow(blob, (to - blob->len % to) % to);
}

static void add_link(AcpiTables *t, AcpiBlob blob, guint offset, guint size, AcpiBlob target)
{
    AcpiLink link = { .blob = blob, .target = target, .offset = offset, .size = (uint8_t)size };

    g_array_append_val(t->links, link);
}

static void add_checksum(AcpiTables *t, AcpiBlob blob, guint offset, guint start, guint length)
{
    AcpiChecksum sum = { .blob = blob, .offset = offset, .start = start, .length = length };

    g_array_append_val(t->checksums, sum);
}

/* Starts a table; returns where. Its header is written by end_table. */
static guint begin_table(AcpiTables *t)
{
    GByteArray *blob = t->blobs[ACPI_TABLES];
    guint at;

    align(blob, 8);
    at = blob->len;
    grow(blob, HEADER_SIZE);
    return at;
}

static void end_table(AcpiTables *t, guint at, const char *signature, uint8_t revision)
{
    GByteArray *blob = t->blobs[ACPI_TABLES];
    uint8_t *h = blob->data + at;

    memcpy(h, signature, 4);
    put_le32(h + 4, blob->len - at);
    h[8] = revision;
    memcpy(h + 10, "COWBRD", 6);
    memcpy(h + 16, "COWBIRD ", 8);
    put_le32(h + 24, 1);
    memcpy(h + 28, "CWBD", 4);
    put_le32(h + 32, 1);
    add_checksum(t, ACPI_TABLES, at + 9, at, blob->len - at);
}

/* A pointer to another table, to be linked. */
static void put_pointer(AcpiTables *t, AcpiBlob blob, guint at, guint size, guint target)
{
    put_le32(t->blobs[blob]->data + at, target);
    add_link(t, blob, at, size, ACPI_TABLES);
}

static guint build_facs(AcpiTables *t)
{
    guint at;
    uint8_t *p;

    align(t->blobs[ACPI_TABLES], 64);
    at = t->blobs[ACPI_TABLES]->len;
    p = grow(t->blobs[ACPI_TABLES], FACS_SIZE);
    memcpy(p, "FACS", 4);
    put_le32(p + 4, FACS_SIZE);
    p[32] = 1; /* version */
    return at;
}

static guint build_dsdt(AcpiTables *t, const AcpiConfig *config)
{
    guint at = begin_table(t);
    guint vmgenid_address = acpi_dsdt_build(config, t->blobs[ACPI_TABLES]);

    if (vmgenid_address) {
        add_link(t, ACPI_TABLES, vmgenid_address, 4, ACPI_VMGENID);
    }
    end_table(t, at, "DSDT", 2);
    return at;
}

/* A register block of the port space as Generic Address Structure. */
static void put_gas(uint8_t *p, uint16_t port, uint8_t bytes, uint8_t access)
{
    p[0] = 1; /* system I/O */
    p[1] = (uint8_t)(bytes * 8);
    p[3] = access;
    put_le64(p + 4, port);
}

/* Offsets of the FADT. */
static void fill_fadt_legacy(uint8_t *f)
{
    f[45] = 0; /* no preferred power profile */
    put_le16(f + 46, ACPI_SCI_IRQ);
    put_le32(f + 48, ACPI_SMI_PORT);
    f[52] = ACPI_ENABLE_VALUE;
    f[53] = ACPI_DISABLE_VALUE;
    put_le32(f + 56, ACPI_PM_BASE);
    put_le32(f + 64, ACPI_PM_BASE + 4);
    put_le32(f + 76, ACPI_PM_BASE + 8);
    put_le32(f + 80, ACPI_GPE_BASE);
    f[88] = 4;                /* PM1 event block */
    f[89] = 2;                /* PM1 control block */
    f[91] = 4;                /* PM timer */
    f[92] = 4;                /* GPE0 block */
    put_le16(f + 96, 0xfff);  /* no C2 */
    put_le16(f + 98, 0xfff);  /* no C3 */
    f[108] = 0x32;            /* century in the CMOS */
    put_le16(f + 109, 1 | 4); /* ISA devices; no VGA; no usable 8042 */
    /* WBINVD, C1, no sleep button, fixed RTC wake-up absent, reset register. */
    put_le32(f + 112, 1 << 0 | 1 << 2 | 1 << 5 | 1 << 6 | 1 << 10);
}

static guint build_fadt(AcpiTables *t, guint facs, guint dsdt)
{
    guint at = begin_table(t);
    uint8_t *f;

    grow(t->blobs[ACPI_TABLES], FADT_SIZE - HEADER_SIZE);
    f = t->blobs[ACPI_TABLES]->data + at;
    fill_fadt_legacy(f);
    put_gas(f + 116, 0xcf9, 1, 1);
    f[128] = 0x0f; /* reset value: a full reset */
    put_gas(f + 148, ACPI_PM_BASE, 4, 2);
    put_gas(f + 172, ACPI_PM_BASE + 4, 2, 2);
    put_gas(f + 208, ACPI_PM_BASE + 8, 4, 3);
    put_gas(f + 220, ACPI_GPE_BASE, 4, 1);
    put_pointer(t, ACPI_TABLES, at + 36, 4, facs);
    put_pointer(t, ACPI_TABLES, at + 40, 4, dsdt);
    put_pointer(t, ACPI_TABLES, at + 140, 8, dsdt);
    end_table(t, at, "FACP", 3);
    return at;
}

static void madt_cpu(GByteArray *blob, uint32_t uid, uint32_t apic_id)
{
    uint8_t *p;

    if (apic_id < 255) {
        p = grow(blob, 8);
        p[0] = 0; /* local APIC */
        p[1] = 8;
        p[2] = (uint8_t)uid;
        p[3] = (uint8_t)apic_id;
        put_le32(p + 4, 1);
        return;
    }
    p = grow(blob, 16);
    p[0] = 9; /* local x2APIC */
    p[1] = 16;
    put_le32(p + 4, apic_id);
    put_le32(p + 8, 1);
    put_le32(p + 12, uid);
}

static void madt_override(GByteArray *blob, uint8_t irq, uint32_t gsi, uint16_t flags)
{
    uint8_t *p = grow(blob, 10);

    p[0] = 2;
    p[1] = 10;
    p[3] = irq;
    put_le32(p + 4, gsi);
    put_le16(p + 8, flags);
}

static void madt_io_apic(GByteArray *blob)
{
    uint8_t *p = grow(blob, 12);

    p[0] = 1;
    p[1] = 12;
    put_le32(p + 4, 0xfec00000);
}

static void madt_nmi(GByteArray *blob)
{
    uint8_t *p = grow(blob, 6);

    p[0] = 4;
    p[1] = 6;
    p[2] = 0xff; /* all processors */
    p[5] = 1;    /* LINT1 */
}

/* Inputs 0 to 15 of the I/O APIC are the ISA interrupts of that number, the timer included (accel/kvm-irq.c). */
static guint build_madt(AcpiTables *t, const AcpiConfig *config)
{
    GByteArray *blob = t->blobs[ACPI_TABLES];
    guint at = begin_table(t);
    uint8_t *p = grow(blob, 8);

    put_le32(p, 0xfee00000);
    put_le32(p + 4, 1); /* two 8259 are there as well */
    for (unsigned i = 0; i < config->n_cpus; i++) {
        madt_cpu(blob, i, config->apic_ids[i]);
    }
    madt_io_apic(blob);
    for (unsigned i = 0; i < G_N_ELEMENTS(level_irqs); i++) {
        madt_override(blob, level_irqs[i], level_irqs[i], 0x0d); /* active high, level */
    }
    madt_nmi(blob);
    end_table(t, at, "APIC", 3);
    return at;
}

/* The PM timer can be read once, without the work-around for old chips. */
static guint build_waet(AcpiTables *t)
{
    guint at = begin_table(t);

    put_le32(grow(t->blobs[ACPI_TABLES], 4), 1 << 1);
    end_table(t, at, "WAET", 1);
    return at;
}

static guint build_root(AcpiTables *t, const char *signature, guint entry_size, const guint *tables,
                        unsigned n)
{
    guint at = begin_table(t);

    grow(t->blobs[ACPI_TABLES], n * entry_size);
    for (unsigned i = 0; i < n; i++) {
        put_pointer(t, ACPI_TABLES, at + HEADER_SIZE + i * entry_size, entry_size, tables[i]);
    }
    end_table(t, at, signature, 1);
    return at;
}

static void build_rsdp(AcpiTables *t, guint rsdt, guint xsdt)
{
    uint8_t *p = grow(t->blobs[ACPI_RSDP], 36);

    memcpy(p, "RSD PTR ", 8);
    memcpy(p + 9, "COWBRD", 6);
    p[15] = 2; /* revision with an XSDT */
    put_le32(p + 20, 36);
    put_pointer(t, ACPI_RSDP, 16, 4, rsdt);
    put_pointer(t, ACPI_RSDP, 24, 8, xsdt);
    add_checksum(t, ACPI_RSDP, 8, 0, 20);
    add_checksum(t, ACPI_RSDP, 32, 0, 36);
}

AcpiTables *acpi_tables_new(const AcpiConfig *config)
{
    AcpiTables *t = g_new0(AcpiTables, 1);
    guint roots[3], dsdt, facs;

    for (unsigned i = 0; i < ACPI_BLOBS; i++) {
        t->blobs[i] = g_byte_array_new();
    }
    t->links = g_array_new(FALSE, FALSE, sizeof(AcpiLink));
    t->checksums = g_array_new(FALSE, FALSE, sizeof(AcpiChecksum));
    facs = build_facs(t);
    dsdt = build_dsdt(t, config);
    roots[0] = build_fadt(t, facs, dsdt);
    roots[1] = build_madt(t, config);
    roots[2] = build_waet(t);
    build_rsdp(t, build_root(t, "RSDT", 4, roots, G_N_ELEMENTS(roots)),
               build_root(t, "XSDT", 8, roots, G_N_ELEMENTS(roots)));
    if (config->vmgenid) {
        grow(t->blobs[ACPI_VMGENID], ACPI_VMGENID_SIZE);
    }
    return t;
}

void acpi_tables_free(AcpiTables *tables)
{
    if (tables) {
        for (unsigned i = 0; i < ACPI_BLOBS; i++) {
            g_byte_array_unref(tables->blobs[i]);
        }
        g_array_unref(tables->links);
        g_array_unref(tables->checksums);
        g_free(tables);
    }
}

void acpi_tables_link(AcpiTables *tables, const uint64_t address[ACPI_BLOBS])
{
    for (guint i = 0; i < tables->links->len; i++) {
        const AcpiLink *link = &g_array_index(tables->links, AcpiLink, i);
        uint8_t *p = tables->blobs[link->blob]->data + link->offset;

        if (link->size == 8) {
            put_le64(p, get_le64(p) + address[link->target]);
        } else {
            put_le32(p, get_le32(p) + (uint32_t)address[link->target]);
        }
    }
    for (guint i = 0; i < tables->checksums->len; i++) {
        const AcpiChecksum *sum = &g_array_index(tables->checksums, AcpiChecksum, i);
        uint8_t *data = tables->blobs[sum->blob]->data, total = 0;

        data[sum->offset] = 0;
        for (uint32_t n = 0; n < sum->length; n++) {
            total = (uint8_t)(total + data[sum->start + n]);
        }
        data[sum->offset] = (uint8_t)-total;
    }
}
