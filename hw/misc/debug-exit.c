/*
 * isa-debug-exit: a write of V to its port ends the process with exit status (V << 1) | 1.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/misc/debug-exit.h"

#include "accel/runstate.h"
#include "hw/core/machine.h"
#include "memory/address-map.h"
#include "util/error.h"

struct _IsaDebugExit {
    IsaDevice parent_instance;
    uint32_t iobase, iosize;
};

QOM_DEFINE_TYPE(IsaDebugExit, isa_debug_exit, "isa-debug-exit", TYPE_ISA_DEVICE)

static uint64_t debug_exit_read(void *opaque, uint64_t offset, unsigned size)
{
    return 0;
}

static void debug_exit_write(void *opaque, uint64_t offset, uint64_t value, unsigned size)
{
    Machine *m = DEVICE(opaque)->machine;

    m->exit_requested = true;
    m->exit_status = (int)((value << 1) | 1);
    runstate_request_shutdown(m->runstate, SHUTDOWN_CAUSE_GUEST_SHUTDOWN);
}

static bool debug_exit_realize(Device *dev, GError **errp)
{
    static const IoOps ops = {
        .read = debug_exit_read, .write = debug_exit_write, .min_size = 1, .max_size = 4
    };
    IsaDebugExit *s = ISA_DEBUG_EXIT(dev);

    if (s->iosize == 0 || s->iobase > UINT16_MAX || s->iosize > UINT16_MAX + 1u - s->iobase) {
        error_set(errp, "iobase 0x%x with iosize 0x%x is no range of ports", s->iobase, s->iosize);
        return false;
    }
    return isa_device_add_ports(dev, (uint16_t)s->iobase, s->iosize, &ops, errp);
}

static const QomProperty debug_exit_properties[] = {
    { .name = "iobase",
      .kind = QOM_UINT32,
      .offset = offsetof(IsaDebugExit, iobase),
      .def = 0x501 },
    { .name = "iosize", .kind = QOM_UINT32, .offset = offsetof(IsaDebugExit, iosize), .def = 2 },
    QOM_PROPERTY_END,
};

static void isa_debug_exit_init(IsaDebugExit *s)
{
}

static void isa_debug_exit_class_init(IsaDebugExitClass *klass)
{
    DeviceClass *dc = DEVICE_CLASS(klass);

    qom_class_install(klass, debug_exit_properties);
    dc->realize = debug_exit_realize;
    dc->desc = "a port that ends the process";
    dc->user_creatable = true;
}
