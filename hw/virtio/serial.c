/*
 * virtio-serial: the device, its queues and configuration (virtio 1.2, 5.3).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/virtio/serial-internal.h"

#include "hw/core/machine.h"
#include "util/error.h"
#include "util/le.h"

#define DATA_QUEUE_SIZE 128
#define CONTROL_QUEUE_SIZE 32

/* Configuration space (5.3.4). */
enum { CONFIG_MAX_PORTS = 4, CONFIG_EMERG_WRITE = 8, CONFIG_SIZE = 12 };

struct _VirtioSerialBus {
    Bus parent_instance;
};

QOM_DEFINE_TYPE(VirtioSerialBus, virtio_serial_bus, "virtio-serial-bus", TYPE_BUS)
QOM_DEFINE_TYPE(VirtioSerial, virtio_serial, "virtio-serial-device", TYPE_VIRTIO_DEVICE)

static void virtio_serial_bus_init(VirtioSerialBus *bus)
{
}

static void virtio_serial_bus_class_init(VirtioSerialBusClass *klass)
{
}

VirtSerialPort *serial_find_port(VirtioSerial *s, uint32_t nr)
{
    return nr < s->max_ports ? s->ports[nr] : NULL;
}

/* --- Queues --- */

/* Port 0 has queues 0 and 1, port n > 0 has 2n + 2 and 2n + 3; those between are for control (5.3.2). */
static uint32_t port_of(const VirtQueue *vq)
{
    unsigned pair = virtqueue_index(vq) / 2;

    return pair == 0 ? 0 : pair - 1;
}

static void handle_tx(VirtioDevice *dev, VirtQueue *vq)
{
    serial_transmit(VIRTIO_SERIAL(dev), port_of(vq));
}

static void handle_rx(VirtioDevice *dev, VirtQueue *vq)
{
    serial_accept_input(serial_find_port(VIRTIO_SERIAL(dev), port_of(vq)));
}

static void handle_control_in(VirtioDevice *dev, VirtQueue *vq)
{
    serial_send_control(VIRTIO_SERIAL(dev));
}

static void virtio_serial_resume(VirtioDevice *dev)
{
    VirtioSerial *s = VIRTIO_SERIAL(dev);

    for (uint32_t nr = 0; nr < s->max_ports; nr++) {
        serial_refresh_port(s->ports[nr]);
    }
    serial_send_control(s);
}

/* --- Configuration --- */

static size_t virtio_serial_get_config_size(VirtioDevice *dev)
{
    return VIRTIO_SERIAL(dev)->emergency_write ? CONFIG_SIZE : CONFIG_EMERG_WRITE;
}

static void virtio_serial_get_config(VirtioDevice *dev, uint8_t *config)
{
    memset(config, 0, virtio_serial_get_config_size(dev));
    put_le32(config + CONFIG_MAX_PORTS, VIRTIO_SERIAL(dev)->max_ports);
}

/* A byte for the console from a driver that has no queues (yet): 5.3.5. */
static void virtio_serial_set_config(VirtioDevice *dev, const uint8_t *config)
{
    VirtioSerial *s = VIRTIO_SERIAL(dev);
    VirtSerialPort *port = s->ports[0];
    uint8_t byte;

    if (!s->emergency_write || get_le32(config + CONFIG_EMERG_WRITE) == 0) {
        return;
    }
    byte = config[CONFIG_EMERG_WRITE];
    if (port && port->chr) {
        chardev_write(port->chr, &byte, 1);
    } else {
        serial_complain(s, "emergency write of 0x%02x without a console at port 0", byte);
    }
}

static void reset_port(VirtioSerial *s, uint32_t nr)
{
    SerialPortState *st = &s->state[nr];

    /* A state that was refused may have opened a port that does not exist. */
    if (st->guest_open && s->ports[nr]) {
        serial_set_guest_open(s, nr, false);
    }
    *st = (SerialPortState){ .plugged = s->ports[nr] != NULL };
    serial_refresh_port(s->ports[nr]);
}

static void virtio_serial_queue_reset(VirtioDevice *dev, unsigned n)
{
    VirtioSerial *s = VIRTIO_SERIAL(dev);
    const VirtQueue *vq = dev->queues[n];

    if (vq != s->control_in && vq != s->control_out) {
        s->state[port_of(vq)].consumed = 0;
    }
}

static void virtio_serial_reset(VirtioDevice *dev)
{
    VirtioSerial *s = VIRTIO_SERIAL(dev);

    s->driver_ready = false;
    for (uint32_t nr = 0; nr < s->max_ports; nr++) {
        reset_port(s, nr);
    }
}

/* --- Life --- */

/* "ID.0" after the device that users see; without an id numbered over the machine. */
static char *bus_name(VirtioSerial *s)
{
    Object *parent = OBJECT(s)->parent;
    Machine *machine = DEVICE(s)->machine;
    const char *id = DEVICE(s)->id;

    if (!id && parent && g_type_is_a(G_OBJECT_TYPE(parent), TYPE_DEVICE)) {
        id = DEVICE(parent)->id;
    }
    if (id) {
        return g_strdup_printf("%s.0", id);
    }
    for (unsigned i = 0;; i++) {
        char *name = g_strdup_printf("virtio-serial-bus.%u", i);

        if (!bus_find(OBJECT(machine), name)) {
            return name;
        }
        g_free(name);
    }
}

static void add_queues(VirtioSerial *s)
{
    VirtioDevice *dev = VIRTIO_DEVICE(s);

    for (uint32_t nr = 0; nr < s->max_ports; nr++) {
        s->rx[nr] = virtqueue_add(dev, DATA_QUEUE_SIZE, handle_rx);
        s->tx[nr] = virtqueue_add(dev, DATA_QUEUE_SIZE, handle_tx);
        if (nr == 0) {
            s->control_in = virtqueue_add(dev, CONTROL_QUEUE_SIZE, handle_control_in);
            s->control_out = virtqueue_add(dev, CONTROL_QUEUE_SIZE, serial_handle_control);
        }
    }
}

static bool virtio_serial_realize(VirtioDevice *dev, GError **errp)
{
    VirtioSerial *s = VIRTIO_SERIAL(dev);
    g_autofree char *name = NULL;

    if (s->max_ports == 0 || s->max_ports > SERIAL_PORTS_MAX) {
        error_set(errp, "max_ports=%u: give the number of ports, 1 to %d", s->max_ports,
                  SERIAL_PORTS_MAX);
        s->max_ports = 0;
        return false;
    }
    s->n_states = s->max_ports;
    add_queues(s);
    if (s->max_ports > 1) {
        dev->host_features |= VIRTIO_FEATURE(VIRTIO_CONSOLE_F_MULTIPORT);
    }
    if (s->emergency_write) {
        dev->host_features |= VIRTIO_FEATURE(VIRTIO_CONSOLE_F_EMERG_WRITE);
    }
    name = bus_name(s);
    s->bus = bus_new(TYPE_VIRTIO_SERIAL_BUS, OBJECT(s), name);
    return true;
}

static void virtio_serial_unrealize(VirtioDevice *dev)
{
    object_unparent(OBJECT(VIRTIO_SERIAL(dev)->bus));
}

static void virtio_serial_init(VirtioSerial *s)
{
}

/* --- Saved state --- */

/* Of a port that the saved device had too: what only one of both has would confuse the driver. */
static bool check_port(VirtioSerial *s, uint32_t nr, GError **errp)
{
    SerialPortState *st = &s->state[nr];
    bool saved = st->plugged, here = s->ports[nr] != NULL;

    if (!here) {
        *st = (SerialPortState){ .todo = st->todo & (1u << VIRTIO_CONSOLE_DEVICE_REMOVE) };
    }
    st->plugged = here;
    if (saved != here) {
        error_set(errp, "%s: the saved device has %s port %u, this one has %s",
                  virtio_name(VIRTIO_DEVICE(s)), saved ? "a" : "no", nr, here ? "one" : "none");
    } else if (st->guest_open) {
        serial_set_guest_open(s, nr, true);
    }
    return saved == here;
}

static bool virtio_serial_post_load(void *opaque, int version, GError **errp)
{
    VirtioSerial *s = opaque;
    uint32_t saved = s->n_states;

    s->n_states = s->max_ports;
    if (saved != s->max_ports) {
        error_set(errp, "%s: the saved device has max_ports=%u, this one %u",
                  virtio_name(VIRTIO_DEVICE(s)), saved, s->max_ports);
        return false;
    }
    for (uint32_t nr = 0; nr < s->max_ports; nr++) {
        if (!check_port(s, nr, errp)) {
            return false;
        }
    }
    return true;
}

static const VMStateDescription vmstate_port = {
    .name = "virtio-serial port",
    .version_id = 1,
    .minimum_version_id = 1,
    .fields =
        (const VMStateField[]){
            VMSTATE_BOOL(plugged, SerialPortState), VMSTATE_BOOL(added, SerialPortState),
            VMSTATE_BOOL(ready, SerialPortState), VMSTATE_BOOL(guest_open, SerialPortState),
            VMSTATE_BOOL(told_open, SerialPortState), VMSTATE_UINT8(todo, SerialPortState),
            VMSTATE_UINT64(consumed, SerialPortState), VMSTATE_END_OF_LIST() },
};

/* A state that was refused may have left another number. */
static void virtio_serial_pre_save(void *opaque)
{
    VirtioSerial *s = opaque;

    s->n_states = s->max_ports;
}

static const VMStateDescription vmstate_virtio_serial = {
    .name = "virtio-console",
    .version_id = 1,
    .minimum_version_id = 1,
    .pre_save = virtio_serial_pre_save,
    .post_load = virtio_serial_post_load,
    .fields = (const VMStateField[]){ VMSTATE_BOOL(driver_ready, VirtioSerial),
                                      VMSTATE_UINT32(n_states, VirtioSerial),
                                      VMSTATE_STRUCT_VARRAY_UINT32(state, VirtioSerial, n_states, 1,
                                                                   vmstate_port, SerialPortState),
                                      VMSTATE_END_OF_LIST() },
};

static const QomProperty virtio_serial_properties[] = {
    { .name = "max_ports",
      .kind = QOM_UINT32,
      .offset = offsetof(VirtioSerial, max_ports),
      .def = SERIAL_PORTS_MAX,
      .description = "number of ports, 1 to 31; with 1 the driver sees a plain console" },
    { .name = "emergency-write",
      .kind = QOM_BOOL,
      .offset = offsetof(VirtioSerial, emergency_write),
      .def = true,
      .description = "the guest can send bytes to the console before it has a driver" },
    QOM_PROPERTY_END,
};

static void virtio_serial_class_init(VirtioSerialClass *klass)
{
    VirtioDeviceClass *vc = VIRTIO_DEVICE_CLASS(klass);

    qom_class_install(klass, virtio_serial_properties);
    DEVICE_CLASS(klass)->desc = "serial ports and consoles";
    vc->device_id = VIRTIO_ID_CONSOLE;
    vc->config_size = CONFIG_SIZE;
    vc->get_config_size = virtio_serial_get_config_size;
    vc->get_config = virtio_serial_get_config;
    vc->set_config = virtio_serial_set_config;
    vc->realize = virtio_serial_realize;
    vc->unrealize = virtio_serial_unrealize;
    vc->reset = virtio_serial_reset;
    vc->queue_reset = virtio_serial_queue_reset;
    vc->resume = virtio_serial_resume;
    vc->state = &vmstate_virtio_serial;
}
