/*
 * The virtio console driver of the test guest: ports by name, the control queues, data both ways (virtio 1.2, 5.3).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "tests/guest/commands.h"
#include "tests/guest/guest.h"
#include "tests/guest/virtio.h"

#define MAX_PORTS 4
#define CONTROL_IN 2
#define CONTROL_OUT 3
#define F_MULTIPORT 1
#define CONTROL_BUFFERS 16
#define CONTROL_SIZE 128
#define DATA_BUFFERS 4
#define DATA_SIZE 1024
/* Some ten milliseconds without a message: there are no more. */
#define QUIET_CYCLES 100000000ull

enum {
    DEVICE_READY,
    PORT_ADD,
    PORT_REMOVE,
    PORT_READY,
    CONSOLE_PORT,
    RESIZE,
    PORT_OPEN,
    PORT_NAME
};

typedef struct ControlMessage {
    uint32_t port;
    uint16_t event, value;
} ControlMessage;

static Ring rings[2 * MAX_PORTS + 2] __attribute__((aligned(4096)));
Virtio vserial_device = { .type = 3, .max_rings = 2 * MAX_PORTS + 2, .rings = rings };

static char control_in[CONTROL_BUFFERS][CONTROL_SIZE];
static char data_in[MAX_PORTS][DATA_BUFFERS][DATA_SIZE];
/* What has arrived in the buffer taken last and was not asked for yet. */
static struct {
    uint32_t id, at, length;
} rest[MAX_PORTS];

static unsigned queue_in(uint64_t port)
{
    return port == 0 ? 0 : 2 + 2 * (unsigned)port;
}

static void give_buffers(unsigned queue, char *buffers, unsigned count, unsigned size)
{
    for (unsigned i = 0; i < count; i++) {
        RingDesc desc = { (uintptr_t)(buffers + i * size), size, DESC_WRITE, 0 };

        ring_set_desc(&rings[queue], i, &desc);
        ring_offer(&rings[queue], (uint16_t)i);
    }
    ring_kick(&rings[queue]);
}

static VirtioResult send(unsigned queue, const void *data, uint64_t length)
{
    uint32_t ignored;

    ring_set_desc(&rings[queue], 0, &(RingDesc){ (uintptr_t)data, (uint32_t)length, 0, 0 });
    return ring_do(&vserial_device, queue, &ignored);
}

VirtioResult vserial_send_control(uint32_t port, uint16_t event, uint16_t value)
{
    static ControlMessage message;

    message = (ControlMessage){ port, event, value };
    return send(CONTROL_OUT, &message, sizeof(message));
}

static unsigned port_count(void)
{
    uint32_t most = ((volatile uint32_t *)vserial_device.config)[1];

    if ((vserial_device.features & FEATURE(F_MULTIPORT)) == 0) {
        return 1;
    }
    return most < MAX_PORTS ? most : MAX_PORTS;
}

static VirtioResult start_rings(bool multiport)
{
    VirtioResult result = VIRTIO_DONE;

    for (unsigned port = 0; port < port_count() && result == VIRTIO_DONE; port++) {
        result = ring_start(&vserial_device, queue_in(port));
        if (result == VIRTIO_DONE) {
            result = ring_start(&vserial_device, queue_in(port) + 1);
        }
        rest[port].at = rest[port].length = 0;
    }
    for (unsigned i = CONTROL_IN; multiport && i <= CONTROL_OUT && result == VIRTIO_DONE; i++) {
        result = ring_start(&vserial_device, i);
    }
    return result;
}

static VirtioResult start(uint64_t wanted)
{
    uint64_t known = FEATURES_TRANSPORT | FEATURE(F_MULTIPORT);
    VirtioResult result = virtio_begin(&vserial_device, wanted & known);
    bool multiport = (vserial_device.features & FEATURE(F_MULTIPORT)) != 0;

    if (result == VIRTIO_DONE) {
        result = start_rings(multiport);
    }
    if (result == VIRTIO_DONE) {
        result = virtio_go(&vserial_device);
    }
    if (result != VIRTIO_DONE) {
        return result;
    }
    for (unsigned port = 0; port < port_count(); port++) {
        give_buffers(queue_in(port), data_in[port][0], DATA_BUFFERS, DATA_SIZE);
    }
    if (multiport) {
        give_buffers(CONTROL_IN, control_in[0], CONTROL_BUFFERS, CONTROL_SIZE);
        result = vserial_send_control(UINT32_MAX, DEVICE_READY, 1);
    }
    return result;
}

/* [FEATURES] */
static void run_start(const Command *command, const uint64_t *arguments, unsigned count)
{
    VirtioResult result = start(count > 0 ? arguments[0] : UINT64_MAX);

    serial_put_hex_field("offered", vserial_device.offered);
    serial_put_hex_field("features", vserial_device.features);
    serial_put_field("ports", result == VIRTIO_DONE ? port_count() : 0);
    virtio_print_result(result);
}

/* What Linux answers: a new port is ready, a console is open. */
static void answer_control(const ControlMessage *message)
{
    if (message->event == PORT_ADD) {
        vserial_send_control(message->port, PORT_READY, 1);
    } else if (message->event == CONSOLE_PORT && message->value == 1) {
        vserial_send_control(message->port, PORT_OPEN, 1);
    }
}

static void print_control(uint32_t id, uint32_t length)
{
    ControlMessage *message = (ControlMessage *)control_in[id];
    char *name = control_in[id] + sizeof(*message);

    serial_put("event");
    serial_put_field("port", message->port);
    serial_put_field("event", message->event);
    serial_put_field("value", message->value);
    if (message->event == PORT_NAME && length > sizeof(*message)) {
        name[length - sizeof(*message) < CONTROL_SIZE - sizeof(*message)
                 ? length - sizeof(*message)
                 : CONTROL_SIZE - sizeof(*message) - 1] = '\0';
        serial_put(" ");
        serial_put(name);
    }
    serial_put("\n");
}

/* Prints and answers the control messages that have come */
static void run_events(const Command *command, const uint64_t *arguments, unsigned count)
{
    uint64_t limit = read_tsc() + QUIET_CYCLES;
    uint32_t id, length;

    serial_put(" begin\n");
    while (vserial_device.started && read_tsc() < limit) {
        if (!ring_take(&rings[CONTROL_IN], &id, &length)) {
            __asm__ volatile("pause");
            continue;
        }
        if (id < CONTROL_BUFFERS) {
            print_control(id, length);
            answer_control((ControlMessage *)control_in[id]);
            ring_offer(&rings[CONTROL_IN], (uint16_t)id);
            ring_kick(&rings[CONTROL_IN]);
        }
        limit = read_tsc() + QUIET_CYCLES;
    }
    serial_put("end");
}

/* PORT EVENT VALUE: any control message */
static void run_control(const Command *command, const uint64_t *arguments, unsigned count)
{
    virtio_print_result(vserial_send_control((uint32_t)arguments[0], (uint16_t)arguments[1],
                                             (uint16_t)arguments[2]));
}

/* PORT TEXT */
static void run_write(char *text)
{
    uint64_t port;
    size_t length = 0;

    if (!text_number(text_word(&text), &port) || port >= MAX_PORTS) {
        virtio_print_result(VIRTIO_ABSENT);
        return;
    }
    while (text[length] != '\0') {
        length++;
    }
    virtio_print_result(send(queue_in(port) + 1, text, length));
}

/* PORT ADDRESS LENGTH: one buffer of guest memory */
static void run_send(const Command *command, const uint64_t *arguments, unsigned count)
{
    virtio_print_result(arguments[0] >= MAX_PORTS
                            ? VIRTIO_ABSENT
                            : send(queue_in(arguments[0]) + 1, (void *)arguments[1], arguments[2]));
}

VirtioResult vserial_send(unsigned port, const void *data, uint64_t length)
{
    return port < MAX_PORTS ? send(queue_in(port) + 1, data, length) : VIRTIO_ABSENT;
}

static char take_rest(uint64_t port)
{
    Ring *ring = &rings[queue_in(port)];
    char byte = data_in[port][rest[port].id][rest[port].at++];

    if (rest[port].at == rest[port].length) {
        ring_offer(ring, (uint16_t)rest[port].id);
        ring_kick(ring);
    }
    return byte;
}

bool vserial_take_byte(unsigned port, char *ret_byte)
{
    if (port >= MAX_PORTS || !vserial_device.started) {
        return false;
    }
    if (rest[port].at == rest[port].length) {
        rest[port].at = rest[port].length = 0;
        if (!ring_take(&rings[queue_in(port)], &rest[port].id, &rest[port].length) ||
            rest[port].id >= DATA_BUFFERS || rest[port].length == 0) {
            return false;
        }
    }
    *ret_byte = take_rest(port);
    return true;
}

/* The next byte of a port; waits for it. */
static VirtioResult next_byte(uint64_t port, char *ret_byte)
{
    Ring *ring = &rings[queue_in(port)];
    VirtioResult result = VIRTIO_DONE;

    while (rest[port].at == rest[port].length && result == VIRTIO_DONE) {
        result = ring_wait(&vserial_device, ring, &rest[port].id, &rest[port].length);
        rest[port].at = 0;
    }
    if (result != VIRTIO_DONE || rest[port].id >= DATA_BUFFERS) {
        rest[port].length = rest[port].at = 0;
        return result == VIRTIO_DONE ? VIRTIO_ABSENT : result;
    }
    *ret_byte = take_rest(port);
    return VIRTIO_DONE;
}

/* PORT LENGTH [ADDRESS]: waits for so many bytes, puts them there or prints them */
static void run_read(const Command *command, const uint64_t *arguments, unsigned count)
{
    VirtioResult result =
        arguments[0] < MAX_PORTS && vserial_device.started ? VIRTIO_DONE : VIRTIO_ABSENT;
    char byte[2] = { 0 };

    serial_put(" ");
    for (uint64_t i = 0; i < arguments[1] && result == VIRTIO_DONE; i++) {
        result = next_byte(arguments[0], byte);
        if (result == VIRTIO_DONE && count > 2) {
            ((volatile char *)arguments[2])[i] = byte[0];
        } else if (result == VIRTIO_DONE) {
            serial_put(byte);
        }
    }
    virtio_print_result(result);
}

const Command vserial_commands[] = {
    { "vserial-start", 0, 1, run_start },
    { "vserial-events", 0, 0, run_events },
    { "vserial-control", 3, 3, run_control },
    { "vserial-write", .run_text = run_write },
    { "vserial-send", 3, 3, run_send },
    { "vserial-read", 2, 3, run_read },
    { 0 },
};
