/*
 * PCI: the bus, and the base of all devices on it (configuration space, BARs, INTx).
 *
 * One conventional bus without bridges. A device's registers appear in the address maps while the guest has
 * enabled decoding and set the BAR to a free place; a BAR over RAM or over another device stays invisible.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_PCI_PCI_H
#define COWBIRD_HW_PCI_PCI_H

#include "hw/core/device.h"
#include "memory/address-map.h"
#include "vmstate/vmstate.h"

#define PCI_CONFIG_SIZE 256
#define PCI_SLOT_COUNT 32
#define PCI_FUNCTION_COUNT 8
#define PCI_BAR_COUNT 6
#define PCI_PIRQ_COUNT 4
#define PCI_DEVFN(slot, function) ((unsigned)((slot) << 3 | (function)))

/* Registers of the standard header (PCI Local Bus Specification 3.0, chapter 6). */
enum {
    PCI_REG_VENDOR = 0x00,
    PCI_REG_DEVICE = 0x02,
    PCI_REG_COMMAND = 0x04,
    PCI_REG_STATUS = 0x06,
    PCI_REG_REVISION = 0x08,
    PCI_REG_CLASS = 0x0a,
    PCI_REG_HEADER_TYPE = 0x0e,
    PCI_REG_BAR0 = 0x10,
    PCI_REG_SUBSYSTEM_VENDOR = 0x2c,
    PCI_REG_SUBSYSTEM = 0x2e,
    PCI_REG_CAPABILITIES = 0x34,
    PCI_REG_INTERRUPT_LINE = 0x3c,
    PCI_REG_INTERRUPT_PIN = 0x3d,
};
enum {
    PCI_COMMAND_IO = 1,
    PCI_COMMAND_MEMORY = 2,
    PCI_COMMAND_MASTER = 4,
    PCI_COMMAND_SERR = 0x100,
    PCI_COMMAND_INTX_DISABLE = 0x400,
    PCI_STATUS_INTERRUPT = 8,
    PCI_STATUS_CAPABILITIES = 0x10,
};

/* Capability ids. */
enum { PCI_CAP_VENDOR = 0x09, PCI_CAP_MSIX = 0x11 };

typedef struct _PciDevice PciDevice;
typedef struct Msix Msix;

#define TYPE_PCI_BUS (pci_bus_get_type())
QOM_DECLARE_FINAL_TYPE(PciBus, pci_bus, PCI_BUS, BusClass)

struct _PciBus {
    Bus parent_instance;
    Machine *machine;
    PciDevice *functions[PCI_SLOT_COUNT * PCI_FUNCTION_COUNT];
    unsigned pirq_users[PCI_PIRQ_COUNT]; /* devices that assert it */
    IrqLine pirq[PCI_PIRQ_COUNT];        /* what stands behind; set by the interrupt router */
    GSource *irqfd_source;               /* of msix.c; NULL until a vector wants an irqfd */
};

typedef enum PciBarKind { PCI_BAR_NONE, PCI_BAR_IO, PCI_BAR_MEM32, PCI_BAR_MEM64 } PciBarKind;

typedef struct PciBar {
    PciBarKind kind;
    uint64_t size; /* a power of two, at least 4 (I/O) or 16 */
    const char *name;
    const IoOps *ops;
    void *opaque;
    bool mapped;
    uint64_t address; /* while mapped */
} PciBar;

#define TYPE_PCI_DEVICE (pci_device_get_type())
QOM_DECLARE_TYPE_OF(PciDevice, pci_device, PCI_DEVICE)

struct _PciDevice {
    Device parent_instance;
    char *addr; /* property: "SLOT" or "SLOT.FUNCTION", hexadecimal; NULL = the first free slot */
    bool multifunction;
    unsigned devfn;
    uint8_t config[PCI_CONFIG_SIZE];
    uint8_t writable[PCI_CONFIG_SIZE];  /* bits that the guest can change */
    uint8_t clearable[PCI_CONFIG_SIZE]; /* bits that writing a one clears */
    uint8_t loaded[PCI_CONFIG_SIZE];    /* as saved state brings it */
    PciBar bars[PCI_BAR_COUNT];
    bool intx;       /* the device wants an interrupt */
    bool intx_shown; /* ... and the line is asserted */
    uint8_t next_capability;
    Msix *msix; /* NULL: none */
};

struct _PciDeviceClass {
    DeviceClass parent_class;
    uint16_t vendor, device, class_code;
    uint16_t subsystem_vendor, subsystem;
    uint8_t revision;
    uint8_t interrupt_pin; /* 1 to 4 for A to D, 0: none */
    /* Takes the device into use, in place of DeviceClass.realize. May be NULL. */
    bool (*realize)(PciDevice *dev, GError **errp);
    void (*unrealize)(PciDevice *dev);
    /* The guest is about to read len bytes of the configuration at offset. May be NULL. */
    void (*config_read)(PciDevice *dev, unsigned offset, unsigned len);
    /* The guest has changed len bytes of the configuration at offset. May be NULL. */
    void (*config_written)(PciDevice *dev, unsigned offset, unsigned len);
};

/* "pci.0" below parent. */
PciBus *pci_bus_new(Machine *machine, Object *parent);
/* Accesses of the guest's configuration cycles; all ones where no device is. Sizes 1, 2, 4 within a dword. */
uint32_t pci_config_read(PciBus *bus, unsigned devfn, unsigned offset, unsigned size);
void pci_config_write(PciBus *bus, unsigned devfn, unsigned offset, uint32_t value, unsigned size);
/* Which of the four lines serves a pin (0 to 3) of a slot on i440FX boards. */
unsigned pci_pirq_of(unsigned slot, unsigned pin);

/* For devices, in realize. */

/* Registers behind BAR n; a 64-bit one takes n + 1 as well. */
void pci_add_bar(PciDevice *dev, unsigned n, PciBarKind kind, bool prefetchable, uint64_t size,
                 const char *name, const IoOps *ops, void *opaque);
/* Place of a new capability of size bytes (a multiple of 4), in the list; 0 with an error when there is no room. */
uint8_t pci_add_capability(PciDevice *dev, uint8_t id, uint8_t size, GError **errp);

/* For devices at run time. */

/* The level that the device gives its INTx pin; shown unless the guest has disabled it. */
void pci_set_intx(PciDevice *dev, int level);
/* Where a BAR is mapped now; false: nowhere. */
bool pci_bar_address(const PciDevice *dev, unsigned n, uint64_t *ret_address);
/* Bus mastering: the device may access guest RAM. */
bool pci_is_master(const PciDevice *dev);
/* Puts the standard registers into their reset state; called by the base's reset. */
void pci_device_reset(PciDevice *dev);

/* Part of every PCI device's table: the configuration space. */
extern const VMStateDescription vmstate_pci_device;
#define VMSTATE_PCI_DEVICE(field, state) \
    VMSTATE_STRUCT(field, state, 0, vmstate_pci_device, PciDevice)

/* Used by pci-bus.c and pci-device.c only. */
void pci_device_config_write(PciDevice *dev, unsigned offset, uint32_t value, unsigned size);
void pci_bus_change_pirq(PciBus *bus, unsigned devfn, unsigned pin, bool asserted);
void pci_device_unmap(PciDevice *dev);

#endif
