/*
 * Tests of the split ring: buffers taken and given back, notification, and every way in which a driver can be wrong.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "virtio-fixture.h"

typedef struct Fixture {
    Board *b;
    TestVirtio *t;
    VirtioDevice *dev;
    VirtQueue *vq;
    uint16_t avail; /* the driver's index */
    unsigned size;
} Fixture;

static void set_up_features(Fixture *f, uint64_t features)
{
    f->b = board_new(TEST_RAM, NULL);
    f->t = test_virtio_new(f->b, "virtio-backend");
    test_virtio_plug(f->t);
    f->dev = VIRTIO_DEVICE(f->t);
    f->vq = f->dev->queues[0];
    f->size = TEST_QUEUE_SIZE;
    g_assert_true(runstate_start(f->b->m->runstate, NULL));
    test_virtio_negotiate(f->t, features);
    test_virtio_enable(f->b, f->t, f->size);
    test_virtio_start(f->t);
    f->t->notified = f->t->handled = 0;
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

static void desc(Fixture *f, unsigned i, uint64_t addr, uint32_t len, uint16_t flags, uint16_t next)
{
    put_desc(f->b, RING_DESC + 16 * (uint64_t)i, addr, len, flags, next);
}

static void table(Fixture *f, unsigned i, uint64_t addr, uint32_t len, uint16_t flags,
                  uint16_t next)
{
    put_desc(f->b, TABLE + 16 * (uint64_t)i, addr, len, flags, next);
}

static void make_available(Fixture *f, uint16_t head)
{
    ram_put16(f->b, RING_DRIVER + 4 + 2 * (f->avail % f->size), head);
    ram_put16(f->b, RING_DRIVER + 2, ++f->avail);
}

static uint16_t used_idx(Fixture *f)
{
    return ram_get16(f->b, RING_DEVICE + 2);
}

static uint16_t avail_event(Fixture *f)
{
    return ram_get16(f->b, RING_DEVICE + 4 + 8 * f->size);
}

static void set_used_event(Fixture *f, uint16_t index)
{
    ram_put16(f->b, RING_DRIVER + 4 + 2 * f->size, index);
}

static void assert_used(Fixture *f, uint16_t index, uint32_t id, uint32_t written)
{
    uint64_t at = RING_DEVICE + 4 + 8 * (uint64_t)(index % f->size);

    g_assert_cmpuint(ram_get32(f->b, at), ==, id);
    g_assert_cmpuint(ram_get32(f->b, at + 4), ==, written);
}

/* The device side, as the handler of a device would do it. */
static VirtElement *pop(Fixture *f)
{
    VirtElement *e;

    virtio_lock(f->dev);
    e = virtqueue_pop(f->vq);
    virtio_unlock(f->dev);
    return e;
}

static void push(Fixture *f, VirtElement *e, uint32_t written)
{
    virtio_lock(f->dev);
    virtqueue_push(f->vq, e, written);
    virtio_unlock(f->dev);
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
    char text[] = "split ring", got[sizeof(text)] = "";
    VirtElement *e;

    guest_write(f->b->m->memory, DATA, text, sizeof(text));
    desc(f, 3, DATA, 6, D_NEXT, 9);
    desc(f, 9, DATA + 6, sizeof(text) - 6, D_NEXT, 5);
    desc(f, 5, DATA + 0x100, 4, D_WRITE | D_NEXT, 6);
    desc(f, 6, DATA + 0x200, 8, D_WRITE, 0);
    g_assert_null(pop(f));
    make_available(f, 3);
    e = pop(f);
    g_assert_cmpuint(e->head, ==, 3);
    g_assert_cmpuint(e->n_out, ==, 2);
    g_assert_cmpuint(e->n_in, ==, 2);
    g_assert_cmpuint(e->out_len, ==, sizeof(text));
    g_assert_cmpuint(e->in_len, ==, 12);
    g_assert_cmpuint(virtelement_read(f->dev, e, 0, got, 100), ==, sizeof(text));
    g_assert_cmpstr(got, ==, text);
    g_assert_cmpuint(virtelement_read(f->dev, e, 5, got, 3), ==, 3);
    g_assert_cmpmem(got, 3, text + 5, 3);
    g_assert_cmpuint(virtelement_write(f->dev, e, 2, "abcdefgh", 8), ==, 8);
    g_assert_cmpuint(ram_get16(f->b, DATA + 0x102), ==, 'a' | 'b' << 8);
    g_assert_cmpuint(ram_get16(f->b, DATA + 0x200), ==, 'c' | 'd' << 8);
    g_assert_null(pop(f));
    push(f, e, 10);
    g_assert_cmpuint(used_idx(f), ==, 0);
    g_assert_cmpuint(f->t->notified, ==, 0);
    flush(f);
    g_assert_cmpuint(used_idx(f), ==, 1);
    assert_used(f, 0, 3, 10);
    g_assert_cmpuint(f->t->notified, ==, 1);
    flush(f);
    g_assert_cmpuint(f->t->notified, ==, 1);
}

static void test_indirect(Fixture *f, gconstpointer data)
{
    VirtElement *e;

    /* A descriptor of the ring before the table; the table's order is not that of memory; WRITE at the table means nothing. */
    desc(f, 0, DATA, 16, D_NEXT, 1);
    desc(f, 1, TABLE, 48, D_INDIRECT | D_WRITE, 0);
    table(f, 0, DATA + 0x10, 32, D_NEXT, 2);
    table(f, 2, DATA + 0x20, 0, D_NEXT, 1);
    table(f, 1, DATA + 0x30, 64, D_WRITE, 0);
    make_available(f, 0);
    e = pop(f);
    g_assert_nonnull(e);
    g_assert_cmpuint(e->n_out, ==, 2);
    g_assert_cmpuint(e->n_in, ==, 1);
    g_assert_cmpuint(e->out_len, ==, 48);
    g_assert_cmphex(e->in[0].addr, ==, DATA + 0x30);
    push(f, e, 0);
}

/* The longest chain and the fullest ring are no mistakes. */
static void test_full(Fixture *f, gconstpointer data)
{
    VirtElement *e[TEST_QUEUE_SIZE];

    for (unsigned i = 0; i < f->size; i++) {
        desc(f, i, DATA + 16 * i, 16, i + 1 < f->size ? D_NEXT : 0, (uint16_t)(i + 1));
    }
    make_available(f, 0);
    e[0] = pop(f);
    g_assert_cmpuint(e[0]->n_out, ==, f->size);
    push(f, e[0], 0);
    flush(f);
    for (unsigned i = 0; i < f->size; i++) {
        desc(f, i, DATA + 16 * i, 16, 0, 0);
        make_available(f, (uint16_t)i);
    }
    for (unsigned i = 0; i < f->size; i++) {
        e[i] = pop(f);
        g_assert_cmpuint(e[i]->head, ==, i);
    }
    g_assert_null(pop(f));
    g_assert_false(f->dev->broken);
    /* In another order than they came. */
    for (unsigned i = f->size; i-- > 0;) {
        push(f, e[i], i);
    }
    flush(f);
    for (unsigned i = 0; i < f->size; i++) {
        assert_used(f, (uint16_t)(1 + i), f->size - 1 - i, f->size - 1 - i);
    }
    g_assert_cmpuint(f->t->notified, ==, 2);
}

static void test_unpop(Fixture *f, gconstpointer data)
{
    VirtElement *e;

    for (unsigned i = 0; i < 3; i++) {
        desc(f, i, DATA, 16 * (i + 1), 0, 0);
        make_available(f, (uint16_t)i);
    }
    push(f, pop(f), 0);
    e = pop(f);
    g_assert_cmpuint(e->head, ==, 1);
    virtqueue_unpop(f->vq, e);
    e = pop(f);
    g_assert_cmpuint(e->head, ==, 1);
    g_assert_cmpuint(e->out_len, ==, 32);
    push(f, e, 0);
    g_assert_cmpuint(pop(f)->head, ==, 2);
    flush(f);
    g_assert_cmpuint(used_idx(f), ==, 2);
}

/* What is given back after a reset is nobody's. */
static void test_reset_while_out(Fixture *f, gconstpointer data)
{
    VirtElement *e;

    desc(f, 0, DATA, 16, 0, 0);
    make_available(f, 0);
    e = pop(f);
    virtio_set_status(f->dev, 0);
    g_assert_cmpuint(f->dev->status, ==, 0);
    push(f, e, 0);
    test_virtio_negotiate(f->t, 0);
    test_virtio_enable(f->b, f->t, f->size);
    test_virtio_start(f->t);
    flush(f);
    g_assert_cmpuint(used_idx(f), ==, 0);
    f->avail = 0;
    make_available(f, 0);
    g_assert_true(pop(f) == e);
}

/* Indices run through 16 bits more than once. */
static void test_wrap(Fixture *f, gconstpointer data)
{
    for (unsigned i = 0; i < 150000; i++) {
        VirtElement *e;

        if (i < f->size) {
            desc(f, i, DATA + i, 1 + i, 0, 0);
        }
        make_available(f, (uint16_t)(i % f->size));
        e = pop(f);
        g_assert_nonnull(e);
        g_assert_cmpuint(e->head, ==, i % f->size);
        push(f, e, i);
        flush(f);
        g_assert_cmpuint(used_idx(f), ==, (uint16_t)(i + 1));
        assert_used(f, (uint16_t)i, i % f->size, i);
    }
    g_assert_cmpuint(f->t->notified, ==, 150000);
}

/* --- Notification --- */

static void give_back(Fixture *f, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        make_available(f, 0);
    }
    for (unsigned i = 0; i < n; i++) {
        push(f, pop(f), 0);
    }
    flush(f);
}

static void test_no_interrupt(Fixture *f, gconstpointer data)
{
    desc(f, 0, DATA, 16, 0, 0);
    ram_put16(f->b, RING_DRIVER, 1);
    give_back(f, 1);
    g_assert_cmpuint(f->t->notified, ==, 0);
    ram_put16(f->b, RING_DRIVER, 0);
    give_back(f, 5);
    g_assert_cmpuint(f->t->notified, ==, 1);
    /* And the other way: the device wants no kicks. */
    virtqueue_set_notification(f->vq, false);
    g_assert_cmpuint(ram_get16(f->b, RING_DEVICE), ==, 1);
    virtqueue_set_notification(f->vq, true);
    g_assert_cmpuint(ram_get16(f->b, RING_DEVICE), ==, 0);
}

static void test_event_idx(Fixture *f, gconstpointer data)
{
    desc(f, 0, DATA, 16, 0, 0);
    /* A batch that passes the index notifies, once; one that does not, does not. */
    set_used_event(f, 3);
    give_back(f, 3);
    g_assert_cmpuint(f->t->notified, ==, 0);
    give_back(f, 1);
    g_assert_cmpuint(f->t->notified, ==, 1);
    give_back(f, 4);
    g_assert_cmpuint(f->t->notified, ==, 1);
    set_used_event(f, 9);
    give_back(f, 4);
    g_assert_cmpuint(f->t->notified, ==, 2);
    /* The flag has no meaning then. */
    ram_put16(f->b, RING_DRIVER, 1);
    set_used_event(f, 12);
    give_back(f, 1);
    g_assert_cmpuint(f->t->notified, ==, 3);
}

/* The driver wants an interrupt for every 7th buffer, past the end of 16 bits. */
static void test_event_idx_wrap(Fixture *f, gconstpointer data)
{
    uint16_t event = 6;
    unsigned expected = 0;

    desc(f, 0, DATA, 16, 0, 0);
    set_used_event(f, event);
    for (unsigned i = 0; i < 70000; i++) {
        uint16_t before = used_idx(f);

        give_back(f, 1);
        expected += before == event;
        if (before == event) {
            event = (uint16_t)(event + 7);
            set_used_event(f, event);
        }
    }
    g_assert_cmpuint(f->t->notified, ==, expected);
    g_assert_cmpuint(expected, ==, 10000);
}

/* An empty queue asks for a kick at the very next buffer; while there is something to do it does not. */
static void test_avail_event(Fixture *f, gconstpointer data)
{
    desc(f, 0, DATA, 16, 0, 0);
    give_back(f, 3);
    g_assert_null(pop(f));
    g_assert_cmpuint(avail_event(f), ==, 3);
    make_available(f, 0);
    make_available(f, 0);
    push(f, pop(f), 0);
    g_assert_cmpuint(avail_event(f), ==, 3);
    push(f, pop(f), 0);
    virtqueue_set_notification(f->vq, false);
    g_assert_null(pop(f));
    g_assert_cmpuint(avail_event(f), ==, 3);
    virtqueue_set_notification(f->vq, true);
    g_assert_cmpuint(avail_event(f), ==, 5);
}

/* --- What is wrong --- */

typedef struct BadCase {
    const char *name;
    void (*prepare)(Fixture *f);
} BadCase;

static void bad_head(Fixture *f)
{
    make_available(f, TEST_QUEUE_SIZE);
}

static void bad_loop(Fixture *f)
{
    desc(f, 0, DATA, 16, D_NEXT, 1);
    desc(f, 1, DATA, 16, D_NEXT, 0);
    make_available(f, 0);
}

static void bad_loop_of_nothing(Fixture *f)
{
    desc(f, 0, DATA, 0, D_NEXT, 0);
    make_available(f, 0);
}

static void bad_next(Fixture *f)
{
    desc(f, 0, DATA, 16, D_NEXT, TEST_QUEUE_SIZE);
    make_available(f, 0);
}

static void bad_order(Fixture *f)
{
    desc(f, 0, DATA, 16, D_NEXT | D_WRITE, 1);
    desc(f, 1, DATA, 16, 0, 0);
    make_available(f, 0);
}

static void bad_jump(Fixture *f)
{
    f->avail = TEST_QUEUE_SIZE;
    make_available(f, 0);
}

static void bad_backwards(Fixture *f)
{
    f->avail = 0xfffe;
    make_available(f, 0);
}

static void bad_sum(Fixture *f)
{
    desc(f, 0, DATA, 0xffffffff, D_NEXT, 1);
    desc(f, 1, DATA, 2, D_WRITE, 0);
    make_available(f, 0);
}

static void bad_address(Fixture *f)
{
    desc(f, 0, UINT64_MAX - 14, 16, 0, 0);
    make_available(f, 0);
}

/* One descriptor that names a table of len bytes. */
static void table_of(Fixture *f, uint64_t addr, uint32_t len, uint16_t flags)
{
    desc(f, 0, addr, len, D_INDIRECT | flags, 1);
    make_available(f, 0);
}

static void bad_indirect_empty(Fixture *f)
{
    table_of(f, TABLE, 0, 0);
}

static void bad_indirect_odd(Fixture *f)
{
    table_of(f, TABLE, 24, 0);
}

static void bad_indirect_long(Fixture *f)
{
    table_of(f, TABLE, 16 * (TEST_QUEUE_SIZE + 1), 0);
}

static void bad_indirect_huge(Fixture *f)
{
    table_of(f, TABLE, 0xfffffff0, 0);
}

static void bad_indirect_next(Fixture *f)
{
    table(f, 0, DATA, 16, 0, 0);
    table_of(f, TABLE, 16, D_NEXT);
}

static void bad_indirect_twice(Fixture *f)
{
    table(f, 0, TABLE, 16, D_INDIRECT, 0);
    table_of(f, TABLE, 16, 0);
}

static void bad_indirect_loop(Fixture *f)
{
    table(f, 0, DATA, 16, D_NEXT, 1);
    table(f, 1, DATA, 16, D_NEXT, 1);
    table_of(f, TABLE, 32, 0);
}

static void bad_indirect_next_out(Fixture *f)
{
    table(f, 0, DATA, 16, D_NEXT, 2);
    table_of(f, TABLE, 32, 0);
}

static void bad_indirect_nowhere(Fixture *f)
{
    table_of(f, UINT64_C(1) << 40, 16, 0);
}

static void bad_indirect_wrap(Fixture *f)
{
    table_of(f, UINT64_MAX - 15, 32, 0);
}

/* A chain that is within the limit of both tables, but not of an element. */
static void bad_together(Fixture *f)
{
    for (unsigned i = 0; i < TEST_QUEUE_SIZE; i++) {
        desc(f, i, DATA, 16, D_NEXT, (uint16_t)(i + 1));
        table(f, i, DATA, 16, i + 1 < TEST_QUEUE_SIZE ? D_NEXT : 0, (uint16_t)(i + 1));
    }
    desc(f, TEST_QUEUE_SIZE - 1, TABLE, 16 * TEST_QUEUE_SIZE, D_INDIRECT, 0);
    make_available(f, 0);
}

static const BadCase bad_cases[] = {
    { "head", bad_head },
    { "loop", bad_loop },
    { "loop-of-nothing", bad_loop_of_nothing },
    { "next", bad_next },
    { "out-after-in", bad_order },
    { "index-jumps", bad_jump },
    { "index-backwards", bad_backwards },
    { "sum", bad_sum },
    { "address-wraps", bad_address },
    { "indirect-empty", bad_indirect_empty },
    { "indirect-odd", bad_indirect_odd },
    { "indirect-long", bad_indirect_long },
    { "indirect-huge", bad_indirect_huge },
    { "indirect-next", bad_indirect_next },
    { "indirect-in-indirect", bad_indirect_twice },
    { "indirect-loop", bad_indirect_loop },
    { "indirect-next-out", bad_indirect_next_out },
    { "indirect-nowhere", bad_indirect_nowhere },
    { "indirect-wraps", bad_indirect_wrap },
    { "together", bad_together },
};

/* The device stands still, says so once, and works again after a reset. */
static void test_bad(Fixture *f, gconstpointer data)
{
    const BadCase *c = data;

    c->prepare(f);
    g_assert_null(pop(f));
    g_assert_true(f->dev->broken);
    g_assert_true(f->dev->status & VIRTIO_STATUS_NEEDS_RESET);
    g_assert_cmpuint(f->t->config_notified, ==, 1);
    g_assert_null(pop(f));
    virtio_kick(f->dev, 0);
    g_assert_cmpuint(f->t->handled, ==, 0);
    g_assert_cmpuint(f->t->config_notified, ==, 1);
    g_assert_cmpuint(used_idx(f), ==, 0);

    test_virtio_negotiate(f->t, 0);
    test_virtio_enable(f->b, f->t, f->size);
    test_virtio_start(f->t);
    desc(f, 0, DATA, 16, 0, 0);
    f->avail = 0;
    give_back(f, 1);
    g_assert_cmpuint(used_idx(f), ==, 1);
}

static void test_indirect_not_negotiated(Fixture *f, gconstpointer data)
{
    table_of(f, TABLE, 16, 0);
    g_assert_null(pop(f));
    g_assert_true(f->dev->broken);
}

/* A ring whose memory goes away while it is used. */
static void test_ring_vanishes(Fixture *f, gconstpointer data)
{
    desc(f, 0, DATA, 16, 0, 0);
    make_available(f, 0);
    address_map_remove(f->b->m->memory, 0x100000);
    g_assert_null(pop(f));
    g_assert_true(f->dev->broken);
}

static void test_buffer_not_ram(Fixture *f, gconstpointer data)
{
    char bytes[16];
    VirtElement *e;

    desc(f, 0, TEST_RAM - 8, 16, 0, 0);
    make_available(f, 0);
    e = pop(f);
    g_assert_nonnull(e);
    g_assert_cmpuint(virtelement_read(f->dev, e, 0, bytes, 8), ==, 8);
    g_assert_false(f->dev->broken);
    g_assert_cmpuint(virtelement_read(f->dev, e, 0, bytes, 16), ==, 0);
    g_assert_true(f->dev->broken);
    push(f, e, 0);
    flush(f);
    g_assert_cmpuint(used_idx(f), ==, 0);
}

#define ADD(path, up, fn) g_test_add("/virtqueue/" path, Fixture, NULL, up, fn, tear_down)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("chain", set_up, test_chain);
    ADD("indirect", set_up, test_indirect);
    ADD("full", set_up, test_full);
    ADD("unpop", set_up, test_unpop);
    ADD("reset-while-out", set_up, test_reset_while_out);
    ADD("wrap", set_up, test_wrap);
    ADD("no-interrupt", set_up, test_no_interrupt);
    ADD("event-idx", set_up_event_idx, test_event_idx);
    ADD("event-idx-wrap", set_up_event_idx, test_event_idx_wrap);
    ADD("avail-event", set_up_event_idx, test_avail_event);
    ADD("bad/indirect-not-negotiated", set_up_event_idx, test_indirect_not_negotiated);
    ADD("bad/ring-vanishes", set_up, test_ring_vanishes);
    ADD("bad/buffer-not-ram", set_up, test_buffer_not_ram);
    for (unsigned i = 0; i < G_N_ELEMENTS(bad_cases); i++) {
        g_autofree char *path = g_strdup_printf("/virtqueue/bad/%s", bad_cases[i].name);

        g_test_add(path, Fixture, &bad_cases[i], set_up, test_bad, tear_down);
    }
    return g_test_run();
}
