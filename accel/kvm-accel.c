/*
 * KVM as one of the accelerators: its life, holding vCPUs and letting them go, reset; the table.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "accel/kvm.h"

#include "accel/cpu-models.h"
#include "accel/cpuid.h"
#include "accel/kvm-chips.h"
#include "util/error.h"

/* 255 means all processors; more needs interrupt remapping. */
#define APIC_ID_MAX 254u

/* --- Life --- */

static Accel *kvm_accel_create(const AccelEnv *env, GError **errp)
{
    KvmAccel *kvm = g_new0(KvmAccel, 1);
    AddressMapListener listener = { kvm_commit_slots, kvm };

    accel_init(&kvm->common, &kvm_accel_ops, env);
    kvm->kvm_fd = kvm->vm_fd = -1;
    g_cond_init(&kvm->run_cond);
    g_cond_init(&kvm->parked_cond);
    g_mutex_init(&kvm->routes_lock);
    kvm->ranges = g_array_new(FALSE, FALSE, sizeof(KvmSlot));
    kvm->slots = g_array_new(FALSE, FALSE, sizeof(KvmSlot));
    kvm->routes = g_array_new(FALSE, TRUE, sizeof(struct kvm_irq_routing_entry));
    kvm->msrs_reported = g_hash_table_new(NULL, NULL);
    if (!kvm_open(kvm, errp)) {
        accel_destroy(&kvm->common);
        return NULL;
    }
    address_map_add_listener(env->memory, &listener);
    return &kvm->common;
}

static void end_threads(KvmAccel *kvm)
{
    g_mutex_lock(&kvm->common.lock);
    kvm->ending = true;
    kvm->common.running = false;
    kvm_kick_all(kvm);
    g_cond_broadcast(&kvm->run_cond);
    g_mutex_unlock(&kvm->common.lock);
    for (unsigned i = 0; i < kvm->n_vcpus; i++) {
        vmstate_unregister(kvm->common.env.vmstate, NULL, &kvm->vcpus[i]);
        kvm_destroy_vcpu(&kvm->vcpus[i]);
    }
    g_free(kvm->vcpus);
}

static void kvm_accel_close(Accel *accel)
{
    KvmAccel *kvm = KVM_ACCEL(accel);

    end_threads(kvm);
    if (kvm->vm_fd >= 0) {
        address_map_remove_listener(accel->env.memory, kvm);
    }
    kvm_stats_free(kvm->stats);
    kvm_chips_free(kvm);
    kvm_template_free(&kvm->vcpu_template);
    kvm_close(kvm);
    g_array_unref(kvm->ranges);
    g_array_unref(kvm->slots);
    g_array_unref(kvm->routes);
    g_hash_table_unref(kvm->msrs_reported);
    g_clear_error(&kvm->slot_error);
    g_mutex_clear(&kvm->routes_lock);
    g_cond_clear(&kvm->run_cond);
    g_cond_clear(&kvm->parked_cond);
}

/* --- Holding vCPUs --- */

static void hold(Accel *accel)
{
    kvm_kick_all(KVM_ACCEL(accel));
    kvm_wait_parked(KVM_ACCEL(accel));
}

static void let_go(Accel *accel, bool resumed)
{
    KvmAccel *kvm = KVM_ACCEL(accel);

    for (unsigned i = 0; resumed && i < kvm->n_vcpus; i++) {
        kvm->vcpus[i].tell_paused = kvm->caps.kvmclock_ctrl;
    }
    if (!accel->pauses) {
        kvm_release(kvm);
    }
}

static bool start_check(Accel *accel, GError **errp)
{
    KvmAccel *kvm = KVM_ACCEL(accel);

    if (kvm->slot_error) {
        error_set(errp, "%s", kvm->slot_error->message);
        return false;
    }
    return kvm_commit_routes(accel, errp);
}

/* --- vCPUs --- */

static bool create_vcpu(KvmAccel *kvm, unsigned i, const CpuModel *model, GError **errp)
{
    const struct kvm_cpuid2 *supported = kvm_supported_cpuid(kvm, errp);
    KvmVcpu *vcpu = &kvm->vcpus[i];
    g_autofree struct kvm_cpuid2 *cpuid = NULL;

    *vcpu = (KvmVcpu){ .kvm = kvm, .index = i, .fd = -1 };
    kvm->n_vcpus = i + 1;
    if (!supported) {
        return false;
    }
    cpuid = cpuid_build(supported, model, &kvm->topology, i, errp);
    if (!cpuid) {
        return false;
    }
    if (i == 0) {
        cpuid_digest(cpuid, &kvm->cpuid_digest);
        cpuid_flags(cpuid, kvm->cpu_flags);
    }
    return kvm_create_vcpu(kvm, vcpu, cpuid, errp) && (i > 0 || kvm_template_read(vcpu, errp)) &&
           vmstate_register(kvm->common.env.vmstate, "cpu", i, VMSTATE_PRIORITY_VCPU,
                            &vmstate_kvm_vcpu, vcpu, errp) &&
           kvm_start_vcpu_thread(vcpu, errp);
}

static bool create_vcpus(Accel *accel, const CpuConfig *config, unsigned n, GError **errp)
{
    KvmAccel *kvm = KVM_ACCEL(accel);
    g_autoptr(CpuModel) model = cpu_model_parse(config->model ? config->model : "host", errp);

    g_return_val_if_fail(!kvm->vcpus, false);
    if (!model) {
        return false;
    }
    if (n > kvm->caps.max_vcpus) {
        error_set(errp, "%u CPUs are asked for, this host's KVM can do %u", n, kvm->caps.max_vcpus);
        return false;
    }
    if (kvm->slot_error) {
        error_set(errp, "%s", kvm->slot_error->message);
        return false;
    }
    kvm->topology = config->topology;
    if (cpu_apic_id(&kvm->topology, n - 1) > APIC_ID_MAX) {
        error_set(errp, "CPU %u would have the APIC id %u, at most %u can be used", n - 1,
                  cpu_apic_id(&kvm->topology, n - 1), APIC_ID_MAX);
        return false;
    }
    kvm->vcpus = g_new0(KvmVcpu, n);
    for (unsigned i = 0; i < n; i++) {
        if (!create_vcpu(kvm, i, model, errp)) {
            return false;
        }
    }
    /* Until each thread has said who it is. */
    kvm_wait_parked(kvm);
    return true;
}

static unsigned vcpu_count(const Accel *accel)
{
    return KVM_ACCEL(accel)->n_vcpus;
}

static int vcpu_thread_id(const Accel *accel, unsigned i)
{
    return KVM_ACCEL(accel)->vcpus[i].thread_id;
}

/* --- State --- */

static const CpuDigest *digest(const Accel *accel)
{
    return &KVM_ACCEL(accel)->cpuid_digest;
}

static void shown_cpu_flags(const Accel *accel, uint32_t ret_flags[CPU_WORD__MAX])
{
    memcpy(ret_flags, KVM_ACCEL(accel)->cpu_flags, sizeof(KVM_ACCEL(accel)->cpu_flags));
}

static bool set_boot_registers(Accel *accel, const VcpuBoot *boot, GError **errp)
{
    KvmAccel *kvm = KVM_ACCEL(accel);

    if (!kvm->n_vcpus) {
        error_set(errp, "the machine has no CPU to start");
        return false;
    }
    kvm->boot = *boot;
    kvm_state_reset(&kvm->vcpus[0]);
    return true;
}

static bool reset(Accel *accel, GError **errp)
{
    KvmAccel *kvm = KVM_ACCEL(accel);

    for (unsigned i = 0; i < kvm->n_vcpus; i++) {
        kvm_state_reset(&kvm->vcpus[i]);
    }
    return kvm_chips_reset(kvm, errp);
}

static bool fetch_state(Accel *accel, GError **errp)
{
    KvmAccel *kvm = KVM_ACCEL(accel);

    for (unsigned i = 0; i < kvm->n_vcpus; i++) {
        if (!kvm_state_fetch(&kvm->vcpus[i], errp)) {
            return false;
        }
    }
    return true;
}

static char *format_registers(Accel *accel, unsigned i)
{
    KvmVcpu *vcpu = &KVM_ACCEL(accel)->vcpus[i];
    g_autoptr(GError) err = NULL;

    return kvm_state_fetch(vcpu, &err) ? kvm_state_format(&vcpu->state) : g_strdup(err->message);
}

const AccelOps kvm_accel_ops = {
    .name = "kvm",
    .irqfds = true,
    .ioevents = true,
    .create = kvm_accel_create,
    .close = kvm_accel_close,
    .hold = hold,
    .let_go = let_go,
    .start_check = start_check,
    .create_irqchip = kvm_create_irqchip,
    .create_vcpus = create_vcpus,
    .vcpu_count = vcpu_count,
    .vcpu_thread_id = vcpu_thread_id,
    .set_boot_registers = set_boot_registers,
    .reset = reset,
    .set_irq = kvm_set_irq,
    .send_msi = kvm_send_msi,
    .inject_nmi = kvm_inject_nmi,
    .add_msi_route = kvm_add_msi_route,
    .update_msi_route = kvm_update_msi_route,
    .remove_msi_route = kvm_remove_msi_route,
    .commit_routes = kvm_commit_routes,
    .add_irqfd = kvm_add_irqfd,
    .remove_irqfd = kvm_remove_irqfd,
    .add_ioevent = kvm_add_ioevent,
    .remove_ioevent = kvm_remove_ioevent,
    .fetch_state = fetch_state,
    .cpu_dump_state = kvm_cpu_dump_state,
    .format_registers = format_registers,
    .cpuid_digest = digest,
    .cpu_flags = shown_cpu_flags,
    .describe_stats = kvm_describe_stats,
    .read_stats = kvm_read_stats,
};
