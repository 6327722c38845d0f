/*
 * Tests of hw/core: the life of a device, buses, globals, reset order.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/core/bus.h"
#include "hw/core/device.h"
#include "hw/core/machine.h"
#include "hw/core/null-machine.h"

#include "util/error.h"
#include "vmstate/registry.h"

typedef struct TestBus {
    Bus parent_instance;
} TestBus;

typedef struct TestBusClass {
    BusClass parent_class;
} TestBusClass;

static GType test_bus_get_type(void);
QOM_DEFINE_TYPE(TestBus, test_bus, "test-bus", TYPE_BUS)

static char *place_of(Bus *bus, Device *dev)
{
    return g_strdup_printf("place%u", bus->devices->len - 1);
}

static void test_bus_init(TestBus *bus)
{
}

static void test_bus_class_init(TestBusClass *klass)
{
    BUS_CLASS(klass)->max_devices = 2;
    BUS_CLASS(klass)->device_path = place_of;
}

typedef struct TestDevice {
    Device parent_instance;
    uint32_t value;
    bool fail;
    unsigned resets;
} TestDevice;

typedef struct TestDeviceClass {
    DeviceClass parent_class;
} TestDeviceClass;

static GType test_device_get_type(void);
QOM_DEFINE_TYPE(TestDevice, test_device, "test-device", TYPE_DEVICE)

static int alive;

static bool test_realize(Device *dev, GError **errp)
{
    if (((TestDevice *)dev)->fail) {
        error_set(errp, "told to fail");
        return false;
    }
    alive++;
    return true;
}

static void test_unrealize(Device *dev)
{
    alive--;
}

static void test_reset(Device *dev)
{
    ((TestDevice *)dev)->resets++;
}

static const VMStateField test_fields[] = { VMSTATE_UINT32(value, TestDevice),
                                            VMSTATE_END_OF_LIST() };
static const VMStateDescription test_vmsd = {
    .name = "test", .version_id = 1, .minimum_version_id = 1, .fields = test_fields
};

static const QomProperty test_properties[] = {
    { .name = "value", .kind = QOM_UINT32, .offset = offsetof(TestDevice, value), .def = 5 },
    { .name = "fail", .kind = QOM_BOOL, .offset = offsetof(TestDevice, fail) },
    QOM_PROPERTY_END
};

static void test_device_init(TestDevice *dev)
{
}

static void test_device_class_init(TestDeviceClass *klass)
{
    DeviceClass *dc = DEVICE_CLASS(klass);

    dc->realize = test_realize;
    dc->unrealize = test_unrealize;
    dc->reset = test_reset;
    dc->vmsd = &test_vmsd;
    dc->bus_type = "test-bus";
    dc->user_creatable = true;
    qom_class_install(klass, test_properties);
}

static const QomType test_types[] = {
    { "test-bus", test_bus_get_type },
    { "test-device", test_device_get_type },
    { "device", device_get_type },
    { "none-machine", null_machine_get_type },
    { .name = NULL },
};
static const QomType *const all_types[] = { test_types, NULL };

typedef struct Fixture {
    Object *root;
    Machine *m;
} Fixture;

static void setup(Fixture *f, gconstpointer data)
{
    g_autoptr(GError) err = NULL;

    f->root = object_new(TYPE_CONTAINER, NULL);
    f->m = machine_new(machine_type_find(all_types, "none", &err), f->root, all_types, &err);
    g_assert_no_error(err);
    f->m->vmstate = vmstate_registry_new();
    f->m->resets = reset_list_new();
    bus_new(test_bus_get_type(), OBJECT(f->m), "test.0");
}

static void teardown(Fixture *f, gconstpointer data)
{
    vmstate_registry_free(f->m->vmstate);
    reset_list_free(f->m->resets);
    g_object_unref(f->root);
}

static Device *add(Fixture *f, const char *options, GError **errp)
{
    json_object *json = json_tokener_parse(options);
    Device *dev = device_new_from_json(f->m, json, errp);

    json_object_put(json);
    return dev;
}

static void test_life(Fixture *f, gconstpointer data)
{
    g_autoptr(GError) err = NULL;
    Device *dev = add(f, "{\"driver\":\"test-device\",\"id\":\"d0\",\"value\":\"7\"}", &err);
    g_autofree char *path = NULL;

    g_assert_no_error(err);
    path = object_path(OBJECT(dev));
    g_assert_cmpstr(path, ==, "/machine/peripheral/d0");
    g_assert_cmpstr(OBJECT(dev->bus)->name, ==, "test.0");
    g_assert_cmpuint(((TestDevice *)dev)->value, ==, 7);
    g_assert_nonnull(vmstate_registry_find(f->m->vmstate, "place0/test", 0));
    g_assert_false(object_set_property_str(OBJECT(dev), "value", "8", &err));
    g_clear_error(&err);
    reset_run(f->m->resets);
    g_assert_cmpuint(((TestDevice *)dev)->resets, ==, 1);
    g_assert_cmpint(alive, ==, 1);
    device_unplug(dev);
    g_assert_cmpint(alive, ==, 0);
    g_assert_cmpuint(vmstate_registry_count(f->m->vmstate), ==, 0);
    g_assert_null(object_get_child(machine_peripheral(f->m), "d0"));
    reset_run(f->m->resets);
}

static void test_failures(Fixture *f, gconstpointer data)
{
    static const char *const cases[][2] = {
        { "{\"id\":\"x\"}", "driver" },
        { "{\"driver\":\"test-devise\"}", "test-device" },
        { "{\"driver\":\"none-machine\"}", "not a kind of" },
        { "{\"driver\":\"device\"}", "part of a board" },
        { "{\"driver\":\"test-device\",\"id\":\"1x\"}", "no id" },
        { "{\"driver\":\"test-device\",\"id\":3}", "string" },
        { "{\"driver\":\"test-device\",\"bus\":\"pci.0\"}", "pci.0" },
        { "{\"driver\":\"test-device\",\"valu\":1}", "value" },
        { "{\"driver\":\"test-device\",\"value\":-1}", "from 0" },
        { "{\"driver\":\"test-device\",\"id\":\"y\",\"fail\":true}", "'y': told to fail" },
        { "{\"driver\":\"test-device\",\"id\":\"d0\"}", "already in use" },
    };
    g_autoptr(GError) first = NULL;

    g_assert_nonnull(add(f, "{\"driver\":\"test-device\",\"id\":\"d0\"}", &first));
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GError) err = NULL;

        g_assert_null(add(f, cases[i][0], &err));
        g_test_message("%s: %s", cases[i][0], err->message);
        g_assert_nonnull(strstr(err->message, cases[i][1]));
    }
    g_assert_cmpint(alive, ==, 1);
    g_assert_cmpuint(machine_peripheral(f->m)->children->len, ==, 1);
    g_assert_cmpuint(vmstate_registry_count(f->m->vmstate), ==, 1);
    device_unplug(DEVICE(object_get_child(machine_peripheral(f->m), "d0")));
}

static void test_full_bus(Fixture *f, gconstpointer data)
{
    g_autoptr(GError) err = NULL;

    g_assert_nonnull(add(f, "{\"driver\":\"test-device\"}", &err));
    g_assert_nonnull(add(f, "{\"driver\":\"test-device\"}", &err));
    g_assert_null(add(f, "{\"driver\":\"test-device\"}", &err));
    g_assert_nonnull(strstr(err->message, "free place"));
    g_clear_error(&err);
    g_assert_null(add(f, "{\"driver\":\"test-device\",\"bus\":\"test.0\"}", &err));
    g_assert_nonnull(strstr(err->message, "full"));
    g_assert_nonnull(object_resolve(f->root, "/machine/peripheral-anon/device[1]"));
    device_unplug(DEVICE(object_resolve(f->root, "/machine/peripheral-anon/device[0]")));
    device_unplug(DEVICE(object_resolve(f->root, "/machine/peripheral-anon/device[1]")));
}

static void test_globals(Fixture *f, gconstpointer data)
{
    g_autoptr(GError) err = NULL;
    TestDevice *board, *given;

    machine_add_global(f->m, "test-device", "value", "11");
    board = (TestDevice *)device_create(f->m, test_device_get_type(), NULL, &err, NULL);
    given = (TestDevice *)add(f, "{\"driver\":\"test-device\",\"value\":12}", &err);
    g_assert_no_error(err);
    g_assert_cmpuint(board->value, ==, 11);
    g_assert_cmpuint(given->value, ==, 12);
    g_assert_nonnull(object_resolve(f->root, "/machine/unattached/device[0]"));
    device_unplug(DEVICE(board));
    device_unplug(DEVICE(given));
    machine_add_global(f->m, "device", "valeu", "1");
    g_assert_null(device_create(f->m, test_device_get_type(), NULL, &err, NULL));
    g_assert_nonnull(strstr(err->message, "-global device.valeu=1"));
}

static GString *order;

static void note(void *opaque)
{
    g_string_append(order, opaque);
}

static void test_reset_order(void)
{
    ResetList *list = reset_list_new();

    order = g_string_new(NULL);
    reset_register(list, RESET_CPUS, note, "c");
    reset_register(list, RESET_DEVICES, note, "a");
    reset_register(list, RESET_IMAGES, note, "i");
    reset_register(list, RESET_DEVICES, note, "b");
    reset_run(list);
    g_assert_cmpstr(order->str, ==, "abic");
    reset_unregister(list, note, "x");
    g_string_free(order, TRUE);
    reset_list_free(list);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add("/hwcore/life", Fixture, NULL, setup, test_life, teardown);
    g_test_add("/hwcore/failures", Fixture, NULL, setup, test_failures, teardown);
    g_test_add("/hwcore/full-bus", Fixture, NULL, setup, test_full_bus, teardown);
    g_test_add("/hwcore/globals", Fixture, NULL, setup, test_globals, teardown);
    g_test_add_func("/hwcore/reset-order", test_reset_order);
    return g_test_run();
}
