/*
 * Tests of virtqueues on virtio-rng: event index, indirect tables, packed rings, and every kind of
 * ring that is malformed. A broken ring leaves NEEDS_RESET behind, a VM that goes on, and after a
 * reset a device that works.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "tests/qtest/qvirtio.h"

#define SIZE 8
#define OUTSIDE 0x80000000ull /* no RAM is there */

enum { TYPE_RNG = 4 };

typedef struct Fixture {
    QTest *q;
    QVirtio *dev;
    QVirtQueue *vq;
    uint64_t page; /* RAM to be used */
} Fixture;

static void begin(Fixture *f, uint64_t features)
{
    qvirtio_begin(f->dev, features);
    g_assert_cmphex(f->dev->features, ==, features | QVIRTIO_F_VERSION_1);
    if (f->dev->msi) {
        g_assert_cmphex(qvirtio_set_config_vector(f->dev, 0), ==, 0);
    }
    f->vq = qvirtqueue_new(f->dev, 0, SIZE);
    qvirtio_ready(f->dev);
}

static void set_up(Fixture *f, uint64_t features, bool msix)
{
    f->q = qtest_start("-machine pc -m 32M -object rng-builtin,id=r -device "
                       "virtio-rng-pci,rng=r,packed=on");
    f->dev = qvirtio_new(f->q, TYPE_RNG, false);
    f->page = qtest_alloc(f->q, 4096, 4096);
    if (msix) {
        qvirtio_msix_enable(f->dev);
    }
    begin(f, features);
}

static void tear_down(Fixture *f)
{
    qvirtqueue_free(f->vq);
    qvirtio_free(f->dev);
    qtest_quit(f->q);
}

static void assert_works(Fixture *f)
{
    QVirtBuffer parts[] = { { f->page, 8, true }, { f->page + 64, 24, true } };

    g_assert_cmpuint(qvirtqueue_do(f->vq, parts, 2), >, 0);
}

/* --- Rings in order --- */

static void go_round(gconstpointer features)
{
    Fixture f;

    set_up(&f, GPOINTER_TO_SIZE(features), false);
    for (unsigned i = 0; i < 5 * SIZE; i++) {
        assert_works(&f);
    }
    tear_down(&f);
}

/* A full ring, given back in any order. */
static void test_full(gconstpointer features)
{
    QVirtUsed used;
    unsigned seen = 0;
    Fixture f;

    set_up(&f, GPOINTER_TO_SIZE(features), false);
    for (unsigned round = 0; round < 3; round++) {
        seen = 0;
        for (unsigned i = 0; i < SIZE; i++) {
            QVirtBuffer part = { f.page + 64 * i, 64, true };

            qvirtqueue_add(f.vq, &part, 1);
        }
        qvirtqueue_kick(f.vq);
        for (unsigned i = 0; i < SIZE; i++) {
            used = qvirtqueue_wait(f.vq);
            seen |= 1u << used.id;
            g_assert_cmpuint(used.len, ==, 64);
        }
        g_assert_cmphex(seen, ==, (1u << SIZE) - 1);
        g_assert_false(qvirtqueue_get(f.vq, &used));
    }
    tear_down(&f);
}

static void test_indirect(gconstpointer features)
{
    QVirtBuffer parts[3 * SIZE];
    Fixture f;

    set_up(&f, GPOINTER_TO_SIZE(features) | QVIRTIO_F_INDIRECT, false);
    for (unsigned i = 0; i < G_N_ELEMENTS(parts); i++) {
        parts[i] = (QVirtBuffer){ f.page + 4 * i, 4, true };
    }
    for (unsigned i = 0; i < 2 * SIZE; i++) {
        /* As many parts as the ring has entries; more is the driver's mistake. */
        qvirtqueue_add_indirect(f.vq, parts, SIZE);
        qvirtqueue_kick(f.vq);
        g_assert_cmpuint(qvirtqueue_wait(f.vq).len, ==, 4 * SIZE);
    }
    tear_down(&f);
}

/* The device interrupts when the index asked for is passed, and only then. */
static void test_event_index(void)
{
    Fixture f;
    uint64_t used_event;

    set_up(&f, QVIRTIO_F_EVENT_IDX, true);
    used_event = f.vq->driver + 4 + 2 * SIZE;
    for (unsigned i = 0; i < 3; i++) {
        QVirtBuffer part = { f.page, 16, true };

        qtest_writew(f.q, used_event, 2);
        qvirtqueue_add(f.vq, &part, 1);
        qvirtqueue_kick(f.vq);
        f.vq->event_idx = false; /* the client leaves used_event alone */
        qvirtqueue_wait(f.vq);
        g_assert_cmpint(qvirtio_msi_arrived(f.dev, 1), ==, i == 2);
    }
    tear_down(&f);
}

static void test_no_interrupt(void)
{
    QVirtBuffer part = { 0, 16, true };
    Fixture f;

    set_up(&f, 0, true);
    part.address = f.page;
    qtest_writew(f.q, f.vq->driver, 1); /* VIRTQ_AVAIL_F_NO_INTERRUPT */
    qvirtqueue_do(f.vq, &part, 1);
    g_assert_false(qvirtio_msi_arrived(f.dev, 1));
    qtest_writew(f.q, f.vq->driver, 0);
    qvirtqueue_do(f.vq, &part, 1);
    g_assert_true(qvirtio_msi_arrived(f.dev, 1));
    tear_down(&f);
}

/* --- Malformed split rings: each makes one and rings the doorbell --- */

static void desc(Fixture *f, unsigned i, uint64_t address, uint32_t len, uint16_t flags,
                 uint16_t next)
{
    qvirtq_set_desc(f->dev, f->vq->desc, i, address, len, flags, next);
}

static void table_desc(Fixture *f, unsigned i, uint64_t address, uint32_t len, uint16_t flags,
                       uint16_t next)
{
    qvirtq_set_desc(f->dev, f->page + 1024, i, address, len, flags, next);
}

static void use_table(Fixture *f, uint64_t address, uint32_t len, uint16_t flags)
{
    desc(f, 0, address, len, QVIRTQ_INDIRECT | flags, 1);
    qvirtqueue_add_head(f->vq, 0);
}

static void loop_of_one(Fixture *f)
{
    desc(f, 0, f->page, 16, QVIRTQ_WRITE | QVIRTQ_NEXT, 0);
    qvirtqueue_add_head(f->vq, 0);
}

static void loop_of_three(Fixture *f)
{
    for (unsigned i = 0; i < 3; i++) {
        desc(f, i, f->page, 16, QVIRTQ_WRITE | QVIRTQ_NEXT, (i + 1) % 3);
    }
    qvirtqueue_add_head(f->vq, 0);
}

static void head_outside(Fixture *f)
{
    qvirtqueue_add_head(f->vq, SIZE);
}

static void head_far_outside(Fixture *f)
{
    qvirtqueue_add_head(f->vq, 0xffff);
}

static void next_outside(Fixture *f)
{
    desc(f, 0, f->page, 16, QVIRTQ_WRITE | QVIRTQ_NEXT, SIZE);
    qvirtqueue_add_head(f->vq, 0);
}

static void index_too_far(Fixture *f)
{
    qtest_writew(f->q, f->vq->driver + 2, f->vq->avail_index + SIZE + 1);
}

static void index_back(Fixture *f)
{
    qtest_writew(f->q, f->vq->driver + 2, f->vq->avail_index - 1);
}

static void write_then_read(Fixture *f)
{
    desc(f, 0, f->page, 16, QVIRTQ_WRITE | QVIRTQ_NEXT, 1);
    desc(f, 1, f->page, 16, 0, 0);
    qvirtqueue_add_head(f->vq, 0);
}

static void no_ram(Fixture *f)
{
    desc(f, 0, OUTSIDE, 16, QVIRTQ_WRITE, 0);
    qvirtqueue_add_head(f->vq, 0);
}

static void end_of_ram(Fixture *f)
{
    desc(f, 0, (32 << 20) - 8, 16, QVIRTQ_WRITE, 0);
    qvirtqueue_add_head(f->vq, 0);
}

static void wraps_round(Fixture *f)
{
    desc(f, 0, UINT64_MAX - 7, 16, QVIRTQ_WRITE, 0);
    qvirtqueue_add_head(f->vq, 0);
}

static void lengths_overflow(Fixture *f)
{
    for (unsigned i = 0; i < 3; i++) {
        desc(f, i, f->page, 0xffffffff, QVIRTQ_WRITE | (i < 2 ? QVIRTQ_NEXT : 0), i + 1);
    }
    qvirtqueue_add_head(f->vq, 0);
}

static void indirect_in_indirect(Fixture *f)
{
    table_desc(f, 0, f->page + 2048, 16, QVIRTQ_INDIRECT, 0);
    use_table(f, f->page + 1024, 16, 0);
}

static void indirect_empty(Fixture *f)
{
    use_table(f, f->page + 1024, 0, 0);
}

static void indirect_odd_length(Fixture *f)
{
    table_desc(f, 0, f->page, 16, QVIRTQ_WRITE, 0);
    use_table(f, f->page + 1024, 17, 0);
}

static void indirect_no_ram(Fixture *f)
{
    use_table(f, OUTSIDE, 16, 0);
}

static void indirect_and_next(Fixture *f)
{
    table_desc(f, 0, f->page, 16, QVIRTQ_WRITE, 0);
    use_table(f, f->page + 1024, 16, QVIRTQ_NEXT);
}

static void indirect_loop(Fixture *f)
{
    table_desc(f, 0, f->page, 16, QVIRTQ_WRITE | QVIRTQ_NEXT, 1);
    table_desc(f, 1, f->page, 16, QVIRTQ_WRITE | QVIRTQ_NEXT, 0);
    use_table(f, f->page + 1024, 32, 0);
}

static void indirect_next_outside(Fixture *f)
{
    table_desc(f, 0, f->page, 16, QVIRTQ_WRITE | QVIRTQ_NEXT, 2);
    use_table(f, f->page + 1024, 32, 0);
}

static void indirect_huge(Fixture *f)
{
    use_table(f, f->page + 1024, 0xfffffff0, 0);
}

/* --- Malformed packed rings --- */

static void packed_indirect_empty(Fixture *f)
{
    qvirtqueue_add_packed(f->vq, f->page, 0, 0, QVIRTQ_INDIRECT);
}

static void packed_indirect_no_ram(Fixture *f)
{
    qvirtqueue_add_packed(f->vq, OUTSIDE, 16, 0, QVIRTQ_INDIRECT);
}

static void packed_no_ram(Fixture *f)
{
    qvirtqueue_add_packed(f->vq, OUTSIDE, 16, 0, QVIRTQ_WRITE);
}

static void packed_wraps_round(Fixture *f)
{
    qvirtqueue_add_packed(f->vq, UINT64_MAX - 7, 16, 0, QVIRTQ_WRITE);
}

/* A chain that takes every entry and still says that more follows. */
static void packed_endless(Fixture *f)
{
    for (unsigned i = 0; i < SIZE; i++) {
        qvirtqueue_add_packed(f->vq, f->page, 16, 0, QVIRTQ_WRITE | QVIRTQ_NEXT);
    }
}

static void packed_write_then_read(Fixture *f)
{
    qvirtqueue_add_packed(f->vq, f->page, 16, 0, QVIRTQ_WRITE | QVIRTQ_NEXT);
    qvirtqueue_add_packed(f->vq, f->page, 16, 0, 0);
}

typedef struct Malformed {
    const char *name;
    void (*make)(Fixture *f);
    uint64_t features;
} Malformed;

static const Malformed malformed[] = {
    { "loop-of-one", loop_of_one, 0 },
    { "loop-of-three", loop_of_three, 0 },
    { "head-outside", head_outside, 0 },
    { "head-far-outside", head_far_outside, 0 },
    { "next-outside", next_outside, 0 },
    { "index-too-far", index_too_far, 0 },
    { "index-back", index_back, 0 },
    { "write-then-read", write_then_read, 0 },
    { "no-ram", no_ram, 0 },
    { "end-of-ram", end_of_ram, 0 },
    { "wraps-round", wraps_round, 0 },
    { "lengths-overflow", lengths_overflow, 0 },
    { "indirect-not-negotiated", indirect_empty, 0 },
    { "indirect-in-indirect", indirect_in_indirect, QVIRTIO_F_INDIRECT },
    { "indirect-empty", indirect_empty, QVIRTIO_F_INDIRECT },
    { "indirect-odd-length", indirect_odd_length, QVIRTIO_F_INDIRECT },
    { "indirect-no-ram", indirect_no_ram, QVIRTIO_F_INDIRECT },
    { "indirect-and-next", indirect_and_next, QVIRTIO_F_INDIRECT },
    { "indirect-loop", indirect_loop, QVIRTIO_F_INDIRECT },
    { "indirect-next-outside", indirect_next_outside, QVIRTIO_F_INDIRECT },
    { "indirect-huge", indirect_huge, QVIRTIO_F_INDIRECT },
    { "packed-indirect-empty", packed_indirect_empty, QVIRTIO_F_PACKED | QVIRTIO_F_INDIRECT },
    { "packed-indirect-no-ram", packed_indirect_no_ram, QVIRTIO_F_PACKED | QVIRTIO_F_INDIRECT },
    { "packed-no-ram", packed_no_ram, QVIRTIO_F_PACKED },
    { "packed-wraps-round", packed_wraps_round, QVIRTIO_F_PACKED },
    { "packed-endless", packed_endless, QVIRTIO_F_PACKED },
    { "packed-write-then-read", packed_write_then_read, QVIRTIO_F_PACKED },
};

static bool needs_reset(void *opaque)
{
    return qvirtio_needs_reset(opaque);
}

static void test_malformed(gconstpointer data)
{
    const Malformed *m = data;
    json_object *info;
    Fixture f;

    set_up(&f, m->features, true);
    assert_works(&f);
    qvirtio_msi_arrived(f.dev, 0);
    m->make(&f);
    qvirtqueue_kick(f.vq);
    qtest_wait_until(needs_reset, f.dev, "NEEDS_RESET");
    g_assert_true(qvirtio_msi_arrived(f.dev, 0)); /* 2.1.2: told by a configuration change */
    qvirtqueue_kick(f.vq);
    info = qtest_qmp_ok(f.q, "{'execute': 'query-status'}");
    g_assert_cmpstr(json_object_get_string(json_object_object_get(info, "status")), ==, "running");
    json_object_put(info);
    qvirtqueue_free(f.vq);
    begin(&f, m->features);
    assert_works(&f);
    tear_down(&f);
}

/* A device that waits for its reset is saved and restored as that. */
static void test_save_broken(void)
{
    Fixture f;

    set_up(&f, 0, true);
    head_outside(&f);
    qvirtqueue_kick(f.vq);
    qtest_wait_until(needs_reset, f.dev, "NEEDS_RESET");
    qtest_save_restore(f.q, true);
    g_assert_true(qvirtio_needs_reset(f.dev));
    qvirtqueue_free(f.vq);
    begin(&f, 0);
    assert_works(&f);
    tear_down(&f);
}

/* Descriptors of no length are legal, and come back with nothing. */
static void test_zero_length(gconstpointer features)
{
    Fixture f;
    QVirtBuffer part = { 0, 0, true };

    set_up(&f, GPOINTER_TO_SIZE(features), false);
    part.address = f.page;
    g_assert_cmpuint(qvirtqueue_do(f.vq, &part, 1), ==, 0);
    assert_works(&f);
    tear_down(&f);
}

/* --- Areas of a queue in bad places --- */

static void test_bad_areas(void)
{
    static const uint64_t places[] = { OUTSIDE, UINT64_MAX - 15, (32 << 20) - 16, 0xfee00000 };
    enum { QUEUE_SELECT = 22, QUEUE_SIZE = 24, QUEUE_ENABLE = 28, QUEUE_DESC = 32 };
    Fixture f;

    set_up(&f, 0, false);
    for (size_t i = 0; i < 3 * G_N_ELEMENTS(places); i++) {
        uint64_t place = places[i / 3];
        unsigned reg = QUEUE_DESC + 8 * (i % 3);

        qvirtio_begin(f.dev, 0);
        qpci_bar_writew(f.dev->common, QUEUE_SELECT, 0);
        qpci_bar_writew(f.dev->common, QUEUE_SIZE, SIZE);
        for (unsigned r = QUEUE_DESC; r < QUEUE_DESC + 24; r += 8) {
            uint64_t address = r == reg ? place : f.page + (r - QUEUE_DESC) * 128;

            qpci_bar_writel(f.dev->common, r, (uint32_t)address);
            qpci_bar_writel(f.dev->common, r + 4, address >> 32);
        }
        qpci_bar_writew(f.dev->common, QUEUE_ENABLE, 1);
        qvirtio_ready(f.dev);
        desc(&f, 0, f.page, 16, QVIRTQ_WRITE, 0);
        qtest_writew(f.q, f.page + 8 * 128 + 2, 1);
        qvirtqueue_kick(f.vq);
        qtest_wait_until(needs_reset, f.dev, "NEEDS_RESET");
        qtest_memset(f.q, f.page, 0, 4096);
    }
    qvirtqueue_free(f.vq);
    begin(&f, 0);
    assert_works(&f);
    tear_down(&f);
}

static void add_for_both(const char *name, void (*fn)(gconstpointer), uint64_t features)
{
    g_autofree char *split = g_strdup_printf("/virtqueue/split/%s", name);
    g_autofree char *packed = g_strdup_printf("/virtqueue/packed/%s", name);

    g_test_add_data_func(split, GSIZE_TO_POINTER(features), fn);
    g_test_add_data_func(packed, GSIZE_TO_POINTER(features | QVIRTIO_F_PACKED), fn);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    add_for_both("round", go_round, 0);
    add_for_both("round-event-index", go_round, QVIRTIO_F_EVENT_IDX);
    add_for_both("full", test_full, 0);
    add_for_both("indirect", test_indirect, 0);
    add_for_both("zero-length", test_zero_length, 0);
    g_test_add_func("/virtqueue/event-index", test_event_index);
    g_test_add_func("/virtqueue/no-interrupt", test_no_interrupt);
    for (size_t i = 0; i < G_N_ELEMENTS(malformed); i++) {
        g_autofree char *path = g_strdup_printf("/virtqueue/malformed/%s", malformed[i].name);

        g_test_add_data_func(path, &malformed[i], test_malformed);
    }
    g_test_add_func("/virtqueue/bad-areas", test_bad_areas);
    g_test_add_func("/virtqueue/save-broken", test_save_broken);
    return g_test_run();
}
