/*
 * The power management function of the PIIX4: ACPI events, sleep states, PM timer, general purpose events.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_I386_ACPI_PM_H
#define COWBIRD_HW_I386_ACPI_PM_H

#include "hw/pci/pci.h"

#define TYPE_PIIX4_PM (piix4_pm_get_type())
QOM_DECLARE_FINAL_TYPE(Piix4Pm, piix4_pm, PIIX4_PM, PciDeviceClass)

/* Configuration registers that firmware sets up. */
#define PIIX4_REG_PM_BASE 0x40
#define PIIX4_REG_PM_ENABLE 0x80

/* Where the system control interrupt goes; before reset. */
void acpi_pm_connect(Piix4Pm *pm, const IrqLine *sci);
/* Sets the status bit of a general purpose event (0 to 15) and raises the interrupt if it is enabled. */
void acpi_pm_send_gpe(Piix4Pm *pm, unsigned n);
/* The guest is told that the power button was pressed. */
void acpi_pm_power_button(Piix4Pm *pm);
/* True if the guest may choose suspend to disk. */
bool acpi_pm_has_s4(const Piix4Pm *pm);

#endif
