/*
 * The registers of a vCPU for a memory dump, out of what KVM told.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "accel/kvm.h"

#define MSR_KERNEL_GS_BASE 0xc0000102u

/* Intel SDM volume 3, 3.4.5: where these bits are in the upper half of a descriptor. */
static CpuDumpSegment segment(const struct kvm_segment *s)
{
    return (CpuDumpSegment){
        .selector = s->selector,
        .base = s->base,
        .limit = s->limit,
        .access = (uint32_t)s->type << 8 | s->s << 12 | s->dpl << 13 | s->present << 15 |
                  s->avl << 20 | s->l << 21 | s->db << 22 | (uint32_t)s->g << 23,
    };
}

static CpuDumpSegment table(const struct kvm_dtable *t)
{
    return (CpuDumpSegment){ .base = t->base, .limit = t->limit };
}

static uint64_t find_msr(const VcpuState *state, uint32_t index)
{
    for (uint32_t i = 0; i < state->n_msrs; i++) {
        if (state->msrs[i].index == index) {
            return state->msrs[i].data;
        }
    }
    return 0;
}

static void put_general(const struct kvm_regs *r, CpuDumpState *ret)
{
    *ret = (CpuDumpState){
        .rax = r->rax,
        .rbx = r->rbx,
        .rcx = r->rcx,
        .rdx = r->rdx,
        .rsi = r->rsi,
        .rdi = r->rdi,
        .rsp = r->rsp,
        .rbp = r->rbp,
        .r8_r15 = { r->r8, r->r9, r->r10, r->r11, r->r12, r->r13, r->r14, r->r15 },
        .rip = r->rip,
        .rflags = r->rflags,
    };
}

static void put_special(const struct kvm_sregs2 *s, CpuDumpState *ret)
{
    ret->cs = segment(&s->cs);
    ret->ds = segment(&s->ds);
    ret->es = segment(&s->es);
    ret->fs = segment(&s->fs);
    ret->gs = segment(&s->gs);
    ret->ss = segment(&s->ss);
    ret->ldt = segment(&s->ldt);
    ret->tr = segment(&s->tr);
    ret->gdt = table(&s->gdt);
    ret->idt = table(&s->idt);
    ret->cr[0] = s->cr0;
    ret->cr[2] = s->cr2;
    ret->cr[3] = s->cr3;
    ret->cr[4] = s->cr4;
}

bool kvm_cpu_dump_state(Accel *accel, unsigned i, CpuDumpState *ret, GError **errp)
{
    KvmVcpu *vcpu = &KVM_ACCEL(accel)->vcpus[i];

    if (!kvm_state_fetch(vcpu, errp)) {
        return false;
    }
    put_general(&vcpu->state.regs, ret);
    put_special(&vcpu->state.sregs, ret);
    ret->kernel_gs_base = find_msr(&vcpu->state, MSR_KERNEL_GS_BASE);
    return true;
}
