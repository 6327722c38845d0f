/*
 * The ISA bus: fixed ports and the sixteen interrupt lines, which devices may share.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_I386_ISA_BUS_H
#define COWBIRD_HW_I386_ISA_BUS_H

#include "hw/core/device.h"
#include "memory/address-map.h"

#define ISA_IRQ_COUNT 16

#define TYPE_ISA_BUS (isa_bus_get_type())
QOM_DECLARE_FINAL_TYPE(IsaBus, isa_bus, ISA_BUS, BusClass)

struct _IsaBus {
    Bus parent_instance;
    Machine *machine;
    uint32_t levels[ISA_IRQ_COUNT];    /* per line, one bit for each source that asserts it */
    unsigned n_sources[ISA_IRQ_COUNT]; /* sources handed out so far */
    GPtrArray *sources;                /* of IsaIrqSource */
};

/* Base of all ISA devices; abstract. */
#define TYPE_ISA_DEVICE (isa_device_get_type())
QOM_DECLARE_FINAL_TYPE(IsaDevice, isa_device, ISA_DEVICE, DeviceClass)

struct _IsaDevice {
    Device parent_instance;
};

/* Makes the bus below parent under the name "isa.0". */
IsaBus *isa_bus_new(Machine *machine, Object *parent);
/*
 * A line of its own into interrupt irq (0 to 15): the input of the interrupt controller is high while any
 * of the lines handed out for it is. A number out of range or the 33rd line of one interrupt is an error.
 */
bool isa_bus_irq(IsaBus *bus, unsigned irq, IrqLine *ret_line, GError **errp);
/* The same for a device that sits on an ISA bus. */
bool isa_device_irq(Device *dev, unsigned irq, IrqLine *ret_line, GError **errp);
/* Registers of an ISA device in the port space. */
bool isa_device_add_ports(Device *dev, uint16_t base, unsigned count, const IoOps *ops,
                          GError **errp);

#endif
