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

#include "accel/cpu-digest.h"
#include "accel/cpu-models.h"
#include "accel/cpu-topology.h"

/*
 * The table for KVM_SET_CPUID2 of vCPU @index: what @model leaves of @supported
 * (KVM_GET_SUPPORTED_CPUID), with the topology filled in. A flag that is asked for and not
 * supported is reported, or with enforce=on an error. Free with g_free.
 */
struct kvm_cpuid2 *cpuid_build(const struct kvm_cpuid2 *supported, const CpuModel *model,
                               const CpuTopology *topology, unsigned index, GError **errp);

/* The flags of a table. */
void cpuid_flags(const struct kvm_cpuid2 *cpuid, uint32_t ret_flags[CPU_WORD__MAX]);

/* The flags that @model lists or that were added to it, and that @supported lacks. */
void cpuid_missing(const struct kvm_cpuid2 *supported, const CpuModel *model,
                   uint32_t ret_flags[CPU_WORD__MAX]);

/* SHA-256, the same for every vCPU of a VM: APIC ids do not count, features and topology do. */
void cpuid_digest(const struct kvm_cpuid2 *cpuid, CpuDigest *ret_digest);

/* One leaf, or NULL. */
struct kvm_cpuid_entry2 *cpuid_find(struct kvm_cpuid2 *cpuid, uint32_t function, uint32_t index);

#endif
