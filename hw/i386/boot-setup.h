/*
 * What firmware would do before it starts a kernel: the memory map, tables in RAM, the kernel itself.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_I386_BOOT_SETUP_H
#define COWBIRD_HW_I386_BOOT_SETUP_H

#include <glib.h>

typedef struct BootSetup BootSetup;
typedef struct Machine Machine;

/*
 * Checks what -kernel, -initrd and -append say and registers the reset handler that fills guest RAM. Without a kernel the
 * guest can only be one whose state comes in.
 */
BootSetup *boot_setup_new(Machine *m, GError **errp);
void boot_setup_free(BootSetup *setup);

#endif
