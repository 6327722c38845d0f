/*
 * The ACPI tables of a PC board, as bytes that can still be moved.
 *
 * The tables are built once, when all devices are there. Two ways lead into the guest: acpi_tables_place writes them to a
 * place in RAM (direct boot), acpi_tables_add_files hands them to firmware through fw_cfg with the
 * commands of its table loader. Both follow the same list of pointers and checksums.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_I386_ACPI_TABLES_H
#define COWBIRD_HW_I386_ACPI_TABLES_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "hw/i386/aml.h"

/* What the tables describe. Everything a device takes part with is off when it is not there. */
typedef struct AcpiConfig {
    unsigned n_cpus;
    const uint32_t *apic_ids;    /* n_cpus of them */
    AmlWindow pci_low, pci_high; /* where PCI BARs may lie, below and above 4 GiB */
    bool s4;                     /* suspend to disk can be chosen */
    bool rtc, fw_cfg, vmgenid;
    uint16_t pvpanic; /* port, 0: none */
    unsigned n_serial;
    struct {
        uint16_t port;
        uint8_t irq;
    } serial[4];
} AcpiConfig;

/* The pieces that are placed separately. */
typedef enum AcpiBlob { ACPI_RSDP, ACPI_TABLES, ACPI_VMGENID, ACPI_BLOBS } AcpiBlob;

/* size bytes at offset of blob hold an offset into target, to which its address is added. */
typedef struct AcpiLink {
    AcpiBlob blob, target;
    uint32_t offset;
    uint8_t size;
} AcpiLink;

/* The byte at offset makes the sum of start .. start + length zero. */
typedef struct AcpiChecksum {
    AcpiBlob blob;
    uint32_t offset, start, length;
} AcpiChecksum;

typedef struct AcpiTables {
    GByteArray *blobs[ACPI_BLOBS]; /* ACPI_VMGENID is empty without that device */
    GArray *links, *checksums;
} AcpiTables;

/* The GUID's place in its page; the first bytes are left to whoever probes for tables there. */
#define ACPI_VMGENID_OFFSET 40
#define ACPI_VMGENID_SIZE 4096

/* Registers that the tables name and acpi-pm.c implements. */
#define ACPI_PM_BASE 0x600
#define ACPI_GPE_BASE 0xafe0
#define ACPI_SMI_PORT 0xb2
#define ACPI_ENABLE_VALUE 0xf1
#define ACPI_DISABLE_VALUE 0xf0
#define ACPI_SCI_IRQ 9
#define ACPI_VMGENID_GPE 5
#define ACPI_SLEEP_S4 2 /* SLP_TYP values; S5 is 0 */

AcpiTables *acpi_tables_new(const AcpiConfig *config);
void acpi_tables_free(AcpiTables *tables);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(AcpiTables, acpi_tables_free)

/* Fills in pointers and checksums for blobs that lie at these guest-physical addresses. */
void acpi_tables_link(AcpiTables *tables, const uint64_t address[ACPI_BLOBS]);

/*
 * Appends the DSDT's contents (acpi-dsdt.c), without header, to out. Returns the place in out of the four bytes that
 * hold the address of the VM generation id, 0 without that device.
 */
guint acpi_dsdt_build(const AcpiConfig *config, GByteArray *out);

#endif
