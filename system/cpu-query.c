/*
 * What CPU models are on this host: query-cpu-definitions, query-cpu-model-expansion.
 *
 * KVM is asked anew each time: the answers are wanted once in the life of a process that mostly does nothing else.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "system/cpu-query.h"

#include "accel/cpu-host.h"
#include "accel/cpuid.h"
#include "hw/core/machine.h"
#include "qapi/qapi-commands.h"
#include "util/error.h"
#include "util/json.h"

#include <string.h>

static GPtrArray *unavailable(const struct kvm_cpuid2 *host, const CpuModel *model)
{
    uint32_t missing[CPU_WORD__MAX];

    cpuid_missing(host, model, missing);
    return cpu_flag_names(missing);
}

GPtrArray *cpu_query_unavailable(const CpuModel *model, GError **errp)
{
    g_autofree struct kvm_cpuid2 *host = cpu_host_probe(errp);

    return host ? unavailable(host, model) : NULL;
}

/* --- query-cpu-definitions --- */

static GPtrArray *copy_names(GPtrArray *names)
{
    GPtrArray *copy = g_ptr_array_new();

    for (guint i = 0; i < names->len; i++) {
        g_ptr_array_add(copy, g_strdup(g_ptr_array_index(names, i)));
    }
    return copy;
}

static CpuDefinitionInfo *define(const CpuModelType *type, const struct kvm_cpuid2 *host)
{
    CpuDefinitionInfo *info = g_new0(CpuDefinitionInfo, 1);
    g_autoptr(CpuModel) model = cpu_model_parse(type->name, NULL);

    info->name = g_strdup(type->name);
    info->typename = cpu_model_type_name(type);
    info->has_migration_safe = true;
    info->migration_safe = type->flags != NULL;
    info->q_static = g_str_equal(type->name, CPU_MODEL_BASE);
    if (host) {
        g_autoptr(GPtrArray) names = unavailable(host, model);

        info->unavailable_features = copy_names(names);
    }
    return info;
}

GPtrArray *qmp_query_cpu_definitions(Machine *m, GError **errp)
{
    g_autofree struct kvm_cpuid2 *host = cpu_host_probe(NULL);
    GPtrArray *list = g_ptr_array_new();

    for (const CpuModelType *type = cpu_models; type->name; type++) {
        g_ptr_array_add(list, define(type, host));
    }
    return list;
}

/* --- query-cpu-model-expansion --- */

/* Properties that an expansion has and that no model takes: they may be given back. */
static bool is_identity(const char *name)
{
    static const char *const names[] = {
        "vendor", "family", "model", "stepping", "model-id", NULL
    };

    return g_strv_contains(names, name);
}

static bool apply_prop(CpuModel *model, const char *name, json_object *value, GError **errp)
{
    /* All that KVM offers of Hyper-V's interface, which is nothing here. */
    if (is_identity(name) || g_str_equal(name, "hv-passthrough")) {
        return true;
    }
    if (!json_object_is_type(value, json_type_boolean)) {
        error_set(errp, "'%s' of a CPU model must be true or false, not %s", name,
                  json_object_to_json_string(value));
        return false;
    }
    return cpu_model_set(model, name, json_object_get_boolean(value), errp);
}

static CpuModel *model_from(const CpuModelInfo *info, GError **errp)
{
    g_autoptr(CpuModel) model = cpu_model_parse(info->name, errp);

    if (!model || !info->props) {
        return g_steal_pointer(&model);
    }
    if (!json_object_is_type(info->props, json_type_object)) {
        error_set(errp, "'props' of a CPU model must be an object");
        return NULL;
    }
    json_object_object_foreach(info->props, name, value)
    {
        if (!apply_prop(model, name, value, errp)) {
            return NULL;
        }
    }
    return g_steal_pointer(&model);
}

/* Intel SDM volume 2A, CPUID leaves 0 and 1; brand string: leaves 80000002 to 80000004. */
static void add_identity(json_object *props, struct kvm_cpuid2 *cpuid)
{
    const struct kvm_cpuid_entry2 *zero = cpuid_find(cpuid, 0, 0), *one = cpuid_find(cpuid, 1, 0);
    uint32_t family;

    if (!zero || !one) {
        return;
    }
    const uint32_t words[] = { zero->ebx, zero->edx, zero->ecx };
    g_autofree char *vendor = g_strndup((const char *)words, sizeof(words));

    family = one->eax >> 8 & 15;
    json_add_str(props, "vendor", vendor);
    json_add_int(props, "family", family + (family == 15 ? one->eax >> 20 & 255 : 0));
    json_add_int(props, "model", (one->eax >> 4 & 15) | (one->eax >> 12 & 0xf0));
    json_add_int(props, "stepping", one->eax & 15);
}

static void add_bool(json_object *props, const char *name, bool value)
{
    json_object_object_add(props, name, json_object_new_boolean(value));
}

static void add_flags(json_object *props, const struct kvm_cpuid2 *cpuid)
{
    uint32_t flags[CPU_WORD__MAX];

    cpuid_flags(cpuid, flags);
    for (CpuWord word = 0; word < CPU_WORD__MAX; word++) {
        for (unsigned bit = 0; bit < 32; bit++) {
            const char *name = cpu_flag_name(word, bit);

            if (name) {
                add_bool(props, name, flags[word] >> bit & 1);
            }
        }
    }
}

static json_object *expand(const CpuModel *model, bool full, GError **errp)
{
    static const CpuTopology one = { 1, 1, 1, 1 };
    g_autofree struct kvm_cpuid2 *host = cpu_host_probe(errp);
    g_autofree struct kvm_cpuid2 *cpuid = host ? cpuid_build(host, model, &one, 0, errp) : NULL;
    json_object *props;

    if (!cpuid) {
        return NULL;
    }
    props = json_object_new_object();
    add_flags(props, cpuid);
    add_identity(props, cpuid);
    if (full) {
        add_bool(props, "migratable", model->migratable);
        add_bool(props, "kvm", model->kvm);
        add_bool(props, "check", model->check);
        add_bool(props, "enforce", model->enforce);
        add_bool(props, "pmu", model->pmu);
    }
    return props;
}

CpuModelExpansionInfo *
qmp_query_cpu_model_expansion(Machine *m, const QueryCpuModelExpansionArg *arg, GError **errp)
{
    bool full = arg->type == CPU_MODEL_EXPANSION_TYPE_FULL;
    g_autoptr(CpuModel) model = model_from(arg->model, errp);
    CpuModelExpansionInfo *info;
    json_object *props;

    if (!model) {
        return NULL;
    }
    model->check = false; /* a question is no reason for a report */
    props = expand(model, full, errp);
    if (!props) {
        return NULL;
    }
    info = g_new0(CpuModelExpansionInfo, 1);
    info->model = g_new0(CpuModelInfo, 1);
    info->model->name = g_strdup(full ? arg->model->name : CPU_MODEL_BASE);
    info->model->props = props;
    return info;
}
