/*
 * The tables that describe a board to its guest (ACPI, SMBIOS) and the part of RAM that they take.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_I386_BOOT_TABLES_H
#define COWBIRD_HW_I386_BOOT_TABLES_H

#include "hw/i386/e820.h"
#include "hw/i386/machine.h"

typedef struct BootTables BootTables;

/* From the board and its devices as they are now; guest RAM is not touched. */
BootTables *boot_tables_new(PcMachine *pc);
void boot_tables_free(BootTables *t);
/* First byte of the RAM that the tables take at the end of the RAM below 4 GiB. */
uint64_t boot_tables_base(const BootTables *t);
/* The memory map that goes with them. */
const E820Table *boot_tables_e820(const BootTables *t);
/* Where the ACPI root pointer goes; 0 without ACPI. */
uint64_t boot_tables_rsdp(const BootTables *t);
/* Gives them to firmware. */
bool boot_tables_add_files(BootTables *t, GError **errp);
/* Writes them to guest RAM, and tells the generation id its place. */
bool boot_tables_load(BootTables *t, GError **errp);

#endif
