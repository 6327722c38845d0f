/*
 * Registers of the 16550A UART (National Semiconductor PC16550D data sheet).
 *
 * A byte written is on its way at once; only when the chardev takes no more does it wait in the FIFO. Received bytes
 * below the trigger level raise the "character timeout" interrupt at once instead of after four character times.
 * The baud rate is kept but has no effect.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/char/serial.h"

#include <string.h>

enum {
    REG_DATA = 0, /* divider low with DLAB */
    REG_IER = 1,  /* divider high with DLAB */
    REG_IIR = 2,  /* FCR when written */
    REG_LCR = 3,
    REG_MCR = 4,
    REG_LSR = 5,
    REG_MSR = 6,
    REG_SCR = 7,
};
enum { IER_RX = 1, IER_TX = 2, IER_LINE = 4, IER_MODEM = 8 };
enum {
    IIR_NONE = 1,
    IIR_MODEM = 0,
    IIR_TX = 2,
    IIR_RX = 4,
    IIR_LINE = 6,
    IIR_TIMEOUT = 12,
    IIR_FIFO = 0xc0,
};
enum { FCR_ENABLE = 1, FCR_CLEAR_RX = 2, FCR_CLEAR_TX = 4, FCR_KEPT = 0xc9 };
enum { LCR_DLAB = 0x80 };
enum { MCR_DTR = 1, MCR_RTS = 2, MCR_OUT1 = 4, MCR_OUT2 = 8, MCR_LOOP = 0x10, MCR_ALL = 0x1f };
enum { LSR_DR = 1, LSR_OE = 2, LSR_ERRORS = 0x1e, LSR_THRE = 0x20, LSR_TEMT = 0x40 };
enum { MSR_DELTAS = 0x0f, MSR_CTS = 0x10, MSR_DSR = 0x20, MSR_RI = 0x40, MSR_DCD = 0x80 };

static bool fifo_enabled(const SerialState *s)
{
    return s->fcr & FCR_ENABLE;
}

static unsigned fifo_depth(const SerialState *s)
{
    return fifo_enabled(s) ? SERIAL_FIFO_SIZE : 1;
}

static unsigned rx_trigger(const SerialState *s)
{
    static const uint8_t levels[] = { 1, 4, 8, 14 };

    return fifo_enabled(s) ? levels[s->fcr >> 6] : 1;
}

static void fifo_drop(SerialFifo *f, unsigned n)
{
    f->count -= n;
    memmove(f->data, f->data + n, f->count);
}

/* The most urgent interrupt that is enabled and pending, as IIR shows it. */
static uint8_t serial_pending(const SerialState *s)
{
    if ((s->ier & IER_LINE) && (s->lsr & LSR_ERRORS)) {
        return IIR_LINE;
    }
    if ((s->ier & IER_RX) && s->rx.count) {
        return s->rx.count >= rx_trigger(s) ? IIR_RX : IIR_TIMEOUT;
    }
    if ((s->ier & IER_TX) && s->thr_pending) {
        return IIR_TX;
    }
    if ((s->ier & IER_MODEM) && (s->msr & MSR_DELTAS)) {
        return IIR_MODEM;
    }
    return IIR_NONE;
}

static void serial_update_irq(SerialState *s)
{
    irq_set(&s->irq, serial_pending(s) != IIR_NONE);
}

/* Offers what waits in the transmit FIFO to the chardev. */
static void serial_transmit(SerialState *s)
{
    size_t taken = s->tx.count;

    if (s->chr && s->tx.count) {
        taken = chardev_write(s->chr, s->tx.data, s->tx.count);
    }
    fifo_drop(&s->tx, (unsigned)MIN(taken, s->tx.count));
    if (s->tx.count == 0 && !(s->lsr & LSR_THRE)) {
        s->lsr |= LSR_THRE | LSR_TEMT;
        s->thr_pending = true;
    }
}

static void rx_put(SerialState *s, uint8_t byte)
{
    if (s->rx.count >= fifo_depth(s)) {
        s->lsr |= LSR_OE;
        return;
    }
    s->rx.data[s->rx.count++] = byte;
    s->lsr |= LSR_DR;
}

static void write_data(SerialState *s, uint8_t value)
{
    if (s->mcr & MCR_LOOP) {
        rx_put(s, value);
        s->thr_pending = true;
        return;
    }
    if (s->tx.count >= fifo_depth(s)) {
        fifo_drop(&s->tx, 1); /* the guest did not wait: the oldest byte is lost */
    }
    s->tx.data[s->tx.count++] = value;
    s->lsr &= (uint8_t) ~(LSR_THRE | LSR_TEMT);
    s->thr_pending = false;
    serial_transmit(s);
}

static uint8_t read_data(SerialState *s)
{
    uint8_t value = s->rx.count ? s->rx.data[0] : 0;

    if (s->rx.count) {
        fifo_drop(&s->rx, 1);
    }
    if (s->rx.count == 0) {
        s->lsr &= (uint8_t)~LSR_DR;
    }
    if (s->chr && !(s->mcr & MCR_LOOP)) {
        chardev_accept_input(s->chr);
    }
    return value;
}

static void write_fcr(SerialState *s, uint8_t value)
{
    bool toggled = (value ^ s->fcr) & FCR_ENABLE;

    if (toggled || (value & FCR_CLEAR_RX)) {
        s->rx.count = 0;
        s->lsr &= (uint8_t)~LSR_DR;
        if (s->chr) {
            chardev_accept_input(s->chr);
        }
    }
    if (toggled || (value & FCR_CLEAR_TX)) {
        s->tx.count = 0;
        s->lsr |= LSR_THRE | LSR_TEMT;
        s->thr_pending = true;
    }
    s->fcr = value & FCR_ENABLE ? value & FCR_KEPT : 0;
}

static void write_ier(SerialState *s, uint8_t value)
{
    bool tx_enabled = (value & ~s->ier) & IER_TX;

    s->ier = value & 0x0f;
    if (tx_enabled && (s->lsr & LSR_THRE)) {
        s->thr_pending = true;
    }
}

/* In loopback the modem inputs follow the modem outputs. */
static uint8_t modem_inputs(const SerialState *s)
{
    if (!(s->mcr & MCR_LOOP)) {
        return MSR_DCD | MSR_DSR | MSR_CTS;
    }
    return (uint8_t)((s->mcr & MCR_RTS ? MSR_CTS : 0) | (s->mcr & MCR_DTR ? MSR_DSR : 0) |
                     (s->mcr & MCR_OUT1 ? MSR_RI : 0) | (s->mcr & MCR_OUT2 ? MSR_DCD : 0));
}

static void write_mcr(SerialState *s, uint8_t value)
{
    uint8_t before = s->msr, now;

    s->mcr = value & MCR_ALL;
    now = modem_inputs(s);
    /* Delta bits lie four below the inputs; that of the ring indicator reports its end only. */
    s->msr = (uint8_t)(now | (before & MSR_DELTAS) |
                       (((before ^ now) & (MSR_CTS | MSR_DSR | MSR_DCD)) >> 4) |
                       ((before & ~now & MSR_RI) >> 4));
}

static void serial_write(void *opaque, uint64_t offset, uint64_t value64, unsigned size)
{
    SerialState *s = opaque;
    uint8_t value = (uint8_t)value64;

    switch (offset) {
    case REG_DATA:
        if (s->lcr & LCR_DLAB) {
            s->divider = (uint16_t)((s->divider & 0xff00) | value);
        } else {
            write_data(s, value);
        }
        break;
    case REG_IER:
        if (s->lcr & LCR_DLAB) {
            s->divider = (uint16_t)((s->divider & 0x00ff) | value << 8);
        } else {
            write_ier(s, value);
        }
        break;
    case REG_IIR:
        write_fcr(s, value);
        break;
    case REG_LCR:
        s->lcr = value;
        break;
    case REG_MCR:
        write_mcr(s, value);
        break;
    case REG_SCR:
        s->scr = value;
        break;
    default: /* LSR and MSR are read-only */
        break;
    }
    serial_update_irq(s);
}

static uint8_t read_iir(SerialState *s)
{
    uint8_t pending = serial_pending(s);

    if (pending == IIR_TX) {
        s->thr_pending = false;
    }
    return (uint8_t)(pending | (fifo_enabled(s) ? IIR_FIFO : 0));
}

static uint8_t read_lsr(SerialState *s)
{
    uint8_t value = s->lsr;

    s->lsr &= (uint8_t)~LSR_ERRORS;
    return value;
}

static uint8_t read_msr(SerialState *s)
{
    uint8_t value = s->msr;

    s->msr &= (uint8_t)~MSR_DELTAS;
    return value;
}

static uint64_t serial_read(void *opaque, uint64_t offset, unsigned size)
{
    SerialState *s = opaque;
    uint8_t value = 0xff;

    switch (offset) {
    case REG_DATA:
        value = s->lcr & LCR_DLAB ? (uint8_t)s->divider : read_data(s);
        break;
    case REG_IER:
        value = s->lcr & LCR_DLAB ? (uint8_t)(s->divider >> 8) : s->ier;
        break;
    case REG_IIR:
        value = read_iir(s);
        break;
    case REG_LCR:
        value = s->lcr;
        break;
    case REG_MCR:
        value = s->mcr;
        break;
    case REG_LSR:
        value = read_lsr(s);
        break;
    case REG_MSR:
        value = read_msr(s);
        break;
    case REG_SCR:
        value = s->scr;
        break;
    default:
        break;
    }
    serial_update_irq(s);
    return value;
}

size_t serial_can_receive(void *opaque)
{
    SerialState *s = opaque;

    return s->mcr & MCR_LOOP || s->wait_for_state ? 0
                                                  : fifo_depth(s) - MIN(s->rx.count, fifo_depth(s));
}

void serial_receive(void *opaque, const uint8_t *data, size_t len)
{
    SerialState *s = opaque;

    for (size_t i = 0; i < len; i++) {
        rx_put(s, data[i]);
    }
    serial_update_irq(s);
}

static void serial_event(void *opaque, ChardevEvent event)
{
    SerialState *s = opaque;

    if (event == CHARDEV_EVENT_WRITABLE || event == CHARDEV_EVENT_CLOSED) {
        serial_transmit(s);
        serial_update_irq(s);
    }
}

bool serial_connect(SerialState *s, Chardev *chr, GError **errp)
{
    static const ChardevHandlers handlers = {
        .can_receive = serial_can_receive,
        .receive = serial_receive,
        .event = serial_event,
    };

    if (chr && !chardev_set_handlers(chr, &handlers, s, errp)) {
        return false;
    }
    s->chr = chr;
    return true;
}

void serial_disconnect(SerialState *s)
{
    if (s->chr) {
        chardev_set_handlers(s->chr, NULL, NULL, NULL);
        s->chr = NULL;
    }
}

void serial_reset(SerialState *s)
{
    s->divider = 12; /* 9600 baud, what firmware would leave */
    s->ier = s->lcr = s->scr = s->fcr = 0;
    s->mcr = MCR_OUT2;
    s->lsr = LSR_THRE | LSR_TEMT;
    s->msr = modem_inputs(s);
    s->thr_pending = false;
    s->rx.count = s->tx.count = 0;
    s->wait_for_state = false;
    serial_update_irq(s);
    if (s->chr) {
        chardev_accept_input(s->chr);
    }
}

static bool serial_post_load(void *opaque, int version, GError **errp)
{
    SerialState *s = opaque;

    s->rx.count = MIN(s->rx.count, fifo_depth(s));
    s->tx.count = MIN(s->tx.count, fifo_depth(s));
    s->wait_for_state = false;
    serial_transmit(s);
    serial_update_irq(s);
    if (s->chr) {
        chardev_accept_input(s->chr);
    }
    return true;
}

/* At once, not after the whole port: a load that fails later must not leave a count that lies. */
static bool fifo_post_load(void *opaque, int version, GError **errp)
{
    SerialFifo *f = opaque;

    f->count = MIN(f->count, SERIAL_FIFO_SIZE);
    return true;
}

static const VMStateDescription vmstate_serial_fifo = {
    .name = "serial FIFO",
    .version_id = 1,
    .minimum_version_id = 1,
    .post_load = fifo_post_load,
    .fields = (const VMStateField[]){ VMSTATE_UINT8_ARRAY(data, SerialFifo, SERIAL_FIFO_SIZE),
                                      VMSTATE_UINT32(count, SerialFifo), VMSTATE_END_OF_LIST() },
};

const VMStateDescription vmstate_serial = {
    .name = "serial",
    .version_id = 4,
    .minimum_version_id = 4,
    .post_load = serial_post_load,
    .fields =
        (const VMStateField[]){ VMSTATE_UINT16(divider, SerialState),
                                VMSTATE_UINT8(ier, SerialState), VMSTATE_UINT8(lcr, SerialState),
                                VMSTATE_UINT8(mcr, SerialState), VMSTATE_UINT8(lsr, SerialState),
                                VMSTATE_UINT8(msr, SerialState), VMSTATE_UINT8(scr, SerialState),
                                VMSTATE_UINT8(fcr, SerialState),
                                VMSTATE_BOOL(thr_pending, SerialState),
                                VMSTATE_STRUCT(rx, SerialState, 1, vmstate_serial_fifo, SerialFifo),
                                VMSTATE_STRUCT(tx, SerialState, 1, vmstate_serial_fifo, SerialFifo),
                                VMSTATE_END_OF_LIST() },
};

const IoOps serial_ops = {
    .read = serial_read,
    .write = serial_write,
    .min_size = 1,
    .max_size = 1,
};
