/*
 * The firmware's work, done at each reset without firmware.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/i386/boot-setup.h"

#include "accel/accel.h"
#include "hw/i386/linux-boot.h"
#include "hw/i386/machine.h"
#include "memory/ram-block.h"
#include "util/error.h"
#include "util/units.h"

#define EBDA_BASE 0x9fc00

struct BootSetup {
    Machine *machine;
    LinuxBoot *linux_boot; /* NULL: none, the guest's state comes from a stream */
    E820Table e820;
    uint64_t rsdp; /* 0: no ACPI */
};

static void make_e820(BootSetup *setup, uint64_t tables, uint64_t tables_size)
{
    const Machine *m = setup->machine;
    E820Table *t = &setup->e820;

    e820_add(t, 0, EBDA_BASE, E820_RAM);
    e820_add(t, EBDA_BASE, PC_VGA_BASE - EBDA_BASE, E820_RESERVED);
    e820_add(t, PC_BIOS_BASE, PC_BIOS_SIZE, E820_RESERVED);
    e820_add(t, 1 * MiB, tables - 1 * MiB, E820_RAM);
    e820_add(t, tables, tables_size, E820_RESERVED);
    e820_add(t, PC_HOLE_4G, m->above_4g, E820_RAM);
}

static bool boot_setup_load(BootSetup *setup, GError **errp)
{
    Machine *m = setup->machine;
    VcpuBoot registers;

    return linux_boot_load(setup->linux_boot, m->memory, &setup->e820, setup->rsdp, &registers,
                           errp) &&
           accel_set_boot_registers(m->accel, &registers, errp);
}

static void boot_setup_reset(void *opaque)
{
    BootSetup *setup = opaque;
    g_autoptr(GError) err = NULL;

    if (setup->linux_boot && !boot_setup_load(setup, &err)) {
        error_report("the guest cannot be started again: %s", err->message);
        runstate_request_stop(setup->machine->runstate, RUN_STATE_INTERNAL_ERROR);
    }
}

static bool check_has_kernel(const Machine *m, GError **errp)
{
    if (m->boot.kernel || m->incoming) {
        return true;
    }
    error_set(errp, "there is nothing to start: give -kernel FILE, or -incoming for saved state");
    return false;
}

BootSetup *boot_setup_new(Machine *m, GError **errp)
{
    BootSetup *setup;

    if (!check_has_kernel(m, errp)) {
        return NULL;
    }
    setup = g_new0(BootSetup, 1);
    setup->machine = m;
    make_e820(setup, m->below_4g, 0);
    if (m->boot.kernel) {
        setup->linux_boot = linux_boot_new(&(LinuxBootConfig){ .kernel = m->boot.kernel,
                                                               .initrd = m->boot.initrd,
                                                               .cmdline = m->boot.cmdline,
                                                               .ram_end = m->below_4g },
                                           errp);
        if (!setup->linux_boot) {
            boot_setup_free(setup);
            return NULL;
        }
    }
    reset_register(m->resets, RESET_IMAGES, boot_setup_reset, setup);
    return setup;
}

void boot_setup_free(BootSetup *setup)
{
    if (setup) {
        reset_unregister(setup->machine->resets, boot_setup_reset, setup);
        linux_boot_free(setup->linux_boot);
        g_free(setup);
    }
}
