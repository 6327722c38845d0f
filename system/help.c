/*
 * What -help, -version and "help" as a value print.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "system/help.h"

#include "accel/cpu-models.h"
#include "hw/core/device.h"
#include "hw/core/machine.h"
#include "system/options.h"
#include "util/log.h"

#include <stdio.h>

static void show_version(void)
{
    printf("Cowbird virtual machine monitor version %s\n", COWBIRD_VERSION);
}

static void show_options(void)
{
    printf("usage: cowbird-system-x86_64 [OPTION...]\n\n");
    for (const OptionSpec *spec = option_table; spec->name; spec++) {
        if (spec->store != OPTION_REFUSED) {
            printf("-%s%s%s\n        %s\n", spec->name, spec->argument ? " " : "",
                   spec->argument ? spec->argument : "", spec->help);
        }
    }
    printf("\nArguments with parts may also be JSON objects.\n");
}

static void show_machine(MachineClass *klass, void *opaque)
{
    printf("%-20s %s%s%s%s%s\n", klass->name, klass->desc, klass->alias ? " (alias " : "",
           klass->alias ? klass->alias : "", klass->alias ? ")" : "",
           klass->is_default ? " (default)" : "");
}

static void show_cpus(void)
{
    g_autoptr(GPtrArray) names = NULL;
    uint32_t all[CPU_WORD__MAX];

    printf("Models:\n");
    for (const CpuModelType *t = cpu_models; t->name; t++) {
        g_autofree char *text = cpu_model_describe(t);

        printf("  %-26s %s\n", t->name, text);
    }
    printf("Flags, with + or - in front:\n ");
    memset(all, 0xff, sizeof(all));
    names = cpu_flag_names(all);
    for (guint i = 0; i < names->len; i++) {
        printf(" %s", (const char *)names->pdata[i]);
    }
    printf("\n");
}

static void show_type(GType type)
{
    DeviceClass *klass = g_type_class_ref(type);

    if (klass->user_creatable) {
        printf("%-20s %s\n", qom_type_name(type), klass->desc ? klass->desc : "");
    }
    g_type_class_unref(klass);
}

static void show_devices(const QomType *const *types)
{
    for (; *types; types++) {
        for (const QomType *t = *types; t->name; t++) {
            GType type = t->get_type();

            if (g_type_is_a(type, TYPE_DEVICE) && !G_TYPE_IS_ABSTRACT(type)) {
                show_type(type);
            }
        }
    }
}

static void show_properties(const QomType *const *types, const char *name)
{
    g_autoptr(GError) err = NULL;
    GType type = qom_type_require(types, name, TYPE_OBJECT, &err);
    g_autoptr(GPtrArray) props = NULL;

    if (!type) {
        printf("%s\n", err->message);
        return;
    }
    props = qom_class_list_properties(g_type_class_ref(type));
    for (guint i = 0; i < props->len; i++) {
        const QomProperty *p = g_ptr_array_index(props, i);
        g_autofree char *kind = qom_property_type_name(p);

        printf("  %s=<%s>%s%s\n", p->name, kind, p->description ? "  " : "",
               p->description ? p->description : "");
    }
}

/* -device X,help and -object X,help. */
static bool show_type_help(const QomType *const *types, const char *value)
{
    g_autofree char *name = NULL;

    if (!g_str_has_suffix(value, ",help")) {
        return false;
    }
    name = g_strndup(value, strlen(value) - strlen(",help"));
    show_properties(types, name);
    return true;
}

static void show_objects(void)
{
    for (const char *const *name = qapi_type_ObjectType.values; *name; name++) {
        printf("%s\n", *name);
    }
}

static bool show_value(const QomType *const *types, const char *option, const char *value)
{
    g_autofree char *items = NULL;
    bool device = g_str_equal(option, "device");
    bool object = g_str_equal(option, "object");

    if ((device || object) && show_type_help(types, value)) {
        return true;
    }
    if (!g_str_equal(value, "help") && !g_str_equal(value, "?")) {
        return false;
    }
    if (g_str_equal(option, "machine")) {
        machine_foreach_class(types, show_machine, NULL);
    } else if (g_str_equal(option, "cpu")) {
        show_cpus();
    } else if (g_str_equal(option, "accel")) {
        printf("kvm\n");
    } else if (device) {
        show_devices(types);
    } else if (object) {
        show_objects();
    } else if (g_str_equal(option, "d")) {
        items = log_help();
        printf("%s", items);
    } else {
        return false;
    }
    return true;
}

bool help_show(char **argv, const QomType *const *types)
{
    for (char **arg = argv + 1; *arg; arg++) {
        const char *name = **arg == '-' ? *arg + 1 + ((*arg)[1] == '-') : "";

        if (g_str_equal(name, "version")) {
            show_version();
            return true;
        }
        if (g_str_equal(name, "help") || g_str_equal(name, "h")) {
            show_options();
            return true;
        }
        if (arg[1] && show_value(types, name, arg[1])) {
            return true;
        }
    }
    return false;
}
