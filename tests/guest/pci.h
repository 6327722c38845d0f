/*
 * PCI for the test guest: configuration space by ports 0xcf8 and 0xcfc, base addresses, capabilities.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef TESTS_GUEST_PCI_H
#define TESTS_GUEST_PCI_H

#include <stdbool.h>
#include <stdint.h>

#define PCI_DEVFNS 256 /* of bus 0, which is all that is looked at */
#define PCI_BARS 6

#define PCI_COMMAND 0x04
#define PCI_COMMAND_IO 0x1
#define PCI_COMMAND_MEMORY 0x2
#define PCI_COMMAND_MASTER 0x4
#define PCI_COMMAND_INTX_DISABLE 0x400
#define PCI_STATUS 0x06
#define PCI_HEADER_TYPE 0x0e
#define PCI_BAR0 0x10
#define PCI_CAPABILITIES 0x34
#define PCI_INTERRUPT_LINE 0x3c

#define PCI_CAP_VENDOR 0x09
#define PCI_CAP_MSIX 0x11

uint8_t pci_read8(unsigned devfn, unsigned offset);
uint16_t pci_read16(unsigned devfn, unsigned offset);
uint32_t pci_read32(unsigned devfn, unsigned offset);
void pci_write8(unsigned devfn, unsigned offset, uint8_t value);
void pci_write16(unsigned devfn, unsigned offset, uint16_t value);
void pci_write32(unsigned devfn, unsigned offset, uint32_t value);

bool pci_present(unsigned devfn);
/* The first function with that vendor and one of two device ids; -1 if there is none. */
int pci_find(uint16_t vendor, uint16_t device, uint16_t other_device);
/* The next capability of that kind behind the one at `after` (0: the first); 0 if there is none. */
unsigned pci_capability(unsigned devfn, uint8_t kind, unsigned after);
/* Address of a base address register; what nobody has given one gets one now. 0 if there is no such register. */
uint64_t pci_bar(unsigned devfn, unsigned bar, bool *ret_io);
/* The register's size in bytes: decoding is off while it is found out. */
uint64_t pci_bar_size(unsigned devfn, unsigned bar);
void pci_enable(unsigned devfn);

#endif
