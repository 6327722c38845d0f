/*
 * virtserialport and virtconsole: ports of a virtio-serial device, and their bytes.
 *
 * Guest to host: a buffer is given back when the chardev has taken all of it. A chardev that takes no more blocks the
 * port until it says that it does, or its other side leaves; so the guest is held up, and nothing is lost.
 * Host to guest: bytes are asked for only while the guest has a buffer for them; they stay with the chardev.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/virtio/serial-internal.h"

#include "hw/core/machine.h"
#include "qapi/qapi-events.h"
#include "util/error.h"

#define COPY_SIZE 4096
#define BYTES_PER_CALL (256 * 1024) /* then others have their turn */
#define EMPTY_BUFFERS_PER_CALL 32

struct _VirtConsole {
    VirtSerialPort parent_instance;
};

QOM_DEFINE_TYPE(VirtSerialPort, virt_serial_port, "virtserialport", TYPE_DEVICE)
QOM_DEFINE_TYPE(VirtConsole, virt_console, "virtconsole", TYPE_VIRT_SERIAL_PORT)

/* --- From the guest --- */

typedef enum { SENT_ALL, SENT_BLOCKED, SENT_ENOUGH } SendResult;

/* What is left of the buffer; *budget: bytes that may be sent in this call. */
static SendResult send_buffer(VirtioSerial *s, uint32_t nr, const VirtElement *elem, size_t *budget)
{
    VirtSerialPort *port = s->ports[nr];
    uint64_t *consumed = &s->state[nr].consumed;
    uint8_t bytes[COPY_SIZE];

    while (*consumed < elem->out_len) {
        size_t n, taken;

        if (*budget < sizeof(bytes)) {
            return SENT_ENOUGH;
        }
        n = virtelement_read(VIRTIO_DEVICE(s), elem, *consumed, bytes, sizeof(bytes));
        if (n == 0) {
            return SENT_ALL; /* not RAM: the device is broken now */
        }
        taken = chardev_write(port->chr, bytes, n);
        *consumed += taken;
        *budget -= taken;
        if (taken < n) {
            port->blocked = true;
            return SENT_BLOCKED;
        }
    }
    return SENT_ALL;
}

void serial_transmit(VirtioSerial *s, uint32_t nr)
{
    VirtSerialPort *port = s->ports[nr];
    size_t budget = BYTES_PER_CALL;
    SendResult result = SENT_ALL;
    VirtElement *elem;

    while (result == SENT_ALL && !(port && port->blocked) && (elem = virtqueue_pop(s->tx[nr]))) {
        if (port && port->chr && port->host_open) {
            result = send_buffer(s, nr, elem, &budget);
        }
        if (result == SENT_ALL) {
            s->state[nr].consumed = 0;
            virtqueue_push(s->tx[nr], elem, 0);
        } else {
            virtqueue_unpop(s->tx[nr], elem);
        }
    }
    virtqueue_flush(s->tx[nr]);
    if (result == SENT_ENOUGH) {
        virtio_queue_schedule(s->tx[nr]);
    }
}

/* --- To the guest --- */

void serial_accept_input(VirtSerialPort *port)
{
    if (port && port->chr) {
        chardev_accept_input(port->chr);
    }
}

/* Bytes that the guest's next buffer takes; empty buffers are given back. */
static size_t room_in_guest(VirtioSerial *s, uint32_t nr)
{
    VirtElement *elem;
    size_t room = 0;

    if (!virtio_is_active(VIRTIO_DEVICE(s)) ||
        !(serial_is_multiport(s) ? s->state[nr].guest_open : nr == 0)) {
        return 0;
    }
    for (int tries = 0; room == 0 && tries < EMPTY_BUFFERS_PER_CALL; tries++) {
        elem = virtqueue_pop(s->rx[nr]);
        if (!elem) {
            break;
        }
        room = (size_t)elem->in_len;
        if (room > 0) {
            virtqueue_unpop(s->rx[nr], elem);
        } else {
            virtqueue_push(s->rx[nr], elem, 0);
            virtqueue_flush(s->rx[nr]);
        }
    }
    return room;
}

static size_t port_can_receive(void *opaque)
{
    VirtSerialPort *port = opaque;
    VirtioSerial *s = port->serial;
    size_t room;

    virtio_lock(VIRTIO_DEVICE(s));
    room = room_in_guest(s, port->nr);
    virtio_unlock(VIRTIO_DEVICE(s));
    return room;
}

/* The buffer is the one that port_can_receive() has seen, unless the driver takes buffers back. */
static void port_receive(void *opaque, const uint8_t *data, size_t len)
{
    VirtSerialPort *port = opaque;
    VirtioSerial *s = port->serial;
    VirtQueue *vq = s->rx[port->nr];
    VirtElement *elem;

    virtio_lock(VIRTIO_DEVICE(s));
    while (len > 0 && (elem = virtqueue_pop(vq))) {
        size_t n = virtelement_write(VIRTIO_DEVICE(s), elem, 0, data, len);

        virtqueue_push(vq, elem, (uint32_t)n);
        data += n;
        len -= n;
    }
    if (len > 0) {
        serial_complain(s, "port %u: a buffer has vanished, %zu bytes are lost", port->nr, len);
    }
    virtqueue_flush(vq);
    virtio_unlock(VIRTIO_DEVICE(s));
}

/* --- Who is there --- */

static void port_event(void *opaque, ChardevEvent event)
{
    VirtSerialPort *port = opaque;
    VirtioSerial *s = port->serial;
    bool console = VIRT_SERIAL_PORT_GET_CLASS(port)->is_console;

    virtio_lock(VIRTIO_DEVICE(s));
    port->host_open = console || chardev_is_open(port->chr);
    if (event != CHARDEV_EVENT_OPENED) {
        port->blocked = false;
    }
    virtio_queue_schedule(s->tx[port->nr]);
    serial_send_control(s);
    virtio_unlock(VIRTIO_DEVICE(s));
}

void serial_refresh_port(VirtSerialPort *port)
{
    if (port && port->chr) {
        port->host_open =
            VIRT_SERIAL_PORT_GET_CLASS(port)->is_console || chardev_is_open(port->chr);
        port->blocked = false;
        chardev_accept_input(port->chr);
    }
}

void serial_set_guest_open(VirtioSerial *s, uint32_t nr, bool open)
{
    VirtSerialPort *port = s->ports[nr];
    Device *dev = DEVICE(port);

    s->state[nr].guest_open = open;
    if (port->chr && !VIRT_SERIAL_PORT_GET_CLASS(port)->is_console) {
        chardev_set_frontend_open(port->chr, open);
    }
    if (dev->id) {
        qapi_event_send_vserport_change(dev->machine->events, dev->id, open);
    }
    if (open) {
        serial_accept_input(port);
    }
}

/* --- Life --- */

static bool check_nr(VirtSerialPort *port, VirtioSerial *s, GError **errp)
{
    if (port->nr >= s->max_ports) {
        error_set(errp, "nr=%u: the bus '%s' has the ports 0 to %u", port->nr, OBJECT(s->bus)->name,
                  s->max_ports - 1);
    } else if (port->nr == 0 && !VIRT_SERIAL_PORT_GET_CLASS(port)->is_console) {
        error_set(errp, "nr=0 is reserved for a virtconsole; use 1 or more, or leave nr out");
    } else if (s->ports[port->nr]) {
        error_set(errp, "nr=%u is taken by another port of the bus '%s'", port->nr,
                  OBJECT(s->bus)->name);
    } else {
        return true;
    }
    return false;
}

/* The first console goes to port 0, the only one that simple drivers know. */
static bool choose_nr(VirtSerialPort *port, VirtioSerial *s, GError **errp)
{
    bool console = VIRT_SERIAL_PORT_GET_CLASS(port)->is_console;

    if (port->nr != UINT32_MAX) {
        return check_nr(port, s, errp);
    }
    for (uint32_t nr = console && !s->ports[0] ? 0 : 1; nr < s->max_ports; nr++) {
        if (!s->ports[nr]) {
            port->nr = nr;
            return true;
        }
    }
    error_set(errp, "the bus '%s' has no port free: max_ports is %u%s", OBJECT(s->bus)->name,
              s->max_ports, console ? "" : ", of which port 0 is for a virtconsole");
    return false;
}

static bool check_name(VirtSerialPort *port, VirtioSerial *s, GError **errp)
{
    if (!port->name || !*port->name) {
        return true;
    }
    if (strlen(port->name) > SERIAL_NAME_MAX) {
        error_set(errp, "name=%s: at most %d bytes", port->name, SERIAL_NAME_MAX);
        return false;
    }
    for (uint32_t nr = 0; nr < s->max_ports; nr++) {
        if (s->ports[nr] && g_strcmp0(s->ports[nr]->name, port->name) == 0) {
            error_set(errp, "name=%s: port %u of the bus '%s' has that name", port->name, nr,
                      OBJECT(s->bus)->name);
            return false;
        }
    }
    return true;
}

static bool connect_chardev(VirtSerialPort *port, GError **errp)
{
    static const ChardevHandlers handlers = { .can_receive = port_can_receive,
                                              .receive = port_receive,
                                              .event = port_event };
    Chardev *chr;

    if (!port->chardev || !*port->chardev) {
        return true;
    }
    chr = chardev_get(DEVICE(port)->machine->chardevs, port->chardev, errp);
    if (!chr || !chardev_set_handlers(chr, &handlers, port, errp)) {
        return false;
    }
    port->chr = g_object_ref(chr);
    if (!VIRT_SERIAL_PORT_GET_CLASS(port)->is_console) {
        chardev_set_frontend_open(chr, false);
    }
    return true;
}

static bool virt_serial_port_realize(Device *dev, GError **errp)
{
    VirtSerialPort *port = VIRT_SERIAL_PORT(dev);
    VirtioSerial *s = VIRTIO_SERIAL(dev->bus->owner);

    if (!choose_nr(port, s, errp) || !check_name(port, s, errp)) {
        return false;
    }
    port->serial = s;
    if (!connect_chardev(port, errp)) {
        return false;
    }
    virtio_lock(VIRTIO_DEVICE(s));
    s->ports[port->nr] = port;
    serial_refresh_port(port);
    serial_announce_port(s, port->nr);
    virtio_unlock(VIRTIO_DEVICE(s));
    return true;
}

static void disconnect_chardev(VirtSerialPort *port)
{
    if (port->chr) {
        chardev_set_handlers(port->chr, NULL, NULL, NULL);
        g_clear_object(&port->chr);
    }
}

static void virt_serial_port_unrealize(Device *dev)
{
    VirtSerialPort *port = VIRT_SERIAL_PORT(dev);
    VirtioSerial *s = port->serial;

    disconnect_chardev(port);
    virtio_lock(VIRTIO_DEVICE(s));
    if (s->state[port->nr].guest_open) {
        serial_set_guest_open(s, port->nr, false);
    }
    s->ports[port->nr] = NULL;
    serial_withdraw_port(s, port->nr);
    virtio_unlock(VIRTIO_DEVICE(s));
}

static void virt_serial_port_finalize(GObject *gobj)
{
    disconnect_chardev(VIRT_SERIAL_PORT(gobj));
    G_OBJECT_CLASS(virt_serial_port_parent_class)->finalize(gobj);
}

static const QomProperty virt_serial_port_properties[] = {
    { .name = "nr",
      .kind = QOM_UINT32,
      .offset = offsetof(VirtSerialPort, nr),
      .def = UINT32_MAX,
      .description = "number of the port (default: the first free one); 0 is for a virtconsole" },
    { .name = "name",
      .kind = QOM_STRING,
      .offset = offsetof(VirtSerialPort, name),
      .description = "by which programs in the guest find it: /dev/virtio-ports/NAME" },
    { .name = "chardev",
      .kind = QOM_STRING,
      .offset = offsetof(VirtSerialPort, chardev),
      .description = "id of the character device at the other end" },
    QOM_PROPERTY_END,
};

static void virt_serial_port_init(VirtSerialPort *port)
{
}

static void virt_serial_port_class_init(VirtSerialPortClass *klass)
{
    DeviceClass *dc = DEVICE_CLASS(klass);

    G_OBJECT_CLASS(klass)->finalize = virt_serial_port_finalize;
    qom_class_install(klass, virt_serial_port_properties);
    dc->realize = virt_serial_port_realize;
    dc->unrealize = virt_serial_port_unrealize;
    dc->bus_type = "virtio-serial-bus";
    dc->desc = "port of a virtio-serial device";
    dc->user_creatable = true;
    dc->hotpluggable = true;
}

static void virt_console_init(VirtConsole *console)
{
}

static void virt_console_class_init(VirtConsoleClass *klass)
{
    VIRT_SERIAL_PORT_CLASS(klass)->is_console = true;
    DEVICE_CLASS(klass)->desc = "console of a virtio-serial device";
}
