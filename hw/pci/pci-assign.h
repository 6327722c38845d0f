/*
 * Giving BARs their addresses, as firmware does, on a machine that starts without firmware.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_PCI_PCI_ASSIGN_H
#define COWBIRD_HW_PCI_PCI_ASSIGN_H

#include "hw/pci/pci.h"

/* Room for BARs: [base, base + size). */
typedef struct PciWindow {
    uint64_t base, size;
} PciWindow;

typedef struct PciWindows {
    PciWindow io;
    PciWindow low;  /* memory below 4 GiB */
    PciWindow high; /* memory above 4 GiB and all RAM */
} PciWindows;

/*
 * Places the BARs of all devices in the order of their addresses on the bus, each aligned to its size (memory to 4 KiB at least), and switches
 * decoding on. A 64-bit BAR that the low window has no room for goes into the high one. A BAR without any room is
 * reported and its device keeps that kind of decoding off.
 */
void pci_bus_assign(PciBus *bus, const PciWindows *windows);

#endif
