/*
 * Tests of MSI-X: capability, table, masks, pending bits, irqfds, saved state.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/pci/msix.h"

#include "fake-accel.h"
#include "hw-fixture.h"

#define DEV PCI_DEVFN(5, 0)
#define BAR UINT64_C(0xfe000000)
#define ADDRESS UINT64_C(0xfee01000)

/* ---- a device with nothing but vectors ---- */

typedef struct TestMsix {
    PciDevice parent_instance;
    uint32_t vectors;
} TestMsix;

typedef struct TestMsixClass {
    PciDeviceClass parent_class;
} TestMsixClass;

static GType test_msix_get_type(void);
QOM_DEFINE_TYPE(TestMsix, test_msix, "test-msix", TYPE_PCI_DEVICE)

static bool test_msix_realize(PciDevice *dev, GError **errp)
{
    return msix_init(dev, ((TestMsix *)dev)->vectors, 1, errp);
}

static const VMStateDescription vmstate_test_msix = {
    .name = "test-msix",
    .version_id = 1,
    .minimum_version_id = 1,
    .fields = (const VMStateField[]){ VMSTATE_PCI_DEVICE(parent_instance, TestMsix),
                                      VMSTATE_END_OF_LIST() },
};

static const QomProperty test_msix_properties[] = {
    { .name = "vectors", .kind = QOM_UINT32, .offset = offsetof(TestMsix, vectors), .def = 8 },
    QOM_PROPERTY_END,
};

static void test_msix_init(TestMsix *s)
{
}

static void test_msix_class_init(TestMsixClass *klass)
{
    qom_class_install(klass, test_msix_properties);
    PCI_DEVICE_CLASS(klass)->realize = test_msix_realize;
    DEVICE_CLASS(klass)->vmsd = &vmstate_test_msix;
}

/* ---- the board ---- */

typedef struct World {
    Board *b;
    FakeAccel *accel;
    PciDevice *dev;
} World;

static Device *plug(World *w, const char *vectors, GError **errp)
{
    return device_create(w->b->m, test_msix_get_type(), BUS(w->b->m->pci), errp, "addr", "5",
                         "vectors", vectors, NULL);
}

static World world_new(const char *vectors)
{
    World w = { .b = board_new(16 * MiB, NULL) };
    AccelEnv env = { .runstate = w.b->m->runstate, .ram = w.b->m->ram };
    g_autoptr(GError) err = NULL;

    w.accel = fake_accel_new(&env);
    w.b->m->accel = &w.accel->parent;
    w.dev = PCI_DEVICE(plug(&w, vectors, &err));
    g_assert_no_error(err);
    reset_run(w.b->m->resets);
    board_config_out(w.b, DEV, 0x14, (uint32_t)BAR, 4);
    board_config_out(w.b, DEV, 4, 2, 2);
    return w;
}

static void world_free(World *w)
{
    board_free(w->b);
    fake_accel_free(w->accel);
}

static void run(World *w)
{
    g_autoptr(GError) err = NULL;

    g_assert_true(runstate_start(w->b->m->runstate, &err));
    g_assert_no_error(err);
}

static unsigned cap_of(World *w)
{
    return board_config_in(w->b, DEV, PCI_REG_CAPABILITIES, 1);
}

static void set_control(World *w, uint16_t bits)
{
    board_config_out(w->b, DEV, cap_of(w) + MSIX_CAP_CONTROL, bits, 2);
}

static void table_write(World *w, unsigned n, unsigned field, uint32_t value)
{
    address_map_write(w->b->m->memory, BAR + n * MSIX_ENTRY_SIZE + field, &value, 4);
}

static uint32_t bar_in(World *w, uint64_t offset)
{
    uint32_t value = 0;

    address_map_read(w->b->m->memory, BAR + offset, &value, 4);
    return value;
}

/* Gives the vector an address and data, and unmasks it. */
static void set_vector(World *w, unsigned n, uint32_t data)
{
    table_write(w, n, 0, (uint32_t)ADDRESS);
    table_write(w, n, 4, 0);
    table_write(w, n, 8, data);
    table_write(w, n, 12, 0);
}

static void mask(World *w, unsigned n, bool masked)
{
    table_write(w, n, 12, masked);
}

static uint32_t pending(World *w)
{
    return bar_in(w, 2048);
}

/* The time to move to irqfds has come. */
static void settle_irqfds(World *w)
{
    GSource *source = w->b->m->pci->irqfd_source;

    if (source && g_source_get_ready_time(source) >= 0) {
        g_source_set_ready_time(source, 0);
    }
    board_settle(w->b);
}

/* ---- tests ---- */

static void test_capability(void)
{
    World w = world_new("8");
    unsigned cap = cap_of(&w);

    g_assert_cmphex(board_config_in(w.b, DEV, cap, 1), ==, 0x11);
    g_assert_cmphex(board_config_in(w.b, DEV, cap + 2, 2), ==, 7); /* N - 1 */
    g_assert_cmphex(board_config_in(w.b, DEV, cap + 4, 4), ==, 1);
    g_assert_cmphex(board_config_in(w.b, DEV, cap + 8, 4), ==, 2048 | 1);
    set_control(&w, 0xffff);
    g_assert_cmphex(board_config_in(w.b, DEV, cap + 2, 2), ==, 0xc007);
    g_assert_cmphex(bar_in(&w, 12), ==, 1); /* masked at first */
    table_write(&w, 0, 12, 0xfffffffe);
    g_assert_cmphex(bar_in(&w, 12), ==, 0); /* the other bits are reserved */
    table_write(&w, 7, 8, 0x12345678);
    g_assert_cmphex(bar_in(&w, 7 * 16 + 8), ==, 0x12345678);
    table_write(&w, 8, 0, 1); /* behind the table */
    g_assert_cmphex(bar_in(&w, 8 * 16), ==, 0);
    g_assert_true(msix_enabled(w.dev));
    reset_run(w.b->m->resets);
    g_assert_false(msix_enabled(w.dev));
    g_assert_cmphex(board_config_in(w.b, DEV, cap + 2, 2), ==, 7);
    world_free(&w);
}

static void test_sizes(void)
{
    World w = world_new("200");
    static const char *const bad[] = { "0", "2049" };

    g_assert_cmphex(board_config_in(w.b, DEV, cap_of(&w) + 8, 4), ==, 4096 | 1);
    board_config_out(w.b, DEV, 0x14, 0xffffffff, 4);
    g_assert_cmphex(board_config_in(w.b, DEV, 0x14, 4), ==, 0xffffe000);
    device_unplug(DEVICE(w.dev));
    for (unsigned i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GError) err = NULL;

        g_assert_null(plug(&w, bad[i], &err));
        g_assert_nonnull(err);
    }
    world_free(&w);
}

static void test_masks(void)
{
    World w = world_new("8");
    uint32_t data;

    run(&w);
    set_vector(&w, 2, 0x42);
    msix_notify(w.dev, 2); /* MSI-X is off: nothing, and nothing is kept */
    set_control(&w, MSIX_CONTROL_ENABLE);
    g_assert_cmpuint(fake_take(w.accel, NULL), ==, 0);
    msix_notify(w.dev, 2);
    g_assert_cmpuint(fake_take(w.accel, &data), ==, 1);
    g_assert_cmphex(data, ==, 0x42);
    msix_notify(w.dev, 8); /* there is none */
    msix_notify(w.dev, 0xffff);
    mask(&w, 2, true);
    msix_notify(w.dev, 2);
    msix_notify(w.dev, 2);
    g_assert_cmpuint(fake_take(w.accel, NULL), ==, 0);
    g_assert_cmphex(pending(&w), ==, 4);
    mask(&w, 2, false);
    g_assert_cmpuint(fake_take(w.accel, &data), ==, 1);
    g_assert_cmphex(pending(&w), ==, 0);
    set_control(&w, MSIX_CONTROL_ENABLE | MSIX_CONTROL_MASK);
    msix_notify(w.dev, 2);
    g_assert_cmphex(pending(&w), ==, 4);
    table_write(&w, 128, 0, 0); /* pending bits cannot be written */
    g_assert_cmphex(pending(&w), ==, 4);
    g_assert_cmpuint(fake_take(w.accel, NULL), ==, 0);
    set_control(&w, MSIX_CONTROL_ENABLE);
    g_assert_cmpuint(fake_take(w.accel, NULL), ==, 1);
    world_free(&w);
}

/* Nothing reaches the interrupt controllers of a stopped VM, whose registers may have been saved already. */
static void test_stopped(void)
{
    World w = world_new("8");

    set_vector(&w, 1, 0x31);
    set_control(&w, MSIX_CONTROL_ENABLE);
    msix_notify(w.dev, 1);
    g_assert_cmpuint(fake_take(w.accel, NULL), ==, 0);
    run(&w);
    g_assert_cmpuint(fake_take(w.accel, NULL), ==, 1);
    runstate_stop(w.b->m->runstate, RUN_STATE_PAUSED);
    msix_notify(w.dev, 1);
    msix_notify(w.dev, 1);
    g_assert_cmpuint(fake_take(w.accel, NULL), ==, 0);
    run(&w);
    g_assert_cmpuint(fake_take(w.accel, NULL), ==, 1);
    world_free(&w);
}

static void test_irqfd(void)
{
    World w = world_new("8");
    uint32_t data;

    run(&w);
    for (unsigned i = 0; i < 4; i++) {
        set_vector(&w, i, 0x50 + i);
    }
    set_control(&w, MSIX_CONTROL_ENABLE);
    msix_use(w.dev, 1);
    msix_use(w.dev, 2);
    msix_use(w.dev, 2);
    msix_notify(w.dev, 1);
    g_assert_cmpuint(w.accel->n_sent, ==, 1); /* at once, without a route */
    g_assert_cmpuint(w.accel->commits, ==, 0);
    settle_irqfds(&w);
    g_assert_cmpuint(w.accel->commits, ==, 1); /* one for all */
    g_assert_cmpuint(fake_count_routes(w.accel), ==, 2);
    fake_take(w.accel, NULL);
    msix_notify(w.dev, 2);
    g_assert_cmpuint(w.accel->n_sent, ==, 0);
    g_assert_cmpuint(fake_take(w.accel, &data), ==, 1);
    g_assert_cmphex(data, ==, 0x52);
    mask(&w, 2, true);
    msix_notify(w.dev, 2);
    g_assert_cmpuint(fake_take(w.accel, NULL), ==, 0);
    mask(&w, 2, false);
    g_assert_cmpuint(fake_take(w.accel, NULL), ==, 1);

    /* Another place for the message: the old route is not used any more, from this moment on. */
    table_write(&w, 2, 8, 0x99);
    msix_notify(w.dev, 2);
    g_assert_cmpuint(w.accel->n_sent, ==, 1);
    g_assert_cmpuint(fake_take(w.accel, &data), ==, 1);
    g_assert_cmphex(data, ==, 0x99);
    settle_irqfds(&w);
    g_assert_cmpuint(w.accel->commits, ==, 2);
    msix_notify(w.dev, 2);
    g_assert_cmpuint(w.accel->n_sent, ==, 0);
    g_assert_cmpuint(fake_take(w.accel, &data), ==, 1);
    g_assert_cmphex(data, ==, 0x99);

    msix_unuse(w.dev, 2);
    g_assert_cmpuint(fake_count_routes(w.accel), ==, 2);
    msix_unuse(w.dev, 2);
    g_assert_cmpuint(fake_count_routes(w.accel), ==, 1);
    set_control(&w, 0);
    g_assert_cmpuint(fake_count_routes(w.accel), ==, 0);
    world_free(&w);
}

/* Nothing of a device stays behind in the accelerator, in the address map or on the bus. */
static void test_unplug(void)
{
    World w = world_new("8");
    uint32_t byte;

    run(&w);
    for (unsigned i = 0; i < 3; i++) {
        board_config_out(w.b, DEV, 0x14, (uint32_t)BAR, 4);
        board_config_out(w.b, DEV, 4, 2, 2);
        set_vector(&w, 0, 1);
        set_control(&w, MSIX_CONTROL_ENABLE);
        msix_use(w.dev, 0);
        if (i != 1) {
            settle_irqfds(&w);
        }
        device_unplug(DEVICE(w.dev));
        g_assert_cmpuint(fake_count_routes(w.accel), ==, 0);
        g_assert_false(address_map_read(w.b->m->memory, BAR, &byte, 4));
        settle_irqfds(&w);
        w.dev = PCI_DEVICE(plug(&w, "8", NULL));
    }
    world_free(&w);
}

static void test_state(void)
{
    World a = world_new("8"), b = world_new("8"), other = world_new("4");
    g_autoptr(GError) err = NULL;
    uint32_t data;

    run(&a);
    set_vector(&a, 0, 0x70);
    set_vector(&a, 3, 0x73);
    mask(&a, 3, true);
    set_control(&a, MSIX_CONTROL_ENABLE);
    msix_notify(a.dev, 3);
    runstate_stop(a.b->m->runstate, RUN_STATE_PAUSED);
    msix_notify(a.dev, 0);
    g_assert_true(board_copy_state(a.b, b.b, &err));
    g_assert_no_error(err);
    g_assert_true(msix_enabled(b.dev));
    g_assert_cmphex(pending(&b), ==, 9);
    run(&b);
    g_assert_cmpuint(fake_take(b.accel, &data), ==, 1);
    g_assert_cmphex(data, ==, 0x70);
    mask(&b, 3, false);
    g_assert_cmpuint(fake_take(b.accel, &data), ==, 1);
    g_assert_cmphex(data, ==, 0x73);
    g_assert_cmpuint(b.accel->commits, ==, 0);

    g_assert_false(board_copy_state(a.b, other.b, &err));
    g_assert_nonnull(err);
    world_free(&a);
    world_free(&b);
    world_free(&other);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/msix/capability", test_capability);
    g_test_add_func("/msix/sizes", test_sizes);
    g_test_add_func("/msix/masks", test_masks);
    g_test_add_func("/msix/stopped", test_stopped);
    g_test_add_func("/msix/irqfd", test_irqfd);
    g_test_add_func("/msix/unplug", test_unplug);
    g_test_add_func("/msix/state", test_state);
    return g_test_run();
}
