/*
 * The registers of one vCPU as a memory dump of the guest tells them, whatever the accelerator.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_ACCEL_CPU_DUMP_H
#define COWBIRD_ACCEL_CPU_DUMP_H

#include <stdint.h>

/* @access: bits 8..23 of a descriptor's second word, where they are there (type, DPL, P, L, D, G). */
typedef struct CpuDumpSegment {
    uint64_t base;
    uint32_t limit;
    uint32_t access;
    uint16_t selector;
} CpuDumpSegment;

typedef struct CpuDumpState {
    uint64_t rax, rbx, rcx, rdx, rsi, rdi, rsp, rbp;
    uint64_t r8_r15[8];
    uint64_t rip, rflags;
    CpuDumpSegment cs, ds, es, fs, gs, ss, ldt, tr;
    CpuDumpSegment gdt, idt; /* base and limit only */
    uint64_t cr[5];          /* CR0 to CR4; there is no CR1 */
    uint64_t kernel_gs_base;
} CpuDumpState;

#endif
