/*
 * What CPUID shows the guest: features, topology, the digest that a snapshot carries.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_ACCEL_CPUID_H
#define COWBIRD_ACCEL_CPUID_H

#include <linux/kvm.h>
#include <stdbool.h>
#include <stdint.h>

#include "accel/cpu-models.h"

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
 * The table for KVM_SET_CPUID2 of one vCPU: what @model leaves of @supported (KVM_GET_SUPPORTED_CPUID), with
 * topology and APIC id of vCPU @index filled in. Free with g_free.
 */
struct kvm_cpuid2 *cpuid_build(const struct kvm_cpuid2 *supported, const CpuModel *model,
                               const CpuTopology *topology, unsigned index);

/* The same for every vCPU of a VM: APIC ids do not count, features and topology do. */
uint64_t cpuid_digest(const struct kvm_cpuid2 *cpuid);

/* The register values of one leaf, or NULL. */
struct kvm_cpuid_entry2 *cpuid_find(struct kvm_cpuid2 *cpuid, uint32_t function, uint32_t index);

#endif
