/*
 * Tests of what all virtio devices share: status, features, configuration, registers of queues, rest and saved state.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "virtio-fixture.h"

#include <unistd.h>

#define ALL_OK                                                                      \
    (VIRTIO_STATUS_ACKNOWLEDGE | VIRTIO_STATUS_DRIVER | VIRTIO_STATUS_FEATURES_OK | \
     VIRTIO_STATUS_DRIVER_OK)

typedef struct Fixture {
    Board *b;
    TestVirtio *t;
    VirtioDevice *dev;
    VirtQueue *vq;
} Fixture;

static TestVirtio *plugged(Board *b, const char *name)
{
    TestVirtio *t = test_virtio_new(b, name);

    VIRTIO_DEVICE(t)->packed = true;
    test_virtio_plug(t);
    return t;
}

static void set_up(Fixture *f, gconstpointer data)
{
    f->b = board_new(TEST_RAM, NULL);
    f->t = plugged(f->b, "virtio-backend");
    f->dev = VIRTIO_DEVICE(f->t);
    f->vq = f->dev->queues[0];
}

static void tear_down(Fixture *f, gconstpointer data)
{
    DEVICE_GET_CLASS(f->t)->unrealize(DEVICE(f->t));
    board_free(f->b);
}

static void run(Fixture *f)
{
    g_assert_true(runstate_start(f->b->m->runstate, NULL));
}

static void stop(Fixture *f)
{
    runstate_stop(f->b->m->runstate, RUN_STATE_PAUSED);
}

/* A running driver with queue 0; each buffer it makes available is descriptor 0. */
static void start_driver(Fixture *f, uint64_t features)
{
    test_virtio_negotiate(f->t, features);
    test_virtio_enable(f->b, f->t, TEST_QUEUE_SIZE);
    put_desc(f->b, RING_DESC, DATA, 16, 0, 0);
    test_virtio_start(f->t);
    f->t->notified = f->t->handled = f->t->config_notified = 0;
}

static void make_available(Fixture *f)
{
    ram_put16(f->b, RING_DRIVER + 2, (uint16_t)(ram_get16(f->b, RING_DRIVER + 2) + 1));
}

/* --- Handlers --- */

static void use_all(TestVirtio *t, VirtQueue *vq)
{
    VirtElement *e;

    while ((e = virtqueue_pop(vq))) {
        virtqueue_push(vq, e, 0);
    }
    virtqueue_flush(vq);
}

static void hold_one(TestVirtio *t, VirtQueue *vq)
{
    if (!t->held) {
        t->held = virtqueue_pop(vq);
    }
}

/* A driver on another vCPU that makes buffers available as fast as they are used. */
static Board *refilled;

static void use_refilled(TestVirtio *t, VirtQueue *vq)
{
    VirtElement *e;

    if (virtqueue_index(vq) != 0) {
        return;
    }
    while ((e = virtqueue_pop(vq))) {
        t->value++;
        virtqueue_push(vq, e, 0);
        virtqueue_flush(vq);
        ram_put16(refilled, RING_DRIVER + 2, (uint16_t)(ram_get16(refilled, RING_DRIVER + 2) + 1));
    }
}

/* --- Status, features, configuration --- */

static void test_features(Fixture *f, gconstpointer data)
{
    VirtioDevice *dev = f->dev;
    uint64_t offered = virtio_offered_features(dev, false);
    uint64_t legacy = virtio_offered_features(dev, true);

    g_assert_true(offered & VIRTIO_FEATURE(VIRTIO_F_VERSION_1));
    g_assert_true(offered & VIRTIO_FEATURE(VIRTIO_F_RING_PACKED));
    g_assert_false(offered & VIRTIO_FEATURE(VIRTIO_F_NOTIFY_ON_EMPTY));
    g_assert_cmphex(legacy >> 32, ==, 0);
    g_assert_true(legacy & VIRTIO_FEATURE(VIRTIO_F_NOTIFY_ON_EMPTY));
    /* Without VERSION_1 the combination cannot be served. */
    virtio_set_status(dev, 3);
    virtio_set_features(dev, VIRTIO_FEATURE(VIRTIO_F_EVENT_IDX));
    virtio_set_status(dev, 3 | VIRTIO_STATUS_FEATURES_OK);
    g_assert_cmphex(dev->status, ==, 3);
    g_assert_cmpuint(f->t->features_taken, ==, 0);
    /* What is not offered is dropped. */
    virtio_set_features(dev, UINT64_MAX);
    virtio_set_status(dev, 3 | VIRTIO_STATUS_FEATURES_OK);
    g_assert_cmphex(dev->status, ==, 3 | VIRTIO_STATUS_FEATURES_OK);
    g_assert_cmphex(dev->guest_features, ==, offered);
    g_assert_cmpuint(f->t->features_taken, ==, 1);
    /* Then they are final, and bits of the status stay. */
    virtio_set_features(dev, 0);
    g_assert_cmphex(dev->guest_features, ==, offered);
    virtio_set_status(dev, VIRTIO_STATUS_DRIVER_OK);
    g_assert_cmphex(dev->status, ==, ALL_OK);
    virtio_set_status(dev, 0);
    g_assert_cmphex(dev->status | dev->guest_features, ==, 0);
}

static void test_driver_ok_alone(Fixture *f, gconstpointer data)
{
    virtio_set_status(f->dev, 3 | VIRTIO_STATUS_DRIVER_OK | VIRTIO_STATUS_NEEDS_RESET);
    g_assert_cmphex(f->dev->status, ==, 3);
}

static void test_config(Fixture *f, gconstpointer data)
{
    uint8_t buf[8];

    memcpy(f->t->config, "ABCDEFGH", 8);
    virtio_config_read(f->dev, 2, buf, 4);
    g_assert_cmpmem(buf, 4, "CDEF", 4);
    virtio_config_read(f->dev, 6, buf, 4);
    g_assert_cmpmem(buf, 4, "GH\0\0", 4);
    virtio_config_read(f->dev, UINT_MAX, buf, 8);
    g_assert_cmpmem(buf, 8, "\0\0\0\0\0\0\0\0", 8);
    virtio_config_write(f->dev, 7, "xyz", 3);
    virtio_config_write(f->dev, 8, "xyz", 3);
    virtio_config_write(f->dev, UINT_MAX - 1, "xyz", 3);
    g_assert_cmpmem(f->t->config, 8, "ABCDEFGx", 8);

    virtio_config_changed(f->dev);
    g_assert_cmpuint(f->dev->config_generation, ==, 1);
    g_assert_cmpuint(f->t->config_notified, ==, 0);
    test_virtio_negotiate(f->t, 0);
    test_virtio_start(f->t);
    virtio_config_changed(f->dev);
    g_assert_cmpuint(f->dev->config_generation, ==, 2);
    g_assert_cmpuint(f->t->config_notified, ==, 1);
}

/* --- Registers of queues --- */

typedef struct BadRegisters {
    const char *name;
    unsigned size;
    uint64_t desc, driver, device;
    bool packed;
} BadRegisters;

static const BadRegisters bad_registers[] = {
    { "size-0", 0, RING_DESC, RING_DRIVER, RING_DEVICE },
    { "size-large", 32, RING_DESC, RING_DRIVER, RING_DEVICE },
    { "size-huge", 0x10000, RING_DESC, RING_DRIVER, RING_DEVICE },
    { "size-odd", 12, RING_DESC, RING_DRIVER, RING_DEVICE },
    { "desc-align", 16, RING_DESC + 8, RING_DRIVER, RING_DEVICE },
    { "driver-align", 16, RING_DESC, RING_DRIVER + 1, RING_DEVICE },
    { "device-align", 16, RING_DESC, RING_DRIVER, RING_DEVICE + 2 },
    { "desc-wraps", 16, UINT64_MAX - 15, RING_DRIVER, RING_DEVICE },
    { "driver-wraps", 16, RING_DESC, UINT64_MAX - 1, RING_DEVICE },
    { "device-wraps", 16, RING_DESC, RING_DRIVER, UINT64_MAX - 3 },
    { "desc-end-of-ram", 16, TEST_RAM - 16, RING_DRIVER, RING_DEVICE },
    { "driver-not-ram", 16, RING_DESC, 0xfee00000, RING_DEVICE },
    { "device-in-rom", 16, RING_DESC, RING_DRIVER, 0xfffff000 },
    { "packed-size-0", 0, RING_DESC, RING_DRIVER, RING_DEVICE, true },
    { "packed-driver-align", 10, RING_DESC, RING_DRIVER + 2, RING_DEVICE, true },
    { "packed-device-wraps", 10, RING_DESC, RING_DRIVER, UINT64_MAX - 1, true },
};

static void test_bad_registers(Fixture *f, gconstpointer data)
{
    const BadRegisters *c = data;

    run(f);
    test_virtio_negotiate(f->t, c->packed ? VIRTIO_FEATURE(VIRTIO_F_RING_PACKED) : 0);
    virtqueue_set_size(f->vq, c->size);
    virtqueue_set_addresses(f->vq, c->desc, c->driver, c->device);
    virtqueue_set_enabled(f->vq, true);
    test_virtio_start(f->t);
    g_assert_true(f->dev->broken);
    g_assert_false(virtqueue_enabled(f->vq));
    g_assert_true(f->dev->status & VIRTIO_STATUS_NEEDS_RESET);
    virtio_kick(f->dev, 0);
    virtio_kick(f->dev, 12345);
    g_assert_cmpuint(f->t->handled, ==, 0);
    virtio_set_status(f->dev, 0);
    run(f);
    start_driver(f, 0);
    virtio_kick(f->dev, 0);
    g_assert_cmpuint(f->t->handled, ==, 1);
}

static void test_enabled_twice(Fixture *f, gconstpointer data)
{
    start_driver(f, 0);
    g_assert_true(virtqueue_ready(f->vq));
    virtqueue_set_enabled(f->vq, true);
    g_assert_true(f->dev->broken);
    g_assert_cmpuint(f->t->config_notified, ==, 1);
    g_assert_false(virtqueue_ready(f->vq));
}

static void test_change_enabled(Fixture *f, gconstpointer data)
{
    start_driver(f, 0);
    virtqueue_set_size(f->vq, 8);
    g_assert_cmpuint(virtqueue_size(f->vq), ==, TEST_QUEUE_SIZE);
    g_assert_true(f->dev->broken);
    start_driver(f, 0);
    virtqueue_set_addresses(f->vq, 0, 0, 0);
    g_assert_true(f->dev->broken);
    start_driver(f, 0);
    virtqueue_set_pfn(f->vq, 0x300);
    g_assert_true(f->dev->broken);
}

static void test_legacy(Fixture *f, gconstpointer data)
{
    uint64_t desc, driver, device;

    run(f);
    f->t->on_queue = use_all;
    f->dev->legacy = true;
    virtio_set_features(f->dev, VIRTIO_FEATURE(VIRTIO_F_NOTIFY_ON_EMPTY));
    g_assert_cmpuint(f->t->features_taken, ==, 1);
    g_assert_true(guest_fill(f->b->m->memory, RING_DESC, 0, 0x3000));
    virtqueue_set_pfn(f->vq, RING_DESC >> 12);
    virtqueue_get_addresses(f->vq, &desc, &driver, &device);
    g_assert_cmphex(desc, ==, RING_DESC);
    g_assert_cmphex(driver, ==, RING_DESC + 16 * TEST_QUEUE_SIZE);
    g_assert_cmphex(device, ==, RING_DESC + 0x1000);
    /* No DRIVER_OK, and no interrupts wanted; that the queue is empty is told all the same. */
    put_desc(f->b, RING_DESC, DATA, 16, 0, 0);
    ram_put16(f->b, driver, 1);
    ram_put16(f->b, driver + 2, 2);
    virtio_kick(f->dev, 0);
    g_assert_cmpuint(ram_get16(f->b, device + 2), ==, 2);
    g_assert_cmpuint(f->t->notified, ==, 1);
    /* A mistake stops the device; legacy drivers know no NEEDS_RESET. */
    ram_put16(f->b, driver + 2, 100);
    virtio_kick(f->dev, 0);
    g_assert_true(f->dev->broken);
    g_assert_cmphex(f->dev->status, ==, 0);
    virtio_set_status(f->dev, 0);
    g_assert_false(f->dev->legacy);
    f->dev->legacy = true;
    virtqueue_set_pfn(f->vq, RING_DESC >> 12);
    virtqueue_set_pfn(f->vq, 0);
    g_assert_false(virtqueue_enabled(f->vq));
    virtqueue_set_pfn(f->vq, 0xffffffff);
    g_assert_true(f->dev->broken);
}

/* Found by fuzzing: a mixture of both interfaces was saved, and refused when it was loaded. */
static void test_legacy_after_modern(Fixture *f, gconstpointer data)
{
    uint64_t features;

    run(f);
    start_driver(f, 0);
    features = f->dev->guest_features;
    virtio_use_legacy(f->dev);
    g_assert_false(f->dev->legacy);
    g_assert_cmphex(f->dev->guest_features, ==, features);
    virtio_set_status(f->dev, 0);
    virtio_set_features(f->dev, VIRTIO_FEATURE(VIRTIO_F_VERSION_1));
    virtio_use_legacy(f->dev);
    g_assert_true(f->dev->legacy);
    g_assert_cmphex(f->dev->guest_features, ==, 0);
}

/* --- Doorbells and rest --- */

static void test_driver_ok(Fixture *f, gconstpointer data)
{
    run(f);
    f->t->on_queue = use_all;
    test_virtio_negotiate(f->t, 0);
    test_virtio_enable(f->b, f->t, TEST_QUEUE_SIZE);
    put_desc(f->b, RING_DESC, DATA, 16, 0, 0);
    make_available(f);
    virtio_kick(f->dev, 0);
    g_assert_cmpuint(ram_get16(f->b, RING_DEVICE + 2), ==, 0);
    test_virtio_start(f->t);
    g_assert_cmpuint(ram_get16(f->b, RING_DEVICE + 2), ==, 1);
}

static void test_notifier(Fixture *f, gconstpointer data)
{
    uint64_t one = 1;
    int fd;

    run(f);
    f->t->on_queue = use_all;
    start_driver(f, 0);
    fd = virtqueue_host_notifier(f->vq, NULL);
    g_assert_cmpint(fd, >=, 0);
    g_assert_cmpint(virtqueue_host_notifier(f->vq, NULL), ==, fd);
    make_available(f);
    g_assert_cmpint(write(fd, &one, 8), ==, 8);
    board_settle(f->b);
    g_assert_cmpuint(ram_get16(f->b, RING_DEVICE + 2), ==, 1);
    g_assert_cmpuint(f->t->handled, ==, 1);
}

static void test_budget(Fixture *f, gconstpointer data)
{
    run(f);
    f->t->on_queue = use_refilled;
    refilled = f->b;
    start_driver(f, 0);
    make_available(f);
    virtio_kick(f->dev, 0);
    g_assert_cmpuint(f->t->value, ==, VIRTQUEUE_BUDGET);
    for (unsigned i = 2; i < 5; i++) {
        g_assert_true(g_main_context_iteration(NULL, FALSE));
        g_assert_cmpuint(f->t->value, ==, i * VIRTQUEUE_BUDGET);
    }
    g_assert_false(f->dev->broken);
    virtio_set_status(f->dev, 0);
    board_settle(f->b);
}

/* In a stopped VM nothing is handled and RAM stays as it is; the doorbell counts when it runs again. */
static void test_rest(Fixture *f, gconstpointer data)
{
    uint64_t one = 1;

    run(f);
    f->t->on_queue = hold_one;
    start_driver(f, 0);
    make_available(f);
    virtio_kick(f->dev, 0);
    g_assert_nonnull(f->t->held);
    stop(f);
    g_assert_cmpuint(f->t->drained, ==, 1);
    g_assert_false(virtio_is_active(f->dev));
    g_assert_cmpuint(ram_get16(f->b, RING_DEVICE + 2), ==, 1);
    f->t->on_queue = use_all;
    f->t->handled = 0;
    make_available(f);
    virtio_kick(f->dev, 0);
    g_assert_cmpint(write(virtqueue_host_notifier(f->vq, NULL), &one, 8), ==, 8);
    virtio_queue_schedule(f->vq);
    board_settle(f->b);
    g_assert_cmpuint(f->t->handled, ==, 0);
    g_assert_null(virtqueue_pop(f->vq));
    g_assert_cmpuint(ram_get16(f->b, RING_DEVICE + 2), ==, 1);
    f->t->resumed = 0;
    run(f);
    g_assert_cmpuint(f->t->resumed, ==, 1);
    g_assert_cmpuint(f->t->handled, ==, 1);
    g_assert_cmpuint(ram_get16(f->b, RING_DEVICE + 2), ==, 2);
}

/* What is pushed while the VM is stopped is shown when it runs. */
static void test_push_at_rest(Fixture *f, gconstpointer data)
{
    VirtElement *e;

    run(f);
    start_driver(f, 0);
    make_available(f);
    e = virtqueue_pop(f->vq);
    stop(f);
    virtqueue_push(f->vq, e, 0);
    virtqueue_flush(f->vq);
    g_assert_cmpuint(ram_get16(f->b, RING_DEVICE + 2), ==, 0);
    g_assert_cmpuint(f->t->notified, ==, 0);
    run(f);
    g_assert_cmpuint(ram_get16(f->b, RING_DEVICE + 2), ==, 1);
    g_assert_cmpuint(f->t->notified, ==, 1);
}

static void test_dma(Fixture *f, gconstpointer data)
{
    run(f);
    f->t->on_queue = use_all;
    start_driver(f, 0);
    virtio_set_dma_allowed(f->dev, false);
    make_available(f);
    virtio_kick(f->dev, 0);
    g_assert_cmpuint(ram_get16(f->b, RING_DEVICE + 2), ==, 0);
    stop(f);
    virtio_set_dma_allowed(f->dev, true);
    g_assert_false(virtio_is_active(f->dev));
    virtio_set_dma_allowed(f->dev, false);
    run(f);
    g_assert_false(virtio_is_active(f->dev));
    virtio_set_dma_allowed(f->dev, true);
    g_assert_cmpuint(ram_get16(f->b, RING_DEVICE + 2), ==, 1);
}

static void test_queue_reset(Fixture *f, gconstpointer data)
{
    run(f);
    start_driver(f, VIRTIO_FEATURE(VIRTIO_F_RING_RESET));
    make_available(f);
    g_assert_nonnull(virtqueue_pop(f->vq));
    virtqueue_reset(f->vq);
    g_assert_false(virtqueue_enabled(f->vq));
    test_virtio_enable(f->b, f->t, 8);
    g_assert_true(virtqueue_ready(f->vq));
    put_desc(f->b, RING_DESC, DATA, 16, 0, 0);
    make_available(f);
    g_assert_nonnull(virtqueue_pop(f->vq));
    g_assert_false(f->dev->broken);
}

/* --- Saved state --- */

static GByteArray *save(Fixture *f)
{
    GByteArray *bytes = g_byte_array_new();
    json_object *text;

    vmstate_save(bytes, &vmstate_virtio_device, f->dev);
    text = vmstate_describe(&vmstate_virtio_device, f->dev);
    g_assert_nonnull(strstr(json_object_to_json_string(text), "test-virtio"));
    json_object_put(text);
    return bytes;
}

static bool load(TestVirtio *t, const uint8_t *data, size_t len, GError **errp)
{
    ByteReader in = byte_reader_init(data, len);

    return vmstate_load(&in, &vmstate_virtio_device, t, 1, errp);
}

/* Uses n buffers of queue 0. */
static void use(Fixture *f, unsigned n)
{
    while (n-- > 0) {
        make_available(f);
        virtio_kick(f->dev, 0);
    }
}

static void test_round_trip(Fixture *f, gconstpointer data)
{
    g_autoptr(GByteArray) bytes = NULL;
    g_autoptr(GError) err = NULL;
    TestVirtio *other = plugged(f->b, "other");
    VirtioDevice *dev = VIRTIO_DEVICE(other);

    other->on_queue = f->t->on_queue = use_all;
    run(f);
    start_driver(f, VIRTIO_FEATURE(VIRTIO_F_EVENT_IDX));
    virtqueue_set_vector(f->vq, 3);
    f->t->value = 4711;
    use(f, 65530);
    make_available(f);
    stop(f);
    bytes = save(f);
    g_assert_true(load(other, bytes->data, bytes->len, &err));
    g_assert_no_error(err);
    g_assert_cmphex(dev->status, ==, ALL_OK);
    g_assert_cmphex(dev->guest_features, ==, f->dev->guest_features);
    g_assert_cmpuint(other->features_taken, ==, 1);
    g_assert_cmpuint(other->value, ==, 4711);
    g_assert_cmpuint(virtqueue_vector(dev->queues[0]), ==, 3);
    g_assert_cmpuint(virtqueue_vector(dev->queues[1]), ==, VIRTIO_NO_VECTOR);
    g_assert_true(virtqueue_enabled(dev->queues[0]));
    /* The other one goes on where this one was, with the buffer that was not used yet. */
    virtio_reset(f->dev);
    run(f);
    g_assert_cmpuint(ram_get16(f->b, RING_DEVICE + 2), ==, 65531);
    ram_put16(f->b, RING_DRIVER + 2, 2);
    virtio_kick(dev, 0);
    g_assert_cmpuint(ram_get16(f->b, RING_DEVICE + 2), ==, 2);
    g_assert_false(dev->broken);
    DEVICE_GET_CLASS(other)->unrealize(DEVICE(other));
}

static void test_round_trip_packed(Fixture *f, gconstpointer data)
{
    g_autoptr(GByteArray) bytes = NULL;
    TestVirtio *other = plugged(f->b, "other");

    other->on_queue = f->t->on_queue = use_all;
    run(f);
    start_driver(f, VIRTIO_FEATURE(VIRTIO_F_RING_PACKED));
    for (unsigned i = 0; i < TEST_QUEUE_SIZE + 3; i++) {
        put_desc(f->b, RING_DESC + 16 * (uint64_t)(i % TEST_QUEUE_SIZE), DATA, 16, 7,
                 i < TEST_QUEUE_SIZE ? 0x80 : 0x8000);
        virtio_kick(f->dev, 0);
    }
    stop(f);
    bytes = save(f);
    g_assert_true(load(other, bytes->data, bytes->len, NULL));
    virtio_reset(f->dev);
    run(f);
    put_desc(f->b, RING_DESC + 16 * 3, DATA, 16, 7, 0x8000);
    virtio_kick(VIRTIO_DEVICE(other), 0);
    g_assert_cmphex(ram_get16(f->b, RING_DESC + 16 * 3 + 14), ==, 0);
    DEVICE_GET_CLASS(other)->unrealize(DEVICE(other));
}

/* A saved state that another program made up: whatever loads leaves a device that can be used and reset. */
static void test_hostile(Fixture *f, gconstpointer data)
{
    g_autoptr(GByteArray) good = NULL;
    TestVirtio *other = plugged(f->b, "other");
    VirtioDevice *dev = VIRTIO_DEVICE(other);
    unsigned loaded = 0;

    other->on_queue = use_all;
    start_driver(f, data ? VIRTIO_FEATURE(VIRTIO_F_RING_PACKED) : 0);
    make_available(f);
    good = save(f);
    for (unsigned i = 0; i < 20000; i++) {
        g_autofree uint8_t *bad = g_memdup2(good->data, good->len);
        unsigned at = (unsigned)g_test_rand_int_range(0, (gint32)good->len);

        for (unsigned n = 0; n < 1 + i % 3; n++) {
            bad[(at + n) % good->len] = (uint8_t)g_test_rand_int();
        }
        if (load(other, bad, i % 5 ? good->len : at, NULL)) {
            loaded++;
        }
        run(f);
        virtio_kick(dev, 0);
        virtio_kick(dev, 1);
        board_settle(f->b);
        stop(f);
        g_assert_true(guest_fill(f->b->m->memory, RING_DEVICE, 0, 0x1000));
        virtio_reset(dev);
    }
    g_assert_cmpuint(loaded, >, 0);
    g_assert_cmpuint(loaded, <, 20000);
    DEVICE_GET_CLASS(other)->unrealize(DEVICE(other));
}

/* A device whose properties differ from those of the saved one says so. */
static void test_other_properties(Fixture *f, gconstpointer data)
{
    g_autoptr(GByteArray) bytes = NULL;
    g_autoptr(GError) err = NULL;
    TestVirtio *other = test_virtio_new(f->b, "other");

    VIRTIO_DEVICE(other)->event_idx = false;
    test_virtio_plug(other);
    start_driver(f, VIRTIO_FEATURE(VIRTIO_F_EVENT_IDX));
    bytes = save(f);
    g_assert_false(load(other, bytes->data, bytes->len, &err));
    g_assert_nonnull(strstr(err->message, "does not offer"));
    DEVICE_GET_CLASS(other)->unrealize(DEVICE(other));
}

#define ADD(path, fn) g_test_add("/virtio-device/" path, Fixture, NULL, set_up, fn, tear_down)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("features", test_features);
    ADD("driver-ok-alone", test_driver_ok_alone);
    ADD("config", test_config);
    ADD("enabled-twice", test_enabled_twice);
    ADD("change-enabled", test_change_enabled);
    ADD("legacy", test_legacy);
    ADD("driver-ok", test_driver_ok);
    ADD("notifier", test_notifier);
    ADD("budget", test_budget);
    ADD("rest", test_rest);
    ADD("push-at-rest", test_push_at_rest);
    ADD("dma", test_dma);
    ADD("queue-reset", test_queue_reset);
    ADD("vmstate", test_round_trip);
    ADD("legacy-after-modern", test_legacy_after_modern);
    ADD("vmstate-packed", test_round_trip_packed);
    ADD("vmstate-other-properties", test_other_properties);
    ADD("vmstate-hostile", test_hostile);
    g_test_add("/virtio-device/vmstate-hostile-packed", Fixture, "packed", set_up, test_hostile,
               tear_down);
    for (unsigned i = 0; i < G_N_ELEMENTS(bad_registers); i++) {
        g_autofree char *path =
            g_strdup_printf("/virtio-device/bad-registers/%s", bad_registers[i].name);

        g_test_add(path, Fixture, &bad_registers[i], set_up, test_bad_registers, tear_down);
    }
    return g_test_run();
}
