/*
 * The PIIX3: the ISA bus below it, and PIRQA to PIRQD routed to ISA interrupts.
 *
 * Source: Intel 82371SB data sheet, "PIRQRC[A:D]".
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/i386/piix3.h"

#include "hw/core/machine.h"

struct _Piix3 {
    PciDevice parent_instance;
    IsaBus *isa;
    IrqLine lines[ISA_IRQ_COUNT]; /* into each interrupt of the ISA bus */
    bool levels[PCI_PIRQ_COUNT];  /* of the PCI lines */
    uint16_t asserted;            /* interrupts that we hold up */
};

QOM_DEFINE_TYPE(Piix3, piix3, "PIIX3", TYPE_PCI_DEVICE)

IsaBus *piix3_isa_bus(Piix3 *piix3)
{
    return piix3->isa;
}

/* Which ISA interrupts the PCI lines hold up, by the routing registers. */
static uint16_t wanted_irqs(const Piix3 *s)
{
    /* Timer, keyboard, cascade, clock and coprocessor error cannot be had from PCI. */
    const uint16_t reserved = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 8 | 1 << 13;
    uint16_t wanted = 0;

    for (unsigned i = 0; i < PCI_PIRQ_COUNT; i++) {
        uint8_t reg = s->parent_instance.config[PIIX3_REG_PIRQ + i];

        if (s->levels[i] && !(reg & PIIX3_PIRQ_OFF)) {
            wanted |= (uint16_t)(1 << (reg & 0x0f));
        }
    }
    return wanted & (uint16_t)~reserved;
}

static void route(Piix3 *s)
{
    uint16_t wanted = wanted_irqs(s), changed = wanted ^ s->asserted;

    s->asserted = wanted;
    for (unsigned irq = 0; irq < ISA_IRQ_COUNT; irq++) {
        if (changed & (1 << irq)) {
            irq_set(&s->lines[irq], wanted >> irq & 1);
        }
    }
}

static void set_pirq(void *opaque, int n, int level)
{
    Piix3 *s = opaque;

    s->levels[n] = level;
    route(s);
}

static bool piix3_realize(PciDevice *dev, GError **errp)
{
    Piix3 *s = PIIX3(dev);
    PciBus *bus = PCI_BUS(DEVICE(dev)->bus);

    dev->config[PCI_REG_HEADER_TYPE] = 0x80; /* function 3 is the power management */
    s->isa = isa_bus_new(DEVICE(dev)->machine, OBJECT(dev));
    for (unsigned irq = 0; irq < ISA_IRQ_COUNT; irq++) {
        if (!isa_bus_irq(s->isa, irq, &s->lines[irq], errp)) {
            return false;
        }
    }
    for (int i = 0; i < PCI_PIRQ_COUNT; i++) {
        dev->writable[PIIX3_REG_PIRQ + i] = 0x8f;
        bus->pirq[i] = (IrqLine){ .set = set_pirq, .opaque = s, .n = i };
    }
    return true;
}

static void piix3_config_written(PciDevice *dev, unsigned offset, unsigned len)
{
    route(PIIX3(dev));
}

static void piix3_reset(Device *dev)
{
    PciDevice *pci = PCI_DEVICE(dev);

    pci_device_reset(pci);
    pci->config[PCI_REG_COMMAND] = PCI_COMMAND_IO | PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER;
    for (unsigned i = 0; i < PCI_PIRQ_COUNT; i++) {
        pci->config[PIIX3_REG_PIRQ + i] = PIIX3_PIRQ_OFF;
    }
    route(PIIX3(dev));
}

/* Devices show their levels again when they are loaded themselves. */
static bool piix3_post_load(void *opaque, int version, GError **errp)
{
    route(opaque);
    return true;
}

static const VMStateDescription vmstate_piix3 = {
    .name = "PIIX3",
    .version_id = 4,
    .minimum_version_id = 4,
    .post_load = piix3_post_load,
    .fields =
        (const VMStateField[]){ VMSTATE_PCI_DEVICE(parent_instance, Piix3), VMSTATE_END_OF_LIST() },
};

static void piix3_init(Piix3 *s)
{
}

static void piix3_class_init(Piix3Class *klass)
{
    DeviceClass *dc = DEVICE_CLASS(klass);
    PciDeviceClass *pc = PCI_DEVICE_CLASS(klass);

    pc->realize = piix3_realize;
    pc->config_written = piix3_config_written;
    pc->vendor = 0x8086;
    pc->device = 0x7000;
    pc->class_code = 0x0601;
    dc->reset = piix3_reset;
    dc->vmsd = &vmstate_piix3;
    dc->desc = "PIIX3 ISA bridge";
}
