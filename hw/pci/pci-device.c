/*
 * The base of PCI devices: configuration space, BARs, the INTx pin.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/pci/msix.h"

#include <string.h>

#include "hw/core/machine.h"
#include "util/error.h"
#include "util/le.h"
#include "util/log.h"

#define FIRST_CAPABILITY 0x40

QOM_DEFINE_ABSTRACT_TYPE(PciDevice, pci_device, "pci-device", TYPE_DEVICE)

static uint16_t command(const PciDevice *dev)
{
    return get_le16(dev->config + PCI_REG_COMMAND);
}

/* ---- BARs ---- */

static uint64_t bar_value(const PciDevice *dev, unsigned n)
{
    const uint8_t *reg = dev->config + PCI_REG_BAR0 + 4 * n;

    switch (dev->bars[n].kind) {
    case PCI_BAR_IO:
        return get_le32(reg) & ~3u;
    case PCI_BAR_MEM32:
        return get_le32(reg) & ~15u;
    case PCI_BAR_MEM64:
        return get_le64(reg) & ~UINT64_C(15);
    case PCI_BAR_NONE:
        break;
    }
    return 0;
}

/* Where the guest wants the BAR; false: nowhere, or at a place that its kind cannot have. */
static bool bar_wanted(const PciDevice *dev, unsigned n, uint64_t *ret_address)
{
    const PciBar *bar = &dev->bars[n];
    uint16_t enable = bar->kind == PCI_BAR_IO ? PCI_COMMAND_IO : PCI_COMMAND_MEMORY;
    uint64_t address = bar_value(dev, n);
    uint64_t last = address + bar->size - 1;
    uint64_t limit = bar->kind == PCI_BAR_IO      ? UINT16_MAX
                     : bar->kind == PCI_BAR_MEM32 ? UINT32_MAX
                                                  : UINT64_MAX;

    /* The top of the space is where a BAR is while its size is asked for. */
    if (bar->kind == PCI_BAR_NONE || !(command(dev) & enable) || address == 0 || last < address ||
        last >= limit) {
        return false;
    }
    *ret_address = address;
    return true;
}

static AddressMap *bar_map(const PciDevice *dev, unsigned n)
{
    const Machine *m = DEVICE((gpointer)dev)->machine;

    return dev->bars[n].kind == PCI_BAR_IO ? m->io : m->memory;
}

static void bar_unmap(PciDevice *dev, unsigned n)
{
    PciBar *bar = &dev->bars[n];

    if (bar->mapped) {
        address_map_remove(bar_map(dev, n), bar->address);
        bar->mapped = false;
    }
}

static void bar_update(PciDevice *dev, unsigned n)
{
    PciBar *bar = &dev->bars[n];
    uint64_t address;
    bool wanted = bar_wanted(dev, n, &address);
    g_autoptr(GError) err = NULL;

    if (bar->mapped && wanted && address == bar->address) {
        return;
    }
    bar_unmap(dev, n);
    if (!wanted) {
        return;
    }
    bar->mapped = address_map_add_io(bar_map(dev, n), address, bar->size, bar->name, bar->ops,
                                     bar->opaque, &err);
    bar->address = address;
    if (!bar->mapped) {
        log_printf(LOG_GUEST_ERROR, "%s: BAR %u stays invisible: %s", object_type_name(OBJECT(dev)),
                   n, err->message);
    }
}

static void bars_update(PciDevice *dev)
{
    for (unsigned i = 0; i < PCI_BAR_COUNT; i++) {
        bar_update(dev, i);
    }
}

void pci_device_unmap(PciDevice *dev)
{
    for (unsigned i = 0; i < PCI_BAR_COUNT; i++) {
        bar_unmap(dev, i);
    }
}

void pci_add_bar(PciDevice *dev, unsigned n, PciBarKind kind, bool prefetchable, uint64_t size,
                 const char *name, const IoOps *ops, void *opaque)
{
    unsigned reg = PCI_REG_BAR0 + 4 * n;
    uint64_t low =
        kind == PCI_BAR_IO ? 1 : (kind == PCI_BAR_MEM64 ? 4 : 0) | (prefetchable ? 8 : 0);

    g_assert(n < PCI_BAR_COUNT && size >= 4 && (size & (size - 1)) == 0);
    dev->bars[n] =
        (PciBar){ .kind = kind, .size = size, .name = name, .ops = ops, .opaque = opaque };
    put_le32(dev->config + reg, (uint32_t)low);
    if (kind == PCI_BAR_MEM64) {
        g_assert(n + 1 < PCI_BAR_COUNT);
        put_le64(dev->writable + reg, ~(size - 1));
    } else {
        put_le32(dev->writable + reg, ~(uint32_t)(size - 1));
    }
}

bool pci_bar_address(const PciDevice *dev, unsigned n, uint64_t *ret_address)
{
    if (!dev->bars[n].mapped) {
        return false;
    }
    *ret_address = dev->bars[n].address;
    return true;
}

bool pci_is_master(const PciDevice *dev)
{
    return command(dev) & PCI_COMMAND_MASTER;
}

uint8_t pci_add_capability(PciDevice *dev, uint8_t id, uint8_t size, GError **errp)
{
    uint8_t at = dev->next_capability;

    if (size > PCI_CONFIG_SIZE - at) {
        error_set(errp, "no room for another PCI capability of %u bytes", size);
        return 0;
    }
    dev->config[at] = id;
    dev->config[at + 1] = dev->config[PCI_REG_CAPABILITIES];
    dev->config[PCI_REG_CAPABILITIES] = at;
    dev->config[PCI_REG_STATUS] |= PCI_STATUS_CAPABILITIES;
    dev->next_capability = (uint8_t)MIN(at + size, UINT8_MAX & ~3);
    return at;
}

/* ---- INTx ---- */

static void intx_update(PciDevice *dev)
{
    uint8_t pin = dev->config[PCI_REG_INTERRUPT_PIN];
    bool show = dev->intx && !(command(dev) & PCI_COMMAND_INTX_DISABLE);

    if (dev->intx) {
        dev->config[PCI_REG_STATUS] |= PCI_STATUS_INTERRUPT;
    } else {
        dev->config[PCI_REG_STATUS] &= (uint8_t)~PCI_STATUS_INTERRUPT;
    }
    if (pin && show != dev->intx_shown) {
        dev->intx_shown = show;
        pci_bus_change_pirq(PCI_BUS(DEVICE(dev)->bus), dev->devfn, pin - 1u, show);
    }
}

void pci_set_intx(PciDevice *dev, int level)
{
    dev->intx = level;
    intx_update(dev);
}

/* ---- configuration ---- */

void pci_device_config_write(PciDevice *dev, unsigned offset, uint32_t value, unsigned size)
{
    PciDeviceClass *klass = PCI_DEVICE_GET_CLASS(dev);

    for (unsigned i = 0; i < size; i++, value >>= 8) {
        uint8_t *reg = &dev->config[offset + i];
        uint8_t mask = dev->writable[offset + i];

        *reg = (uint8_t)((*reg & ~mask) | ((uint8_t)value & mask));
        *reg &= (uint8_t) ~((uint8_t)value & dev->clearable[offset + i]);
    }
    bars_update(dev);
    intx_update(dev);
    if (dev->msix) {
        msix_config_written(dev);
    }
    if (klass->config_written) {
        klass->config_written(dev, offset, size);
    }
}

static void config_fill(PciDevice *dev)
{
    PciDeviceClass *klass = PCI_DEVICE_GET_CLASS(dev);

    put_le16(dev->config + PCI_REG_VENDOR, klass->vendor);
    put_le16(dev->config + PCI_REG_DEVICE, klass->device);
    dev->config[PCI_REG_REVISION] = klass->revision;
    put_le16(dev->config + PCI_REG_CLASS, klass->class_code);
    dev->config[PCI_REG_HEADER_TYPE] = dev->multifunction ? 0x80 : 0;
    put_le16(dev->config + PCI_REG_SUBSYSTEM_VENDOR, klass->subsystem_vendor);
    put_le16(dev->config + PCI_REG_SUBSYSTEM, klass->subsystem);
    dev->config[PCI_REG_INTERRUPT_PIN] = klass->interrupt_pin;
    put_le16(dev->writable + PCI_REG_COMMAND, PCI_COMMAND_IO | PCI_COMMAND_MEMORY |
                                                  PCI_COMMAND_MASTER | PCI_COMMAND_SERR |
                                                  PCI_COMMAND_INTX_DISABLE);
    dev->writable[PCI_REG_INTERRUPT_LINE] = 0xff;
    put_le16(dev->clearable + PCI_REG_STATUS, 0xf900);
}

static bool pci_device_realize(Device *d, GError **errp)
{
    PciDevice *dev = PCI_DEVICE(d);
    PciDeviceClass *klass = PCI_DEVICE_GET_CLASS(dev);

    config_fill(dev);
    return !klass->realize || klass->realize(dev, errp);
}

static void pci_device_unrealize(Device *d)
{
    PciDevice *dev = PCI_DEVICE(d);
    PciDeviceClass *klass = PCI_DEVICE_GET_CLASS(dev);

    pci_set_intx(dev, 0);
    pci_device_unmap(dev);
    if (klass->unrealize) {
        klass->unrealize(dev);
    }
    msix_uninit(dev);
}

void pci_device_reset(PciDevice *dev)
{
    put_le16(dev->config + PCI_REG_COMMAND, 0);
    dev->config[PCI_REG_INTERRUPT_LINE] = 0;
    for (unsigned i = 0; i < PCI_BAR_COUNT; i++) {
        uint8_t *reg = dev->config + PCI_REG_BAR0 + 4 * i;
        const uint8_t *mask = dev->writable + PCI_REG_BAR0 + 4 * i;

        put_le32(reg, get_le32(reg) & ~get_le32(mask));
    }
    bars_update(dev);
    pci_set_intx(dev, 0);
    if (dev->msix) {
        msix_reset(dev);
    }
}

static void pci_device_reset_default(Device *d)
{
    pci_device_reset(PCI_DEVICE(d));
}

/* ---- saved state ---- */

/* The header, except where the guest or the device changes it, must be the same on both sides. */
static bool config_is_ours(const PciDevice *dev)
{
    for (unsigned i = 0; i < PCI_REG_INTERRUPT_LINE; i++) {
        uint8_t fixed = i == PCI_REG_COMMAND || i == PCI_REG_COMMAND + 1 || i == PCI_REG_STATUS ||
                                i == PCI_REG_STATUS + 1
                            ? 0
                            : (uint8_t)~dev->writable[i];

        if ((dev->config[i] ^ dev->loaded[i]) & fixed) {
            return false;
        }
    }
    return true;
}

static void pci_device_pre_save(void *opaque)
{
    PciDevice *dev = opaque;

    memcpy(dev->loaded, dev->config, PCI_CONFIG_SIZE);
}

/* Only bits that a guest can change are taken over. */
static bool pci_device_post_load(void *opaque, int version, GError **errp)
{
    PciDevice *dev = opaque;

    if (!config_is_ours(dev)) {
        error_set(errp,
                  "the saved configuration space is that of another device, or of one with other "
                  "properties, than %s %x.%x: start it with the devices and properties it had",
                  object_type_name(OBJECT(dev)), dev->devfn >> 3, dev->devfn & 7);
        return false;
    }
    for (unsigned i = 0; i < PCI_CONFIG_SIZE; i++) {
        uint8_t mask = dev->writable[i] | dev->clearable[i];

        dev->config[i] = (uint8_t)((dev->config[i] & ~mask) | (dev->loaded[i] & mask));
    }
    bars_update(dev);
    intx_update(dev);
    return msix_loaded(dev, errp);
}

/* Vectors have a table of their own, for the same structure. */
#define VMSTATE_PCI_MSIX()                                                          \
    {                                                                               \
        .name = "msix", .size = sizeof(PciDevice), .num = 1, .vmsd = &vmstate_msix, \
        .flags = VMS_STRUCT                                                         \
    }

const VMStateDescription vmstate_pci_device = {
    .name = "PCIDevice",
    .version_id = 1,
    .minimum_version_id = 1,
    .pre_save = pci_device_pre_save,
    .post_load = pci_device_post_load,
    .fields = (const VMStateField[]){ VMSTATE_UINT8_ARRAY(loaded, PciDevice, PCI_CONFIG_SIZE),
                                      VMSTATE_BOOL(intx, PciDevice), VMSTATE_PCI_MSIX(),
                                      VMSTATE_END_OF_LIST() },
};

static const QomProperty pci_device_properties[] = {
    { .name = "addr",
      .kind = QOM_STRING,
      .offset = offsetof(PciDevice, addr),
      .description = "SLOT or SLOT.FUNCTION, hexadecimal (default: the first free slot)" },
    { .name = "multifunction",
      .kind = QOM_BOOL,
      .offset = offsetof(PciDevice, multifunction),
      .description = "the slot may have further functions" },
    QOM_PROPERTY_END,
};

static void pci_device_finalize(GObject *gobj)
{
    msix_free(PCI_DEVICE(gobj));
    G_OBJECT_CLASS(pci_device_parent_class)->finalize(gobj);
}

static void pci_device_init(PciDevice *dev)
{
    dev->next_capability = FIRST_CAPABILITY;
}

static void pci_device_class_init(PciDeviceClass *klass)
{
    DeviceClass *dc = DEVICE_CLASS(klass);

    G_OBJECT_CLASS(klass)->finalize = pci_device_finalize;
    qom_class_install(klass, pci_device_properties);
    dc->bus_type = "PCI";
    dc->realize = pci_device_realize;
    dc->unrealize = pci_device_unrealize;
    dc->reset = pci_device_reset_default;
}
