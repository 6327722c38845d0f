/*
 * isa-debugcon: a port where each byte written goes to a chardev.
 *
 * Reading gives the "readback" value, by which firmware recognises the device.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/char/debugcon.h"

#include "chardev/chardev.h"
#include "hw/core/machine.h"
#include "memory/address-map.h"
#include "util/error.h"

struct _IsaDebugcon {
    IsaDevice parent_instance;
    uint32_t iobase, readback;
    char *chardev;
    Chardev *chr;
};

QOM_DEFINE_TYPE(IsaDebugcon, isa_debugcon, "isa-debugcon", TYPE_ISA_DEVICE)

static uint64_t debugcon_read(void *opaque, uint64_t offset, unsigned size)
{
    return ISA_DEBUGCON(opaque)->readback;
}

static void debugcon_write(void *opaque, uint64_t offset, uint64_t value, unsigned size)
{
    uint8_t byte = (uint8_t)value;

    chardev_write(ISA_DEBUGCON(opaque)->chr, &byte, 1);
}

static bool debugcon_realize(Device *dev, GError **errp)
{
    static const IoOps ops = {
        .read = debugcon_read, .write = debugcon_write, .min_size = 1, .max_size = 1
    };
    IsaDebugcon *s = ISA_DEBUGCON(dev);

    if (!s->chardev) {
        error_set(errp, "chardev=ID is missing");
        return false;
    }
    if (s->iobase > UINT16_MAX) {
        error_set(errp, "iobase 0x%x is no port address", s->iobase);
        return false;
    }
    s->chr = chardev_get(dev->machine->chardevs, s->chardev, errp);
    if (!s->chr || !chardev_set_handlers(s->chr, &(ChardevHandlers){ 0 }, s, errp)) {
        return false;
    }
    if (!isa_device_add_ports(dev, (uint16_t)s->iobase, 1, &ops, errp)) {
        chardev_set_handlers(s->chr, NULL, NULL, NULL);
        return false;
    }
    return true;
}

static const QomProperty debugcon_properties[] = {
    { .name = "iobase", .kind = QOM_UINT32, .offset = offsetof(IsaDebugcon, iobase), .def = 0xe9 },
    { .name = "chardev", .kind = QOM_STRING, .offset = offsetof(IsaDebugcon, chardev) },
    { .name = "readback",
      .kind = QOM_UINT32,
      .offset = offsetof(IsaDebugcon, readback),
      .def = 0xe9 },
    QOM_PROPERTY_END,
};

static void isa_debugcon_init(IsaDebugcon *s)
{
}

static void isa_debugcon_finalize(GObject *gobj)
{
    IsaDebugcon *s = ISA_DEBUGCON(gobj);

    if (s->chr) {
        chardev_set_handlers(s->chr, NULL, NULL, NULL);
    }
    G_OBJECT_CLASS(isa_debugcon_parent_class)->finalize(gobj);
}

static void isa_debugcon_class_init(IsaDebugconClass *klass)
{
    DeviceClass *dc = DEVICE_CLASS(klass);

    G_OBJECT_CLASS(klass)->finalize = isa_debugcon_finalize;
    qom_class_install(klass, debugcon_properties);
    dc->realize = debugcon_realize;
    dc->desc = "one port that writes to a character device";
    dc->user_creatable = true;
}
