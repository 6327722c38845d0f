/*
 * Sockets, dies, cores and threads, and the APIC ids that follow from them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_ACCEL_CPU_TOPOLOGY_H
#define COWBIRD_ACCEL_CPU_TOPOLOGY_H

#include <linux/kvm.h>
#include <stdint.h>

/* -smp; every number is at least 1. */
typedef struct CpuTopology {
    unsigned sockets;
    unsigned dies;    /* a socket */
    unsigned cores;   /* a die */
    unsigned threads; /* a core */
} CpuTopology;

/* The APIC id of the @index-th vCPU: each level takes a power of two of ids. */
uint32_t cpu_apic_id(const CpuTopology *topology, unsigned index);

/*
 * Writes what the topology changes in the leaves of vCPU @index: 1, 4, 0xb, 0x1f, 0x80000008,
 * 0x8000001d, 0x8000001e. @cpuid has room for 8 more entries.
 */
void cpu_topology_apply(const CpuTopology *topology, unsigned index, struct kvm_cpuid2 *cpuid);

#endif
