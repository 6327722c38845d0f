/*
 * What all PC boards share: where RAM lies, what is built in, how a guest is started.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_I386_MACHINE_H
#define COWBIRD_HW_I386_MACHINE_H

#include "hw/core/machine.h"
#include "hw/i386/acpi-pm.h"
#include "hw/i386/isa-bus.h"
#include "hw/i386/piix3.h"
#include "hw/pci/pci-assign.h"
#include "hw/timer/mc146818rtc.h"

typedef struct BootSetup BootSetup;

#define TYPE_PC_MACHINE (pc_machine_get_type())
QOM_DECLARE_TYPE(PcMachine, pc_machine, PC_MACHINE)

struct _PcMachine {
    Machine parent_instance;
    bool acpi;              /* ACPI tables are given to the guest */
    bool hpet, vmport, smm; /* must be off */
    /* Made by the board; not references. */
    IsaBus *isa;
    Piix3 *piix3;
    Piix4Pm *pm;
    Rtc *rtc_device;
    BootSetup *boot;
};

struct _PcMachineClass {
    MachineClass parent_class;
};

/* Fixed places of the memory map. */
#define PC_HOLE_4G 0x100000000
#define PC_VGA_BASE 0xa0000
#define PC_VGA_SIZE 0x20000
#define PC_BIOS_BASE 0xf0000 /* where SMBIOS and ACPI anchors are looked for */
#define PC_BIOS_SIZE 0x10000
#define PC_IO_APIC_BASE 0xfec00000
#define PC_PCI_LOW_MIN 0xc0000000 /* start of the window for BARs, if RAM does not go beyond it */
#define PC_PCI_HIGH_SIZE (UINT64_C(32) << 30)
#define PC_PCI_IO_BASE 0xc000

/* How much of ram_size lies below 4 GiB. */
uint64_t pc_below_4g(uint64_t ram_size);
/* Where BARs can lie, as ACPI says and as they are given addresses at a reset. */
PciWindows pc_pci_windows(const Machine *m);

/* Phases that boards use for theirs. */
bool pc_init_memory(Machine *m, GError **errp);
/* What sits behind every PC's ISA bridge; needs pc->isa. */
bool pc_init_isa_devices(PcMachine *pc, GError **errp);
bool pc_finish(Machine *m, GError **errp);

#endif
