/*
 * The base of all PC boards ("generic-pc-machine"): RAM on both sides of the hole below 4 GiB.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/i386/machine.h"

#include "hw/char/serial.h"
#include "hw/firmware/fw-cfg.h"
#include "hw/i386/boot-setup.h"
#include "hw/misc/i8042.h"
#include "hw/misc/vmgenid.h"
#include "hw/pci/pam.h"
#include "hw/timer/clock.h"
#include "memory/address-map.h"
#include "util/error.h"
#include "util/units.h"

QOM_DEFINE_ABSTRACT_TYPE(PcMachine, pc_machine, "generic-pc-machine", TYPE_MACHINE)

#define RAM_MIN (4 * MiB)
#define RAM_MAX (1 * TiB)

uint64_t pc_below_4g(uint64_t ram_size)
{
    /* From 3.5 GiB on the hole starts at 3 GiB, so that both parts begin on a GiB. */
    return ram_size < 0xe0000000 ? ram_size : 0xc0000000;
}

PciWindows pc_pci_windows(const Machine *m)
{
    uint64_t low = MAX(ROUND_UP(m->below_4g, 1 * MiB), (uint64_t)PC_PCI_LOW_MIN);

    return (PciWindows){
        .io = { PC_PCI_IO_BASE, 0x10000 - PC_PCI_IO_BASE },
        .low = { low, PC_IO_APIC_BASE - low },
        .high = { ROUND_UP(PC_HOLE_4G + m->above_4g, 1 * GiB), PC_PCI_HIGH_SIZE },
    };
}

static bool check_ram(const Machine *m, GError **errp)
{
    if (m->ram_size < RAM_MIN || m->ram_size > RAM_MAX || !IS_ALIGNED(m->ram_size, 4 * KiB)) {
        error_set(errp,
                  "-m: %" G_GUINT64_FORMAT " bytes of RAM: this machine takes 4 MiB to 1 TiB in "
                  "whole pages",
                  m->ram_size);
        return false;
    }
    return true;
}

/* Parts of QEMU's machines that this one never has: "off" is accepted, as libvirt sends it. */
static bool check_absent_parts(const PcMachine *pc, GError **errp)
{
    const char *name = pc->hpet ? "hpet" : pc->vmport ? "vmport" : pc->smm ? "smm" : NULL;

    if (name) {
        error_set(errp, "-machine %s=on: this machine has no such part; use %s=off", name, name);
    }
    return !name;
}

/*
 * All of it is RAM, the window of the VGA frame buffer too while there is no such device: one memory slot less, and the
 * memory map does not offer it to the guest. 768 KiB to 1 MiB are a range of their own, which host bridges can close in
 * parts (hw/pci/pam.h), so that the rest never changes under a running guest.
 */
static bool lay_out_ram(Machine *m, GError **errp)
{
    const struct {
        uint64_t base, offset, size;
    } parts[] = {
        { 0, 0, PAM_BASE },
        { PAM_BASE, PAM_BASE, PAM_SIZE },
        { 1 * MiB, 1 * MiB, m->below_4g - 1 * MiB },
        { PC_HOLE_4G, m->below_4g, m->above_4g },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(parts); i++) {
        if (parts[i].size && !address_map_add_ram(m->memory, parts[i].base, m->main,
                                                  parts[i].offset, parts[i].size, false, errp)) {
            return false;
        }
    }
    return true;
}

bool pc_init_memory(Machine *m, GError **errp)
{
    bool ok;

    if (!check_absent_parts(PC_MACHINE(m), errp) || !check_ram(m, errp)) {
        return false;
    }
    m->irqchip = true;
    m->below_4g = pc_below_4g(m->ram_size);
    m->above_4g = m->ram_size - m->below_4g;
    m->clock = vm_clock_new();
    address_map_begin(m->memory);
    ok = lay_out_ram(m, errp);
    address_map_commit(m->memory);
    return ok && vm_clock_attach(m->clock, m->runstate, m->vmstate, errp);
}

/* ---- built-in devices ---- */

static void put_cmos16(Rtc *rtc, unsigned index, uint64_t value)
{
    rtc_set_cmos(rtc, index, (uint8_t)value);
    rtc_set_cmos(rtc, index + 1, (uint8_t)(value >> 8));
}

/* The sizes that firmware and old systems read from the CMOS memory. */
static void fill_cmos(const Machine *m, Rtc *rtc)
{
    uint64_t above_1m = MIN((m->below_4g - 1 * MiB) / KiB, 0xffff);
    uint64_t above_16m = m->below_4g > 16 * MiB ? (m->below_4g - 16 * MiB) / (64 * KiB) : 0;

    put_cmos16(rtc, 0x15, 640);      /* KiB below 640 KiB */
    put_cmos16(rtc, 0x17, above_1m); /* KiB above 1 MiB, twice */
    put_cmos16(rtc, 0x30, above_1m);
    put_cmos16(rtc, 0x34, MIN(above_16m, 0xffff)); /* 64 KiB above 16 MiB */
    put_cmos16(rtc, 0x5b, m->above_4g / (64 * KiB));
    rtc_set_cmos(rtc, 0x5d, (uint8_t)(m->above_4g / (64 * KiB) >> 16));
    rtc_set_cmos(rtc, 0x5f, (uint8_t)(m->smp.cpus - 1));
    rtc_set_cmos(rtc, 0x14, 0x04); /* equipment: a mouse port, no floppy, no display */
}

/* The ports of -serial, each at the place of its number. */
static bool create_serial_ports(Machine *m, Bus *isa, GError **errp)
{
    for (unsigned i = 0; i < MACHINE_SERIAL_MAX; i++) {
        g_autofree char *index = g_strdup_printf("%u", i);

        if (m->serial[i] && !device_create(m, TYPE_ISA_SERIAL, isa, errp, "index", index, "chardev",
                                           chardev_id(m->serial[i]), NULL)) {
            return false;
        }
    }
    return true;
}

bool pc_init_isa_devices(PcMachine *pc, GError **errp)
{
    Machine *m = MACHINE(pc);
    Bus *isa = BUS(pc->isa);
    Device *rtc, *fw_cfg;

    if (!(rtc = device_create(m, TYPE_RTC, isa, errp, NULL)) ||
        !device_create(m, TYPE_KBC, isa, errp, NULL) ||
        !device_create(m, TYPE_PORT92, isa, errp, NULL) ||
        !(fw_cfg = device_create(m, TYPE_FW_CFG, NULL, errp, NULL))) {
        return false;
    }
    pc->rtc_device = RTC(rtc);
    m->fw_cfg = FW_CFG(fw_cfg);
    fill_cmos(m, pc->rtc_device);
    return create_serial_ports(m, isa, errp);
}

bool pc_finish(Machine *m, GError **errp)
{
    PcMachine *pc = PC_MACHINE(m);

    /* A guest of which copies are made must be able to tell: the device is there unless ACPI is off. */
    if (pc->acpi && !vmgenid_find(m) && !device_create(m, TYPE_VMGENID, NULL, errp, NULL)) {
        return false;
    }
    pc->boot = boot_setup_new(pc, errp);
    return pc->boot != NULL;
}

static const QomProperty pc_properties[] = {
    { .name = "pit",
      .kind = QOM_BOOL,
      .offset = offsetof(PcMachine, parent_instance.pit),
      .def = true,
      .description = "The 8254 timer of KVM" },
    { .name = "acpi",
      .kind = QOM_BOOL,
      .offset = offsetof(PcMachine, acpi),
      .def = true,
      .description = "ACPI tables" },
    { .name = "hpet",
      .kind = QOM_BOOL,
      .offset = offsetof(PcMachine, hpet),
      .description = "High precision event timer (off only)" },
    { .name = "vmport",
      .kind = QOM_BOOL,
      .offset = offsetof(PcMachine, vmport),
      .description = "VMware port (off only)" },
    { .name = "smm",
      .kind = QOM_BOOL,
      .offset = offsetof(PcMachine, smm),
      .description = "System management mode (off only)" },
    QOM_PROPERTY_END,
};

static void pc_machine_finalize(GObject *obj)
{
    PcMachine *pc = PC_MACHINE(obj);
    VmClock *clock = pc->parent_instance.clock;

    boot_setup_free(pc->boot);
    G_OBJECT_CLASS(pc_machine_parent_class)->finalize(obj);
    /* After the devices, whose timers run on it. */
    vm_clock_free(clock);
}

static void pc_machine_init(PcMachine *pc)
{
}

static void pc_machine_class_init(PcMachineClass *klass)
{
    MachineClass *mc = MACHINE_CLASS(klass);

    G_OBJECT_CLASS(klass)->finalize = pc_machine_finalize;
    qom_class_install(klass, pc_properties);
    mc->max_cpus = 255;
    mc->default_ram_id = "pc.ram";
    mc->default_ram_size = 128 * MiB;
    mc->init_memory = pc_init_memory;
    mc->finish = pc_finish;
}
