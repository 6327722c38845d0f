/*
 * CPU models, and reading the text of -cpu.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "accel/cpu-models.h"

#include <string.h>

#include "util/error.h"
#include "util/suggest.h"

/* What KVM gives to a guest of every named model. */
#define COMMON_FLAGS                                                                   \
    "x2apic hypervisor kvmclock kvm-nopiodelay kvm-asyncpf kvm-steal-time kvm-pv-eoi " \
    "kvm-asyncpf-int kvmclock-stable-bit"

/* Nested state is not saved, so virtualisation inside the guest is not offered. */
static const struct {
    CpuWord word;
    uint32_t mask;
} never[] = {
    { CPU_WORD_1_ECX, 1u << 5 },        /* vmx */
    { CPU_WORD_80000001_ECX, 1u << 2 }, /* svm */
    { CPU_WORD_7_0_EBX, 1u << 2 },      /* sgx, which needs memory of its own */
    { CPU_WORD_7_0_ECX, 1u << 30 },     /* sgxlc */
    { CPU_WORD_8000000A_EDX, ~0u },     /* what svm consists of */
};

const char *cpu_flag_name(CpuWord word, unsigned bit)
{
    for (size_t i = 0; i < cpu_flag_count; i++) {
        if (cpu_flags[i].word == word && cpu_flags[i].bit == bit) {
            return cpu_flags[i].name;
        }
    }
    return NULL;
}

GPtrArray *cpu_flag_names(const uint32_t flags[CPU_WORD__MAX])
{
    GPtrArray *names = g_ptr_array_new();

    for (CpuWord word = 0; word < CPU_WORD__MAX; word++) {
        for (unsigned bit = 0; bit < 32; bit++) {
            const char *name = flags[word] >> bit & 1 ? cpu_flag_name(word, bit) : NULL;

            if (name) {
                g_ptr_array_add(names, (char *)name);
            }
        }
    }
    return names;
}

static const CpuFlag *find_flag(const char *name)
{
    for (size_t i = 0; i < cpu_flag_count; i++) {
        if (g_str_equal(cpu_flags[i].name, name)) {
            return &cpu_flags[i];
        }
    }
    return NULL;
}

static const CpuModelType *find_type(const char *name)
{
    for (const CpuModelType *t = cpu_models; t->name; t++) {
        if (g_str_equal(t->name, name)) {
            return t;
        }
    }
    return NULL;
}

/* "avx -tsc": sets and takes away. */
static void apply_names(const char *names, uint32_t mask[CPU_WORD__MAX])
{
    g_auto(GStrv) list = g_strsplit(names, " ", -1);

    for (char **name = list; *name; name++) {
        const CpuFlag *flag = find_flag(*name + (**name == '-'));

        if (flag && **name == '-') {
            mask[flag->word] &= ~(1u << flag->bit);
        } else if (flag) {
            mask[flag->word] |= 1u << flag->bit;
        }
    }
}

static void apply_type(const CpuModelType *type, uint32_t mask[CPU_WORD__MAX])
{
    if (type->parent) {
        apply_type(find_type(type->parent), mask);
    }
    apply_names(type->flags, mask);
}

void cpu_model_base_flags(const CpuModelType *type, uint32_t ret_mask[CPU_WORD__MAX])
{
    memset(ret_mask, type->flags ? 0 : 0xff, CPU_WORD__MAX * sizeof(uint32_t));
    if (type->flags) {
        apply_type(type, ret_mask);
    }
    if (type->family) {
        apply_names(COMMON_FLAGS, ret_mask);
    }
    for (size_t i = 0; i < G_N_ELEMENTS(never); i++) {
        ret_mask[never[i].word] &= ~never[i].mask;
    }
}

char *cpu_model_describe(const CpuModelType *type)
{
    if (g_str_equal(type->name, CPU_MODEL_HOST)) {
        return g_strdup("the host's processor, as far as KVM supports it in a guest");
    }
    if (g_str_equal(type->name, CPU_MODEL_MAX)) {
        return g_strdup("every feature that KVM supports on this host; the same as host");
    }
    if (g_str_equal(type->name, CPU_MODEL_BASE)) {
        return g_strdup("no features but those that are added");
    }
    return g_strdup_printf("family %u, model %u, stepping %u", type->family, type->model,
                           type->stepping);
}

char *cpu_model_type_name(const CpuModelType *type)
{
    return g_strconcat(type->name, "-x86_64-cpu", NULL);
}

/* Intel SDM volume 2A, CPUID, figure "Version Information Returned by CPUID in EAX". */
uint32_t cpu_model_signature(const CpuModelType *type)
{
    uint32_t family = MIN(type->family, 15), extended = type->family - family;

    return type->stepping | (type->model & 15u) << 4 | family << 8 |
           (uint32_t)(type->model >> 4) << 16 | extended << 20;
}

/* --- Reading -cpu --- */

/* One property that is not a flag. */
typedef struct Property {
    const char *name;
    size_t offset; /* of the bool in CpuModel */
} Property;

static const Property properties[] = {
    { "migratable", offsetof(CpuModel, migratable) },
    { "kvm", offsetof(CpuModel, kvm) },
    { "check", offsetof(CpuModel, check) },
    { "enforce", offsetof(CpuModel, enforce) },
    { "pmu", offsetof(CpuModel, pmu) },
};

static const CpuModelType *find_model(const char *name, GError **errp)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new();
    g_autofree char *hint = NULL;

    for (const CpuModelType *t = cpu_models; t->name; t++) {
        g_autofree char *type_name = cpu_model_type_name(t);

        if (g_str_equal(t->name, name) || g_str_equal(type_name, name)) {
            return t;
        }
        g_ptr_array_add(names, (char *)t->name);
    }
    g_ptr_array_add(names, NULL);
    hint = suggest_nearest(name, (const char *const *)names->pdata);
    error_set(errp, "unknown CPU model '%s'%s%s", name, hint ? "; " : "", hint ? hint : "");
    return NULL;
}

static bool unknown_name(const char *name, GError **errp)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new();

    for (size_t i = 0; i < cpu_flag_count; i++) {
        g_ptr_array_add(names, (char *)cpu_flags[i].name);
    }
    for (size_t i = 0; i < G_N_ELEMENTS(properties); i++) {
        g_ptr_array_add(names, (char *)properties[i].name);
    }
    g_ptr_array_add(names, NULL);
    g_autofree char *hint = suggest_nearest(name, (const char *const *)names->pdata);

    error_set(errp, "-cpu: unknown feature or property '%s'%s%s", name, hint ? "; " : "",
              hint ? hint : "");
    return false;
}

static bool is_never_offered(const CpuFlag *flag)
{
    for (size_t i = 0; i < G_N_ELEMENTS(never); i++) {
        if (flag->word == never[i].word && (never[i].mask >> flag->bit & 1)) {
            return true;
        }
    }
    return false;
}

static bool set_flag(CpuModel *model, const CpuFlag *flag, bool on, GError **errp)
{
    uint32_t bit = 1u << flag->bit;

    if (on && is_never_offered(flag)) {
        error_set(errp,
                  "-cpu: feature '%s' cannot be given to a guest: virtual machines inside virtual "
                  "machines are not supported",
                  flag->name);
        return false;
    }
    model->added[flag->word] &= ~bit;
    model->removed[flag->word] &= ~bit;
    *(on ? &model->added[flag->word] : &model->removed[flag->word]) |= bit;
    return true;
}

/* What guests of other programs may have. */
static bool is_not_offered(const char *name)
{
    return g_strv_contains(cpu_flags_not_offered, name) || g_str_has_prefix(name, "vmx-") ||
           g_str_has_prefix(name, "hv-");
}

bool cpu_model_set(CpuModel *model, const char *name, bool on, GError **errp)
{
    const CpuFlag *flag = find_flag(name);

    if (flag) {
        return set_flag(model, flag, on, errp);
    }
    if (is_not_offered(name)) {
        if (on) {
            error_set(errp, "-cpu: feature '%s' cannot be given to a guest: leave it out", name);
        }
        return !on;
    }
    for (size_t i = 0; i < G_N_ELEMENTS(properties); i++) {
        if (g_str_equal(properties[i].name, name)) {
            *(bool *)((char *)model + properties[i].offset) = on;
            return true;
        }
    }
    return unknown_name(name, errp);
}

static bool parse_on_off(const char *name, const char *value, bool *ret, GError **errp)
{
    static const char *const on[] = { "on", "yes", "true", "y", NULL };
    static const char *const off[] = { "off", "no", "false", "n", NULL };

    if (!g_strv_contains(on, value) && !g_strv_contains(off, value)) {
        error_set(errp, "-cpu: '%s=%s': the value is neither 'on' nor 'off'", name, value);
        return false;
    }
    *ret = g_strv_contains(on, value);
    return true;
}

/* "+name", "-name", "name" or "name=on|off". */
static bool parse_item(CpuModel *model, const char *item, GError **errp)
{
    bool sign = *item == '+' || *item == '-';
    bool on = *item != '-';
    g_autofree char *name = g_strdup(item + sign);
    char *value = strchr(name, '=');

    if (value) {
        *value++ = '\0';
    }
    g_strdelimit(name, "_", '-');
    /* sse4.1 and sse4.2 are written with either character, too. */
    if (g_str_equal(name, "sse4-1") || g_str_equal(name, "sse4-2")) {
        name[4] = '.';
    }
    if (sign && value) {
        error_set(errp, "-cpu: '%s': give either a sign or a value", item);
        return false;
    }
    if (value && !parse_on_off(name, value, &on, errp)) {
        /* A name that does not exist matters more than its value. */
        if (!find_flag(name) && !cpu_model_set(model, name, true, NULL)) {
            g_clear_error(errp);
            return unknown_name(name, errp);
        }
        return false;
    }
    return cpu_model_set(model, name, on, errp);
}

CpuModel *cpu_model_parse(const char *text, GError **errp)
{
    g_auto(GStrv) items = g_strsplit(text, ",", -1);
    g_autoptr(CpuModel) model = g_new0(CpuModel, 1);

    model->migratable = true;
    model->kvm = true;
    model->check = true;
    model->pmu = true;
    model->info = find_model(items[0] ? items[0] : "", errp);
    if (!model->info) {
        return NULL;
    }
    for (char **item = items + 1; *item; item++) {
        if (!parse_item(model, *item, errp)) {
            return NULL;
        }
    }
    return g_steal_pointer(&model);
}

void cpu_model_free(CpuModel *model)
{
    g_free(model);
}
