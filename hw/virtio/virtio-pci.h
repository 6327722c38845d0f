/*
 * virtio over PCI (virtio 1.2, section 4.1): the transport that gives a virtio device to a PCI guest.
 *
 * A device of a type below "virtio-pci" is a PCI function with the virtio device as its child "virtio-backend", whose
 * properties it shows as its own. The modern interface is four register structures in BAR 4, found by vendor capabilities;
 * the legacy one, of a transitional device, is I/O BAR 0. Both are views of the same device, so a driver
 * uses one of them. Types that users can name are in virtio-pci-types.c, one line a family.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_VIRTIO_VIRTIO_PCI_H
#define COWBIRD_HW_VIRTIO_VIRTIO_PCI_H

#include "accel/accel.h"
#include "hw/pci/msix.h"
#include "hw/virtio/virtio.h"
#include "hw/virtio/virtqueue.h"

#define TYPE_VIRTIO_PCI (virtio_pci_get_type())
QOM_DECLARE_TYPE(VirtioPci, virtio_pci, VIRTIO_PCI)

/* Which of the three types of a family it is. */
typedef enum VirtioPciKind {
    VIRTIO_PCI_GENERIC, /* "virtio-X-pci": as disable-legacy and disable-modern say */
    VIRTIO_PCI_TRANSITIONAL,
    VIRTIO_PCI_NON_TRANSITIONAL,
} VirtioPciKind;

/* What the three types of one device have in common. */
typedef struct VirtioPciFamily {
    GType (*backend)(void);   /* the virtio device */
    uint16_t transitional_id; /* PCI device id of the transitional device */
    uint16_t class_code;      /* class and subclass */
    uint16_t vectors;         /* default of the property */
} VirtioPciFamily;

/* BARs, and the register structures in the modern one. */
enum { VIRTIO_PCI_BAR_LEGACY = 0, VIRTIO_PCI_BAR_MSIX = 1, VIRTIO_PCI_BAR_MODERN = 4 };
enum {
    VIRTIO_PCI_COMMON = 0x0000,
    VIRTIO_PCI_ISR = 0x1000,
    VIRTIO_PCI_CONFIG = 0x2000,
    VIRTIO_PCI_NOTIFY = 0x3000,
    VIRTIO_PCI_MODERN_SIZE = 0x4000,
    VIRTIO_PCI_PART_SIZE = 0x1000,
};
#define VIRTIO_PCI_NOTIFY_MULTIPLIER 4
/* I/O port of all doorbells, in the legacy BAR. */
#define VIRTIO_PCI_LEGACY_NOTIFY 16

/* Bits of the ISR status register. */
enum { VIRTIO_PCI_ISR_QUEUE = 1, VIRTIO_PCI_ISR_CONFIG = 2 };

struct _VirtioPci {
    PciDevice parent_instance;
    VirtioDevice *vdev; /* the child "virtio-backend" */
    /* Properties. */
    int disable_legacy; /* OnOffAuto */
    bool disable_modern, ioeventfd;
    uint32_t vectors;
    /* What is offered, settled in realize. */
    bool modern, legacy;
    uint8_t cfg_cap; /* place of the PCI configuration access capability */
    /* Registers. */
    uint32_t device_feature_select, driver_feature_select;
    uint64_t driver_features; /* as written */
    uint16_t queue_select, config_vector;
    bool vectors_unchecked; /* config_vector and those of queues were loaded and are not in use */
    uint32_t isr;           /* atomic: any thread sets bits */
    /* Doorbells that signal eventfds now, by queue. */
    bool doorbell_bound[VIRTIO_QUEUE_MAX];
    AccelIoEvent doorbells[VIRTIO_QUEUE_MAX];
    GSource *
        intx_source; /* brings the interrupt pin up to date for a device with an iothread; NULL: none */
};

struct _VirtioPciClass {
    PciDeviceClass parent_class;
    const VirtioPciFamily *family;
    VirtioPciKind kind;
};

/* Types that users can name, for the list of all types. */
extern const QomType virtio_pci_types[];

/* --- Inside of virtio-pci*.c --- */

/* Modern: BAR 4 and its capabilities. */
bool virtio_pci_modern_init(VirtioPci *proxy, GError **errp);
/* Accesses of the configuration space that are accesses of a BAR (4.1.4.9). */
void virtio_pci_cfg_read(VirtioPci *proxy, unsigned offset, unsigned len);
void virtio_pci_cfg_written(VirtioPci *proxy, unsigned offset, unsigned len);
/* Legacy: BAR 0. */
void virtio_pci_legacy_init(VirtioPci *proxy);

/* Registers that both interfaces have. */
VirtQueue *virtio_pci_queue(VirtioPci *proxy); /* the selected one, or NULL */
void virtio_pci_set_status(VirtioPci *proxy, uint8_t status);
uint8_t virtio_pci_take_isr(VirtioPci *proxy);
void virtio_pci_set_config_vector(VirtioPci *proxy, uint16_t vector);
void virtio_pci_set_queue_vector(VirtioPci *proxy, VirtQueue *vq, uint16_t vector);
void virtio_pci_doorbell(VirtioPci *proxy, unsigned n);

/* Binds doorbells to eventfds where the driver, the BARs and the property want them, unbinds all others. */
void virtio_pci_update_doorbells(VirtioPci *proxy);
void virtio_pci_unbind_doorbells(VirtioPci *proxy);

#endif
