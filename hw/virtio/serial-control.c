/*
 * virtio-serial: messages about ports between device and driver (virtio 1.2, 5.3.6.2).
 *
 * What is to be said to the driver is a property of each port (SerialPortState), not a queue: a driver that gives no
 * buffers costs nothing, and is told the newest state when it does.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/virtio/serial-internal.h"

#include "util/le.h"

#include <string.h>

#define MESSAGE_SIZE 8  /* le32 port, le16 event, le16 value; PORT_NAME has the name behind it */
#define BUFFER_TRIES 32 /* for one message */
#define PENDING(event) (1u << VIRTIO_CONSOLE_##event)

/* --- To the driver --- */

/* Something is to be said about that port: its event, or -1. */
static int next_event(VirtioSerial *s, uint32_t nr)
{
    static const uint8_t order[] = { VIRTIO_CONSOLE_DEVICE_REMOVE, VIRTIO_CONSOLE_DEVICE_ADD,
                                     VIRTIO_CONSOLE_CONSOLE_PORT, VIRTIO_CONSOLE_PORT_NAME };
    const SerialPortState *st = &s->state[nr];
    const VirtSerialPort *port = s->ports[nr];

    for (size_t i = 0; i < G_N_ELEMENTS(order); i++) {
        if (st->todo & (1u << order[i]) && (port || order[i] == VIRTIO_CONSOLE_DEVICE_REMOVE)) {
            return order[i];
        }
    }
    if (port && st->ready && st->told_open != port->host_open) {
        return VIRTIO_CONSOLE_PORT_OPEN;
    }
    return -1;
}

static size_t make_message(VirtioSerial *s, uint32_t nr, int event, uint8_t *msg)
{
    const VirtSerialPort *port = s->ports[nr];
    size_t name_len = 0;

    put_le32(msg, nr);
    put_le16(msg + 4, (uint16_t)event);
    put_le16(msg + 6, event == VIRTIO_CONSOLE_PORT_OPEN ? port->host_open : 1);
    if (event == VIRTIO_CONSOLE_PORT_NAME && port->name) {
        name_len = strlen(port->name); /* checked when it was plugged in */
        memcpy(msg + MESSAGE_SIZE, port->name, name_len);
    }
    return MESSAGE_SIZE + name_len;
}

static void event_sent(VirtioSerial *s, uint32_t nr, int event)
{
    SerialPortState *st = &s->state[nr];

    st->todo &= (uint8_t) ~(1u << event);
    if (event == VIRTIO_CONSOLE_DEVICE_ADD) {
        st->added = true;
    } else if (event == VIRTIO_CONSOLE_PORT_OPEN) {
        st->told_open = s->ports[nr]->host_open;
    }
}

/* False: there is no buffer for it now. One that is too short is given back empty. */
static bool send_message(VirtioSerial *s, const uint8_t *msg, size_t len)
{
    VirtioDevice *dev = VIRTIO_DEVICE(s);

    for (int tries = 0; tries < BUFFER_TRIES; tries++) {
        VirtElement *elem = virtqueue_pop(s->control_in);
        size_t written = 0;

        if (!elem) {
            return false;
        }
        if (elem->in_len >= len) {
            written = virtelement_write(dev, elem, 0, msg, len);
        } else {
            serial_complain(s, "a buffer of %" PRIu64 " bytes for a message of %zu", elem->in_len,
                            len);
        }
        virtqueue_push(s->control_in, elem, (uint32_t)written);
        if (written == len) {
            return true;
        }
    }
    return false;
}

void serial_send_control(VirtioSerial *s)
{
    uint8_t msg[MESSAGE_SIZE + SERIAL_NAME_MAX];
    bool room = s->driver_ready && virtio_is_active(VIRTIO_DEVICE(s)) && serial_is_multiport(s);

    if (!room) {
        return;
    }
    for (uint32_t nr = 0; nr < s->max_ports && room; nr++) {
        int event;

        while (room && (event = next_event(s, nr)) >= 0) {
            room = send_message(s, msg, make_message(s, nr, event, msg));
            if (room) {
                event_sent(s, nr, event);
            }
        }
    }
    virtqueue_flush(s->control_in);
}

void serial_announce_port(VirtioSerial *s, uint32_t nr)
{
    SerialPortState *st = &s->state[nr];

    *st = (SerialPortState){ .plugged = true, .todo = st->todo & PENDING(DEVICE_REMOVE) };
    if (s->driver_ready) {
        st->todo |= PENDING(DEVICE_ADD);
        serial_send_control(s);
    }
}

void serial_withdraw_port(VirtioSerial *s, uint32_t nr)
{
    SerialPortState *st = &s->state[nr];
    bool tell = st->added || (st->todo & PENDING(DEVICE_REMOVE));

    *st = (SerialPortState){ .todo = tell ? PENDING(DEVICE_REMOVE) : 0 };
    serial_send_control(s);
}

/* --- From the driver --- */

static void driver_ready(VirtioSerial *s, uint16_t value)
{
    if (value == 0) {
        serial_complain(s, "%s", "the driver failed to set up the device");
        return;
    }
    s->driver_ready = true;
    for (uint32_t nr = 0; nr < s->max_ports; nr++) {
        if (s->ports[nr] && !s->state[nr].added) {
            s->state[nr].todo |= PENDING(DEVICE_ADD);
        }
    }
}

static void port_ready(VirtioSerial *s, uint32_t nr, uint16_t value)
{
    VirtSerialPort *port = s->ports[nr];
    SerialPortState *st = &s->state[nr];

    if (value == 0) {
        serial_complain(s, "the driver failed to set up port %u", nr);
        return;
    }
    st->ready = true;
    if (VIRT_SERIAL_PORT_GET_CLASS(port)->is_console) {
        st->todo |= PENDING(CONSOLE_PORT);
    }
    if (port->name && *port->name) {
        st->todo |= PENDING(PORT_NAME);
    }
    st->told_open = false; /* a driver starts from that */
}

static void handle_message(VirtioSerial *s, const uint8_t *msg)
{
    uint32_t nr = get_le32(msg);
    uint16_t event = get_le16(msg + 4), value = get_le16(msg + 6);

    if (event == VIRTIO_CONSOLE_DEVICE_READY) {
        driver_ready(s, value);
    } else if (!s->driver_ready) {
        serial_complain(s, "message %u before DEVICE_READY", event);
    } else if (!serial_find_port(s, nr)) {
        serial_complain(s, "message %u for port %u, which does not exist", event, nr);
    } else if (event == VIRTIO_CONSOLE_PORT_READY) {
        port_ready(s, nr, value);
    } else if (event == VIRTIO_CONSOLE_PORT_OPEN) {
        serial_set_guest_open(s, nr, value != 0);
    } else {
        serial_complain(s, "unknown message %u for port %u", event, nr);
    }
}

void serial_handle_control(VirtioDevice *dev, VirtQueue *vq)
{
    VirtioSerial *s = VIRTIO_SERIAL(dev);
    VirtElement *elem;

    while ((elem = virtqueue_pop(vq))) {
        uint8_t msg[MESSAGE_SIZE];
        size_t n = virtelement_read(dev, elem, 0, msg, sizeof(msg));

        if (n == sizeof(msg) && serial_is_multiport(s)) {
            handle_message(s, msg);
        } else {
            serial_complain(s, "control message of %zu bytes", n);
        }
        virtqueue_push(vq, elem, 0);
    }
    virtqueue_flush(vq);
    serial_send_control(s);
}
