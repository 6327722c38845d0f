/*
 * The PIIX3: PCI-to-ISA bridge and router of the PCI interrupts.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_I386_PIIX3_H
#define COWBIRD_HW_I386_PIIX3_H

#include "hw/i386/isa-bus.h"
#include "hw/pci/pci.h"

#define TYPE_PIIX3 (piix3_get_type())
QOM_DECLARE_FINAL_TYPE(Piix3, piix3, PIIX3, PciDeviceClass)

/* First of the four routing registers: bits 3:0 ISA interrupt, bit 7 off. */
#define PIIX3_REG_PIRQ 0x60
#define PIIX3_PIRQ_OFF 0x80

IsaBus *piix3_isa_bus(Piix3 *piix3);

#endif
