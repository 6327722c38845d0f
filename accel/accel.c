/*
 * Choosing an accelerator, its life, the big lock, holding and resetting vCPUs.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "accel/accel.h"

#include "accel/cpu-models.h"
#include "accel/cpuid.h"
#include "accel/kvm.h"
#include "accel/kvm-chips.h"
#include "memory/base-guard.h"
#include "util/error.h"
#include "util/suggest.h"

/* 255 means all processors; more needs interrupt remapping. */
#define APIC_ID_MAX 254u

static const char *const accel_names[] = { "kvm", "tcg", NULL };

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
    return "kvm";
}

/* --- Holding vCPUs --- */

void accel_pause(Accel *accel)
{
    accel->pauses++;
    kvm_kick_all(accel);
    kvm_wait_parked(accel);
}

void accel_resume(Accel *accel)
{
    g_return_if_fail(accel->pauses > 0);
    if (--accel->pauses == 0 && accel->running) {
        kvm_release(accel);
    }
}

static void pause_all(void *opaque)
{
    Accel *accel = opaque;

    accel->running = false;
    kvm_kick_all(accel);
    kvm_wait_parked(accel);
}

static void resume_all(void *opaque)
{
    Accel *accel = opaque;

    if (!accel->running) {
        accel->running = true;
        for (unsigned i = 0; i < accel->n_vcpus; i++) {
            accel->vcpus[i].tell_paused = accel->caps.kvmclock_ctrl;
        }
    }
    if (!accel->pauses) {
        kvm_release(accel);
    }
}

static bool start_check(void *opaque, GError **errp)
{
    Accel *accel = opaque;

    if (accel->slot_error) {
        error_set(errp, "%s", accel->slot_error->message);
        return false;
    }
    if (ram_list_is_lost(accel->env.ram)) {
        error_set(errp, "guest memory was lost (see RAM_LOST): the VM can only be ended");
        return false;
    }
    return accel_commit_routes(accel, errp);
}

/* --- Creation --- */

static Accel *kvm_new(const AccelEnv *env, GError **errp)
{
    Accel *accel = g_new0(Accel, 1);
    AddressMapListener listener = { kvm_commit_slots, accel };

    accel->env = *env;
    accel->kvm_fd = accel->vm_fd = -1;
    g_mutex_init(&accel->lock);
    g_cond_init(&accel->run_cond);
    g_cond_init(&accel->parked_cond);
    g_mutex_init(&accel->routes_lock);
    accel->ranges = g_array_new(FALSE, FALSE, sizeof(KvmSlot));
    accel->slots = g_array_new(FALSE, FALSE, sizeof(KvmSlot));
    accel->routes = g_array_new(FALSE, TRUE, sizeof(struct kvm_irq_routing_entry));
    accel->msrs_reported = g_hash_table_new(NULL, NULL);
    if (!kvm_open(accel, errp)) {
        accel_destroy(accel);
        return NULL;
    }
    address_map_add_listener(env->memory, &listener);
    runstate_set_vcpu_ops(env->runstate, pause_all, resume_all, accel);
    runstate_set_start_check(env->runstate, start_check, accel);
    return accel;
}

/* Is the name one of an accelerator at all? */
static bool check_name(const char *name, GError **errp)
{
    if (!g_strv_contains(accel_names, name)) {
        g_autofree char *hint = suggest_nearest(name, accel_names);

        error_set(errp, "unknown accelerator '%s'%s%s", name, hint ? ": " : "", hint ? hint : "");
        return false;
    }
    return true;
}

static bool check_names(char **names, GError **errp)
{
    if (!names[0]) {
        error_set(errp, "no accelerator is named; use 'kvm'");
        return false;
    }
    for (char **n = names; *n; n++) {
        if (!check_name(*n, errp)) {
            return false;
        }
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
        if (!g_str_equal(*n, "kvm")) {
            info_report("accelerator '%s' is not built in and was passed over", *n);
            continue;
        }
        Accel *accel = kvm_new(env, first ? NULL : &first);

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
    g_mutex_lock(&accel->lock);
    accel->ending = true;
    accel->running = false;
    kvm_kick_all(accel);
    g_cond_broadcast(&accel->run_cond);
    g_mutex_unlock(&accel->lock);
    for (unsigned i = 0; i < accel->n_vcpus; i++) {
        vmstate_unregister(accel->env.vmstate, NULL, &accel->vcpus[i]);
        kvm_destroy_vcpu(&accel->vcpus[i]);
    }
    g_free(accel->vcpus);
    if (accel->vm_fd >= 0) {
        address_map_remove_listener(accel->env.memory, accel);
        runstate_set_vcpu_ops(accel->env.runstate, NULL, NULL, NULL);
        runstate_set_start_check(accel->env.runstate, NULL, NULL);
    }
    kvm_chips_free(accel);
    kvm_template_free(&accel->vcpu_template);
    kvm_close(accel);
    g_array_unref(accel->ranges);
    g_array_unref(accel->slots);
    g_array_unref(accel->routes);
    g_hash_table_unref(accel->msrs_reported);
    g_clear_error(&accel->slot_error);
    g_mutex_clear(&accel->lock);
    g_mutex_clear(&accel->routes_lock);
    g_cond_clear(&accel->run_cond);
    g_cond_clear(&accel->parked_cond);
    g_free(accel);
}

/* --- vCPUs --- */

static bool create_vcpu(Accel *accel, unsigned i, const CpuModel *model, GError **errp)
{
    const struct kvm_cpuid2 *supported = kvm_supported_cpuid(accel, errp);
    KvmVcpu *vcpu = &accel->vcpus[i];
    g_autofree struct kvm_cpuid2 *cpuid = NULL;

    *vcpu = (KvmVcpu){ .accel = accel, .index = i, .fd = -1 };
    accel->n_vcpus = i + 1;
    if (!supported) {
        return false;
    }
    cpuid = cpuid_build(supported, model, &accel->topology, i, errp);
    if (!cpuid) {
        return false;
    }
    if (i == 0) {
        cpuid_digest(cpuid, &accel->cpuid_digest);
    }
    return kvm_create_vcpu(accel, vcpu, cpuid, errp) && (i > 0 || kvm_template_read(vcpu, errp)) &&
           vmstate_register(accel->env.vmstate, "cpu", i, VMSTATE_PRIORITY_VCPU, &vmstate_kvm_vcpu,
                            vcpu, errp) &&
           kvm_start_vcpu_thread(vcpu, errp);
}

bool accel_create_vcpus(Accel *accel, const CpuConfig *config, unsigned n, GError **errp)
{
    g_autoptr(CpuModel) model = cpu_model_parse(config->model ? config->model : "host", errp);

    g_return_val_if_fail(!accel->vcpus, false);
    if (!model) {
        return false;
    }
    if (n > accel->caps.max_vcpus) {
        error_set(errp, "%u CPUs are asked for, this host's KVM can do %u", n,
                  accel->caps.max_vcpus);
        return false;
    }
    if (accel->slot_error) {
        error_set(errp, "%s", accel->slot_error->message);
        return false;
    }
    accel->topology = config->topology;
    if (cpu_apic_id(&accel->topology, n - 1) > APIC_ID_MAX) {
        error_set(errp, "CPU %u would have the APIC id %u, at most %u can be used", n - 1,
                  cpu_apic_id(&accel->topology, n - 1), APIC_ID_MAX);
        return false;
    }
    accel->vcpus = g_new0(KvmVcpu, n);
    for (unsigned i = 0; i < n; i++) {
        if (!create_vcpu(accel, i, model, errp)) {
            return false;
        }
    }
    /* Until each thread has said who it is. */
    kvm_wait_parked(accel);
    return true;
}

unsigned accel_vcpu_count(const Accel *accel)
{
    return accel->n_vcpus;
}

int accel_vcpu_thread_id(const Accel *accel, unsigned i)
{
    return accel->vcpus[i].thread_id;
}

const CpuDigest *accel_cpuid_digest(const Accel *accel)
{
    return &accel->cpuid_digest;
}

bool accel_check_cpu_model(const char *model, GError **errp)
{
    g_autoptr(CpuModel) m = cpu_model_parse(model, errp);

    return m != NULL;
}

/* --- State --- */

bool accel_set_boot_registers(Accel *accel, const VcpuBoot *boot, GError **errp)
{
    if (!accel->n_vcpus) {
        error_set(errp, "the machine has no CPU to start");
        return false;
    }
    accel->boot = *boot;
    kvm_state_reset(&accel->vcpus[0]);
    return true;
}

bool accel_reset(Accel *accel, GError **errp)
{
    for (unsigned i = 0; i < accel->n_vcpus; i++) {
        kvm_state_reset(&accel->vcpus[i]);
    }
    return kvm_chips_reset(accel, errp);
}

bool accel_fetch_state(Accel *accel, GError **errp)
{
    for (unsigned i = 0; i < accel->n_vcpus; i++) {
        if (!kvm_state_fetch(&accel->vcpus[i], errp)) {
            return false;
        }
    }
    return true;
}

char *accel_format_registers(Accel *accel, unsigned i)
{
    g_autoptr(GError) err = NULL;
    char *text;

    accel_pause(accel);
    text = kvm_state_fetch(&accel->vcpus[i], &err) ? kvm_state_format(&accel->vcpus[i].state)
                                                   : g_strdup(err->message);
    accel_resume(accel);
    return text;
}
