/*
 * vCPUs: creation, the thread of each, its run loop, holding and letting go.
 *
 * A thread holds the big lock except in KVM_RUN and while it waits. Who wants a vCPU out of the
 * guest changes a condition under the lock, sets immediate_exit and sends a signal: a vCPU on its
 * way into KVM_RUN is turned back by the first, one inside is brought out by the second.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "accel/kvm.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "util/error.h"
#include "util/log.h"

#define KICK_SIGNAL SIGUSR1

static void kick_handler(int sig)
{
    /* Its arrival alone makes KVM_RUN return. */
}

/* Only the kick and what a faulting instruction raises reach a vCPU's thread. */
static void set_signals(void)
{
    sigset_t mask;

    sigfillset(&mask);
    sigdelset(&mask, KICK_SIGNAL);
    sigdelset(&mask, SIGBUS);
    sigdelset(&mask, SIGSEGV);
    sigdelset(&mask, SIGILL);
    sigdelset(&mask, SIGFPE);
    sigdelset(&mask, SIGABRT);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

static bool may_run(const KvmVcpu *vcpu)
{
    const KvmAccel *kvm = vcpu->kvm;

    return kvm->common.running && !kvm->common.pauses &&
           !runstate_stop_is_requested(kvm->common.env.runstate);
}

static int run_once(KvmVcpu *vcpu)
{
    return ioctl(vcpu->fd, KVM_RUN, 0) < 0 ? errno : 0;
}

/*
 * Lets KVM take the result of the last I/O, so that the registers are those after the instruction.
 * An instruction of several parts comes back with the next one.
 */
static void finish_io(KvmVcpu *vcpu)
{
    while (vcpu->io_pending) {
        vcpu->io_pending = false;
        vcpu->run->immediate_exit = 1;
        int err = run_once(vcpu);

        if (!err) {
            kvm_handle_exit(vcpu);
        } else if (err != EINTR && err != EAGAIN) {
            kvm_handle_run_error(vcpu, err);
        }
    }
    vcpu->run->immediate_exit = 0;
}

/* Waits outside the guest until the vCPU may run or its thread shall end. */
static void park(KvmVcpu *vcpu)
{
    KvmAccel *kvm = vcpu->kvm;

    finish_io(vcpu);
    vcpu->parked = true;
    g_cond_broadcast(&kvm->parked_cond);
    while (!may_run(vcpu) && !kvm->ending) {
        g_cond_wait(&kvm->run_cond, &kvm->common.lock);
    }
    vcpu->parked = false;
}

static void send_nmi(KvmVcpu *vcpu)
{
    /* An NMI comes in through LINT1, whose entry in the local vector table (0x360) must say so. */
    struct kvm_lapic_state lapic;
    uint32_t lint1;

    if (ioctl(vcpu->fd, KVM_GET_LAPIC, &lapic) < 0) {
        return;
    }
    memcpy(&lint1, lapic.regs + 0x360, sizeof(lint1));
    if (!(lint1 & 0x10000) && (lint1 & 0x700) == 0x400) {
        ioctl(vcpu->fd, KVM_NMI, 0);
    }
}

/* What has to be done to the vCPU between its stop and its next run. */
static void prepare_run(KvmVcpu *vcpu)
{
    vcpu->state_valid = false;
    if (vcpu->tell_paused) {
        vcpu->tell_paused = false;
        /* Fails with EINVAL when the guest has no kvmclock, and then there is nothing to tell. */
        ioctl(vcpu->fd, KVM_KVMCLOCK_CTRL, 0);
    }
    if (g_atomic_int_compare_and_exchange(&vcpu->nmi_wanted, 1, 0)) {
        send_nmi(vcpu);
    }
}

/* One stay in the guest and what follows from it; lock held before and after. */
static void run_guest(KvmVcpu *vcpu)
{
    KvmAccel *kvm = vcpu->kvm;
    int err;

    prepare_run(vcpu);
    vcpu->slots_seen = kvm->slots_generation;
    g_atomic_int_set(&vcpu->in_guest, 1);
    g_mutex_unlock(&kvm->common.lock);
    err = run_once(vcpu);
    g_atomic_int_set(&vcpu->in_guest, 0);
    g_mutex_lock(&kvm->common.lock);
    vcpu->run->immediate_exit = 0;
    if (!err) {
        vcpu->io_pending = false;
        kvm_handle_exit(vcpu);
    } else if (err == EINTR || err == EAGAIN) {
        /*
         * A kick; or a processor that waits for SIPI has been sent something. Its I/O is
         * complete.
         */
        vcpu->io_pending = false;
    } else {
        kvm_handle_run_error(vcpu, err);
    }
}

static void *vcpu_thread(void *opaque)
{
    KvmVcpu *vcpu = opaque;
    KvmAccel *kvm = vcpu->kvm;

    set_signals();
    g_mutex_lock(&kvm->common.lock);
    vcpu->thread_id = gettid();
    while (!kvm->ending) {
        if (may_run(vcpu)) {
            run_guest(vcpu);
        } else {
            park(vcpu);
        }
    }
    vcpu->parked = true;
    g_mutex_unlock(&kvm->common.lock);
    return NULL;
}

void kvm_kick_all(KvmAccel *kvm)
{
    for (unsigned i = 0; i < kvm->n_vcpus; i++) {
        KvmVcpu *vcpu = &kvm->vcpus[i];

        if (vcpu->has_thread && !vcpu->parked) {
            vcpu->run->immediate_exit = 1;
            pthread_kill(vcpu->thread, KICK_SIGNAL);
        }
    }
}

void kvm_exclude_guests(KvmAccel *kvm)
{
    kvm_kick_all(kvm);
    for (unsigned i = 0; i < kvm->n_vcpus; i++) {
        /* Leaving the guest takes a fraction of a millisecond and nothing that we hold. */
        while (g_atomic_int_get(&kvm->vcpus[i].in_guest)) {
            g_usleep(20);
        }
    }
}

static bool all_parked(const KvmAccel *kvm)
{
    for (unsigned i = 0; i < kvm->n_vcpus; i++) {
        if (kvm->vcpus[i].has_thread && !kvm->vcpus[i].parked) {
            return false;
        }
    }
    return true;
}

void kvm_wait_parked(KvmAccel *kvm)
{
    while (!all_parked(kvm)) {
        g_cond_wait(&kvm->parked_cond, &kvm->common.lock);
    }
}

void kvm_release(KvmAccel *kvm)
{
    for (unsigned i = 0; i < kvm->n_vcpus; i++) {
        g_autoptr(GError) err = NULL;

        if (!kvm_state_flush(&kvm->vcpus[i], &err)) {
            error_report("%s", err->message);
            runstate_request_stop(kvm->common.env.runstate, RUN_STATE_INTERNAL_ERROR);
        }
    }
    g_cond_broadcast(&kvm->run_cond);
}

/* --- Creation --- */

bool kvm_create_vcpu(KvmAccel *kvm, KvmVcpu *vcpu, const struct kvm_cpuid2 *cpuid, GError **errp)
{
    /* KVM takes its number of a vCPU for the APIC id. */
    vcpu->fd =
        ioctl(kvm->vm_fd, KVM_CREATE_VCPU, (unsigned long)cpu_apic_id(&kvm->topology, vcpu->index));
    if (vcpu->fd < 0) {
        error_set_errno(errp, errno, "KVM cannot create CPU %u", vcpu->index);
        return false;
    }
    vcpu->run = mmap(NULL, kvm->run_size, PROT_READ | PROT_WRITE, MAP_SHARED, vcpu->fd, 0);
    if (vcpu->run == MAP_FAILED) {
        vcpu->run = NULL;
        error_set_errno(errp, errno, "cannot map the run page of CPU %u", vcpu->index);
        return false;
    }
    if (ioctl(vcpu->fd, KVM_SET_CPUID2, cpuid) < 0) {
        error_set_errno(errp, errno, "KVM refuses the CPUID of CPU %u", vcpu->index);
        return false;
    }
    return true;
}

/* The signal handler is the process's, the same for every accelerator that would ever set it. */
static void install_kick_handler(void)
{
    struct sigaction sa = { .sa_handler = kick_handler };

    sigaction(KICK_SIGNAL, &sa, NULL);
}

bool kvm_start_vcpu_thread(KvmVcpu *vcpu, GError **errp)
{
    char name[16];
    int err;

    install_kick_handler();
    err = pthread_create(&vcpu->thread, NULL, vcpu_thread, vcpu);
    if (err) {
        error_set_errno(errp, err, "cannot start the thread of CPU %u", vcpu->index);
        return false;
    }
    vcpu->has_thread = true;
    snprintf(name, sizeof(name), "CPU %u/KVM", vcpu->index % 10000);
    pthread_setname_np(vcpu->thread, name);
    return true;
}

void kvm_destroy_vcpu(KvmVcpu *vcpu)
{
    if (vcpu->has_thread) {
        pthread_join(vcpu->thread, NULL);
    }
    if (vcpu->run) {
        munmap(vcpu->run, vcpu->kvm->run_size);
    }
    if (vcpu->fd >= 0) {
        close(vcpu->fd);
    }
    kvm_state_clear(&vcpu->state);
}
