/*
 * ACPI tables for firmware: the commands by which it places and links them itself.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_I386_ACPI_LOADER_H
#define COWBIRD_HW_I386_ACPI_LOADER_H

#include "hw/firmware/fw-cfg.h"
#include "hw/i386/acpi-tables.h"

/* Names of the items. */
#define ACPI_FILE_TABLES "etc/acpi/tables"
#define ACPI_FILE_RSDP "etc/acpi/rsdp"
#define ACPI_FILE_LOADER "etc/table-loader"
#define ACPI_FILE_VMGENID "etc/vmgenid_guid"
#define ACPI_FILE_VMGENID_ADDRESS "etc/vmgenid_addr"

/*
 * Adds the tables, not linked yet, and the loader's commands. vmgenid_placed is told of the address of the GUID's page that firmware
 * chose, if the tables have a generation id.
 */
bool acpi_loader_add_files(FwCfg *fw_cfg, const AcpiTables *tables,
                           void (*vmgenid_placed)(void *opaque, const uint8_t *data, size_t len),
                           void *opaque, GError **errp);

#endif
