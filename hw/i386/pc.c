/*
 * pc-i440fx-8.2, alias pc: the board with an i440FX and a PIIX3.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/i386/pc.h"

#include "hw/i386/boot-setup.h"
#include "hw/i386/machine.h"

QOM_DECLARE_FINAL_TYPE(PcI440fxMachine, pc_i440fx_machine, PC_I440FX_MACHINE, PcMachineClass)

struct _PcI440fxMachine {
    PcMachine parent_instance;
};

QOM_DEFINE_TYPE(PcI440fxMachine, pc_i440fx_machine, "pc-i440fx-8.2-machine", TYPE_PC_MACHINE)

static bool pc_i440fx_init_devices(Machine *m, GError **errp)
{
    PcMachine *pc = PC_MACHINE(m);

    pc->isa = isa_bus_new(m, OBJECT(m));
    return true;
}

static bool pc_i440fx_finish(Machine *m, GError **errp)
{
    PcMachine *pc = PC_MACHINE(m);

    pc->boot = boot_setup_new(m, errp);
    return pc->boot != NULL;
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
    mc->finish = pc_i440fx_finish;
}
