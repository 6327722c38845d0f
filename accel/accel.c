/*
 * Choosing an accelerator, the big lock, and what goes to the one that was chosen.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "accel/accel-ops.h"

#include <string.h>

#include "accel/cpu-models.h"
#include "memory/base-guard.h"
#include "util/error.h"
#include "util/suggest.h"

/* All that can be named. */
static const struct {
    const char *name;
    const AccelOps *ops; /* NULL: not built in */
} accelerators[] = {
    { "kvm", &kvm_accel_ops },
    { "qtest", &qtest_accel_ops },
    { "tcg", NULL },
};

void accel_lock(Accel *accel)
{
    g_mutex_lock(&accel->lock);
}

void accel_unlock(Accel *accel)
{
    g_mutex_unlock(&accel->lock);
}

const char *accel_name(const Accel *accel)
{
    return accel->ops->name;
}

bool accel_has_irqfd(const Accel *accel)
{
    return accel->ops->irqfds;
}

bool accel_has_ioevents(const Accel *accel)
{
    return accel->ops->ioevents;
}

/* --- Holding vCPUs --- */

static void hold(Accel *accel)
{
    if (accel->ops->hold) {
        accel->ops->hold(accel);
    }
}

static void let_go(Accel *accel, bool resumed)
{
    if (accel->ops->let_go) {
        accel->ops->let_go(accel, resumed);
    }
}

void accel_pause(Accel *accel)
{
    accel->pauses++;
    hold(accel);
}

void accel_resume(Accel *accel)
{
    g_return_if_fail(accel->pauses > 0);
    if (--accel->pauses == 0 && accel->running) {
        let_go(accel, false);
    }
}

static void pause_all(void *opaque)
{
    Accel *accel = opaque;

    accel->running = false;
    hold(accel);
}

static void resume_all(void *opaque)
{
    Accel *accel = opaque;
    bool resumed = !accel->running;

    accel->running = true;
    let_go(accel, resumed);
}

static bool start_check(void *opaque, GError **errp)
{
    Accel *accel = opaque;

    if (ram_list_is_lost(accel->env.ram)) {
        error_set(errp, "guest memory was lost (see RAM_LOST): the VM can only be ended");
        return false;
    }
    return !accel->ops->start_check || accel->ops->start_check(accel, errp);
}

/* --- Creation --- */

void accel_init(Accel *accel, const AccelOps *ops, const AccelEnv *env)
{
    accel->ops = ops;
    accel->env = *env;
    g_mutex_init(&accel->lock);
    runstate_set_vcpu_ops(env->runstate, pause_all, resume_all, accel);
    runstate_set_start_check(env->runstate, start_check, accel);
}

/* The index of that accelerator; -1: there is none. */
static int find(const char *name)
{
    for (size_t i = 0; i < G_N_ELEMENTS(accelerators); i++) {
        if (g_str_equal(accelerators[i].name, name)) {
            return i;
        }
    }
    return -1;
}

static bool check_names(char **names, GError **errp)
{
    if (!names[0]) {
        error_set(errp, "no accelerator is named; use 'kvm'");
        return false;
    }
    for (char **n = names; *n; n++) {
        const char *known[G_N_ELEMENTS(accelerators) + 1] = { NULL };
        g_autofree char *hint = NULL;

        if (find(*n) >= 0) {
            continue;
        }
        for (size_t i = 0; i < G_N_ELEMENTS(accelerators); i++) {
            known[i] = accelerators[i].name;
        }
        hint = suggest_nearest(*n, known);
        error_set(errp, "unknown accelerator '%s'%s%s", *n, hint ? ": " : "", hint ? hint : "");
        return false;
    }
    return true;
}

Accel *accel_create(const char *list, const AccelEnv *env, GError **errp)
{
    g_auto(GStrv) names = g_strsplit(list, ":", -1);
    g_autoptr(GError) first = NULL;

    if (!check_names(names, errp)) {
        return NULL;
    }
    for (char **n = names; *n; n++) {
        const AccelOps *ops = accelerators[find(*n)].ops;

        if (!ops) {
            info_report("accelerator '%s' is not built in and was passed over", *n);
            continue;
        }
        Accel *accel = ops->create(env, first ? NULL : &first);

        if (accel) {
            return accel;
        }
    }
    if (first) {
        g_propagate_error(errp, g_steal_pointer(&first));
    } else {
        error_set(errp, "no accelerator of '%s' is built in; use 'kvm'", list);
    }
    return NULL;
}

void accel_destroy(Accel *accel)
{
    if (!accel) {
        return;
    }
    if (accel->ops->close) {
        accel->ops->close(accel);
    }
    runstate_set_vcpu_ops(accel->env.runstate, NULL, NULL, NULL);
    runstate_set_start_check(accel->env.runstate, NULL, NULL);
    g_mutex_clear(&accel->lock);
    g_free(accel);
}

/* --- The machine's parts --- */

bool accel_create_irqchip(Accel *accel, bool pit, GError **errp)
{
    return !accel->ops->create_irqchip || accel->ops->create_irqchip(accel, pit, errp);
}

bool accel_create_vcpus(Accel *accel, const CpuConfig *config, unsigned n, GError **errp)
{
    return !accel->ops->create_vcpus || accel->ops->create_vcpus(accel, config, n, errp);
}

unsigned accel_vcpu_count(const Accel *accel)
{
    return accel->ops->vcpu_count ? accel->ops->vcpu_count(accel) : 0;
}

int accel_vcpu_thread_id(const Accel *accel, unsigned i)
{
    return accel->ops->vcpu_thread_id(accel, i);
}

bool accel_check_cpu_model(const char *model, GError **errp)
{
    g_autoptr(CpuModel) m = cpu_model_parse(model, errp);

    return m != NULL;
}

bool accel_set_boot_registers(Accel *accel, const VcpuBoot *boot, GError **errp)
{
    return !accel->ops->set_boot_registers || accel->ops->set_boot_registers(accel, boot, errp);
}

bool accel_reset(Accel *accel, GError **errp)
{
    return !accel->ops->reset || accel->ops->reset(accel, errp);
}

/* --- Interrupts --- */

void accel_set_irq(Accel *accel, unsigned gsi, int level)
{
    accel->ops->set_irq(accel, gsi, level);
}

bool accel_send_msi(Accel *accel, uint64_t address, uint32_t data)
{
    return accel->ops->send_msi(accel, address, data);
}

void accel_inject_nmi(Accel *accel)
{
    if (accel->ops->inject_nmi) {
        accel->ops->inject_nmi(accel);
    }
}

int accel_add_msi_route(Accel *accel, uint64_t address, uint32_t data, GError **errp)
{
    return accel->ops->add_msi_route(accel, address, data, errp);
}

void accel_update_msi_route(Accel *accel, int gsi, uint64_t address, uint32_t data)
{
    accel->ops->update_msi_route(accel, gsi, address, data);
}

void accel_remove_msi_route(Accel *accel, int gsi)
{
    accel->ops->remove_msi_route(accel, gsi);
}

bool accel_commit_routes(Accel *accel, GError **errp)
{
    return !accel->ops->commit_routes || accel->ops->commit_routes(accel, errp);
}

bool accel_add_irqfd(Accel *accel, int eventfd, int resample, int gsi, GError **errp)
{
    return accel->ops->add_irqfd(accel, eventfd, resample, gsi, errp);
}

bool accel_remove_irqfd(Accel *accel, int eventfd, int gsi, GError **errp)
{
    return accel->ops->remove_irqfd(accel, eventfd, gsi, errp);
}

bool accel_add_ioevent(Accel *accel, const AccelIoEvent *e, GError **errp)
{
    return accel->ops->add_ioevent(accel, e, errp);
}

void accel_remove_ioevent(Accel *accel, const AccelIoEvent *e)
{
    accel->ops->remove_ioevent(accel, e);
}

/* --- State --- */

bool accel_fetch_state(Accel *accel, GError **errp)
{
    return !accel->ops->fetch_state || accel->ops->fetch_state(accel, errp);
}

bool accel_cpu_dump_state(Accel *accel, unsigned i, CpuDumpState *ret_state, GError **errp)
{
    if (!accel->ops->cpu_dump_state) {
        error_set(errp, "the accelerator '%s' has no registers to dump; use kvm",
                  accel_name(accel));
        return false;
    }
    return accel->ops->cpu_dump_state(accel, i, ret_state, errp);
}

char *accel_format_registers(Accel *accel, unsigned i)
{
    char *text;

    accel_pause(accel);
    text = accel->ops->format_registers(accel, i);
    accel_resume(accel);
    return text;
}

const CpuDigest *accel_cpuid_digest(const Accel *accel)
{
    static const CpuDigest none;

    return accel->ops->cpuid_digest ? accel->ops->cpuid_digest(accel) : &none;
}

void accel_cpu_flags(const Accel *accel, uint32_t *ret_flags)
{
    memset(ret_flags, 0, CPU_WORD__MAX * sizeof(*ret_flags));
    if (accel->ops->cpu_flags) {
        accel->ops->cpu_flags(accel, ret_flags);
    }
}

/* --- Statistics --- */

bool accel_describe_stats(Accel *accel, StatsTarget target, AccelStatFn fn, void *opaque,
                          GError **errp)
{
    return !accel->ops->describe_stats ||
           accel->ops->describe_stats(accel, target, fn, opaque, errp);
}

bool accel_read_stats(Accel *accel, StatsTarget target, unsigned i, AccelStatFn fn, void *opaque,
                      GError **errp)
{
    return !accel->ops->read_stats || accel->ops->read_stats(accel, target, i, fn, opaque, errp);
}
