/*
 * Inside of virtio-serial: what serial.c, serial-control.c and serial-port.c share.
 *
 * What is saved of a port is in the device, not in the port device. No buffer of a queue is kept across a
 * wait: one that the chardev has taken in part goes back into the queue, and how much of it was taken is remembered.
 *
 * All functions want the virtio device's lock held unless they say otherwise.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_VIRTIO_SERIAL_INTERNAL_H
#define COWBIRD_HW_VIRTIO_SERIAL_INTERNAL_H

#include "chardev/chardev.h"
#include "hw/virtio/serial.h"
#include "hw/virtio/virtqueue.h"
#include "util/log.h"

#define SERIAL_PORTS_MAX (VIRTIO_QUEUE_MAX / 2 - 1) /* two queues each, and two for control */
#define SERIAL_NAME_MAX 255                         /* bytes of a port's name */

/* Features, as bit numbers (5.3.3). */
enum {
    VIRTIO_CONSOLE_F_SIZE = 0,
    VIRTIO_CONSOLE_F_MULTIPORT = 1,
    VIRTIO_CONSOLE_F_EMERG_WRITE = 2,
};

/* Events of control messages (5.3.6.2). */
enum {
    VIRTIO_CONSOLE_DEVICE_READY = 0,
    VIRTIO_CONSOLE_DEVICE_ADD = 1,
    VIRTIO_CONSOLE_DEVICE_REMOVE = 2,
    VIRTIO_CONSOLE_PORT_READY = 3,
    VIRTIO_CONSOLE_CONSOLE_PORT = 4,
    VIRTIO_CONSOLE_RESIZE = 5,
    VIRTIO_CONSOLE_PORT_OPEN = 6,
    VIRTIO_CONSOLE_PORT_NAME = 7,
};

/* What is saved of a port. */
typedef struct SerialPortState {
    bool plugged;      /* there is a port device; otherwise only a DEVICE_REMOVE may be left */
    bool added;        /* the driver was told DEVICE_ADD, and not DEVICE_REMOVE since */
    bool ready;        /* the driver has answered PORT_READY */
    bool guest_open;   /* somebody in the guest has it open */
    bool told_open;    /* what the driver was told last about the other side */
    uint8_t todo;      /* messages that wait for a buffer: 1 << VIRTIO_CONSOLE_... */
    uint64_t consumed; /* bytes of the first buffer of the transmit queue that the chardev has */
} SerialPortState;

struct _VirtioSerial {
    VirtioDevice parent_instance;
    uint32_t max_ports;
    bool emergency_write;
    Bus *bus;
    VirtQueue *control_in, *control_out;
    VirtQueue *rx[SERIAL_PORTS_MAX], *tx[SERIAL_PORTS_MAX];
    VirtSerialPort *ports[SERIAL_PORTS_MAX];
    LogLimit complaints;
    /* Saved. */
    bool driver_ready; /* it has said DEVICE_READY */
    uint32_t n_states; /* max_ports */
    SerialPortState state[SERIAL_PORTS_MAX];
};

struct _VirtSerialPort {
    Device parent_instance;
    uint32_t nr; /* UINT32_MAX: the first free one */
    char *name, *chardev;
    Chardev *chr;         /* a reference; NULL: none, bytes go nowhere */
    VirtioSerial *serial; /* NULL while not plugged */
    bool host_open;       /* somebody is at the other side of the chardev */
    bool blocked;         /* the chardev takes nothing until it says so */
};

/* The driver has negotiated it: else there is port 0 only, without messages. */
static inline bool serial_is_multiport(VirtioSerial *s)
{
    return virtio_has_feature(VIRTIO_DEVICE(s), VIRTIO_CONSOLE_F_MULTIPORT);
}

/* Logs what the driver did wrong, not more than a few times a second. */
#define serial_complain(s, fmt, ...)                                                            \
    do {                                                                                        \
        if (log_enabled(LOG_GUEST_ERROR) && log_limit_pass(&(s)->complaints)) {                 \
            log_write(LOG_GUEST_ERROR, "%s: " fmt, virtio_name(VIRTIO_DEVICE(s)), __VA_ARGS__); \
        }                                                                                       \
    } while (0)

/* serial.c */

/* Port of the number if it is one and a device is plugged in there, else NULL. */
VirtSerialPort *serial_find_port(VirtioSerial *s, uint32_t nr);

/* serial-control.c */

/* Handler of the queue that the driver sends messages by. */
void serial_handle_control(VirtioDevice *dev, VirtQueue *vq);
/* Sends what is to be said, as far as the driver has given buffers. */
void serial_send_control(VirtioSerial *s);
/* A port came or goes; its state is set up or, but for a DEVICE_REMOVE, cleared. */
void serial_announce_port(VirtioSerial *s, uint32_t nr);
void serial_withdraw_port(VirtioSerial *s, uint32_t nr);

/* serial-port.c; the port may be NULL */

/* Takes buffers from the transmit queue of port nr while its chardev takes bytes. */
void serial_transmit(VirtioSerial *s, uint32_t nr);
/* The guest may take bytes now where it could not. */
void serial_accept_input(VirtSerialPort *port);
/* The guest opened or closed it: told to the chardev and to management. */
void serial_set_guest_open(VirtioSerial *s, uint32_t nr, bool open);
/* After a reset or a restore: what is known of the chardev anew. */
void serial_refresh_port(VirtSerialPort *port);

#endif
