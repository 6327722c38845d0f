/*
 * The firmware's work, done at each reset without firmware.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/i386/boot-setup.h"

#include "accel/accel.h"
#include "hw/firmware/fw-cfg.h"
#include "hw/i386/acpi-tables.h"
#include "hw/i386/boot-tables.h"
#include "hw/i386/linux-boot.h"
#include "util/error.h"

struct BootSetup {
    PcMachine *pc;
    LinuxBoot *linux_boot; /* NULL: none, the guest's state comes from a stream */
    BootTables *tables;
};

/* PCI interrupts to where the tables say they can go, power management to its ports. */
static void set_up_chipset(PcMachine *pc)
{
    static const uint8_t irqs[PCI_PIRQ_COUNT] = { 10, 10, 11, 11 };
    PciBus *bus = MACHINE(pc)->pci;
    unsigned piix3 = PCI_DEVICE(pc->piix3)->devfn, pm = PCI_DEVICE(pc->pm)->devfn;

    for (unsigned i = 0; i < PCI_PIRQ_COUNT; i++) {
        pci_config_write(bus, piix3, PIIX3_REG_PIRQ + i, irqs[i], 1);
    }
    pci_config_write(bus, pm, PIIX4_REG_PM_BASE, ACPI_PM_BASE, 4);
    pci_config_write(bus, pm, PIIX4_REG_PM_ENABLE, 1, 1);
    pci_config_write(bus, pm, PCI_REG_INTERRUPT_LINE, ACPI_SCI_IRQ, 1);
}

/* Each device with an interrupt pin learns the interrupt that its pin is routed to. */
static void set_interrupt_lines(PcMachine *pc)
{
    PciBus *bus = MACHINE(pc)->pci;

    for (unsigned devfn = 0; devfn < G_N_ELEMENTS(bus->functions); devfn++) {
        unsigned pin =
            bus->functions[devfn] ? bus->functions[devfn]->config[PCI_REG_INTERRUPT_PIN] : 0;

        if (pin) {
            unsigned pirq = pci_pirq_of(devfn >> 3, pin - 1);

            pci_config_write(bus, devfn, PCI_REG_INTERRUPT_LINE,
                             PCI_DEVICE(pc->piix3)->config[PIIX3_REG_PIRQ + pirq], 1);
        }
    }
}

static void place_bars(PcMachine *pc)
{
    PciWindows windows = pc_pci_windows(MACHINE(pc));

    pci_bus_assign(MACHINE(pc)->pci, &windows);
}

static bool boot_setup_load(BootSetup *setup, GError **errp)
{
    Machine *m = MACHINE(setup->pc);
    VcpuBoot registers;

    return boot_tables_load(setup->tables, errp) &&
           linux_boot_load(setup->linux_boot, m->memory, boot_tables_e820(setup->tables),
                           boot_tables_rsdp(setup->tables), &registers, errp) &&
           accel_set_boot_registers(m->accel, &registers, errp);
}

/* A machine that a test drives (-accel qtest) has no CPU and needs nothing to run on it. */
static bool has_cpus(const Machine *m)
{
    return !m->accel || accel_vcpu_count(m->accel);
}

static void boot_setup_reset(void *opaque)
{
    BootSetup *setup = opaque;
    g_autoptr(GError) err = NULL;

    set_up_chipset(setup->pc);
    place_bars(setup->pc);
    set_interrupt_lines(setup->pc);
    if (!setup->linux_boot && !has_cpus(MACHINE(setup->pc))) {
        return;
    }
    if (!setup->linux_boot) {
        error_set(&err, "there is no -kernel");
    }
    if (err || !boot_setup_load(setup, &err)) {
        error_report("the guest cannot be started: %s", err->message);
        runstate_request_stop(MACHINE(setup->pc)->runstate, RUN_STATE_INTERNAL_ERROR);
    }
}

static bool open_kernel(BootSetup *setup, GError **errp)
{
    const Machine *m = MACHINE(setup->pc);
    LinuxBootConfig config = {
        .kernel = m->boot.kernel,
        .initrd = m->boot.initrd,
        .cmdline = m->boot.cmdline,
        .ram_end = boot_tables_base(setup->tables),
    };

    if (m->boot.kernel) {
        setup->linux_boot = linux_boot_new(&config, errp);
        return setup->linux_boot != NULL;
    }
    if (m->boot.initrd || m->boot.cmdline) {
        error_set(errp, "-initrd and -append need -kernel");
        return false;
    }
    if (!m->incoming && has_cpus(m)) {
        error_set(errp,
                  "there is nothing to start: give -kernel FILE, or -incoming for saved state");
        return false;
    }
    return true;
}

static void add_fw_cfg_numbers(const Machine *m)
{
    fw_cfg_add_bytes(m->fw_cfg, FW_CFG_UUID, m->uuid.data, sizeof(m->uuid.data));
    fw_cfg_add_u64(m->fw_cfg, FW_CFG_RAM_SIZE, m->ram_size);
    fw_cfg_add_u16(m->fw_cfg, FW_CFG_NOGRAPHIC, 1);
    fw_cfg_add_u16(m->fw_cfg, FW_CFG_NB_CPUS, (uint16_t)m->smp.cpus);
    fw_cfg_add_u16(m->fw_cfg, FW_CFG_MAX_CPUS, (uint16_t)m->smp.max_cpus);
    fw_cfg_add_u16(m->fw_cfg, FW_CFG_BOOT_MENU, m->boot.menu);
}

BootSetup *boot_setup_new(PcMachine *pc, GError **errp)
{
    BootSetup *setup = g_new0(BootSetup, 1);

    setup->pc = pc;
    setup->tables = boot_tables_new(pc);
    add_fw_cfg_numbers(MACHINE(pc));
    if (!boot_tables_add_files(setup->tables, errp) || !open_kernel(setup, errp)) {
        boot_setup_free(setup);
        return NULL;
    }
    reset_register(MACHINE(pc)->resets, RESET_IMAGES, boot_setup_reset, setup);
    return setup;
}

void boot_setup_free(BootSetup *setup)
{
    if (setup) {
        reset_unregister(MACHINE(setup->pc)->resets, boot_setup_reset, setup);
        linux_boot_free(setup->linux_boot);
        boot_tables_free(setup->tables);
        g_free(setup);
    }
}
