/*
 * pc-i440fx-8.2, alias pc: the board with an i440FX and a PIIX3.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/i386/pc.h"

#include "hw/i386/acpi-tables.h"
#include "hw/i386/machine.h"
#include "hw/pci/i440fx.h"

QOM_DECLARE_FINAL_TYPE(PcI440fxMachine, pc_i440fx_machine, PC_I440FX_MACHINE, PcMachineClass)

struct _PcI440fxMachine {
    PcMachine parent_instance;
};

QOM_DEFINE_TYPE(PcI440fxMachine, pc_i440fx_machine, "pc-i440fx-8.2-machine", TYPE_PC_MACHINE)

static void press_power_button(void *opaque, int n, int level)
{
    if (level) {
        acpi_pm_power_button(opaque);
    }
}

static void generation_changed(void *opaque, int n, int level)
{
    if (level) {
        acpi_pm_send_gpe(opaque, ACPI_VMGENID_GPE);
    }
}

static bool init_chipset(PcMachine *pc, GError **errp)
{
    Machine *m = MACHINE(pc);
    Device *host = device_create(m, TYPE_I440FX_HOST, NULL, errp, NULL);
    Device *piix3, *pm;
    Bus *pci;

    if (!host) {
        return false;
    }
    m->pci = i440fx_host_bus(I440FX_HOST(host));
    pci = BUS(m->pci);
    if (!device_create(m, TYPE_I440FX, pci, errp, "addr", "0", NULL) ||
        !(piix3 =
              device_create(m, TYPE_PIIX3, pci, errp, "addr", "1", "multifunction", "on", NULL)) ||
        !(pm = device_create(m, TYPE_PIIX4_PM, pci, errp, "addr", "1.3", NULL))) {
        return false;
    }
    pc->piix3 = PIIX3(piix3);
    pc->pm = PIIX4_PM(pm);
    pc->isa = piix3_isa_bus(pc->piix3);
    return true;
}

static bool pc_i440fx_init_devices(Machine *m, GError **errp)
{
    PcMachine *pc = PC_MACHINE(m);
    IrqLine sci;

    if (!init_chipset(pc, errp) || !isa_bus_irq(pc->isa, ACPI_SCI_IRQ, &sci, errp)) {
        return false;
    }
    acpi_pm_connect(pc->pm, &sci);
    m->power_button = (IrqLine){ .set = press_power_button, .opaque = pc->pm };
    m->generation_changed = (IrqLine){ .set = generation_changed, .opaque = pc->pm };
    return pc_init_isa_devices(pc, errp);
}

static void pc_i440fx_machine_init(PcI440fxMachine *m)
{
}

static void pc_i440fx_machine_class_init(PcI440fxMachineClass *klass)
{
    MachineClass *mc = MACHINE_CLASS(klass);

    mc->name = "pc-i440fx-8.2";
    mc->alias = "pc";
    mc->desc = "Standard PC (i440FX + PIIX)";
    mc->is_default = true;
    mc->init_devices = pc_i440fx_init_devices;
}
