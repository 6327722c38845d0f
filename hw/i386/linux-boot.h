/*
 * Starting a kernel without firmware: where kernel, initrd and the structures of the boot protocol go, and what the
 * boot processor finds in its registers.
 *
 * The files stay open and are read again at each reset, straight into guest RAM; nothing is kept in host memory,
 * so that a clone that never resets pays nothing for them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_I386_LINUX_BOOT_H
#define COWBIRD_HW_I386_LINUX_BOOT_H

#include <glib.h>
#include <stdbool.h>

#include "accel/accel.h"
#include "hw/i386/e820.h"
#include "memory/address-map.h"

typedef struct LinuxBoot LinuxBoot;

typedef struct LinuxBootConfig {
    const char *kernel; /* file names; initrd may be NULL */
    const char *initrd;
    const char *cmdline; /* NULL = empty */
    uint64_t ram_end;    /* end of the RAM below 4 GiB that boot images may use */
} LinuxBootConfig;

/*
 * Opens the files, checks them and decides where everything goes. Guest RAM is not touched. The errors say what does
 * not fit.
 */
LinuxBoot *linux_boot_new(const LinuxBootConfig *config, GError **errp);
void linux_boot_free(LinuxBoot *boot);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LinuxBoot, linux_boot_free)

/*
 * Fills guest RAM and tells how the boot processor starts. e820 is what the kernel shall see, rsdp the address of
 * the ACPI root pointer (0: none).
 */
bool linux_boot_load(const LinuxBoot *boot, AddressMap *memory, const E820Table *e820,
                     uint64_t rsdp, VcpuBoot *ret_registers, GError **errp);

#endif
