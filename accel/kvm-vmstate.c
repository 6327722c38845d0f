/*
 * The table of a vCPU's registers in a snapshot, and the checks of one that is read.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "accel/kvm.h"

#include <string.h>

#include "util/error.h"

#define MSRS_MAX 4096

/* The kernel's __u64 is unsigned long long, which is not uint64_t. */
#define KVM_U64(f, s) VMSTATE_SINGLE(f, s, 0, vmstate_info_uint64, __u64)

static const VMStateDescription vmstate_regs = {
    .name = "kvm-vcpu/regs",
    .version_id = 1,
    .minimum_version_id = 1,
    .fields = (const VMStateField[]){ KVM_U64(rax, struct kvm_regs), KVM_U64(rbx, struct kvm_regs),
                                      KVM_U64(rcx, struct kvm_regs), KVM_U64(rdx, struct kvm_regs),
                                      KVM_U64(rsi, struct kvm_regs), KVM_U64(rdi, struct kvm_regs),
                                      KVM_U64(rsp, struct kvm_regs), KVM_U64(rbp, struct kvm_regs),
                                      KVM_U64(r8, struct kvm_regs), KVM_U64(r9, struct kvm_regs),
                                      KVM_U64(r10, struct kvm_regs), KVM_U64(r11, struct kvm_regs),
                                      KVM_U64(r12, struct kvm_regs), KVM_U64(r13, struct kvm_regs),
                                      KVM_U64(r14, struct kvm_regs), KVM_U64(r15, struct kvm_regs),
                                      KVM_U64(rip, struct kvm_regs),
                                      KVM_U64(rflags, struct kvm_regs), VMSTATE_END_OF_LIST() },
};

static const VMStateDescription vmstate_segment = {
    .name = "kvm-vcpu/segment",
    .version_id = 1,
    .minimum_version_id = 1,
    .fields =
        (const VMStateField[]){
            KVM_U64(base, struct kvm_segment), VMSTATE_UINT32(limit, struct kvm_segment),
            VMSTATE_UINT16(selector, struct kvm_segment), VMSTATE_UINT8(type, struct kvm_segment),
            VMSTATE_UINT8(present, struct kvm_segment), VMSTATE_UINT8(dpl, struct kvm_segment),
            VMSTATE_UINT8(db, struct kvm_segment), VMSTATE_UINT8(s, struct kvm_segment),
            VMSTATE_UINT8(l, struct kvm_segment), VMSTATE_UINT8(g, struct kvm_segment),
            VMSTATE_UINT8(avl, struct kvm_segment), VMSTATE_UINT8(unusable, struct kvm_segment),
            VMSTATE_END_OF_LIST() },
};

static const VMStateDescription vmstate_dtable = {
    .name = "kvm-vcpu/dtable",
    .version_id = 1,
    .minimum_version_id = 1,
    .fields =
        (const VMStateField[]){ KVM_U64(base, struct kvm_dtable),
                                VMSTATE_UINT16(limit, struct kvm_dtable), VMSTATE_END_OF_LIST() },
};

#define SEGMENT(f) VMSTATE_STRUCT(f, struct kvm_sregs2, 0, vmstate_segment, struct kvm_segment)
#define DTABLE(f) VMSTATE_STRUCT(f, struct kvm_sregs2, 0, vmstate_dtable, struct kvm_dtable)

static const VMStateDescription vmstate_sregs = {
    .name = "kvm-vcpu/sregs",
    .version_id = 1,
    .minimum_version_id = 1,
    .fields = (const VMStateField[]){ SEGMENT(cs),
                                      SEGMENT(ds),
                                      SEGMENT(es),
                                      SEGMENT(fs),
                                      SEGMENT(gs),
                                      SEGMENT(ss),
                                      SEGMENT(tr),
                                      SEGMENT(ldt),
                                      DTABLE(gdt),
                                      DTABLE(idt),
                                      KVM_U64(cr0, struct kvm_sregs2),
                                      KVM_U64(cr2, struct kvm_sregs2),
                                      KVM_U64(cr3, struct kvm_sregs2),
                                      KVM_U64(cr4, struct kvm_sregs2),
                                      KVM_U64(cr8, struct kvm_sregs2),
                                      KVM_U64(efer, struct kvm_sregs2),
                                      KVM_U64(apic_base, struct kvm_sregs2),
                                      KVM_U64(flags, struct kvm_sregs2),
                                      VMSTATE_ARRAY(pdptrs, struct kvm_sregs2, 4, 0,
                                                    vmstate_info_uint64, __u64),
                                      VMSTATE_END_OF_LIST() },
};

static const VMStateDescription vmstate_xcr = {
    .name = "kvm-vcpu/xcr",
    .version_id = 1,
    .minimum_version_id = 1,
    .fields = (const VMStateField[]){ VMSTATE_UINT32(xcr, struct kvm_xcr),
                                      KVM_U64(value, struct kvm_xcr), VMSTATE_END_OF_LIST() },
};

static const VMStateDescription vmstate_xcrs = {
    .name = "kvm-vcpu/xcrs",
    .version_id = 1,
    .minimum_version_id = 1,
    .fields = (const VMStateField[]){ VMSTATE_UINT32(nr_xcrs, struct kvm_xcrs),
                                      VMSTATE_UINT32(flags, struct kvm_xcrs),
                                      VMSTATE_STRUCT_VARRAY_UINT32(xcrs, struct kvm_xcrs, nr_xcrs,
                                                                   0, vmstate_xcr, struct kvm_xcr),
                                      VMSTATE_END_OF_LIST() },
};

static const VMStateDescription vmstate_debugregs = {
    .name = "kvm-vcpu/debugregs",
    .version_id = 1,
    .minimum_version_id = 1,
    .fields = (const VMStateField[]){ VMSTATE_ARRAY(db, struct kvm_debugregs, 4, 0,
                                                    vmstate_info_uint64, __u64),
                                      KVM_U64(dr6, struct kvm_debugregs),
                                      KVM_U64(dr7, struct kvm_debugregs), VMSTATE_END_OF_LIST() },
};

#define EVENT_U8(f) VMSTATE_UINT8(f, struct kvm_vcpu_events)
#define EVENT_U32(f) VMSTATE_UINT32(f, struct kvm_vcpu_events)

static const VMStateDescription vmstate_events = {
    .name = "kvm-vcpu/events",
    .version_id = 1,
    .minimum_version_id = 1,
    .fields = (const VMStateField[]){ EVENT_U8(exception.injected),
                                      EVENT_U8(exception.nr),
                                      EVENT_U8(exception.has_error_code),
                                      EVENT_U8(exception.pending),
                                      EVENT_U32(exception.error_code),
                                      EVENT_U8(interrupt.injected),
                                      EVENT_U8(interrupt.nr),
                                      EVENT_U8(interrupt.soft),
                                      EVENT_U8(interrupt.shadow),
                                      EVENT_U8(nmi.injected),
                                      EVENT_U8(nmi.pending),
                                      EVENT_U8(nmi.masked),
                                      EVENT_U32(sipi_vector),
                                      EVENT_U32(flags),
                                      EVENT_U8(smi.smm),
                                      EVENT_U8(smi.pending),
                                      EVENT_U8(smi.smm_inside_nmi),
                                      EVENT_U8(smi.latched_init),
                                      EVENT_U8(triple_fault.pending),
                                      EVENT_U8(exception_has_payload),
                                      KVM_U64(exception_payload, struct kvm_vcpu_events),
                                      VMSTATE_END_OF_LIST() },
};

static const VMStateDescription vmstate_msr = {
    .name = "kvm-vcpu/msr",
    .version_id = 1,
    .minimum_version_id = 1,
    .fields = (const VMStateField[]){ VMSTATE_UINT32(index, VcpuMsr), VMSTATE_UINT64(data, VcpuMsr),
                                      VMSTATE_END_OF_LIST() },
};

static void vcpu_pre_save(void *opaque)
{
    g_autoptr(GError) err = NULL;

    if (!kvm_state_fetch(opaque, &err)) {
        error_report("%s", err->message);
    }
}

static bool vcpu_pre_load(void *opaque, GError **errp)
{
    KvmVcpu *vcpu = opaque;

    kvm_state_clear(&vcpu->state);
    memset(&vcpu->state, 0, sizeof(vcpu->state));
    vcpu->state_valid = false;
    return true;
}

/* The state's XSAVE area becomes as large as this KVM's, which must not be smaller. */
static bool fit_xsave(KvmVcpu *vcpu, GError **errp)
{
    VcpuState *state = &vcpu->state;
    uint32_t want = vcpu->kvm->vcpu_template.state.xsave_size;

    if (state->xsave_size > want) {
        error_set(errp, "CPU %u: the state has %u bytes of XSAVE, this host's KVM takes %u",
                  vcpu->index, state->xsave_size, want);
        return false;
    }
    if (state->xsave_size < want) {
        state->xsave = g_realloc(state->xsave, want);
        memset(state->xsave + state->xsave_size, 0, want - state->xsave_size);
        state->xsave_size = want;
    }
    return true;
}

static bool vcpu_post_load(void *opaque, int version, GError **errp)
{
    KvmVcpu *vcpu = opaque;

    if (vcpu->state.n_msrs > MSRS_MAX) {
        error_set(errp, "CPU %u: the state has %u MSRs, at most %u make sense", vcpu->index,
                  vcpu->state.n_msrs, MSRS_MAX);
        return false;
    }
    if (vcpu->state.mp_state > KVM_MP_STATE_SIPI_RECEIVED) {
        error_set(errp, "CPU %u: the state says that it is in the unknown activity %u", vcpu->index,
                  vcpu->state.mp_state);
        return false;
    }
    kvm_state_apply_tsc_rate(vcpu);
    if (!fit_xsave(vcpu, errp) || !kvm_state_push(vcpu, errp)) {
        return false;
    }
    vcpu->state_valid = true;
    return true;
}

#define VCPU_STRUCT(f, d, t) VMSTATE_STRUCT(state.f, KvmVcpu, 0, d, t)

const VMStateDescription vmstate_kvm_vcpu = {
    .name = "kvm-vcpu",
    .version_id = 1,
    .minimum_version_id = 1,
    .pre_save = vcpu_pre_save,
    .pre_load = vcpu_pre_load,
    .post_load = vcpu_post_load,
    .fields =
        (const VMStateField[]){ VMSTATE_UINT32(state.mp_state, KvmVcpu),
                                VCPU_STRUCT(regs, vmstate_regs, struct kvm_regs),
                                VCPU_STRUCT(sregs, vmstate_sregs, struct kvm_sregs2),
                                VCPU_STRUCT(xcrs, vmstate_xcrs, struct kvm_xcrs),
                                VMSTATE_UINT32(state.xsave_size, KvmVcpu),
                                VMSTATE_VARRAY_UINT32_ALLOC(state.xsave, KvmVcpu, state.xsave_size,
                                                            0, vmstate_info_uint8, uint8_t),
                                VCPU_STRUCT(debugregs, vmstate_debugregs, struct kvm_debugregs),
                                VCPU_STRUCT(events, vmstate_events, struct kvm_vcpu_events),
                                { .name = "lapic",
                                  .offset = offsetof(KvmVcpu, state.lapic.regs),
                                  .size = KVM_APIC_REG_SIZE,
                                  .num = 1,
                                  .info = &vmstate_info_buffer },
                                VMSTATE_UINT32(state.n_msrs, KvmVcpu),
                                VMSTATE_STRUCT_VARRAY_UINT32_ALLOC(
                                    state.msrs, KvmVcpu, state.n_msrs, 0, vmstate_msr, VcpuMsr),
                                VMSTATE_END_OF_LIST() },
};
