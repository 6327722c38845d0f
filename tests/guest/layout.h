/*
 * Fixed addresses and numbers shared by the assembly and the C of the test guest.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef TESTS_GUEST_LAYOUT_H
#define TESTS_GUEST_LAYOUT_H

/* The image, its tables and its stacks lie in [IMAGE_BASE, IMAGE_LIMIT); the rest is the tests'. */
#define IMAGE_BASE 0x100000
#define IMAGE_LIMIT 0x200000

/* Offsets of the tables in the image; boot.S puts them there with .org. */
#define GDT_OFFSET 0x1000
#define IDT_OFFSET 0x1800
#define AP_TSS_OFFSET 0x2000
#define TSS_OFFSET 0x4000
#define STUB_OFFSET 0x6400
#define PML4_OFFSET 0x10000
#define PDPT_OFFSET 0x11000
#define PD_OFFSET 0x12000

#define MAX_CPUS 64
#define MAPPED_GIB 128
#define AP_TSS_SIZE 128
#define TSS_SIZE 104
#define IO_BITMAP_SIZE 8193
#define RING0_STACK_SIZE 512
#define RING3_STACK_SIZE 2048

#define SEL_CODE32 0x08
#define SEL_CODE64 0x10
#define SEL_DATA 0x18
#define SEL_USER_DATA 0x23
#define SEL_USER_CODE 0x2b
#define SEL_TSS 0x30

#define VECTORS 64
#define VECTOR_TIMER 0x20
#define VECTOR_SERIAL 0x24
#define VECTOR_VIRTIO 0x28
#define VECTOR_WAKE 0x30
#define VECTOR_SPURIOUS 0x3f

#define TRAMPOLINE 0x8000
#define APIC_BASE 0xfee00000
#define IOAPIC_BASE 0xfec00000

/* Characters of a command. */
#define LINE_SIZE 1024

/* How the image was entered. */
#define ENTRY_LINUX 1
#define ENTRY_PVH 2
#define ENTRY_AP 3

/* What ring 3 can ask of ring 0. */
#define RING0_WAIT 0
#define RING0_CPUID 1
#define RING0_RDMSR 2
#define RING0_WRMSR 3
#define RING0_TRIPLE_FAULT 4
#define RING0_DIE 5

#endif
