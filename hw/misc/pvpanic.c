/*
 * pvpanic: bit 0 written says that the guest has panicked, bit 1 that its crash kernel took over.
 *
 * Source: QEMU's published specification, docs/specs/pvpanic.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/misc/pvpanic.h"

#include "accel/runstate.h"
#include "hw/core/machine.h"
#include "qapi/qapi-events.h"
#include "util/error.h"

enum { PANICKED = 1, CRASH_LOADED = 2, ALL_EVENTS = PANICKED | CRASH_LOADED };

struct _Pvpanic {
    IsaDevice parent_instance;
    uint16_t ioport;
    uint8_t events; /* that the guest is told it may send */
};

QOM_DEFINE_TYPE(Pvpanic, pvpanic, "pvpanic", TYPE_ISA_DEVICE)

static uint64_t pvpanic_read(void *opaque, uint64_t offset, unsigned size)
{
    return PVPANIC(opaque)->events;
}

static void pvpanic_write(void *opaque, uint64_t offset, uint64_t value, unsigned size)
{
    Pvpanic *s = opaque;
    Machine *m = DEVICE(s)->machine;

    value &= s->events;
    if (value & PANICKED) {
        runstate_request_panicked(m->runstate);
    } else if (value & CRASH_LOADED) {
        qapi_event_send_guest_crashloaded(m->events, GUEST_PANIC_ACTION_RUN);
    }
}

uint16_t pvpanic_port(const Pvpanic *s)
{
    return s->ioport;
}

static bool pvpanic_realize(Device *dev, GError **errp)
{
    static const IoOps ops = {
        .read = pvpanic_read, .write = pvpanic_write, .min_size = 1, .max_size = 1
    };
    Pvpanic *s = PVPANIC(dev);

    if (s->events & ~ALL_EVENTS) {
        error_set(errp, "events=%u has unknown bits: use 0 to %d", s->events, ALL_EVENTS);
        return false;
    }
    return isa_device_add_ports(dev, s->ioport, 1, &ops, errp);
}

static const QomProperty pvpanic_properties[] = {
    { .name = "ioport", .kind = QOM_UINT16, .offset = offsetof(Pvpanic, ioport), .def = 0x505 },
    { .name = "events", .kind = QOM_UINT8, .offset = offsetof(Pvpanic, events), .def = ALL_EVENTS },
    QOM_PROPERTY_END,
};

static void pvpanic_init(Pvpanic *s)
{
}

static void pvpanic_class_init(PvpanicClass *klass)
{
    DeviceClass *dc = DEVICE_CLASS(klass);

    qom_class_install(klass, pvpanic_properties);
    dc->realize = pvpanic_realize;
    dc->desc = "tells of a panic of the guest";
    dc->user_creatable = true;
}
