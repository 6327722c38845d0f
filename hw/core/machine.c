/*
 * The machine object: its place in the tree, its types, its properties on every board.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/core/machine.h"

#include "accel/accel.h"
#include "util/error.h"
#include "util/suggest.h"

QOM_DEFINE_ABSTRACT_TYPE(Machine, machine, "machine", TYPE_OBJECT)

static json_object *machine_get_usb(Object *obj, GError **errp)
{
    return json_object_new_boolean(false);
}

static bool machine_set_usb(Object *obj, json_object *value, GError **errp)
{
    if (json_object_get_boolean(value)) {
        error_set(errp, "this program has no USB controllers; use usb=off");
        return false;
    }
    return true;
}

static json_object *machine_get_kernel_irqchip(Object *obj, GError **errp)
{
    return json_object_new_string("on");
}

static bool machine_set_kernel_irqchip(Object *obj, json_object *value, GError **errp)
{
    if (!g_str_equal(json_object_get_string(value), "on")) {
        error_set(errp, "interrupt controllers are those of KVM only; use kernel-irqchip=on");
        return false;
    }
    return true;
}

static const QomProperty machine_properties[] = {
    { .name = "memory-backend",
      .kind = QOM_STRING,
      .offset = offsetof(Machine, memory_backend),
      .description = "id of the memory backend that is the guest's RAM" },
    { .name = "kernel",
      .kind = QOM_STRING,
      .offset = offsetof(Machine, boot.kernel),
      .description = "Kernel to boot: a bzImage or an ELF file with a PVH entry" },
    { .name = "initrd",
      .kind = QOM_STRING,
      .offset = offsetof(Machine, boot.initrd),
      .description = "Initial RAM disk handed to the kernel" },
    { .name = "append",
      .kind = QOM_STRING,
      .offset = offsetof(Machine, boot.cmdline),
      .description = "Command line handed to the kernel" },
    { .name = "dump-guest-core",
      .kind = QOM_BOOL,
      .offset = offsetof(Machine, dump_guest_core),
      .description = "Guest RAM is part of a core dump of this program" },
    { .name = "mem-merge",
      .kind = QOM_BOOL,
      .offset = offsetof(Machine, mem_merge),
      .description = "The kernel may merge equal pages of guest RAM (KSM)" },
    { .name = "usb",
      .kind = QOM_CUSTOM,
      .type_name = "bool",
      .get = machine_get_usb,
      .set = machine_set_usb,
      .description = "USB controllers (off only)" },
    { .name = "kernel-irqchip",
      .kind = QOM_CUSTOM,
      .type_name = "str",
      .get = machine_get_kernel_irqchip,
      .set = machine_set_kernel_irqchip,
      .description = "Interrupt controllers of KVM (on only)" },
    QOM_PROPERTY_END
};

static void machine_finalize(GObject *gobj)
{
    Machine *m = MACHINE(gobj);

    g_free(m->name);
    g_ptr_array_unref(m->globals);
    G_OBJECT_CLASS(machine_parent_class)->finalize(gobj);
}

static void machine_class_init(MachineClass *klass)
{
    G_OBJECT_CLASS(klass)->finalize = machine_finalize;
    qom_class_install(klass, machine_properties);
}

static void global_free(gpointer data)
{
    GlobalProperty *g = data;

    g_free(g->driver);
    g_free(g->property);
    g_free(g->value);
    g_free(g);
}

static void machine_init(Machine *m)
{
    m->globals = g_ptr_array_new_with_free_func(global_free);
}

Machine *machine_new(GType type, Object *root, const QomType *const *types, GError **errp)
{
    Machine *m = MACHINE(object_new(type, root));

    m->root = root;
    m->types = types;
    if (!object_add_child(root, "machine", OBJECT(m), errp)) {
        g_object_unref(m);
        return NULL;
    }
    g_object_unref(m);
    object_get_container(OBJECT(m), "peripheral");
    object_get_container(OBJECT(m), "peripheral-anon");
    object_get_container(OBJECT(m), "unattached");
    return m;
}

static void set_gsi(void *opaque, int n, int level)
{
    accel_set_irq(((Machine *)opaque)->accel, n, level);
}

void machine_connect_gsi(Machine *m)
{
    for (int i = 0; i < MACHINE_GSI_COUNT; i++) {
        m->gsi[i] = (IrqLine){ set_gsi, m, i };
    }
}

Object *machine_peripheral(Machine *m)
{
    return object_get_container(OBJECT(m), "peripheral");
}

Object *machine_peripheral_anon(Machine *m)
{
    return object_get_container(OBJECT(m), "peripheral-anon");
}

Object *machine_unattached(Machine *m)
{
    return object_get_container(OBJECT(m), "unattached");
}

void machine_foreach_class(const QomType *const *types, void (*fn)(MachineClass *, void *),
                           void *opaque)
{
    for (; *types; types++) {
        for (const QomType *t = *types; t->name; t++) {
            GType type = g_str_has_suffix(t->name, "-machine") ? t->get_type() : 0;

            if (type && !G_TYPE_IS_ABSTRACT(type)) {
                MachineClass *klass = g_type_class_ref(type);

                fn(klass, opaque);
                g_type_class_unref(klass);
            }
        }
    }
}

typedef struct MachineSearch {
    const char *name;
    GType found;
    GPtrArray *names;
} MachineSearch;

static void match_machine(MachineClass *klass, void *opaque)
{
    MachineSearch *s = opaque;

    if (g_str_equal(klass->name, s->name) || g_strcmp0(klass->alias, s->name) == 0) {
        s->found = G_TYPE_FROM_CLASS(klass);
    }
    g_ptr_array_add(s->names, (gpointer)klass->name);
    if (klass->alias) {
        g_ptr_array_add(s->names, (gpointer)klass->alias);
    }
}

GType machine_type_find(const QomType *const *types, const char *name, GError **errp)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new();
    MachineSearch search = { .name = name, .names = names };

    machine_foreach_class(types, match_machine, &search);
    if (!search.found) {
        g_autofree char *hint = NULL;

        g_ptr_array_add(names, NULL);
        hint = suggest_nearest(name, (const char *const *)names->pdata);
        error_set(errp, "There is no machine type '%s'%s%s", name, hint ? "; " : "",
                  hint ? hint : "");
    }
    return search.found;
}

void machine_add_global(Machine *m, const char *driver, const char *property, const char *value)
{
    GlobalProperty *g = g_new0(GlobalProperty, 1);

    g->driver = g_strdup(driver);
    g->property = g_strdup(property);
    g->value = g_strdup(value);
    g_ptr_array_add(m->globals, g);
}

bool machine_apply_globals(Machine *m, Object *obj, GError **errp)
{
    for (guint i = 0; i < m->globals->len; i++) {
        GlobalProperty *g = g_ptr_array_index(m->globals, i);

        if (!object_is_a(obj, g->driver)) {
            continue;
        }
        if (!object_set_property_str(obj, g->property, g->value, errp)) {
            g_prefix_error(errp, "-global %s.%s=%s: ", g->driver, g->property, g->value);
            return false;
        }
        g->used = true;
    }
    return true;
}
