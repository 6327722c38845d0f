/*
 * The memory map as firmware hands it to an operating system: sorted ranges of a kind.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_I386_E820_H
#define COWBIRD_HW_I386_E820_H

#include <stdbool.h>
#include <stdint.h>

/* Values of the ACPI specification, "Address Range Types". */
typedef enum E820Type { E820_RAM = 1, E820_RESERVED = 2, E820_ACPI = 3, E820_NVS = 4 } E820Type;

#define E820_MAX 32

typedef struct E820Entry {
    uint64_t base, size;
    E820Type type;
} E820Entry;

typedef struct E820Table {
    unsigned count;
    E820Entry entries[E820_MAX];
} E820Table;

/* Appends a range; an empty one is left out. Ranges are added in ascending order. */
void e820_add(E820Table *table, uint64_t base, uint64_t size, E820Type type);
/* As the 20-byte entries of boot_params and of fw_cfg's "etc/e820"; out holds count * 20 bytes. */
#define E820_ENTRY_BYTES 20
void e820_encode(const E820Table *table, uint8_t *out);

#endif
