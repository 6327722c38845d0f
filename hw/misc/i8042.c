/*
 * The keyboard controller: what guests use it for besides keys, which is resetting the machine and the A20 gate.
 *
 * No keyboard or mouse is attached: bytes for them get no answer. KVM never masks address line 20, so the gate's bit is
 * kept and has no effect.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/misc/i8042.h"

#include "accel/runstate.h"
#include "hw/core/machine.h"
#include "vmstate/vmstate.h"

#define IRQ_KEYBOARD 1

enum { STATUS_OUTPUT_FULL = 1, STATUS_SYSTEM = 4, STATUS_COMMAND = 8, STATUS_UNLOCKED = 0x10 };
enum { MODE_KEYBOARD_IRQ = 1, MODE_SYSTEM = 4, MODE_KEYBOARD_OFF = 0x10, MODE_MOUSE_OFF = 0x20 };
enum { OUT_NOT_RESET = 1, OUT_A20 = 2, OUT_KEYBOARD_IRQ = 0x10 };
enum {
    CMD_READ_MODE = 0x20,
    CMD_WRITE_MODE = 0x60,
    CMD_MOUSE_OFF = 0xa7,
    CMD_MOUSE_ON = 0xa8,
    CMD_MOUSE_TEST = 0xa9,
    CMD_SELF_TEST = 0xaa,
    CMD_KEYBOARD_TEST = 0xab,
    CMD_KEYBOARD_OFF = 0xad,
    CMD_KEYBOARD_ON = 0xae,
    CMD_READ_INPUT = 0xc0,
    CMD_READ_OUTPUT = 0xd0,
    CMD_WRITE_OUTPUT = 0xd1,
    CMD_ECHO_KEYBOARD = 0xd2,
    CMD_ECHO_MOUSE = 0xd3,
    CMD_WRITE_MOUSE = 0xd4,
    CMD_A20_OFF = 0xdd,
    CMD_A20_ON = 0xdf,
    CMD_PULSE = 0xf0, /* to 0xff: zeros of the low bits are pulsed; bit 0 is the reset line */
};

struct _Kbc {
    IsaDevice parent_instance;
    IrqLine irq;
    uint8_t status, mode, output_port;
    uint8_t data;    /* the answer that waits */
    uint8_t pending; /* command whose argument comes next, 0: none */
};

QOM_DEFINE_TYPE(Kbc, i8042, "i8042", TYPE_ISA_DEVICE)

static void request_reset(Device *dev)
{
    runstate_request_reset(dev->machine->runstate, SHUTDOWN_CAUSE_GUEST_RESET);
}

static void i8042_update_irq(Kbc *s)
{
    irq_set(&s->irq, (s->status & STATUS_OUTPUT_FULL) && (s->mode & MODE_KEYBOARD_IRQ));
}

static void answer(Kbc *s, uint8_t value)
{
    s->data = value;
    s->status |= STATUS_OUTPUT_FULL;
}

static void write_output_port(Kbc *s, uint8_t value)
{
    s->output_port = value | OUT_NOT_RESET;
    if (!(value & OUT_NOT_RESET)) {
        request_reset(DEVICE(s));
    }
}

static void run_command(Kbc *s, uint8_t command)
{
    switch (command) {
    case CMD_READ_MODE:
        answer(s, s->mode);
        break;
    case CMD_MOUSE_OFF:
        s->mode |= MODE_MOUSE_OFF;
        break;
    case CMD_MOUSE_ON:
        s->mode &= (uint8_t)~MODE_MOUSE_OFF;
        break;
    case CMD_SELF_TEST:
        s->status |= STATUS_SYSTEM;
        answer(s, 0x55);
        break;
    case CMD_MOUSE_TEST:
    case CMD_KEYBOARD_TEST:
        answer(s, 0);
        break;
    case CMD_KEYBOARD_OFF:
        s->mode |= MODE_KEYBOARD_OFF;
        break;
    case CMD_KEYBOARD_ON:
        s->mode &= (uint8_t)~MODE_KEYBOARD_OFF;
        break;
    case CMD_READ_INPUT:
        answer(s, 0x80); /* not locked */
        break;
    case CMD_READ_OUTPUT:
        answer(s, s->output_port | (s->status & STATUS_OUTPUT_FULL ? OUT_KEYBOARD_IRQ : 0));
        break;
    case CMD_WRITE_MODE:
    case CMD_WRITE_OUTPUT:
    case CMD_ECHO_KEYBOARD:
    case CMD_ECHO_MOUSE:
    case CMD_WRITE_MOUSE:
        s->pending = command;
        break;
    case CMD_A20_OFF:
        s->output_port &= (uint8_t)~OUT_A20;
        break;
    case CMD_A20_ON:
        s->output_port |= OUT_A20;
        break;
    default:
        if (command >= CMD_PULSE && !(command & 1)) {
            request_reset(DEVICE(s));
        }
        break;
    }
}

static void take_argument(Kbc *s, uint8_t value)
{
    uint8_t command = s->pending;

    s->pending = 0;
    switch (command) {
    case CMD_WRITE_MODE:
        s->mode = value;
        break;
    case CMD_WRITE_OUTPUT:
        write_output_port(s, value);
        break;
    case CMD_ECHO_KEYBOARD:
    case CMD_ECHO_MOUSE:
        answer(s, value);
        break;
    default: /* for a keyboard or mouse that is not there */
        break;
    }
}

static uint64_t data_read(void *opaque, uint64_t offset, unsigned size)
{
    Kbc *s = opaque;

    s->status &= (uint8_t)~STATUS_OUTPUT_FULL;
    i8042_update_irq(s);
    return s->data;
}

static void data_write(void *opaque, uint64_t offset, uint64_t value, unsigned size)
{
    Kbc *s = opaque;

    s->status &= (uint8_t)~STATUS_COMMAND;
    take_argument(s, (uint8_t)value);
    i8042_update_irq(s);
}

static uint64_t status_read(void *opaque, uint64_t offset, unsigned size)
{
    return ((Kbc *)opaque)->status;
}

static void command_write(void *opaque, uint64_t offset, uint64_t value, unsigned size)
{
    Kbc *s = opaque;

    s->status |= STATUS_COMMAND;
    s->pending = 0;
    run_command(s, (uint8_t)value);
    i8042_update_irq(s);
}

static bool i8042_realize(Device *dev, GError **errp)
{
    static const IoOps data_ops = {
        .read = data_read, .write = data_write, .min_size = 1, .max_size = 1
    };
    static const IoOps command_ops = {
        .read = status_read, .write = command_write, .min_size = 1, .max_size = 1
    };

    if (!isa_device_irq(dev, IRQ_KEYBOARD, &KBC(dev)->irq, errp) ||
        !isa_device_add_ports(dev, 0x60, 1, &data_ops, errp)) {
        return false;
    }
    if (!isa_device_add_ports(dev, 0x64, 1, &command_ops, errp)) {
        address_map_remove(dev->machine->io, 0x60);
        return false;
    }
    return true;
}

static void i8042_reset(Device *dev)
{
    Kbc *s = KBC(dev);

    s->status = STATUS_COMMAND | STATUS_UNLOCKED | STATUS_SYSTEM;
    s->mode = MODE_KEYBOARD_IRQ | 2 | MODE_SYSTEM;
    s->output_port = OUT_NOT_RESET | OUT_A20;
    s->data = s->pending = 0;
    i8042_update_irq(s);
}

static bool i8042_post_load(void *opaque, int version, GError **errp)
{
    i8042_update_irq(opaque);
    return true;
}

static const VMStateDescription vmstate_i8042 = {
    .name = "pckbd",
    .version_id = 4,
    .minimum_version_id = 4,
    .post_load = i8042_post_load,
    .fields = (const VMStateField[]){ VMSTATE_UINT8(status, Kbc), VMSTATE_UINT8(mode, Kbc),
                                      VMSTATE_UINT8(output_port, Kbc), VMSTATE_UINT8(data, Kbc),
                                      VMSTATE_UINT8(pending, Kbc), VMSTATE_END_OF_LIST() },
};

static void i8042_init(Kbc *s)
{
}

static void i8042_class_init(KbcClass *klass)
{
    DeviceClass *dc = DEVICE_CLASS(klass);

    dc->realize = i8042_realize;
    dc->reset = i8042_reset;
    dc->vmsd = &vmstate_i8042;
    dc->desc = "keyboard controller";
}

/* ---- port 0x92 ---- */

enum { PORT92_RESET = 1, PORT92_A20 = 2 };

struct _Port92 {
    IsaDevice parent_instance;
    uint8_t value;
};

QOM_DEFINE_TYPE(Port92, port92, "port92", TYPE_ISA_DEVICE)

static uint64_t port92_read(void *opaque, uint64_t offset, unsigned size)
{
    return ((Port92 *)opaque)->value;
}

/* The reset bit acts when it goes from 0 to 1. */
static void port92_write(void *opaque, uint64_t offset, uint64_t value, unsigned size)
{
    Port92 *s = opaque;
    bool rises = value & ~(uint64_t)s->value & PORT92_RESET;

    s->value = (uint8_t)value;
    if (rises) {
        request_reset(DEVICE(s));
    }
}

static bool port92_realize(Device *dev, GError **errp)
{
    static const IoOps ops = {
        .read = port92_read, .write = port92_write, .min_size = 1, .max_size = 1
    };

    return isa_device_add_ports(dev, 0x92, 1, &ops, errp);
}

static void port92_reset(Device *dev)
{
    PORT92(dev)->value = PORT92_A20;
}

static const VMStateDescription vmstate_port92 = {
    .name = "port92",
    .version_id = 1,
    .minimum_version_id = 1,
    .fields = (const VMStateField[]){ VMSTATE_UINT8(value, Port92), VMSTATE_END_OF_LIST() },
};

static void port92_init(Port92 *s)
{
}

static void port92_class_init(Port92Class *klass)
{
    DeviceClass *dc = DEVICE_CLASS(klass);

    dc->realize = port92_realize;
    dc->reset = port92_reset;
    dc->vmsd = &vmstate_port92;
    dc->desc = "system control port";
}
