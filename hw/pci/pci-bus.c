/*
 * The PCI bus: addresses of devices, configuration cycles, the four interrupt lines.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/pci/pci.h"

#include <string.h>

#include "hw/core/machine.h"
#include "util/error.h"
#include "util/le.h"

QOM_DEFINE_TYPE(PciBus, pci_bus, "PCI", TYPE_BUS)

PciBus *pci_bus_new(Machine *machine, Object *parent)
{
    PciBus *bus = PCI_BUS(bus_new(TYPE_PCI_BUS, parent, "pci.0"));

    bus->machine = machine;
    return bus;
}

/* ---- addresses ---- */

static bool parse_number(const char **text, unsigned max, unsigned *ret)
{
    char *end;
    guint64 value = g_ascii_strtoull(*text, &end, 16);

    if (end == *text || **text == '-' || **text == '+' || value >= max) {
        return false;
    }
    *text = end;
    *ret = (unsigned)value;
    return true;
}

static bool parse_address(const char *text, unsigned *ret_devfn, GError **errp)
{
    const char *p = text;
    unsigned slot, function = 0;

    if (!parse_number(&p, PCI_SLOT_COUNT, &slot) ||
        (*p == '.' && (p++, !parse_number(&p, PCI_FUNCTION_COUNT, &function))) || *p) {
        error_set(
            errp,
            "addr=%s is no PCI address: use SLOT or SLOT.FUNCTION, hexadecimal, slots 0 to 1f, "
            "functions 0 to 7",
            text);
        return false;
    }
    *ret_devfn = PCI_DEVFN(slot, function);
    return true;
}

static bool free_slot(PciBus *bus, unsigned *ret_devfn, GError **errp)
{
    for (unsigned slot = 0; slot < PCI_SLOT_COUNT; slot++) {
        unsigned used = 0;

        for (unsigned f = 0; f < PCI_FUNCTION_COUNT; f++) {
            used += bus->functions[PCI_DEVFN(slot, f)] != NULL;
        }
        if (!used) {
            *ret_devfn = PCI_DEVFN(slot, 0);
            return true;
        }
    }
    error_set(errp, "bus '%s' has no free slot", OBJECT(bus)->name);
    return false;
}

/* A slot with several functions must say so in function 0, or an operating system does not look. */
static bool check_functions(const PciBus *bus, const PciDevice *dev, unsigned devfn, GError **errp)
{
    unsigned first = devfn & ~7u;
    const PciDevice *zero = bus->functions[first];

    if (bus->functions[devfn]) {
        error_set(errp, "PCI address %x.%x is in use by %s", devfn >> 3, devfn & 7,
                  object_type_name(OBJECT(bus->functions[devfn])));
        return false;
    }
    if (devfn != first && zero && !zero->multifunction) {
        error_set(errp, "PCI slot %x has only one function: give its function 0 multifunction=on",
                  devfn >> 3);
        return false;
    }
    for (unsigned f = first + 1; devfn == first && !dev->multifunction && f < first + 8; f++) {
        if (bus->functions[f]) {
            error_set(errp, "PCI slot %x has other functions: this one needs multifunction=on",
                      devfn >> 3);
            return false;
        }
    }
    return true;
}

static bool pci_bus_attach(Bus *b, Device *d, GError **errp)
{
    PciBus *bus = PCI_BUS(b);
    PciDevice *dev = PCI_DEVICE(d);
    unsigned devfn;

    if (dev->addr && *dev->addr ? !parse_address(dev->addr, &devfn, errp)
                                : !free_slot(bus, &devfn, errp)) {
        return false;
    }
    if (!check_functions(bus, dev, devfn, errp)) {
        return false;
    }
    bus->functions[devfn] = dev;
    dev->devfn = devfn;
    return true;
}

static void pci_bus_detach(Bus *b, Device *d)
{
    PCI_BUS(b)->functions[PCI_DEVICE(d)->devfn] = NULL;
}

static char *pci_bus_device_path(Bus *b, Device *d)
{
    unsigned devfn = PCI_DEVICE(d)->devfn;

    return g_strdup_printf("0000:00:%02x.%x", devfn >> 3, devfn & 7);
}

/* ---- configuration cycles ---- */

uint32_t pci_config_read(PciBus *bus, unsigned devfn, unsigned offset, unsigned size)
{
    PciDevice *dev = bus->functions[devfn & 0xff];
    uint8_t bytes[4] = { 0xff, 0xff, 0xff, 0xff };

    if (dev && offset + size <= PCI_CONFIG_SIZE) {
        PciDeviceClass *klass = PCI_DEVICE_GET_CLASS(dev);

        if (klass->config_read) {
            klass->config_read(dev, offset, size);
        }
        memset(bytes, 0, sizeof(bytes));
        memcpy(bytes, dev->config + offset, MIN(size, sizeof(bytes)));
    }
    return get_le32(bytes);
}

void pci_config_write(PciBus *bus, unsigned devfn, unsigned offset, uint32_t value, unsigned size)
{
    PciDevice *dev = bus->functions[devfn & 0xff];

    if (dev && offset + size <= PCI_CONFIG_SIZE) {
        pci_device_config_write(dev, offset, value, size);
    }
}

/* ---- interrupts ---- */

unsigned pci_pirq_of(unsigned slot, unsigned pin)
{
    return (slot + pin + PCI_PIRQ_COUNT - 1) % PCI_PIRQ_COUNT;
}

void pci_bus_change_pirq(PciBus *bus, unsigned devfn, unsigned pin, bool asserted)
{
    unsigned n = pci_pirq_of(devfn >> 3, pin);

    bus->pirq_users[n] += asserted ? 1u : -1u;
    irq_set(&bus->pirq[n], bus->pirq_users[n] != 0);
}

static void pci_bus_finalize(GObject *gobj)
{
    PciBus *bus = PCI_BUS(gobj);

    if (bus->irqfd_source) {
        g_source_destroy(bus->irqfd_source);
        g_source_unref(bus->irqfd_source);
    }
    G_OBJECT_CLASS(pci_bus_parent_class)->finalize(gobj);
}

static void pci_bus_init(PciBus *bus)
{
}

static void pci_bus_class_init(PciBusClass *klass)
{
    BusClass *bc = BUS_CLASS(klass);

    G_OBJECT_CLASS(klass)->finalize = pci_bus_finalize;
    bc->max_devices = PCI_SLOT_COUNT * PCI_FUNCTION_COUNT;
    bc->attach = pci_bus_attach;
    bc->detach = pci_bus_detach;
    bc->device_path = pci_bus_device_path;
}
