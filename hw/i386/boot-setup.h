/*
 * What firmware would do before it starts a kernel: chipset registers, the memory map, tables in RAM, the kernel.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_I386_BOOT_SETUP_H
#define COWBIRD_HW_I386_BOOT_SETUP_H

#include <glib.h>

#include "hw/i386/machine.h"

/*
 * Checks what -kernel, -initrd and -append say, makes the tables of the board as it is now, offers them in fw_cfg, and
 * registers the reset handler that fills guest RAM. Without a kernel the guest can only be one whose state comes in.
 */
BootSetup *boot_setup_new(PcMachine *pc, GError **errp);
void boot_setup_free(BootSetup *setup);

#endif
