/*
 * The device isa-serial: a UART at one of the four places where PCs have them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/char/serial.h"

#include "hw/core/machine.h"
#include "util/error.h"

#define INDEX_AUTO UINT32_MAX

struct _IsaSerial {
    IsaDevice parent_instance;
    uint32_t index, iobase, irq_number; /* 0 in the latter two: by index */
    char *chardev;
    SerialState state;
};

QOM_DEFINE_TYPE(IsaSerial, isa_serial, "isa-serial", TYPE_ISA_DEVICE)

static const uint16_t com_ports[] = { 0x3f8, 0x2f8, 0x3e8, 0x2e8 };
static const uint8_t com_irqs[] = { 4, 3, 4, 3 };

/* The first of the four places that no other port has. */
static uint32_t free_index(Device *dev)
{
    AddressRange range;

    for (uint32_t i = 0; i < G_N_ELEMENTS(com_ports); i++) {
        if (!address_map_find(dev->machine->io, com_ports[i], &range)) {
            return i;
        }
    }
    return G_N_ELEMENTS(com_ports);
}

static bool isa_serial_choose_place(IsaSerial *s, GError **errp)
{
    if (s->index == INDEX_AUTO && (s->iobase == 0 || s->irq_number == 0)) {
        s->index = free_index(DEVICE(s));
    }
    if (s->index != INDEX_AUTO && s->index >= G_N_ELEMENTS(com_ports)) {
        error_set(errp,
                  "at most %zu serial ports have a place of their own: give "
                  "iobase and irq, or an index below %zu",
                  G_N_ELEMENTS(com_ports), G_N_ELEMENTS(com_ports));
        return false;
    }
    if (s->iobase == 0) {
        s->iobase = com_ports[s->index];
    }
    if (s->irq_number == 0) {
        s->irq_number = com_irqs[s->index];
    }
    if (s->iobase > UINT16_MAX - (SERIAL_PORTS - 1)) {
        error_set(errp, "iobase 0x%x is no port address", s->iobase);
        return false;
    }
    return true;
}

void isa_serial_place(const IsaSerial *s, uint16_t *ret_port, uint8_t *ret_irq)
{
    *ret_port = (uint16_t)s->iobase;
    *ret_irq = (uint8_t)s->irq_number;
}

static bool isa_serial_realize(Device *dev, GError **errp)
{
    IsaSerial *s = ISA_SERIAL(dev);
    Chardev *chr = NULL;

    if (s->chardev && *s->chardev) {
        chr = chardev_get(dev->machine->chardevs, s->chardev, errp);
        if (!chr) {
            return false;
        }
    }
    s->state.wait_for_state = dev->machine->incoming;
    if (!isa_serial_choose_place(s, errp) ||
        !isa_device_irq(dev, s->irq_number, &s->state.irq, errp) ||
        !serial_connect(&s->state, chr, errp)) {
        return false;
    }
    if (!address_map_add_io(dev->machine->io, s->iobase, SERIAL_PORTS, "isa-serial", &serial_ops,
                            &s->state, errp)) {
        serial_disconnect(&s->state);
        return false;
    }
    return true;
}

static void isa_serial_reset(Device *dev)
{
    serial_reset(&ISA_SERIAL(dev)->state);
}

static const VMStateDescription vmstate_isa_serial = {
    .name = "serial",
    .version_id = 4,
    .minimum_version_id = 4,
    .fields =
        (const VMStateField[]){ VMSTATE_STRUCT(state, IsaSerial, 0, vmstate_serial, SerialState),
                                VMSTATE_END_OF_LIST() },
};

static const QomProperty isa_serial_properties[] = {
    { .name = "index",
      .kind = QOM_UINT32,
      .offset = offsetof(IsaSerial, index),
      .def = INDEX_AUTO,
      .description = "0 to 3: which of the usual places (default: the first free one)" },
    { .name = "iobase",
      .kind = QOM_UINT32,
      .offset = offsetof(IsaSerial, iobase),
      .description = "first port, 0: by index" },
    { .name = "irq",
      .kind = QOM_UINT32,
      .offset = offsetof(IsaSerial, irq_number),
      .description = "ISA interrupt, 0: by index" },
    { .name = "chardev",
      .kind = QOM_STRING,
      .offset = offsetof(IsaSerial, chardev),
      .description = "id of the character device at the other end" },
    QOM_PROPERTY_END,
};

static void isa_serial_init(IsaSerial *s)
{
}

static void isa_serial_finalize(GObject *gobj)
{
    serial_disconnect(&ISA_SERIAL(gobj)->state);
    G_OBJECT_CLASS(isa_serial_parent_class)->finalize(gobj);
}

static void isa_serial_class_init(IsaSerialClass *klass)
{
    DeviceClass *dc = DEVICE_CLASS(klass);

    G_OBJECT_CLASS(klass)->finalize = isa_serial_finalize;
    qom_class_install(klass, isa_serial_properties);
    dc->realize = isa_serial_realize;
    dc->reset = isa_serial_reset;
    dc->vmsd = &vmstate_isa_serial;
    dc->desc = "16550A serial port";
    dc->user_creatable = true;
}
