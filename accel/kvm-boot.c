/*
 * How the boot processor starts a kernel directly: the 64-bit Linux protocol and PVH.
 *
 * Sources: Linux Documentation/arch/x86/boot.rst, "64-bit Boot Protocol"; Xen docs/misc/pvh.pandoc.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "accel/kvm.h"

#define CR0_PE 0x1ull
#define CR0_ET 0x10ull
#define CR0_NE 0x20ull
#define CR0_WP 0x10000ull
#define CR0_PG 0x80000000ull
#define CR4_PAE 0x20ull
#define EFER_LME 0x100ull
#define EFER_LMA 0x400ull

/* Segment types: code that can be read, data that can be written, a busy TSS; all accessed. */
enum { SEGMENT_CODE = 0xb, SEGMENT_DATA = 0x3, SEGMENT_TSS_BUSY = 0xb };

static struct kvm_segment flat_segment(uint16_t selector, unsigned type)
{
    return (struct kvm_segment){
        .base = 0,
        .limit = 0xffffffff,
        .selector = selector,
        .type = type,
        .present = 1,
        .db = 1,
        .s = 1,
        .g = 1,
    };
}

static void set_flat(const VcpuBoot *boot, struct kvm_sregs2 *s)
{
    s->cs = flat_segment(boot->cs, SEGMENT_CODE);
    s->ds = s->es = s->fs = s->gs = s->ss = flat_segment(boot->ds, SEGMENT_DATA);
    s->tr = (struct kvm_segment){
        .limit = 0x67, .selector = boot->tr, .type = SEGMENT_TSS_BUSY, .present = 1
    };
    s->gdt = (struct kvm_dtable){ .base = boot->gdt_base, .limit = boot->gdt_limit };
    s->idt = (struct kvm_dtable){ .base = 0, .limit = 0 };
}

void kvm_boot_apply(const VcpuBoot *boot, VcpuState *state)
{
    struct kvm_sregs2 *s = &state->sregs;

    if (boot->mode == VCPU_BOOT_RESET_VECTOR) {
        return;
    }
    state->regs = (struct kvm_regs){
        .rip = boot->rip,
        .rsi = boot->rsi,
        .rbx = boot->rbx,
        .rsp = boot->rsp,
        .rflags = 2,
    };
    set_flat(boot, s);
    if (boot->mode == VCPU_BOOT_LINUX64) {
        s->cs.l = 1;
        s->cs.db = 0;
        s->cr0 = CR0_PE | CR0_ET | CR0_NE | CR0_WP | CR0_PG;
        s->cr3 = boot->cr3;
        s->cr4 = CR4_PAE;
        s->efer = EFER_LME | EFER_LMA;
    } else {
        s->cr0 = CR0_PE | CR0_ET;
        s->cr3 = 0;
        s->cr4 = 0;
        s->efer = 0;
    }
}
