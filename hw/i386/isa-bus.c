/*
 * The ISA bus: handing out interrupt lines and putting registers into the port space.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/i386/isa-bus.h"

#include "hw/core/machine.h"
#include "memory/address-map.h"
#include "util/error.h"

#define SOURCES_PER_IRQ 32

/* One user of a shared line. */
typedef struct IsaIrqSource {
    IsaBus *bus;
    unsigned irq;
    uint32_t bit;
} IsaIrqSource;

QOM_DEFINE_TYPE(IsaBus, isa_bus, "isa-bus", TYPE_BUS)
QOM_DEFINE_ABSTRACT_TYPE(IsaDevice, isa_device, "isa-device", TYPE_DEVICE)

static void isa_irq_set(void *opaque, int n, int level)
{
    IsaIrqSource *source = opaque;
    IsaBus *bus = source->bus;
    uint32_t before = bus->levels[source->irq];
    uint32_t after = level ? before | source->bit : before & ~source->bit;

    bus->levels[source->irq] = after;
    /* Told again even if nothing changed: after a restore the controller must hear the level once. */
    irq_set(&bus->machine->gsi[source->irq], after != 0);
}

bool isa_bus_irq(IsaBus *bus, unsigned irq, IrqLine *ret_line, GError **errp)
{
    IsaIrqSource *source;

    if (irq >= ISA_IRQ_COUNT) {
        error_set(errp, "there is no ISA interrupt %u: use 0 to %d", irq, ISA_IRQ_COUNT - 1);
        return false;
    }
    if (bus->n_sources[irq] == SOURCES_PER_IRQ) {
        error_set(errp, "ISA interrupt %u has %d users already", irq, SOURCES_PER_IRQ);
        return false;
    }
    source = g_new(IsaIrqSource, 1);
    *source = (IsaIrqSource){ .bus = bus, .irq = irq, .bit = 1u << bus->n_sources[irq]++ };
    g_ptr_array_add(bus->sources, source);
    *ret_line = (IrqLine){ .set = isa_irq_set, .opaque = source, .n = (int)irq };
    return true;
}

bool isa_device_irq(Device *dev, unsigned irq, IrqLine *ret_line, GError **errp)
{
    return isa_bus_irq(ISA_BUS(dev->bus), irq, ret_line, errp);
}

bool isa_device_add_ports(Device *dev, uint16_t base, unsigned count, const IoOps *ops,
                          GError **errp)
{
    return address_map_add_io(dev->machine->io, base, count, object_type_name(OBJECT(dev)), ops,
                              dev, errp);
}

IsaBus *isa_bus_new(Machine *machine, Object *parent)
{
    IsaBus *bus = ISA_BUS(bus_new(TYPE_ISA_BUS, parent, "isa.0"));

    bus->machine = machine;
    return bus;
}

static void isa_bus_init(IsaBus *bus)
{
    bus->sources = g_ptr_array_new_with_free_func(g_free);
}

static void isa_bus_finalize(GObject *obj)
{
    g_ptr_array_unref(ISA_BUS(obj)->sources);
    G_OBJECT_CLASS(isa_bus_parent_class)->finalize(obj);
}

static void isa_bus_class_init(IsaBusClass *klass)
{
    G_OBJECT_CLASS(klass)->finalize = isa_bus_finalize;
}

static void isa_device_init(IsaDevice *dev)
{
}

static void isa_device_class_init(IsaDeviceClass *klass)
{
    DEVICE_CLASS(klass)->bus_type = "isa-bus";
}
