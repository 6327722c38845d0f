/*
 * The machine "none": no RAM, no vCPU, no device; for programs that only ask what this one can do.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/core/null-machine.h"

QOM_DECLARE_FINAL_TYPE(NullMachine, null_machine, NULL_MACHINE, MachineClass)

struct _NullMachine {
    Machine parent_instance;
};

QOM_DEFINE_TYPE(NullMachine, null_machine, "none-machine", TYPE_MACHINE)

static bool null_machine_phase(Machine *m, GError **errp)
{
    return true;
}

static void null_machine_init(NullMachine *m)
{
}

static void null_machine_class_init(NullMachineClass *klass)
{
    MachineClass *mc = MACHINE_CLASS(klass);

    mc->name = "none";
    mc->desc = "empty machine";
    mc->no_ram = true;
    mc->max_cpus = 1;
    mc->init_memory = null_machine_phase;
    mc->init_devices = null_machine_phase;
    mc->finish = null_machine_phase;
}
