/*
 * Ring 0 of the test guest: entry points, tables, and as few instructions as can be.
 *
 * Where KVM emulates every ring-0 instruction (about 0.6 us each) only this file pays for it: all tables are laid out by the
 * assembler, and everything that takes time is done by ring 3. Accessed and dirty bits are set beforehand, so
 * that the page tables are never written.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "tests/guest/layout.h"

#define ADDRESS(offset) (IMAGE_BASE + (offset))

    .section .note.pvh, "a", @note
    .balign 4
    .long 4, 8, 18              /* name length, data length, XEN_ELFNOTE_PHYS32_ENTRY */
    .asciz "Xen"
    .quad pvh_entry

    .section .boot, "awx"
    .globl image_start
image_start:

/* 32-bit Linux boot protocol: esi = boot_params. */
    .code32
    movl $ENTRY_LINUX, %edi
    jmp enter_long_mode

    .globl pvh_entry
pvh_entry:
    movl $ENTRY_PVH, %edi
    movl %ebx, %esi

enter_long_mode:
    lgdt ADDRESS(gdt_pointer - image_start)
    movl $0x620, %eax           /* PAE, OSFXSR, OSXMMEXCPT */
    movl %eax, %cr4
    movl $ADDRESS(PML4_OFFSET), %eax
    movl %eax, %cr3
    movl $0xc0000080, %ecx
    xorl %edx, %edx
    movl $0x100, %eax           /* EFER.LME */
    wrmsr
    movl $0x80000033, %eax      /* PG, NE, ET, MP, PE */
    movl %eax, %cr0
    ljmp $SEL_CODE64, $start64

gdt_pointer:
    .word IDT_OFFSET - GDT_OFFSET - 1
    .quad ADDRESS(GDT_OFFSET)
idt_pointer:
    .word VECTORS * 16 - 1
    .quad ADDRESS(IDT_OFFSET)
no_idt:
    .word 0
    .quad 0

/* 64-bit Linux boot protocol: rsi = boot_params. */
    .org 0x200
    .code64
    movl $ADDRESS(PML4_OFFSET), %eax
    movq %rax, %cr3
    movl $0x620, %eax
    movq %rax, %cr4
    movl $0x80000033, %eax
    movq %rax, %cr0
    lgdt gdt_pointer
    movl $ENTRY_LINUX, %edi
    movl $ring0_stack_top, %esp
    pushq $SEL_CODE64
    pushq $start64
    lretq

start64:
    movl $SEL_DATA, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %ss
    lidt idt_pointer
    cmpl $ENTRY_AP, %edi
    je start_ap
    movl $ring0_stack_top, %esp
    movb $0xff, %al             /* firmware may have left the legacy interrupt controllers on */
    outb %al, $0x21
    outb %al, $0xa1
    movl $SEL_TSS, %eax
    ltr %ax
    movl $user_main, %edx
    movl $user_stack_top, %ecx
    jmp enter_ring3

start_ap:
    movl $1, %edi
    lock xaddl %edi, cpus_started
    movl %edi, %eax
    shll $4, %eax
    addl $SEL_TSS, %eax
    ltr %ax
    imull $RING0_STACK_SIZE, %edi, %esp
    addl $ap_ring0_stacks, %esp
    imull $RING3_STACK_SIZE, %edi, %ecx
    addl $ap_ring3_stacks, %ecx
    movl $user_ap_main, %edx

/* rdx = entry, rcx = stack, rdi and rsi its arguments. */
enter_ring3:
    subq $8, %rcx               /* as after a call: the ABI's stack alignment */
    pushq $SEL_USER_DATA
    pushq %rcx
    pushq $0x202
    pushq $SEL_USER_CODE
    pushq %rdx
    iretq

/* Where SIPI sends an application processor, copied to TRAMPOLINE by ring 3. */
    .code16
    .globl ap_trampoline, ap_trampoline_end
ap_trampoline:
    xorw %ax, %ax
    movw %ax, %ds
    lgdtl TRAMPOLINE + (ap_gdt_pointer - ap_trampoline)
    movl $0x33, %eax
    movl %eax, %cr0
    ljmpl $SEL_CODE32, $ap_protected
ap_gdt_pointer:
    .word IDT_OFFSET - GDT_OFFSET - 1
    .long ADDRESS(GDT_OFFSET)
ap_trampoline_end:

    .code32
ap_protected:
    movl $SEL_DATA, %eax
    movl %eax, %ds
    movl $ENTRY_AP, %edi
    jmp enter_long_mode

/* Ring 3 asks ring 0 by executing hlt at ring0_call_hlt: rdi = what, rsi, rdx, rcx = arguments. */
    .code64
    .globl ring0_call
ring0_call:
ring0_call_hlt:
    hlt
    ret

/* On the stack: vector, error code, rip, cs, rflags, rsp, ss. */
exception:
    cmpl $13, (%rsp)
    jne panic
    cmpq $ring0_call_hlt, 16(%rsp)
    jne panic
    incq 16(%rsp)
    testl %edi, %edi            /* RING0_WAIT: halt while *rsi == rdx */
    jne 1f
    cmpq %rdx, (%rsi)
    jne ring0_return
    sti
    hlt
    cli
ring0_return:
    addq $16, %rsp
    iretq
1:  cmpl $RING0_CPUID, %edi
    jne 2f
    movq %rcx, %r8
    movl %esi, %eax
    movl %edx, %ecx
    movq %rbx, %r9
    cpuid
    movl %eax, (%r8)
    movl %ebx, 4(%r8)
    movl %ecx, 8(%r8)
    movl %edx, 12(%r8)
    movq %r9, %rbx
    jmp ring0_return
2:  movl %esi, %ecx
    cmpl $RING0_RDMSR, %edi
    jne 3f
    rdmsr
    shlq $32, %rdx
    orq %rdx, %rax
    jmp ring0_return
3:  cmpl $RING0_WRMSR, %edi
    jne 4f
    movl %edx, %eax
    shrq $32, %rdx
    wrmsr
    jmp ring0_return
4:  cmpl $RING0_TRIPLE_FAULT, %edi
    jne 5f
    lidt no_idt
    ud2
5:  cli
    hlt
    jmp 5b

/* Any other exception is told by ring 3. */
panic:
    popq %rdi
    popq %rsi
    popq %rdx
    movq %cr2, %rcx
    movl $user_stack_top - 8, %r8d
    movl $SEL_DATA, %eax
    movl %eax, %ss
    movl $ring0_stack_top, %esp
    pushq $SEL_USER_DATA
    pushq %r8
    pushq $0x202
    pushq $SEL_USER_CODE
    pushq $user_panic
    iretq

timer_interrupt:
    incq timer_ticks
    jmp end_of_interrupt
/* Reading a device's ISR register takes its INTx back. */
virtio_interrupt:
    incq virtio_interrupts
    pushq %rax
    movq virtio_isr, %rax
    testq %rax, %rax
    jz 1f
    movb (%rax), %al
1:  popq %rax
    jmp end_of_interrupt
serial_interrupt:
    incq serial_interrupts
end_of_interrupt:
    pushq %rax
    xorl %eax, %eax
    movabsl %eax, APIC_BASE + 0xb0
    popq %rax
spurious_interrupt:
    iretq

    .org GDT_OFFSET
    .quad 0
    .quad 0x00cf9b000000ffff    /* SEL_CODE32 */
    .quad 0x00af9b000000ffff    /* SEL_CODE64 */
    .quad 0x00cf93000000ffff    /* SEL_DATA */
    .quad 0x00cff3000000ffff    /* SEL_USER_DATA */
    .quad 0x00affb000000ffff    /* SEL_USER_CODE */
.macro tss_descriptor base, limit
    .word \limit & 0xffff, \base & 0xffff
    .byte (\base >> 16) & 0xff, 0x89, (\limit >> 16) & 0xf, (\base >> 24) & 0xff
    .long 0, 0
.endm
    tss_descriptor ADDRESS(TSS_OFFSET), (TSS_SIZE + IO_BITMAP_SIZE - 1)
.set cpu, 1
.rept MAX_CPUS - 1
    tss_descriptor (ADDRESS(AP_TSS_OFFSET) + cpu * AP_TSS_SIZE), (TSS_SIZE - 1)
.set cpu, cpu + 1
.endr

    .org IDT_OFFSET
.set vector, 0
.rept VECTORS
    .word (ADDRESS(STUB_OFFSET) + vector * 16) & 0xffff, SEL_CODE64
    .byte 0, 0x8e
    .word (ADDRESS(STUB_OFFSET) + vector * 16) >> 16
    .long 0, 0
.set vector, vector + 1
.endr

    .org AP_TSS_OFFSET
.set cpu, 0
.rept MAX_CPUS
    .long 0
    .quad ap_ring0_stacks + cpu * RING0_STACK_SIZE
    .fill AP_TSS_SIZE - 12 - 26, 1, 0
    .word TSS_SIZE
    .fill 24, 1, 0
.set cpu, cpu + 1
.endr

/* The boot processor's: every port is allowed to ring 3. */
    .org TSS_OFFSET
    .long 0
    .quad ring0_stack_top
    .fill TSS_SIZE - 12 - 2, 1, 0
    .word TSS_SIZE
    .fill IO_BITMAP_SIZE - 1, 1, 0
    .byte 0xff

    .org STUB_OFFSET
.set vector, 0
.rept VECTORS
    .org STUB_OFFSET + vector * 16
.if vector == VECTOR_TIMER
    jmp timer_interrupt
.elseif vector == VECTOR_SERIAL
    jmp serial_interrupt
.elseif vector == VECTOR_VIRTIO
    jmp virtio_interrupt
.elseif vector == VECTOR_WAKE
    jmp end_of_interrupt
.elseif vector == VECTOR_SPURIOUS
    jmp spurious_interrupt
.else
.if !(vector == 8 || (vector >= 10 && vector <= 14) || vector == 17 || vector == 21)
    pushq $0
.endif
    pushq $vector
    jmp exception
.endif
.set vector, vector + 1
.endr

/* All of the first MAPPED_GIB is mapped one to one, for both rings. */
    .org PML4_OFFSET
    .quad ADDRESS(PDPT_OFFSET) + 0x27
    .org PDPT_OFFSET
.set gib, 0
.rept MAPPED_GIB
    .quad ADDRESS(PD_OFFSET) + gib * 0x1000 + 0x27
.set gib, gib + 1
.endr
    .org PD_OFFSET
.set chunk, 0
.rept MAPPED_GIB * 512
    .quad chunk * 0x200000 + 0xe7
.set chunk, chunk + 1
.endr

/* What an idle guest writes lies on one page: ring 0's stack and the counters. */
    .section .hot, "aw"
    .balign 4096
    .fill 2048, 1, 0
    .balign 16
ring0_stack_top:
    .globl timer_ticks, serial_interrupts, virtio_interrupts, virtio_isr, cpus_started
timer_ticks:
    .quad 0
serial_interrupts:
    .quad 0
virtio_interrupts:
    .quad 0
virtio_isr:
    .quad 0
cpus_started:
    .long 1
    .balign 4096

    .section .bss
    .balign 4096
    .skip 16384
user_stack_top:
    .globl user_stack_top
/* Stack i ends where stack i + 1 begins; number 0 is the boot processor's and has no room. */
    .balign 16
ap_ring0_stacks:
    .skip RING0_STACK_SIZE * MAX_CPUS
ap_ring3_stacks:
    .skip RING3_STACK_SIZE * MAX_CPUS

    .section .note.GNU-stack, "", @progbits
