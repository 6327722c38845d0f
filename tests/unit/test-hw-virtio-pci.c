/*
 * Tests of virtio over PCI, with the entropy device behind it: what it offers, both interfaces, interrupts.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "virtio-pci-fixture.h"

/* ---- what there is ---- */

static void test_ids(void)
{
    static const struct {
        const char *type, *name, *value;
        uint16_t device, subsystem, revision;
        bool legacy, modern;
    } cases[] = {
        { "virtio-rng-pci", NULL, NULL, 0x1005, 4, 0, true, true },
        { "virtio-rng", NULL, NULL, 0x1005, 4, 0, true, true },
        { "virtio-rng-pci", "disable-legacy", "on", 0x1044, 0x1100, 1, false, true },
        { "virtio-rng-pci", "disable-modern", "on", 0x1005, 4, 0, true, false },
        { "virtio-rng-pci-transitional", NULL, NULL, 0x1005, 4, 0, true, true },
        { "virtio-rng-pci-non-transitional", NULL, NULL, 0x1044, 0x1100, 1, false, true },
        { "virtio-balloon-pci", NULL, NULL, 0x1002, 5, 0, true, true },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        World w = world_new(cases[i].type, cases[i].name, cases[i].value);

        g_assert_cmphex(board_config_in(w.b, DEV, 0, 4), ==, cases[i].device << 16 | 0x1af4);
        g_assert_cmphex(board_config_in(w.b, DEV, 0x2c, 4), ==, cases[i].subsystem << 16 | 0x1af4);
        g_assert_cmphex(board_config_in(w.b, DEV, 8, 1), ==, cases[i].revision);
        g_assert_cmphex(board_config_in(w.b, DEV, 0x3d, 1), ==, 1);
        g_assert_cmpint(board_config_in(w.b, DEV, 0x10, 4) != 0, ==, cases[i].legacy);
        g_assert_cmpint(find_capability(&w, 9, 1) != 0, ==, cases[i].modern);
        world_free(&w);
    }
}

static void test_no_interface(void)
{
    Board *b = board_new(16 * MiB, NULL);
    GType type = qom_type_find(board_types, "virtio-rng-pci");
    g_autoptr(GError) err = NULL;

    g_assert_null(device_create(b->m, type, BUS(b->m->pci), &err, "disable-legacy", "on",
                                "disable-modern", "on", NULL));
    g_assert_nonnull(err);
    g_clear_error(&err);
    g_assert_null(plug(b, "virtio-rng-pci", &err, "vectors", "2049"));
    g_assert_nonnull(err);
    g_clear_error(&err);
    g_assert_null(plug(b, "virtio-rng-pci-transitional", &err, "disable-legacy", "on"));
    g_assert_nonnull(err);
    board_free(b);
}

static void test_capabilities(void)
{
    World w = world_new("virtio-rng-pci", NULL, NULL);
    static const uint32_t offsets[] = { 0, 0, 0x3000, 0x1000, 0x2000, 0 };
    static const uint8_t lengths[] = { 0, 16, 20, 16, 16, 20 };

    for (unsigned type = 1; type <= 5; type++) {
        unsigned at = find_capability(&w, 9, type);

        g_assert_cmpuint(at, >=, 0x40);
        g_assert_cmpuint(board_config_in(w.b, DEV, at + 2, 1), ==, lengths[type]);
        g_assert_cmpuint(board_config_in(w.b, DEV, at + 4, 1), ==, type == 5 ? 0 : 4);
        g_assert_cmphex(board_config_in(w.b, DEV, at + 8, 4), ==, offsets[type]);
        if (type == 2) {
            g_assert_cmpuint(board_config_in(w.b, DEV, at + 16, 4), ==, 4);
        }
    }
    g_assert_cmpuint(find_capability(&w, 0x11, 0), !=, 0);
    world_free(&w);
    w = world_new("virtio-rng-pci", "vectors", "0");
    g_assert_cmpuint(find_capability(&w, 0x11, 0), ==, 0);
    world_free(&w);
}

/* Properties of the device behind are those of the function. */
static void test_properties(void)
{
    World w = world_new("virtio-rng-pci", "max-bytes", "1000");
    Object *obj = OBJECT(w.proxy), *backend = object_get_child(obj, "virtio-backend");
    g_autoptr(GError) err = NULL;
    json_object *value = object_get_property_json(obj, "max-bytes", &err);

    g_assert_no_error(err);
    g_assert_cmpint(json_object_get_int64(value), ==, 1000);
    json_object_put(value);
    value = object_get_property_json(backend, "max-bytes", &err);
    g_assert_cmpint(json_object_get_int64(value), ==, 1000);
    json_object_put(value);
    g_assert_false(object_set_property_str(obj, "max-bytes", "5", &err)); /* in use */
    g_assert_nonnull(err);
    world_free(&w);
}

static void test_globals(void)
{
    Board *b = board_new(16 * MiB, NULL);
    g_autoptr(GError) err = NULL;
    Device *dev;
    json_object *value;

    machine_add_global(b->m, "virtio-rng-device", "max-bytes", "77");
    dev = plug(b, "virtio-rng-pci", &err, NULL, NULL);
    g_assert_no_error(err);
    value = object_get_property_json(OBJECT(dev), "max-bytes", &err);
    g_assert_cmpint(json_object_get_int64(value), ==, 77);
    json_object_put(value);
    board_free(b);
}

/* ---- the modern interface ---- */

static void test_registers(void)
{
    World w = world_new("virtio-rng-pci", NULL, NULL);
    uint64_t features = offered(&w);

    g_assert_true(features & VIRTIO_FEATURE(VERSION_1));
    g_assert_cmpuint(in(&w, MODERN + NUMQ, 2), ==, 1);
    begin(&w, features);
    g_assert_cmphex(in(&w, MODERN + GF, 4), ==, features >> 32);
    g_assert_cmpuint(in(&w, MODERN + QSIZE, 2), ==, SIZE);
    set_up_queue(&w, VIRTIO_NO_VECTOR);
    g_assert_cmphex(in(&w, MODERN + QDESC + 16, 4), ==, RING + 8192);
    g_assert_cmpuint(in(&w, MODERN + QENABLE, 2), ==, 1);
    g_assert_cmpuint(in(&w, MODERN + QNOFF, 2), ==, 0);
    out(&w, MODERN + QSELECT, 1, 2); /* there is none */
    g_assert_cmpuint(in(&w, MODERN + QSIZE, 2), ==, 0);
    out(&w, MODERN + QENABLE, 1, 2);
    out(&w, MODERN + QSELECT, 0xffff, 2);
    out(&w, MODERN + QSIZE, 4, 2);
    out(&w, MODERN + 2, 1, 2); /* no register starts there */
    out(&w, MODERN + 61, 1, 1);
    out(&w, MODERN + 0xffc, 1, 4);
    g_assert_cmphex(in(&w, MODERN + 0xffc, 4), ==, 0);
    out(&w, NOTIFY + 4 * 63, 63, 2);
    out(&w, MODERN + VIRTIO_PCI_MODERN_SIZE - 4, 0, 4);
    g_assert_cmphex(in(&w, MODERN + STATUS, 1), ==, 11);
    out(&w, MODERN + STATUS, 0, 1);
    g_assert_cmphex(in(&w, MODERN + STATUS, 1), ==, 0);
    out(&w, MODERN + QSELECT, 0, 2);
    g_assert_cmpuint(in(&w, MODERN + QENABLE, 2), ==, 0);
    world_free(&w);
}

static void test_request(void)
{
    World w = world_new("virtio-rng-pci", NULL, NULL);
    uint32_t data, len;

    run(&w);
    enable_msix(&w, true);
    set_vector(&w, 0, 0x30);
    set_vector(&w, 1, 0x31);
    start(&w, 1);
    g_assert_cmphex(in(&w, MODERN + QVECTOR, 2), ==, 1);
    for (unsigned i = 0; i < 20; i++) {
        g_assert_true(request(&w));
        g_assert_cmpuint(fake_take(w.accel, &data), ==, 1);
        g_assert_cmphex(data, ==, 0x31);
    }
    guest_read_le32(w.b->m->memory, RING + 8192 + 8, &len);
    g_assert_cmpuint(len, ==, 64);
    g_assert_cmpint(w.b->levels[INTX_IRQ], ==, 0);
    world_free(&w);
}

static void test_vectors(void)
{
    World w = world_new("virtio-rng-pci", NULL, NULL);

    out(&w, MODERN + QSELECT, 0, 2);
    for (unsigned reg = MSIX; reg <= QVECTOR; reg += QVECTOR - MSIX) {
        g_assert_cmphex(in(&w, MODERN + reg, 2), ==, VIRTIO_NO_VECTOR);
        out(&w, MODERN + reg, 1, 2);
        g_assert_cmphex(in(&w, MODERN + reg, 2), ==, 1);
        out(&w, MODERN + reg, 2, 2); /* there are 2 */
        g_assert_cmphex(in(&w, MODERN + reg, 2), ==, VIRTIO_NO_VECTOR);
        out(&w, MODERN + reg, 0, 2);
    }
    out(&w, MODERN + STATUS, 0, 1);
    g_assert_cmphex(in(&w, MODERN + MSIX, 2), ==, VIRTIO_NO_VECTOR);
    world_free(&w);
    w = world_new("virtio-rng-pci", "vectors", "0");
    out(&w, MODERN + MSIX, 0, 2);
    g_assert_cmphex(in(&w, MODERN + MSIX, 2), ==, VIRTIO_NO_VECTOR);
    world_free(&w);
}

/* A queue without vector is not told; with MSI-X on the pin stays low. */
static void test_no_vector(void)
{
    World w = world_new("virtio-rng-pci", NULL, NULL);

    run(&w);
    enable_msix(&w, true);
    start(&w, VIRTIO_NO_VECTOR);
    g_assert_true(request(&w));
    g_assert_cmpuint(fake_take(w.accel, NULL), ==, 0);
    g_assert_cmpint(w.b->levels[INTX_IRQ], ==, 0);
    world_free(&w);
}

static void test_intx(void)
{
    World w = world_new("virtio-rng-pci", NULL, NULL);

    run(&w);
    start(&w, VIRTIO_NO_VECTOR);
    g_assert_true(request(&w));
    g_assert_cmpint(w.b->levels[INTX_IRQ], ==, 1);
    g_assert_cmpuint(w.b->edges[INTX_IRQ], ==, 1);
    g_assert_cmphex(board_config_in(w.b, DEV, 6, 2) & 8, ==, 8);
    board_config_out(w.b, DEV, 4, 0x407, 2);
    g_assert_cmpint(w.b->levels[INTX_IRQ], ==, 0);
    board_config_out(w.b, DEV, 4, 7, 2);
    g_assert_cmpint(w.b->levels[INTX_IRQ], ==, 1);
    g_assert_cmphex(in(&w, MODERN + VIRTIO_PCI_ISR, 1), ==, 1);
    g_assert_cmpint(w.b->levels[INTX_IRQ], ==, 0);
    g_assert_cmphex(in(&w, MODERN + VIRTIO_PCI_ISR, 1), ==, 0);
    g_assert_true(request(&w));
    g_assert_cmpint(w.b->levels[INTX_IRQ], ==, 1);
    enable_msix(&w, true); /* the pin is not used then */
    g_assert_cmpint(w.b->levels[INTX_IRQ], ==, 0);
    enable_msix(&w, false);
    g_assert_cmpint(w.b->levels[INTX_IRQ], ==, 1);
    out(&w, MODERN + STATUS, 0, 1);
    g_assert_cmpint(w.b->levels[INTX_IRQ], ==, 0);
    world_free(&w);
}

/* Without bus mastering nothing in RAM is touched; what was asked for meanwhile is done afterwards. */
static void test_bus_master(void)
{
    World w = world_new("virtio-rng-pci", NULL, NULL);

    run(&w);
    start(&w, VIRTIO_NO_VECTOR);
    board_config_out(w.b, DEV, 4, 3, 2);
    g_assert_false(request(&w));
    board_config_out(w.b, DEV, 4, 7, 2);
    g_assert_true(take(&w, RING + 8192));
    world_free(&w);
}

static void test_queue_reset(void)
{
    World w = world_new("virtio-rng-pci", NULL, NULL);

    run(&w);
    enable_msix(&w, true);
    set_vector(&w, 1, 0x31);
    begin(&w, VIRTIO_FEATURE(VERSION_1) | VIRTIO_FEATURE(VIRTIO_F_RING_RESET));
    set_up_queue(&w, 1);
    out(&w, MODERN + STATUS, 15, 1);
    g_assert_true(request(&w));
    g_assert_cmpuint(w.accel->n_ioevents, ==, 1);
    out(&w, MODERN + QRESET, 1, 2);
    g_assert_cmpuint(in(&w, MODERN + QRESET, 2), ==, 0);
    g_assert_cmpuint(in(&w, MODERN + QENABLE, 2), ==, 0);
    g_assert_cmphex(in(&w, MODERN + QVECTOR, 2), ==, VIRTIO_NO_VECTOR);
    g_assert_cmpuint(w.accel->n_ioevents, ==, 0);
    g_assert_true(guest_fill(w.b->m->memory, RING, 0, 3 * 4096));
    set_up_queue(&w, 1);
    g_assert_cmpuint(w.accel->n_ioevents, ==, 1);
    fake_take(w.accel, NULL);
    g_assert_true(request(&w));
    g_assert_cmpuint(fake_take(w.accel, NULL), ==, 1);
    world_free(&w);
}

/* 4.1.4.9: registers through the configuration space, for firmware that maps no BAR. */
static void test_cfg_access(void)
{
    World w = world_new("virtio-rng-pci", NULL, NULL);
    unsigned cap = find_capability(&w, 9, 5);

    board_config_out(w.b, DEV, 4, 4, 2); /* no BAR is mapped */
    board_config_out(w.b, DEV, cap + 4, 4, 1);
    board_config_out(w.b, DEV, cap + 8, STATUS, 4);
    board_config_out(w.b, DEV, cap + 12, 1, 4);
    board_config_out(w.b, DEV, cap + 16, 3, 1);
    g_assert_cmphex(w.proxy->vdev->status, ==, 3);
    board_config_out(w.b, DEV, cap + 16, 0xff, 2);
    board_config_out(w.b, DEV, cap + 8, NUMQ, 4);
    board_config_out(w.b, DEV, cap + 12, 2, 4);
    g_assert_cmphex(board_config_in(w.b, DEV, cap + 16, 2), ==, 1);
    board_config_out(w.b, DEV, cap + 8, 0xfffffffe, 4); /* nowhere */
    board_config_in(w.b, DEV, cap + 16, 4);
    board_config_out(w.b, DEV, cap + 12, 3, 4);
    board_config_out(w.b, DEV, cap + 16, 3, 4);
    board_config_out(w.b, DEV, cap + 4, 0xff, 1);
    board_config_out(w.b, DEV, cap + 12, 4, 4);
    board_config_out(w.b, DEV, cap + 16, 3, 4);
    world_free(&w);
}

/* ---- the legacy interface ---- */

static void test_legacy(void)
{
    World w = world_new("virtio-rng-pci", NULL, NULL);

    board_config_out(w.b, DEV, 4, 3, 2); /* a driver that forgets bus mastering */
    run(&w);
    legacy_start(&w);
    g_assert_cmphex(board_config_in(w.b, DEV, 4, 2), ==, 7);
    g_assert_cmpuint(board_in(w.b, PORT + 8, 4), ==, RING >> 12);
    g_assert_true(legacy_request(&w));
    g_assert_cmpint(w.b->levels[INTX_IRQ], ==, 1);
    g_assert_cmphex(board_in(w.b, PORT + 19, 1), ==, 1);
    g_assert_cmpint(w.b->levels[INTX_IRQ], ==, 0);
    g_assert_cmphex(board_in(w.b, PORT + 18, 1), ==, 7);
    board_out(w.b, PORT + 16, 5, 2); /* no such queue */
    board_out(w.b, PORT + 14, 5, 2);
    g_assert_cmpuint(board_in(w.b, PORT + 12, 2), ==, 0);
    board_out(w.b, PORT + 8, 1, 4);
    board_out(w.b, PORT + 18, 0, 1);
    board_out(w.b, PORT + 14, 0, 2);
    g_assert_cmpuint(board_in(w.b, PORT + 8, 4), ==, 0);
    world_free(&w);
}

static void test_legacy_msix(void)
{
    World w = world_new("virtio-rng-pci", NULL, NULL);
    uint32_t data;

    run(&w);
    enable_msix(&w, true);
    set_vector(&w, 1, 0x41);
    board_out(w.b, PORT + 14, 0, 2);
    board_out(w.b, PORT + 22, 1, 2);
    g_assert_cmphex(board_in(w.b, PORT + 22, 2), ==, 1);
    board_out(w.b, PORT + 20, 9, 2);
    g_assert_cmphex(board_in(w.b, PORT + 20, 2), ==, VIRTIO_NO_VECTOR);
    board_out(w.b, PORT + 18, 0, 1);
    g_assert_cmphex(board_in(w.b, PORT + 22, 2), ==, VIRTIO_NO_VECTOR);
    legacy_start(&w);
    board_out(w.b, PORT + 22, 1, 2);
    g_assert_true(legacy_request(&w));
    g_assert_cmpuint(fake_take(w.accel, &data), ==, 1);
    g_assert_cmphex(data, ==, 0x41);
    world_free(&w);
}

/* The device's configuration begins behind the registers, which are four bytes more with MSI-X. */
static void test_legacy_config(void)
{
    World w = world_new("virtio-balloon-pci", NULL, NULL);

    for (unsigned msix = 0; msix < 2; msix++) {
        enable_msix(&w, msix);
        board_out(w.b, PORT + 20 + 4 * msix + 4, 0x1234, 4); /* "actual" */
        g_assert_cmphex(board_in(w.b, PORT + 20 + 4 * msix + 4, 4), ==, 0x1234);
        g_assert_cmphex(board_in(w.b, PORT + 20 + 4 * msix + 5, 1), ==, 0x12);
        g_assert_cmphex(in(&w, MODERN + VIRTIO_PCI_CONFIG + 4, 4), ==, 0x1234);
        g_assert_cmphex(board_in(w.b, PORT + 60, 4), ==, 0);
    }
    world_free(&w);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/virtio-pci/ids", test_ids);
    g_test_add_func("/virtio-pci/no-interface", test_no_interface);
    g_test_add_func("/virtio-pci/capabilities", test_capabilities);
    g_test_add_func("/virtio-pci/properties", test_properties);
    g_test_add_func("/virtio-pci/globals", test_globals);
    g_test_add_func("/virtio-pci/registers", test_registers);
    g_test_add_func("/virtio-pci/request", test_request);
    g_test_add_func("/virtio-pci/vectors", test_vectors);
    g_test_add_func("/virtio-pci/no-vector", test_no_vector);
    g_test_add_func("/virtio-pci/intx", test_intx);
    g_test_add_func("/virtio-pci/bus-master", test_bus_master);
    g_test_add_func("/virtio-pci/queue-reset", test_queue_reset);
    g_test_add_func("/virtio-pci/cfg-access", test_cfg_access);
    g_test_add_func("/virtio-pci/legacy", test_legacy);
    g_test_add_func("/virtio-pci/legacy-msix", test_legacy_msix);
    g_test_add_func("/virtio-pci/legacy-config", test_legacy_config);
    return g_test_run();
}
