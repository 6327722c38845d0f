/*
 * A virtio device that does what a test tells it to, and the driver's side of its queues in guest memory.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_TESTS_UNIT_VIRTIO_FIXTURE_H
#define COWBIRD_TESTS_UNIT_VIRTIO_FIXTURE_H

#include "hw-fixture.h"

#include "hw/core/iothread.h"
#include "hw/virtio/virtqueue.h"

#define TEST_QUEUE_SIZE 16
#define TEST_RAM (UINT64_C(16) << 20)

typedef struct _TestVirtio TestVirtio;
QOM_DECLARE_FINAL_TYPE(TestVirtio, test_virtio, TEST_VIRTIO, VirtioDeviceClass)

struct _TestVirtio {
    VirtioDevice parent_instance;
    void (*on_queue)(TestVirtio *t, VirtQueue *vq); /* NULL: only counted */
    unsigned queue_size;
    unsigned handled, drained, resumed, resets, features_taken;
    unsigned notified, config_notified; /* by the transport below; atomic */
    VirtElement *held;                  /* by what on_queue does */
    GThread *thread;                    /* that the handler ran on last */
    uint32_t value;                     /* saved as the class's own state */
    uint8_t config[8];
};

QOM_DEFINE_TYPE(TestVirtio, test_virtio, "test-virtio-device", TYPE_VIRTIO_DEVICE)

static inline void test_virtio_handle(VirtioDevice *dev, VirtQueue *vq)
{
    TestVirtio *t = TEST_VIRTIO(dev);

    t->thread = g_thread_self();
    if (t->on_queue) {
        t->on_queue(t, vq);
    }
    __atomic_fetch_add(&t->handled, 1, __ATOMIC_SEQ_CST);
}

static inline bool test_virtio_realize(VirtioDevice *dev, GError **errp)
{
    for (unsigned i = 0; i < 2; i++) {
        virtqueue_add(dev, TEST_VIRTIO(dev)->queue_size, test_virtio_handle);
    }
    return true;
}

static inline void test_virtio_get_config(VirtioDevice *dev, uint8_t *config)
{
    memcpy(config, TEST_VIRTIO(dev)->config, 8);
}

static inline void test_virtio_set_config(VirtioDevice *dev, const uint8_t *config)
{
    memcpy(TEST_VIRTIO(dev)->config, config, 8);
}

static inline void test_virtio_set_features(VirtioDevice *dev, uint64_t features)
{
    TEST_VIRTIO(dev)->features_taken++;
}

static inline void test_virtio_reset(VirtioDevice *dev)
{
    TestVirtio *t = TEST_VIRTIO(dev);

    t->resets++;
    t->held = NULL;
    t->value = 0;
}

static inline void test_virtio_drain(VirtioDevice *dev)
{
    TestVirtio *t = TEST_VIRTIO(dev);

    t->drained++;
    if (t->held) {
        virtqueue_push(dev->queues[0], t->held, 0);
        t->held = NULL;
    }
}

static inline void test_virtio_resume(VirtioDevice *dev)
{
    TEST_VIRTIO(dev)->resumed++;
}

static const VMStateDescription vmstate_test_virtio = {
    .name = "test-virtio",
    .version_id = 1,
    .minimum_version_id = 1,
    .fields = (const VMStateField[]){ VMSTATE_UINT32(value, TestVirtio), VMSTATE_END_OF_LIST() },
};

static const QomProperty test_virtio_properties[] = {
    { "iothread", QOM_LINK, offsetof(TestVirtio, parent_instance.iothread),
      .link_type = "iothread" },
    QOM_PROPERTY_END,
};

static void test_virtio_init(TestVirtio *t)
{
    t->queue_size = TEST_QUEUE_SIZE;
}

static void test_virtio_class_init(TestVirtioClass *klass)
{
    VirtioDeviceClass *vc = VIRTIO_DEVICE_CLASS(klass);

    vc->device_id = 63;
    vc->config_size = 8;
    vc->realize = test_virtio_realize;
    vc->get_config = test_virtio_get_config;
    vc->set_config = test_virtio_set_config;
    vc->set_features = test_virtio_set_features;
    vc->reset = test_virtio_reset;
    vc->drain = test_virtio_drain;
    vc->resume = test_virtio_resume;
    vc->state = &vmstate_test_virtio;
    qom_class_install(klass, test_virtio_properties);
}

/* --- The transport --- */

static inline void test_notify_queue(void *opaque, unsigned n)
{
    __atomic_fetch_add(&((TestVirtio *)opaque)->notified, 1, __ATOMIC_SEQ_CST);
}

static inline void test_notify_config(void *opaque)
{
    __atomic_fetch_add(&((TestVirtio *)opaque)->config_notified, 1, __ATOMIC_SEQ_CST);
}

/* A device below the machine under that name, not realized yet. */
static inline TestVirtio *test_virtio_new(Board *b, const char *name)
{
    TestVirtio *t = TEST_VIRTIO(device_new(b->m, test_virtio_get_type(), NULL));
    VirtioTransport transport = { test_notify_queue, test_notify_config, t };

    virtio_set_transport(VIRTIO_DEVICE(t), &transport);
    g_assert_true(object_add_child(OBJECT(b->m), name, OBJECT(t), NULL));
    g_object_unref(t);
    return t;
}

static inline void test_virtio_plug(TestVirtio *t)
{
    g_assert_true(DEVICE_GET_CLASS(t)->realize(DEVICE(t), NULL));
}

/* What a driver does before it sets up queues. */
static inline void test_virtio_negotiate(TestVirtio *t, uint64_t features)
{
    VirtioDevice *dev = VIRTIO_DEVICE(t);

    virtio_reset(dev);
    virtio_set_status(dev, VIRTIO_STATUS_ACKNOWLEDGE | VIRTIO_STATUS_DRIVER);
    virtio_set_features(dev, features | VIRTIO_FEATURE(VIRTIO_F_VERSION_1));
    virtio_set_status(dev,
                      VIRTIO_STATUS_ACKNOWLEDGE | VIRTIO_STATUS_DRIVER | VIRTIO_STATUS_FEATURES_OK);
    g_assert_true(dev->status & VIRTIO_STATUS_FEATURES_OK);
}

static inline void test_virtio_start(TestVirtio *t)
{
    VirtioDevice *dev = VIRTIO_DEVICE(t);

    virtio_set_status(dev, dev->status | VIRTIO_STATUS_DRIVER_OK);
}

/* --- Guest memory --- */

static inline uint16_t ram_get16(Board *b, uint64_t gpa)
{
    uint16_t v;

    g_assert_true(guest_read_le16(b->m->memory, gpa, &v));
    return v;
}

static inline uint32_t ram_get32(Board *b, uint64_t gpa)
{
    uint32_t v;

    g_assert_true(guest_read_le32(b->m->memory, gpa, &v));
    return v;
}

static inline void ram_put16(Board *b, uint64_t gpa, uint16_t v)
{
    g_assert_true(guest_write_le16(b->m->memory, gpa, v));
}

static inline void ram_put32(Board *b, uint64_t gpa, uint32_t v)
{
    g_assert_true(guest_write_le32(b->m->memory, gpa, v));
}

static inline void ram_put64(Board *b, uint64_t gpa, uint64_t v)
{
    g_assert_true(guest_write_le64(b->m->memory, gpa, v));
}

/* Addresses that all tests use. */
enum {
    RING_DESC = 0x200000,
    RING_DRIVER = 0x201000,
    RING_DEVICE = 0x202000,
    TABLE = 0x203000,
    DATA = 0x210000,
};

enum { D_NEXT = 1, D_WRITE = 2, D_INDIRECT = 4 };

/* A split descriptor; packed ones differ in their last two fields. */
static inline void put_desc(Board *b, uint64_t gpa, uint64_t addr, uint32_t len, uint16_t flags,
                            uint16_t next)
{
    ram_put64(b, gpa, addr);
    ram_put32(b, gpa + 8, len);
    ram_put16(b, gpa + 12, flags);
    ram_put16(b, gpa + 14, next);
}

/* Queue 0 with the rings at the places above, cleared. */
static inline void test_virtio_enable(Board *b, TestVirtio *t, unsigned size)
{
    VirtQueue *vq = VIRTIO_DEVICE(t)->queues[0];

    g_assert_true(guest_fill(b->m->memory, RING_DESC, 0, TABLE - RING_DESC));
    virtqueue_set_size(vq, size);
    virtqueue_set_addresses(vq, RING_DESC, RING_DRIVER, RING_DEVICE);
    virtqueue_set_enabled(vq, true);
}

#endif
