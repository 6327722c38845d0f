/*
 * Tests of the list of those who take part in saving.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <glib.h>
#include <string.h>

#include "vmstate/registry.h"

static const VMStateDescription nothing = {
    .name = "nothing",
    .fields = (const VMStateField[]){ VMSTATE_END_OF_LIST() },
};
static const VMStateDescription other = {
    .name = "other",
    .fields = (const VMStateField[]){ VMSTATE_END_OF_LIST() },
};

static void append_name(const VMStateEntry *e, void *opaque)
{
    g_string_append_printf(opaque, "%s/%u ", e->idstr, e->instance_id);
}

static void test_order(void)
{
    g_autoptr(VMStateRegistry) r = vmstate_registry_new();
    g_autoptr(GString) order = g_string_new("");
    int a, b;

    g_assert_true(vmstate_register(r, "dev", 0, VMSTATE_PRIORITY_DEFAULT, &nothing, &a, NULL));
    g_assert_true(vmstate_register(r, "cpu", 0, VMSTATE_PRIORITY_VCPU, &nothing, &a, NULL));
    g_assert_true(vmstate_register(r, "ioapic", 0, VMSTATE_PRIORITY_IRQCHIP, &nothing, &a, NULL));
    g_assert_true(vmstate_register(r, "cpu", 1, VMSTATE_PRIORITY_VCPU, &nothing, &b, NULL));
    g_assert_true(vmstate_register(r, "pam", 0, VMSTATE_PRIORITY_LAYOUT, &nothing, &a, NULL));
    g_assert_true(vmstate_register(r, "dev2", 0, VMSTATE_PRIORITY_DEFAULT, &other, &b, NULL));
    vmstate_registry_foreach(r, append_name, order);
    g_assert_cmpstr(order->str, ==, "pam/0 cpu/0 cpu/1 ioapic/0 dev/0 dev2/0 ");
    g_assert_true(vmstate_registry_find(r, "cpu", 1)->opaque == &b);
    g_assert_null(vmstate_registry_find(r, "cpu", 2));

    vmstate_unregister(r, &nothing, &b);
    g_assert_cmpuint(vmstate_registry_count(r), ==, 5);
    vmstate_unregister(r, NULL, &a);
    g_assert_cmpuint(vmstate_registry_count(r), ==, 1);
    g_assert_cmpstr(vmstate_registry_get(r, 0)->idstr, ==, "dev2");
}

static void test_names(void)
{
    g_autoptr(VMStateRegistry) r = vmstate_registry_new();
    g_autoptr(GError) err = NULL;
    g_autofree char *longest = g_strnfill(256, 'x');
    int a;

    for (uint32_t i = 0; i < 3; i++) {
        g_assert_true(vmstate_register(r, "d", VMSTATE_INSTANCE_ID_ANY, 0, &nothing, &a, NULL));
        g_assert_nonnull(vmstate_registry_find(r, "d", i));
    }
    g_assert_false(vmstate_register(r, "d", 1, 0, &nothing, &a, &err));
    g_assert_nonnull(strstr(err->message, "'d' number 1"));
    g_clear_error(&err);
    g_assert_false(vmstate_register(r, longest, 0, 0, &nothing, &a, &err));
    g_assert_nonnull(strstr(err->message, "255"));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/vmstate/registry/order", test_order);
    g_test_add_func("/vmstate/registry/names", test_names);
    return g_test_run();
}
