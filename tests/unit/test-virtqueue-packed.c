/*
 * Tests of the packed ring.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "virtio-fixture.h"

/* Flags of a descriptor of this round, by the driver's wrap counter, and as the device gives it back. */
enum { AVAIL = 0x80, USED = 0x8000 };

typedef struct Fixture {
    Board *b;
    TestVirtio *t;
    VirtioDevice *dev;
    VirtQueue *vq;
    unsigned size;
    /* The driver's place for new descriptors, and for used ones. */
    unsigned next, next_used;
    bool wrap, used_wrap;
} Fixture;

static void start_queue(Fixture *f, uint64_t features)
{
    test_virtio_negotiate(f->t, VIRTIO_FEATURE(VIRTIO_F_RING_PACKED) | features);
    test_virtio_enable(f->b, f->t, f->size);
    test_virtio_start(f->t);
    f->t->notified = f->t->handled = f->t->config_notified = 0;
    f->next = f->next_used = 0;
    f->wrap = f->used_wrap = true;
}

static void set_up_features(Fixture *f, uint64_t features)
{
    f->b = board_new(TEST_RAM, NULL);
    f->t = test_virtio_new(f->b, "virtio-backend");
    VIRTIO_DEVICE(f->t)->packed = true;
    test_virtio_plug(f->t);
    f->dev = VIRTIO_DEVICE(f->t);
    f->vq = f->dev->queues[0];
    f->size = 10; /* no power of two */
    g_assert_true(runstate_start(f->b->m->runstate, NULL));
    start_queue(f, features);
}

static void set_up(Fixture *f, gconstpointer data)
{
    set_up_features(f, VIRTIO_FEATURE(VIRTIO_F_INDIRECT_DESC));
}

static void set_up_event_idx(Fixture *f, gconstpointer data)
{
    set_up_features(f, VIRTIO_FEATURE(VIRTIO_F_EVENT_IDX));
}

static void tear_down(Fixture *f, gconstpointer data)
{
    DEVICE_GET_CLASS(f->t)->unrealize(DEVICE(f->t));
    board_free(f->b);
}

/* --- The driver --- */

static uint16_t round_flags(bool wrap)
{
    return wrap ? AVAIL : USED;
}

/* The next descriptor of the ring. */
static void add(Fixture *f, uint64_t addr, uint32_t len, uint16_t id, uint16_t flags)
{
    put_desc(f->b, RING_DESC + 16 * (uint64_t)f->next, addr, len, id, flags | round_flags(f->wrap));
    if (++f->next == f->size) {
        f->next = 0;
        f->wrap = !f->wrap;
    }
}

static bool used_ready(Fixture *f)
{
    uint16_t flags = ram_get16(f->b, RING_DESC + 16 * (uint64_t)f->next_used + 14);

    return !!(flags & AVAIL) == f->used_wrap && !!(flags & USED) == f->used_wrap;
}

static void take_used(Fixture *f, uint16_t id, uint32_t written, unsigned n_descs)
{
    uint64_t at = RING_DESC + 16 * (uint64_t)f->next_used;

    g_assert_true(used_ready(f));
    g_assert_cmpuint(ram_get16(f->b, at + 12), ==, id);
    g_assert_cmpuint(ram_get32(f->b, at + 8), ==, written);
    g_assert_cmpuint(!!(ram_get16(f->b, at + 14) & D_WRITE), ==, written > 0);
    f->next_used += n_descs;
    if (f->next_used >= f->size) {
        f->next_used -= f->size;
        f->used_wrap = !f->used_wrap;
    }
}

static void set_driver_event(Fixture *f, unsigned place, bool wrap, uint16_t flags)
{
    ram_put16(f->b, RING_DRIVER, (uint16_t)(place | (wrap ? 0x8000 : 0)));
    ram_put16(f->b, RING_DRIVER + 2, flags);
}

static VirtElement *pop(Fixture *f)
{
    VirtElement *e;

    virtio_lock(f->dev);
    e = virtqueue_pop(f->vq);
    virtio_unlock(f->dev);
    return e;
}

static void flush(Fixture *f)
{
    virtio_lock(f->dev);
    virtqueue_flush(f->vq);
    virtio_unlock(f->dev);
}

/* --- Buffers --- */

static void test_chain(Fixture *f, gconstpointer data)
{
    VirtElement *e;

    g_assert_null(pop(f));
    add(f, DATA, 8, 0, D_NEXT);
    add(f, DATA + 8, 8, 0, D_NEXT);
    add(f, DATA + 16, 32, 77, D_WRITE);
    e = pop(f);
    g_assert_nonnull(e);
    g_assert_cmpuint(e->head, ==, 77);
    g_assert_cmpuint(e->n_out, ==, 2);
    g_assert_cmpuint(e->n_in, ==, 1);
    g_assert_cmpuint(e->n_descs, ==, 3);
    g_assert_null(pop(f));
    virtqueue_push(f->vq, e, 5);
    g_assert_false(used_ready(f));
    flush(f);
    take_used(f, 77, 5, 3);
    g_assert_cmpuint(f->t->notified, ==, 1);
    g_assert_false(used_ready(f));
}

static void test_indirect(Fixture *f, gconstpointer data)
{
    VirtElement *e;

    put_desc(f->b, TABLE, DATA, 8, 0, 0);
    put_desc(f->b, TABLE + 16, DATA + 8, 24, 0, D_WRITE);
    add(f, TABLE, 32, 3, D_INDIRECT);
    e = pop(f);
    g_assert_nonnull(e);
    g_assert_cmpuint(e->n_out, ==, 1);
    g_assert_cmpuint(e->n_in, ==, 1);
    g_assert_cmpuint(e->n_descs, ==, 1);
    virtqueue_push(f->vq, e, 0);
    flush(f);
    take_used(f, 3, 0, 1);
}

/* Chains of all lengths, given back in batches and in another order, many times round. */
static void test_rounds(Fixture *f, gconstpointer data)
{
    for (unsigned round = 0; round < 20000; round++) {
        unsigned a = 1 + round % 4, b = 1 + round % 5;
        VirtElement *e[2];

        for (unsigned i = 1; i <= a; i++) {
            add(f, DATA, 16, 1, i < a ? D_NEXT : 0);
        }
        for (unsigned i = 1; i <= b; i++) {
            add(f, DATA, 16, 2, D_WRITE | (i < b ? D_NEXT : 0));
        }
        e[0] = pop(f);
        e[1] = pop(f);
        g_assert_null(pop(f));
        g_assert_cmpuint(e[0]->n_out, ==, a);
        g_assert_cmpuint(e[1]->n_in, ==, b);
        virtqueue_push(f->vq, e[1], round);
        if (round % 3 == 0) {
            flush(f);
        }
        virtqueue_push(f->vq, e[0], 0);
        flush(f);
        take_used(f, 2, round, b);
        take_used(f, 1, 0, a);
        g_assert_false(used_ready(f));
    }
    g_assert_false(f->dev->broken);
}

static void test_unpop(Fixture *f, gconstpointer data)
{
    VirtElement *e;

    /* Across the end of the ring. */
    for (unsigned i = 0; i < 8; i++) {
        add(f, DATA, 16, 1, 0);
        virtqueue_push(f->vq, pop(f), 0);
        flush(f);
        take_used(f, 1, 0, 1);
    }
    for (unsigned i = 0; i < 4; i++) {
        add(f, DATA, 16, 9, i < 3 ? D_NEXT : 0);
    }
    e = pop(f);
    g_assert_cmpuint(e->n_descs, ==, 4);
    virtqueue_unpop(f->vq, e);
    e = pop(f);
    g_assert_cmpuint(e->n_descs, ==, 4);
    g_assert_cmpuint(e->head, ==, 9);
    virtqueue_push(f->vq, e, 1);
    flush(f);
    take_used(f, 9, 1, 4);
}

/* --- Notification --- */

static void give_back(Fixture *f, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        add(f, DATA, 16, 1, 0);
    }
    for (unsigned i = 0; i < n; i++) {
        virtqueue_push(f->vq, pop(f), 0);
    }
    flush(f);
    for (unsigned i = 0; i < n; i++) {
        take_used(f, 1, 0, 1);
    }
}

static void test_flags(Fixture *f, gconstpointer data)
{
    set_driver_event(f, 0, false, 1);
    give_back(f, 3);
    g_assert_cmpuint(f->t->notified, ==, 0);
    set_driver_event(f, 0, false, 0);
    give_back(f, 3);
    g_assert_cmpuint(f->t->notified, ==, 1);
    virtqueue_set_notification(f->vq, false);
    g_assert_cmpuint(ram_get16(f->b, RING_DEVICE + 2), ==, 1);
    virtqueue_set_notification(f->vq, true);
    g_assert_cmpuint(ram_get16(f->b, RING_DEVICE + 2), ==, 0);
}

/* Every place of two rounds is waited for, and passed by batches of every size. */
static void test_event(Fixture *f, gconstpointer data)
{
    for (unsigned batch = 1; batch <= 10; batch++) {
        for (unsigned ahead = 0; ahead < 10; ahead++) {
            unsigned place = f->next_used + ahead, before = f->t->notified;
            bool wrap = f->used_wrap;

            if (place >= f->size) {
                place -= f->size;
                wrap = !wrap;
            }
            set_driver_event(f, place, wrap, 2);
            give_back(f, batch);
            g_assert_cmpuint(f->t->notified - before, ==, ahead < batch);
        }
    }
}

static void test_device_event(Fixture *f, gconstpointer data)
{
    give_back(f, 3);
    g_assert_null(pop(f));
    g_assert_cmphex(ram_get16(f->b, RING_DEVICE), ==, 3 | 0x8000);
    g_assert_cmphex(ram_get16(f->b, RING_DEVICE + 2), ==, 2);
    give_back(f, 9);
    g_assert_cmphex(ram_get16(f->b, RING_DEVICE), ==, 3 | 0x8000);
    g_assert_null(pop(f));
    g_assert_cmphex(ram_get16(f->b, RING_DEVICE), ==, 2);
}

/* --- What is wrong --- */

typedef struct BadCase {
    const char *name;
    void (*prepare)(Fixture *f);
} BadCase;

/* A chain that goes round the ring. */
static void bad_loop(Fixture *f)
{
    for (unsigned i = 0; i < f->size; i++) {
        add(f, DATA, 16, 1, D_NEXT);
    }
}

static void bad_order(Fixture *f)
{
    add(f, DATA, 16, 1, D_NEXT | D_WRITE);
    add(f, DATA, 16, 1, 0);
}

static void bad_sum(Fixture *f)
{
    add(f, DATA, 0xffffffff, 1, D_NEXT);
    add(f, DATA, 2, 1, 0);
}

static void bad_indirect_next(Fixture *f)
{
    put_desc(f->b, TABLE, DATA, 8, 0, 0);
    add(f, TABLE, 16, 1, D_INDIRECT | D_NEXT);
    add(f, DATA, 16, 1, 0);
}

static void bad_next_in_indirect(Fixture *f)
{
    put_desc(f->b, TABLE, DATA, 8, 0, D_NEXT);
    put_desc(f->b, TABLE + 16, DATA, 8, 0, 0);
    add(f, TABLE, 32, 1, D_INDIRECT);
}

static void bad_indirect_in_indirect(Fixture *f)
{
    put_desc(f->b, TABLE, TABLE, 16, 0, D_INDIRECT);
    add(f, TABLE, 16, 1, D_INDIRECT);
}

static void bad_indirect_empty(Fixture *f)
{
    add(f, TABLE, 0, 1, D_INDIRECT);
}

static void bad_indirect_long(Fixture *f)
{
    add(f, TABLE, 16 * (TEST_QUEUE_SIZE + 1), 1, D_INDIRECT);
}

/* More than the ring has are out when the driver makes old entries available again. */
static void bad_refill(Fixture *f)
{
    for (unsigned i = 0; i < f->size; i++) {
        add(f, DATA, 16, (uint16_t)i, 0);
        g_assert_nonnull(pop(f));
    }
    add(f, DATA, 16, 1, 0);
}

static const BadCase bad_cases[] = {
    { "loop", bad_loop },
    { "out-after-in", bad_order },
    { "sum", bad_sum },
    { "indirect-next", bad_indirect_next },
    { "next-in-indirect", bad_next_in_indirect },
    { "indirect-in-indirect", bad_indirect_in_indirect },
    { "indirect-empty", bad_indirect_empty },
    { "indirect-long", bad_indirect_long },
    { "refill", bad_refill },
};

static void test_bad(Fixture *f, gconstpointer data)
{
    const BadCase *c = data;

    c->prepare(f);
    g_assert_null(pop(f));
    g_assert_true(f->dev->broken);
    g_assert_true(f->dev->status & VIRTIO_STATUS_NEEDS_RESET);
    g_assert_null(pop(f));
    g_assert_cmpuint(f->t->config_notified, ==, 1);
    start_queue(f, 0);
    give_back(f, 2);
    g_assert_false(f->dev->broken);
}

#define ADD(path, up, fn) g_test_add("/virtqueue-packed/" path, Fixture, NULL, up, fn, tear_down)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("chain", set_up, test_chain);
    ADD("indirect", set_up, test_indirect);
    ADD("rounds", set_up, test_rounds);
    ADD("unpop", set_up, test_unpop);
    ADD("flags", set_up, test_flags);
    ADD("event", set_up_event_idx, test_event);
    ADD("device-event", set_up_event_idx, test_device_event);
    for (unsigned i = 0; i < G_N_ELEMENTS(bad_cases); i++) {
        g_autofree char *path = g_strdup_printf("/virtqueue-packed/bad/%s", bad_cases[i].name);

        g_test_add(path, Fixture, &bad_cases[i], set_up, test_bad, tear_down);
    }
    return g_test_run();
}
