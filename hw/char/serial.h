/*
 * The 16550A serial port: its registers, and the device isa-serial around them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_CHAR_SERIAL_H
#define COWBIRD_HW_CHAR_SERIAL_H

#include "chardev/chardev.h"
#include "hw/core/irq.h"
#include "hw/i386/isa-bus.h"
#include "memory/address-map.h"
#include "vmstate/vmstate.h"

#define SERIAL_FIFO_SIZE 16
#define SERIAL_PORTS 8

typedef struct SerialFifo {
    uint8_t data[SERIAL_FIFO_SIZE];
    uint32_t count; /* bytes waiting, the oldest first in data */
} SerialFifo;

/* One UART. Used under the big lock only. */
typedef struct SerialState {
    bool wait_for_state; /* receives nothing before the state that comes in is loaded */
    Chardev *chr;        /* NULL: what is sent is dropped */
    IrqLine irq;
    uint16_t divider;
    uint8_t ier, lcr, mcr, lsr, msr, scr, fcr;
    bool thr_pending; /* "transmitter empty" has not been seen by the guest */
    SerialFifo rx, tx;
} SerialState;

extern const IoOps serial_ops; /* opaque: the SerialState */
extern const VMStateDescription vmstate_serial;

/* Takes the chardev (may be NULL) into use. */
bool serial_connect(SerialState *s, Chardev *chr, GError **errp);
void serial_disconnect(SerialState *s);
void serial_reset(SerialState *s);
/* Bytes from outside, as the chardev delivers them; returns how many can be taken now. */
size_t serial_can_receive(void *opaque);
void serial_receive(void *opaque, const uint8_t *data, size_t len);

#define TYPE_ISA_SERIAL (isa_serial_get_type())
QOM_DECLARE_FINAL_TYPE(IsaSerial, isa_serial, ISA_SERIAL, IsaDeviceClass)

void isa_serial_place(const IsaSerial *s, uint16_t *ret_port, uint8_t *ret_irq);

#endif
