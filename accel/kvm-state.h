/*
 * The registers of one vCPU in our memory, and their way from and to KVM and a snapshot.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_ACCEL_KVM_STATE_H
#define COWBIRD_ACCEL_KVM_STATE_H

#include <glib.h>
#include <linux/kvm.h>
#include <stdbool.h>
#include <stdint.h>

#include "vmstate/vmstate.h"

typedef struct KvmVcpu KvmVcpu;

typedef struct VcpuMsr {
    uint32_t index;
    uint64_t data;
} VcpuMsr;

typedef struct VcpuState {
    struct kvm_regs regs;
    struct kvm_sregs2 sregs; /* from KVM_GET_SREGS where there is no SREGS2; no pdptrs then */
    struct kvm_xcrs xcrs;
    uint32_t xsave_size;
    uint8_t *xsave; /* xsave_size bytes, owned */
    struct kvm_debugregs debugregs;
    struct kvm_vcpu_events events;
    struct kvm_lapic_state lapic;
    uint32_t n_msrs;
    VcpuMsr *msrs; /* n_msrs, owned; those KVM could read */
    uint32_t mp_state;
    uint32_t tsc_khz; /* the rate of the time stamp counter; 0 = unknown */
} VcpuState;

/* What a reset needs, read once from the first vCPU right after its creation. */
typedef struct VcpuTemplate {
    uint32_t n_indices;
    uint32_t *indices; /* of the MSRs that make up a state, owned */
    VcpuState state;   /* KVM's own reset values */
} VcpuTemplate;

bool kvm_template_read(KvmVcpu *vcpu, GError **errp);
void kvm_template_free(VcpuTemplate *t);

/* Registers from KVM to vcpu->state, unless they are there (parked, lock held). */
bool kvm_state_fetch(KvmVcpu *vcpu, GError **errp);
/* Everything but mp_state from vcpu->state to KVM now; mp_state follows before the next run. */
bool kvm_state_push(KvmVcpu *vcpu, GError **errp);
/*
 * The rate of the time stamp counter that vcpu->state has; if this host cannot give it that is
 * reported.
 */
void kvm_state_apply_tsc_rate(KvmVcpu *vcpu);
/*
 * What is dirty goes to KVM, mp_state last. All vCPUs are flushed before any of them runs: an INIT
 * that one sends to another must not be overwritten by a state from before.
 */
bool kvm_state_flush(KvmVcpu *vcpu, GError **errp);
/* vcpu->state becomes that of a reset processor with the boot registers, dirty. */
void kvm_state_reset(KvmVcpu *vcpu);
void kvm_state_clear(VcpuState *state);
/* As text for people; the caller frees it. */
char *kvm_state_format(const VcpuState *state);

/* The table; its object is a KvmVcpu. */
extern const VMStateDescription vmstate_kvm_vcpu;

#endif
