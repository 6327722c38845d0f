/*
 * MSI-X: interrupts of a PCI device as messages (PCI Local Bus Specification 3.0, section 6.8.2).
 *
 * The guest gives each vector an address and data in a table; a masked vector that is notified becomes pending and is
 * sent when it is unmasked. So does every vector while the VM is stopped: it is sent when the VM runs again.
 *
 * A message is sent by a call into the accelerator. Vectors in use move to eventfds of KVM (irqfd) a second later,
 * all of a bus at once: KVM takes the routes that this needs as one table and may wait milliseconds for it, which
 * neither a guest's set-up nor a restore should.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_PCI_MSIX_H
#define COWBIRD_HW_PCI_MSIX_H

#include "hw/pci/pci.h"

#define MSIX_VECTORS_MAX 2048
#define MSIX_ENTRY_SIZE 16

/* Layout of the capability, and bits of its control register. */
enum {
    MSIX_CAP_CONTROL = 2,
    MSIX_CAP_TABLE = 4,
    MSIX_CAP_PENDING = 8,
    MSIX_CAP_SIZE = 12,
};
enum { MSIX_CONTROL_MASK = 0x4000, MSIX_CONTROL_ENABLE = 0x8000 };

/* In realize: the capability, with table and pending bits in BAR bar (32-bit memory). vectors: 1 to MSIX_VECTORS_MAX. */
bool msix_init(PciDevice *dev, unsigned vectors, unsigned bar, GError **errp);
/* In unrealize; nothing happens if there is no MSI-X. No msix_notify may be under way or come any more. */
void msix_uninit(PciDevice *dev);

/* The guest has switched the device from its interrupt pin to messages. */
bool msix_enabled(const PciDevice *dev);
/* Number of vectors; 0 without MSI-X. */
unsigned msix_vectors(const PciDevice *dev);
/* Sends the vector's message or makes it pending; without effect while MSI-X is disabled. Any thread. */
void msix_notify(PciDevice *dev, unsigned vector);

/*
 * The guest has given the vector a task, or taken it away; counted. Only vectors in use get a route and an irqfd. Big lock held;
 * vector below msix_vectors().
 */
void msix_use(PciDevice *dev, unsigned vector);
void msix_unuse(PciDevice *dev, unsigned vector);

/* --- Used by pci-device.c only --- */

void msix_config_written(PciDevice *dev);
void msix_reset(PciDevice *dev);
/* Frees what there is, without telling anybody: the machine ends. */
void msix_free(PciDevice *dev);
/* Table and pending bits, if the PciDevice has any; msix_loaded follows, when the configuration is in place too. */
extern const VMStateDescription vmstate_msix;
bool msix_loaded(PciDevice *dev, GError **errp);

#endif
