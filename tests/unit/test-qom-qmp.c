/*
 * Tests of qom/qmp.c: what programs such as libvirt ask about objects and types.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qom/qmp.h"

#include "qapi/qapi-commands.h"
#include "qapi/visit.h"
#include "util/error.h"

/* Types named like those that the commands look for. */
QOM_DECLARE_TYPE(Dev, dev, DEV)

struct _Dev {
    Object parent_instance;
    uint32_t port;
};

struct _DevClass {
    ObjectClass parent_class;
};

QOM_DEFINE_ABSTRACT_TYPE(Dev, dev, "device", TYPE_OBJECT)

static const QomProperty dev_properties[] = { { .name = "port",
                                                .kind = QOM_UINT32,
                                                .offset = offsetof(Dev, port),
                                                .def = 80,
                                                .description = "where it listens" },
                                              QOM_PROPERTY_END };

static void dev_init(Dev *dev)
{
}

static void dev_class_init(DevClass *klass)
{
    qom_class_install(klass, dev_properties);
}

QOM_DECLARE_FINAL_TYPE(Net, net, NET, DevClass)

struct _Net {
    Dev parent_instance;
};

QOM_DEFINE_TYPE(Net, net, "test-net", dev_get_type())

static void net_init(Net *n)
{
}

static void net_class_init(NetClass *klass)
{
}

static const QomType types[] = { { "device", dev_get_type },
                                 { "test-net", net_get_type, "net" },
                                 { .name = NULL } };
static const QomType *const all_types[] = { qom_base_types, types, NULL };

static QomTree *new_tree(void)
{
    QomTree *tree = g_new(QomTree, 1);
    Object *peripheral;
    g_autoptr(Object) net = NULL;

    tree->root = object_new(TYPE_CONTAINER, NULL);
    tree->types = all_types;
    peripheral = object_get_container(object_get_container(tree->root, "machine"), "peripheral");
    net = object_new(net_get_type(), tree->root);
    g_assert_true(object_add_child(peripheral, "net0", net, NULL));
    return tree;
}

static void free_tree(QomTree *tree)
{
    g_object_unref(tree->root);
    g_free(tree);
}

static char *to_text(const QapiType *type, GPtrArray *list)
{
    json_object *json = qapi_to_json(type, list);
    char *text = g_strdup(json_object_to_json_string_ext(json, JSON_C_TO_STRING_NOSLASHESCAPE));

    json_object_put(json);
    qapi_free(type, list);
    return text;
}

#define PROPERTIES &qapi_type_ObjectPropertyInfoList
#define TYPES &qapi_type_ObjectTypeInfoList

static void test_list(void)
{
    QomTree *tree = new_tree();
    QomListArg arg = { .path = (char *)"/machine/peripheral" };
    g_autofree char *text = to_text(PROPERTIES, qmp_qom_list(tree, &arg, NULL));
    g_autoptr(GError) err = NULL;

    g_assert_nonnull(strstr(text, "{\"name\":\"net0\",\"type\":\"child<test-net>\"}"));
    arg.path = (char *)"/machine/nowhere";
    g_assert_null(qmp_qom_list(tree, &arg, &err));
    g_assert_cmpint(err->code, ==, COWBIRD_ERROR_DEVICE_NOT_FOUND);
    free_tree(tree);
}

static void test_get_set(void)
{
    QomTree *tree = new_tree();
    json_object *value = json_object_new_int(443);
    QomSetArg set = { .path = (char *)"net0", .property = (char *)"port", .value = value };
    QomGetArg get = { .path = (char *)"/machine/peripheral/net0", .property = (char *)"port" };
    json_object *got;

    g_assert_true(qmp_qom_set(tree, &set, NULL));
    got = qmp_qom_get(tree, &get, NULL);
    g_assert_cmpint(json_object_get_int(got), ==, 443);
    json_object_put(got);
    get.property = (char *)"type";
    got = qmp_qom_get(tree, &get, NULL);
    g_assert_cmpstr(json_object_get_string(got), ==, "test-net");
    json_object_put(got);
    get.path = (char *)"/machine";
    get.property = (char *)"peripheral";
    got = qmp_qom_get(tree, &get, NULL);
    g_assert_cmpstr(json_object_get_string(got), ==, "/machine/peripheral");
    json_object_put(got);
    json_object_put(value);
    free_tree(tree);
}

static void test_types(void)
{
    QomTree *tree = new_tree();
    QomListTypesArg arg = { 0 };
    g_autofree char *concrete = to_text(TYPES, qmp_qom_list_types(tree, &arg, NULL));
    g_autofree char *devices = NULL;

    g_assert_nonnull(strstr(concrete, "{\"name\":\"test-net\",\"parent\":\"device\"}"));
    g_assert_null(strstr(concrete, "\"name\":\"device\""));
    arg.implements = (char *)"device";
    arg.has_abstract = arg.abstract = true;
    devices = to_text(TYPES, qmp_qom_list_types(tree, &arg, NULL));
    g_assert_nonnull(strstr(devices, "\"name\":\"device\",\"abstract\":true"));
    g_assert_null(strstr(devices, "container"));
    free_tree(tree);
}

/* qom-list-properties never fails: libvirtd does not survive it (contract.md §1.5). */
static void test_type_properties(void)
{
    QomTree *tree = new_tree();
    QomListPropertiesArg any = { .typename = (char *)"no-such-type" };
    DeviceListPropertiesArg dev = { .typename = (char *)"test-net" };
    g_autofree char *none = to_text(PROPERTIES, qmp_qom_list_properties(tree, &any, NULL));
    g_autofree char *text = to_text(PROPERTIES, qmp_device_list_properties(tree, &dev, NULL));
    static const char *const unknown[] = { "virtio-gpu-ccw", "container" };

    g_assert_cmpstr(none, ==, "[]");
    g_assert_nonnull(strstr(text, "\"default-value\":80"));
    g_assert_nonnull(strstr(text, "where it listens"));
    for (size_t i = 0; i < G_N_ELEMENTS(unknown); i++) {
        g_autoptr(GError) err = NULL;

        dev.typename = (char *)unknown[i];
        g_assert_null(qmp_device_list_properties(tree, &dev, &err));
        g_assert_cmpint(err->code, ==, COWBIRD_ERROR_DEVICE_NOT_FOUND);
    }
    free_tree(tree);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/qom-qmp/list", test_list);
    g_test_add_func("/qom-qmp/get-set", test_get_set);
    g_test_add_func("/qom-qmp/types", test_types);
    g_test_add_func("/qom-qmp/type-properties", test_type_properties);
    return g_test_run();
}
