/*
 * CPU models, and reading the text of -cpu.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "accel/cpu-models.h"

#include <string.h>

#include "util/error.h"
#include "util/suggest.h"

/* What every 64-bit processor has, and CPUs without more were sold; QEMU's model of that name. */
static const char *const qemu64_flags[] = { "fpu",
                                            "vme",
                                            "de",
                                            "pse",
                                            "tsc",
                                            "msr",
                                            "pae",
                                            "mce",
                                            "cx8",
                                            "apic",
                                            "sep",
                                            "mtrr",
                                            "pge",
                                            "mca",
                                            "cmov",
                                            "pat",
                                            "pse36",
                                            "clflush",
                                            "mmx",
                                            "fxsr",
                                            "sse",
                                            "sse2",
                                            "ht",
                                            "pni",
                                            "cx16",
                                            "x2apic",
                                            "hypervisor",
                                            "tsc-deadline",
                                            "syscall",
                                            "nx",
                                            "lm",
                                            "lahf-lm",
                                            "kvmclock",
                                            "kvm-nopiodelay",
                                            "kvm-asyncpf",
                                            "kvm-steal-time",
                                            "kvm-pv-eoi",
                                            "kvm-asyncpf-int",
                                            "kvmclock-stable-bit",
                                            NULL };

const CpuModelInfo cpu_models[] = {
    { .name = "host",
      .type_name = "host-x86_64-cpu",
      .description = "the host's processor, as far as KVM supports it in a guest" },
    { .name = "max",
      .type_name = "max-x86_64-cpu",
      .description = "every feature that KVM supports on this host; the same as host" },
    { .name = "qemu64",
      .type_name = "qemu64-x86_64-cpu",
      .description = "a plain 64-bit processor with features that every host has",
      .flags = qemu64_flags,
      .signature = 0x00060fb1, /* family 15, model 107, stepping 1 */
      .model_id = "QEMU Virtual CPU version 2.5+" },
    { .name = NULL },
};

/* Nested state is not saved, so virtualisation inside the guest is not offered. */
static const struct {
    CpuWord word;
    uint32_t mask;
} never[] = {
    { CPU_WORD_1_ECX, 1u << 5 },        /* vmx */
    { CPU_WORD_80000001_ECX, 1u << 2 }, /* svm */
    { CPU_WORD_7_0_EBX, 1u << 2 },      /* sgx, which needs memory of its own */
    { CPU_WORD_7_0_ECX, 1u << 30 },     /* sgxlc */
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

static const CpuFlag *find_flag(const char *name)
{
    for (size_t i = 0; i < cpu_flag_count; i++) {
        if (g_str_equal(cpu_flags[i].name, name)) {
            return &cpu_flags[i];
        }
    }
    return NULL;
}

void cpu_model_base_flags(const CpuModelInfo *info, uint32_t ret_mask[CPU_WORD__MAX])
{
    memset(ret_mask, info->flags ? 0 : 0xff, CPU_WORD__MAX * sizeof(uint32_t));
    for (const char *const *name = info->flags; name && *name; name++) {
        const CpuFlag *flag = find_flag(*name);

        ret_mask[flag->word] |= 1u << flag->bit;
    }
    for (size_t i = 0; i < G_N_ELEMENTS(never); i++) {
        ret_mask[never[i].word] &= ~never[i].mask;
    }
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
    { "enforce", offsetof(CpuModel, enforce) },
    { "pmu", offsetof(CpuModel, pmu) },
};

static const CpuModelInfo *find_model(const char *name, GError **errp)
{
    const char *names[8] = { NULL };
    size_t n = 0;

    for (const CpuModelInfo *m = cpu_models; m->name; m++) {
        if (g_str_equal(m->name, name) || g_str_equal(m->type_name, name)) {
            return m;
        }
        names[n++] = m->name;
    }
    g_autofree char *hint = suggest_nearest(name, names);

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

static bool set_named(CpuModel *model, const char *name, bool on, GError **errp)
{
    const CpuFlag *flag = find_flag(name);

    if (flag) {
        return set_flag(model, flag, on, errp);
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
        if (!find_flag(name) && !set_named(model, name, true, NULL)) {
            g_clear_error(errp);
            return unknown_name(name, errp);
        }
        return false;
    }
    return set_named(model, name, on, errp);
}

CpuModel *cpu_model_parse(const char *text, GError **errp)
{
    g_auto(GStrv) items = g_strsplit(text, ",", -1);
    g_autoptr(CpuModel) model = g_new0(CpuModel, 1);

    model->migratable = true;
    model->kvm = true;
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
