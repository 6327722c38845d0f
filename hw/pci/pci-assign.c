/*
 * Giving BARs their addresses.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/pci/pci-assign.h"

#include "util/error.h"
#include "util/units.h"

#define MEMORY_ALIGN (4 * KiB)

/* Takes an aligned piece off the front of the window; 0: no room. */
static uint64_t take(PciWindow *w, uint64_t size, uint64_t align)
{
    uint64_t base = ROUND_UP(w->base, align);
    uint64_t skipped = base - w->base;

    if (base < w->base || skipped > w->size || size > w->size - skipped) {
        return 0;
    }
    w->size -= skipped + size;
    w->base = base + size;
    return base;
}

static uint64_t place(const PciBar *bar, PciWindows *left)
{
    uint64_t align = MAX(bar->size, (uint64_t)MEMORY_ALIGN), at;

    if (bar->kind == PCI_BAR_IO) {
        return take(&left->io, bar->size, bar->size);
    }
    at = take(&left->low, bar->size, align);
    return at || bar->kind != PCI_BAR_MEM64 ? at : take(&left->high, bar->size, align);
}

static void write_bar(PciBus *bus, const PciDevice *dev, unsigned n, uint64_t address)
{
    unsigned reg = PCI_REG_BAR0 + 4 * n;

    pci_config_write(bus, dev->devfn, reg, (uint32_t)address, 4);
    if (dev->bars[n].kind == PCI_BAR_MEM64) {
        pci_config_write(bus, dev->devfn, reg + 4, (uint32_t)(address >> 32), 4);
    }
}

static void assign_device(PciBus *bus, const PciDevice *dev, PciWindows *left)
{
    uint16_t decode = 0, refused = 0;

    for (unsigned n = 0; n < PCI_BAR_COUNT; n++) {
        const PciBar *bar = &dev->bars[n];
        uint16_t bit = bar->kind == PCI_BAR_IO ? PCI_COMMAND_IO : PCI_COMMAND_MEMORY;
        uint64_t at = bar->kind == PCI_BAR_NONE ? 0 : place(bar, left);

        if (at) {
            write_bar(bus, dev, n, at);
            decode |= bit;
        } else if (bar->kind != PCI_BAR_NONE) {
            warn_report("%s at PCI %x.%x: no room for BAR %u of 0x%" G_GINT64_MODIFIER "x bytes",
                        object_type_name(OBJECT((gpointer)dev)), dev->devfn >> 3, dev->devfn & 7, n,
                        bar->size);
            refused |= bit;
        }
    }
    if (decode & ~refused) {
        pci_config_write(bus, dev->devfn, PCI_REG_COMMAND,
                         pci_config_read(bus, dev->devfn, PCI_REG_COMMAND, 2) |
                             (decode & (uint16_t)~refused),
                         2);
    }
}

void pci_bus_assign(PciBus *bus, const PciWindows *windows)
{
    PciWindows left = *windows;

    for (unsigned devfn = 0; devfn < G_N_ELEMENTS(bus->functions); devfn++) {
        if (bus->functions[devfn]) {
            assign_device(bus, bus->functions[devfn], &left);
        }
    }
}
