/*
 * The i440FX: configuration mechanism 1, the reset control port among its addresses, and the PAM registers.
 *
 * Sources: Intel 82441FX and 82371SB data sheets; PCI Local Bus Specification 3.0, section 3.2.2.3.2.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/pci/i440fx.h"

#include "accel/runstate.h"
#include "hw/core/machine.h"
#include "hw/pci/pam.h"
#include "util/error.h"
#include "vmstate/registry.h"

enum { PORT_ADDRESS = 0, PORT_RESET = 1, PORT_DATA = 4 };
enum { RESET_SYSTEM = 2, RESET_CPU = 4, RESET_KEPT = 0x0a };
#define CONFIG_ENABLE 0x80000000u
#define REG_PAM0 0x59
#define REG_SMRAM 0x72

/* ---- the ports ---- */

struct _I440fxHost {
    Device parent_instance;
    PciBus *bus;
    uint32_t address;
    uint8_t reset_control; /* port 0xcf9, which lies inside the address register */
};

QOM_DEFINE_TYPE(I440fxHost, i440fx_host, "i440FX-pcihost", TYPE_DEVICE)

PciBus *i440fx_host_bus(I440fxHost *host)
{
    return host->bus;
}

/* A cycle on this bus (bus 0) that stays within the dword. */
static bool cycle_is_ours(const I440fxHost *host, uint64_t port, unsigned size)
{
    return (host->address & 0xffff0000u) == CONFIG_ENABLE && port + size <= PORT_DATA + 4;
}

static unsigned config_offset(const I440fxHost *host, uint64_t port)
{
    return (host->address & 0xfc) + (unsigned)(port - PORT_DATA);
}

static uint64_t host_read(void *opaque, uint64_t port, unsigned size)
{
    I440fxHost *host = opaque;

    if (port >= PORT_DATA) {
        return cycle_is_ours(host, port, size)
                   ? pci_config_read(host->bus, host->address >> 8, config_offset(host, port), size)
                   : UINT32_MAX;
    }
    if (port == PORT_RESET && size == 1) {
        return host->reset_control;
    }
    return port == PORT_ADDRESS && size == 4 ? host->address : UINT32_MAX;
}

static void write_reset_control(I440fxHost *host, uint8_t value)
{
    if (value & RESET_CPU) {
        runstate_request_reset(DEVICE(host)->machine->runstate, SHUTDOWN_CAUSE_GUEST_RESET);
        return;
    }
    host->reset_control = value & RESET_KEPT;
}

static void host_write(void *opaque, uint64_t port, uint64_t value, unsigned size)
{
    I440fxHost *host = opaque;

    if (port >= PORT_DATA) {
        if (cycle_is_ours(host, port, size)) {
            pci_config_write(host->bus, host->address >> 8, config_offset(host, port),
                             (uint32_t)value, size);
        }
    } else if (port == PORT_RESET && size == 1) {
        write_reset_control(host, (uint8_t)value);
    } else if (port == PORT_ADDRESS && size == 4) {
        host->address = (uint32_t)value & ~3u;
    }
}

static bool i440fx_host_realize(Device *dev, GError **errp)
{
    static const IoOps ops = {
        .read = host_read, .write = host_write, .min_size = 1, .max_size = 4
    };
    I440fxHost *host = I440FX_HOST(dev);

    if (!address_map_add_io(dev->machine->io, 0xcf8, 8, "pci-config", &ops, host, errp)) {
        return false;
    }
    host->bus = pci_bus_new(dev->machine, OBJECT(dev));
    return true;
}

static void i440fx_host_reset(Device *dev)
{
    I440fxHost *host = I440FX_HOST(dev);

    host->address = 0;
    host->reset_control = 0;
}

static const VMStateDescription vmstate_i440fx_host = {
    .name = "PCIHost",
    .version_id = 1,
    .minimum_version_id = 1,
    .fields =
        (const VMStateField[]){ VMSTATE_UINT32(address, I440fxHost),
                                VMSTATE_UINT8(reset_control, I440fxHost), VMSTATE_END_OF_LIST() },
};

static void i440fx_host_init(I440fxHost *host)
{
}

static void i440fx_host_class_init(I440fxHostClass *klass)
{
    DeviceClass *dc = DEVICE_CLASS(klass);

    dc->realize = i440fx_host_realize;
    dc->reset = i440fx_host_reset;
    dc->vmsd = &vmstate_i440fx_host;
    dc->desc = "PCI host bridge ports";
}

/* ---- the bridge ---- */

struct _I440fx {
    PciDevice parent_instance;
    Pam pam;
};

QOM_DEFINE_TYPE(I440fx, i440fx, "i440FX", TYPE_PCI_DEVICE)

static void i440fx_apply_pam(I440fx *s)
{
    g_autoptr(GError) err = NULL;

    if (!pam_apply(&s->pam, s->parent_instance.config + REG_PAM0, &err)) {
        error_report("i440FX: cannot lay out memory from 768 KiB to 1 MiB: %s", err->message);
        runstate_request_stop(DEVICE(s)->machine->runstate, RUN_STATE_INTERNAL_ERROR);
    }
}

static bool i440fx_realize(PciDevice *dev, GError **errp)
{
    Machine *m = DEVICE(dev)->machine;

    pam_init(&I440FX(dev)->pam, m->memory, m->main);
    for (unsigned i = 0; i < PAM_REGISTERS; i++) {
        dev->writable[REG_PAM0 + i] = i ? 0x33 : 0x30;
    }
    return true;
}

static void i440fx_config_written(PciDevice *dev, unsigned offset, unsigned len)
{
    if (offset < REG_PAM0 + PAM_REGISTERS && offset + len > REG_PAM0) {
        i440fx_apply_pam(I440FX(dev));
    }
}

/* All RAM, as firmware that has copied itself there leaves it: this machine starts without firmware. */
static void i440fx_reset(Device *dev)
{
    PciDevice *pci = PCI_DEVICE(dev);

    pci_device_reset(pci);
    for (unsigned i = 0; i < PAM_REGISTERS; i++) {
        pci->config[REG_PAM0 + i] = pci->writable[REG_PAM0 + i];
    }
    pci->config[REG_SMRAM] = 0x02;
    i440fx_apply_pam(I440FX(dev));
}

static bool i440fx_post_load(void *opaque, int version, GError **errp)
{
    I440fx *s = opaque;

    return pam_apply(&s->pam, s->parent_instance.config + REG_PAM0, errp);
}

static const VMStateDescription vmstate_i440fx = {
    .name = "I440FX",
    .version_id = 3,
    .minimum_version_id = 3,
    .post_load = i440fx_post_load,
    .fields = (const VMStateField[]){ VMSTATE_PCI_DEVICE(parent_instance, I440fx),
                                      VMSTATE_END_OF_LIST() },
};

static void i440fx_init(I440fx *s)
{
}

static void i440fx_class_init(I440fxClass *klass)
{
    DeviceClass *dc = DEVICE_CLASS(klass);
    PciDeviceClass *pc = PCI_DEVICE_CLASS(klass);

    pc->realize = i440fx_realize;
    pc->config_written = i440fx_config_written;
    pc->vendor = 0x8086;
    pc->device = 0x1237;
    pc->revision = 2;
    pc->class_code = 0x0600;
    dc->reset = i440fx_reset;
    dc->vmsd = &vmstate_i440fx;
    dc->vmstate_priority = VMSTATE_PRIORITY_LAYOUT;
    dc->desc = "i440FX host bridge";
}
