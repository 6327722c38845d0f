/*
 * Tests of virtio-serial without a transport: ports plugged and unplugged while a driver runs, saved state that does not fit.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "virtio-fixture.h"

#include "hw/virtio/serial-internal.h"
#include "util/json.h"
#include "util/le.h"

#define QUEUE_AREA 0x4000
#define CONTROL_IN 2
#define CONTROL_OUT 3
#define MULTIPORT (UINT64_C(1) << 1)

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

typedef struct Fixture {
    Board *b;
    VirtioDevice *dev;
    unsigned shown[4]; /* buffers put into each queue */
    unsigned taken;    /* of the control queue's used ring */
} Fixture;

static VirtioDevice *make_device(Board *b, const char *name, const char *max_ports)
{
    Device *dev = device_new(b->m, TYPE_VIRTIO_SERIAL, NULL);
    g_autoptr(GError) err = NULL;

    g_assert_true(object_set_property_str(OBJECT(dev), "max_ports", max_ports, NULL));
    g_assert_true(object_add_child(OBJECT(b->m), name, OBJECT(dev), NULL));
    g_object_unref(dev);
    DEVICE_GET_CLASS(dev)->realize(dev, &err);
    g_assert_no_error(err);
    return VIRTIO_DEVICE(dev);
}

static Device *plug(Fixture *f, const char *options)
{
    g_autoptr(json_object) json = json_tokener_parse(options);
    g_autoptr(GError) err = NULL;
    Device *dev = device_new_from_json(f->b->m, json, &err);

    g_assert_no_error(err);
    return dev;
}

static void set_up(Fixture *f, gconstpointer data)
{
    f->b = board_new(TEST_RAM, NULL);
    f->dev = make_device(f->b, "serial", "4");
    runstate_start(f->b->m->runstate, NULL);
}

static void tear_down(Fixture *f, gconstpointer data)
{
    board_settle(f->b);
    board_free(f->b);
}

/* --- The driver --- */

static uint64_t area(unsigned n)
{
    return RING_DESC + n * QUEUE_AREA;
}

static void start_driver(Fixture *f)
{
    virtio_reset(f->dev);
    virtio_set_status(f->dev, 3);
    virtio_set_features(f->dev, MULTIPORT | VIRTIO_FEATURE(VIRTIO_F_VERSION_1));
    virtio_set_status(f->dev, 11);
    for (unsigned n = CONTROL_IN; n <= CONTROL_OUT; n++) {
        VirtQueue *vq = f->dev->queues[n];

        virtqueue_set_size(vq, 32);
        virtqueue_set_addresses(vq, area(n), area(n) + 0x1000, area(n) + 0x2000);
        virtqueue_set_enabled(vq, true);
    }
    virtio_set_status(f->dev, 15);
}

/* Buffer i of queue n, of 64 bytes. */
static uint64_t buffer(unsigned n, unsigned i)
{
    return area(n) + 0x3000 + i % 32 * 64;
}

static void show_buffer(Fixture *f, unsigned n, uint32_t len)
{
    unsigned i = f->shown[n]++;

    put_desc(f->b, area(n) + i % 32 * 16, buffer(n, i), len, n == CONTROL_IN ? D_WRITE : 0, 0);
    ram_put16(f->b, area(n) + 0x1004 + i % 32 * 2, (uint16_t)(i % 32));
    ram_put16(f->b, area(n) + 0x1002, (uint16_t)f->shown[n]);
    virtio_kick(f->dev, n);
}

static void say(Fixture *f, uint32_t port, uint16_t event, uint16_t value)
{
    uint64_t at = buffer(CONTROL_OUT, f->shown[CONTROL_OUT]);

    ram_put32(f->b, at, port);
    ram_put16(f->b, at + 4, event);
    ram_put16(f->b, at + 6, value);
    show_buffer(f, CONTROL_OUT, 8);
}

/* The next message, for which a buffer is shown now if none was left. */
static void expect(Fixture *f, uint32_t port, uint16_t event)
{
    uint64_t at = buffer(CONTROL_IN, f->taken);

    if (f->taken == f->shown[CONTROL_IN]) {
        show_buffer(f, CONTROL_IN, 64);
    }
    f->taken++;
    g_assert_cmpuint(ram_get16(f->b, area(CONTROL_IN) + 0x2002), ==, f->taken);
    g_assert_cmpuint(ram_get32(f->b, at), ==, port);
    g_assert_cmpuint(ram_get16(f->b, at + 4), ==, event);
}

/* A buffer that is shown stays unused. */
static void expect_nothing(Fixture *f)
{
    if (f->taken == f->shown[CONTROL_IN]) {
        show_buffer(f, CONTROL_IN, 64);
    }
    g_assert_cmpuint(ram_get16(f->b, area(CONTROL_IN) + 0x2002), ==, f->taken);
}

/* --- Tests --- */

static void test_plug(Fixture *f, gconstpointer data)
{
    Device *first;

    start_driver(f);
    first = plug(f, "{\"driver\": \"virtserialport\", \"id\": \"a\", \"name\": \"one\"}");
    expect_nothing(f);
    say(f, 0, DEVICE_READY, 1);
    expect(f, 1, PORT_ADD);
    say(f, 1, PORT_READY, 1);
    expect(f, 1, PORT_NAME);
    plug(f, "{\"driver\": \"virtconsole\", \"id\": \"c\"}");
    expect(f, 0, PORT_ADD);
    say(f, 0, PORT_READY, 1);
    expect(f, 0, CONSOLE_PORT);
    expect_nothing(f);
    device_unplug(first);
    expect(f, 1, PORT_REMOVE);
    expect_nothing(f);
    say(f, 1, PORT_OPEN, 1); /* too late: it is ignored */
    plug(f, "{\"driver\": \"virtserialport\", \"id\": \"b\", \"name\": \"one\"}");
    expect(f, 1, PORT_ADD);
    expect_nothing(f);
}

/* Without buffers only what is true in the end is said. */
static void test_plug_unheard(Fixture *f, gconstpointer data)
{
    Device *dev;

    start_driver(f);
    say(f, 0, DEVICE_READY, 1);
    dev = plug(f, "{\"driver\": \"virtserialport\", \"id\": \"a\"}");
    device_unplug(dev);
    dev = plug(f, "{\"driver\": \"virtserialport\", \"id\": \"a\"}");
    expect(f, 1, PORT_ADD);
    device_unplug(dev);
    dev = plug(f, "{\"driver\": \"virtserialport\", \"id\": \"a\"}");
    device_unplug(dev);
    plug(f, "{\"driver\": \"virtserialport\", \"id\": \"a\"}");
    expect(f, 1, PORT_REMOVE);
    expect(f, 1, PORT_ADD);
    expect_nothing(f);
}

static bool copy_state(VirtioDevice *from, VirtioDevice *to, GError **errp)
{
    const VMStateDescription *state = VIRTIO_DEVICE_GET_CLASS(from)->state;
    g_autoptr(GByteArray) bytes = g_byte_array_new();
    ByteReader reader;

    vmstate_save(bytes, state, from);
    reader = byte_reader_init(bytes->data, bytes->len);
    return vmstate_load(&reader, state, to, state->version_id, errp);
}

static void expect_refusal(VirtioDevice *from, VirtioDevice *to, const char *part)
{
    g_autoptr(GError) err = NULL;

    g_assert_false(copy_state(from, to, &err));
    g_assert_nonnull(strstr(err->message, part));
}

/* The ports have to be those of the saved device. */
static void test_other_ports(Fixture *f, gconstpointer data)
{
    VirtioDevice *wide = make_device(f->b, "wide", "5"), *empty = make_device(f->b, "empty", "4");

    plug(f, "{\"driver\": \"virtserialport\", \"bus\": \"virtio-serial-bus.0\", \"nr\": 2}");
    g_assert_true(copy_state(f->dev, f->dev, NULL));
    expect_refusal(f->dev, wide, "max_ports=4");
    expect_refusal(f->dev, empty, "has a port 2, this one has none");
    expect_refusal(empty, f->dev, "has no port 2, this one has one");
    /* Nothing of that has hurt it. */
    start_driver(f);
    say(f, 0, DEVICE_READY, 1);
    expect(f, 2, PORT_ADD);
}

/* A state that ends too early has opened a port that is not there; the device can be reset. */
static void test_open_port_missing(Fixture *f, gconstpointer data)
{
    const VMStateDescription *state = VIRTIO_DEVICE_GET_CLASS(f->dev)->state;
    g_autoptr(GByteArray) bytes = g_byte_array_new();
    g_autoptr(GError) err = NULL;
    ByteReader reader;

    VIRTIO_SERIAL(f->dev)->state[2].guest_open = true;
    vmstate_save(bytes, state, f->dev);
    VIRTIO_SERIAL(f->dev)->state[2].guest_open = false;
    reader = byte_reader_init(bytes->data, bytes->len - 1);
    g_assert_false(vmstate_load(&reader, state, f->dev, state->version_id, &err));
    g_assert_nonnull(err);
    start_driver(f);
}

/* Whatever the bytes are, the device stays usable after a reset. */
static void test_random_state(Fixture *f, gconstpointer data)
{
    const VMStateDescription *state = VIRTIO_DEVICE_GET_CLASS(f->dev)->state;
    g_autoptr(GByteArray) good = g_byte_array_new();

    plug(f, "{\"driver\": \"virtconsole\", \"id\": \"c\", \"name\": \"con\"}");
    plug(f, "{\"driver\": \"virtserialport\", \"id\": \"a\"}");
    vmstate_save(good, state, f->dev);
    for (int round = 0; round < 2000; round++) {
        g_autofree uint8_t *bytes = g_memdup2(good->data, good->len);
        ByteReader reader = byte_reader_init(bytes, good->len - (round % 5 == 0));

        for (int i = 0; i < 3; i++) {
            bytes[g_test_rand_int_range(0, (gint32)good->len)] =
                (uint8_t)g_test_rand_int_range(0, 256);
        }
        vmstate_load(&reader, state, f->dev, state->version_id, NULL);
        f->shown[CONTROL_IN] = f->shown[CONTROL_OUT] = f->taken = 0;
        g_assert_true(guest_fill(f->b->m->memory, RING_DESC, 0, 4 * QUEUE_AREA));
        start_driver(f);
        say(f, 0, DEVICE_READY, 1);
        expect(f, 0, PORT_ADD);
        expect(f, 1, PORT_ADD);
        expect_nothing(f);
    }
}

#define ADD(path, fn) g_test_add("/virtio-serial/" path, Fixture, NULL, set_up, fn, tear_down)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("plug", test_plug);
    ADD("plug-unheard", test_plug_unheard);
    ADD("other-ports", test_other_ports);
    ADD("open-port-missing", test_open_port_missing);
    ADD("random-state", test_random_state);
    return g_test_run();
}
