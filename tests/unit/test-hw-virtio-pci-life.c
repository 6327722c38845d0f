/*
 * Tests of virtio over PCI in the course of its life: doorbells bound to eventfds, reset, unplugging, saved state.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "virtio-pci-fixture.h"

static void test_doorbells(void)
{
    World w = world_new("virtio-rng-pci", NULL, NULL);
    FakeAccel *f = w.accel;

    run(&w);
    begin(&w, VIRTIO_FEATURE(VERSION_1));
    set_up_queue(&w, VIRTIO_NO_VECTOR);
    g_assert_cmpuint(f->n_ioevents, ==, 0);
    out(&w, MODERN + STATUS, 15, 1);
    g_assert_cmpuint(f->n_ioevents, ==, 1);
    g_assert_cmphex(f->ioevents[0].addr, ==, NOTIFY);
    g_assert_false(f->ioevents[0].pio || f->ioevents[0].match);
    offer(&w, RING + 4096);
    g_assert_true(fake_ring(f, false, NOTIFY, 0));
    g_assert_true(take(&w, RING + 8192));

    board_config_out(w.b, DEV, 0x20, (uint32_t)MODERN + 0x100000, 4); /* moved */
    g_assert_cmpuint(f->n_ioevents, ==, 1);
    g_assert_cmphex(f->ioevents[0].addr, ==, NOTIFY + 0x100000);
    board_config_out(w.b, DEV, 4, 5, 2); /* out of sight */
    g_assert_cmpuint(f->n_ioevents, ==, 0);
    board_config_out(w.b, DEV, 4, 7, 2);
    g_assert_cmpuint(f->n_ioevents, ==, 1);
    board_config_out(w.b, DEV, 0x20, (uint32_t)MODERN, 4);
    out(&w, MODERN + STATUS, 0, 1);
    g_assert_cmpuint(f->n_ioevents, ==, 0);

    legacy_start(&w);
    g_assert_cmpuint(f->n_ioevents, ==, 1);
    g_assert_cmphex(f->ioevents[0].addr, ==, PORT + 16);
    g_assert_true(f->ioevents[0].pio && f->ioevents[0].match && f->ioevents[0].size == 2);
    g_assert_true(legacy_request(&w));
    reset_run(w.b->m->resets);
    g_assert_cmpuint(f->n_ioevents, ==, 0);
    world_free(&w);
}

static void test_no_ioeventfd(void)
{
    World w = world_new("virtio-rng-pci", "ioeventfd", "off");

    run(&w);
    start(&w, VIRTIO_NO_VECTOR);
    g_assert_cmpuint(w.accel->n_ioevents, ==, 0);
    g_assert_true(request(&w));
    world_free(&w);
}

/* ---- life ---- */

static void test_reset(void)
{
    World w = world_new("virtio-rng-pci", NULL, NULL);

    run(&w);
    enable_msix(&w, true);
    set_vector(&w, 1, 0x31);
    start(&w, 1);
    g_assert_true(request(&w));
    reset_run(w.b->m->resets);
    place_bars(&w);
    g_assert_cmphex(in(&w, MODERN + STATUS, 1), ==, 0);
    g_assert_false(msix_enabled(PCI_DEVICE(w.proxy)));
    start(&w, VIRTIO_NO_VECTOR);
    g_assert_true(request(&w));
    g_assert_cmpint(w.b->levels[INTX_IRQ], ==, 1);
    reset_run(w.b->m->resets);
    g_assert_cmpint(w.b->levels[INTX_IRQ], ==, 0);
    world_free(&w);
}

static void test_unplug(void)
{
    World w = world_new("virtio-rng-pci", NULL, NULL);

    run(&w);
    for (unsigned i = 0; i < 3; i++) {
        uint32_t value;

        enable_msix(&w, true);
        set_vector(&w, 1, 0x31);
        start(&w, 1);
        g_assert_true(request(&w));
        g_assert_cmpuint(w.accel->n_ioevents, ==, 1);
        device_unplug(DEVICE(w.proxy));
        g_assert_cmpuint(w.accel->n_ioevents, ==, 0);
        g_assert_cmpuint(fake_count_routes(w.accel), ==, 0);
        g_assert_cmphex(board_config_in(w.b, DEV, 0, 4), ==, 0xffffffff);
        g_assert_false(address_map_read(w.b->m->memory, MODERN, &value, 4));
        board_settle(w.b);
        w.proxy = VIRTIO_PCI(plug(w.b, "virtio-rng-pci", NULL, NULL, NULL));
        place_bars(&w);
    }
    world_free(&w);
}

static void copy_ram(World *from, World *to)
{
    uint8_t page[4096];

    for (uint64_t at = RING; at < RING + 3 * 4096; at += 4096) {
        guest_read(from->b->m->memory, at, page, sizeof(page));
        guest_write(to->b->m->memory, at, page, sizeof(page));
    }
    to->used = from->used;
}

static World saved_copy(World *from)
{
    World to = world_new("virtio-rng-pci", NULL, NULL);
    g_autoptr(GError) err = NULL;

    runstate_stop(from->b->m->runstate, RUN_STATE_PAUSED);
    copy_ram(from, &to);
    g_assert_true(board_copy_state(from->b, to.b, &err));
    g_assert_no_error(err);
    run(&to);
    return to;
}

static void test_state(void)
{
    World a = world_new("virtio-rng-pci", NULL, NULL), b;
    uint32_t data;

    run(&a);
    enable_msix(&a, true);
    set_vector(&a, 1, 0x31);
    start(&a, 1);
    g_assert_true(request(&a));
    offer(&a, RING + 4096); /* and the doorbell is not rung: the restored device looks anyway */
    b = saved_copy(&a);
    g_assert_cmpuint(b.accel->n_ioevents, ==, 1);
    g_assert_cmpuint(b.accel->commits, ==, 0);
    g_assert_true(take(&b, RING + 8192));
    g_assert_cmpuint(fake_take(b.accel, &data), ==, 1);
    g_assert_cmphex(data, ==, 0x31);
    g_assert_true(request(&b));
    g_assert_cmpuint(fake_take(b.accel, NULL), ==, 1);
    g_assert_cmphex(in(&b, MODERN + QVECTOR, 2), ==, 1);
    g_assert_cmphex(in(&b, MODERN + STATUS, 1), ==, 15);
    world_free(&a);
    world_free(&b);
}

static void test_state_legacy(void)
{
    World a = world_new("virtio-rng-pci", NULL, NULL), b;

    run(&a);
    legacy_start(&a);
    g_assert_true(legacy_request(&a));
    b = saved_copy(&a);
    g_assert_cmpint(b.b->levels[INTX_IRQ], ==, 1); /* it was not taken yet */
    g_assert_cmphex(board_in(b.b, PORT + 19, 1), ==, 1);
    g_assert_cmpint(b.b->levels[INTX_IRQ], ==, 0);
    g_assert_true(legacy_request(&b));
    world_free(&a);
    world_free(&b);
}

/* Saved state that no device has written. */
static void test_bad_state(void)
{
    World a = world_new("virtio-rng-pci", NULL, NULL), b = world_new("virtio-rng-pci", NULL, NULL);
    World other = world_new("virtio-balloon-pci", NULL, NULL);
    g_autoptr(GError) err = NULL;

    start(&a, VIRTIO_NO_VECTOR);
    a.proxy->config_vector = 2;
    g_assert_false(board_copy_state(a.b, b.b, &err));
    g_assert_nonnull(err);
    g_clear_error(&err);
    a.proxy->config_vector = VIRTIO_NO_VECTOR;
    virtqueue_set_vector(a.proxy->vdev->queues[0], 7);
    g_assert_false(board_copy_state(a.b, b.b, &err));
    g_assert_nonnull(err);
    g_clear_error(&err);
    /* Far out of the table, and refused before vectors are looked at: found by fuzzing. */
    virtqueue_set_vector(a.proxy->vdev->queues[0], 0x4000);
    g_assert_false(board_copy_state(a.b, b.b, &err));
    g_clear_error(&err);
    reset_run(b.b->m->resets);
    virtqueue_set_vector(a.proxy->vdev->queues[0], VIRTIO_NO_VECTOR);
    g_assert_false(board_copy_state(a.b, other.b, &err));
    g_assert_nonnull(err);
    reset_run(b.b->m->resets); /* whatever was loaded can be reset */
    world_free(&a);
    world_free(&b);
    world_free(&other);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/virtio-pci/doorbells", test_doorbells);
    g_test_add_func("/virtio-pci/no-ioeventfd", test_no_ioeventfd);
    g_test_add_func("/virtio-pci/reset", test_reset);
    g_test_add_func("/virtio-pci/unplug", test_unplug);
    g_test_add_func("/virtio-pci/state", test_state);
    g_test_add_func("/virtio-pci/state-legacy", test_state_legacy);
    g_test_add_func("/virtio-pci/bad-state", test_bad_state);
    return g_test_run();
}
