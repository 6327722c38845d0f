/*
 * What KVM counts of the VM and of each vCPU, read through its statistics files.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_ACCEL_KVM_STATS_H
#define COWBIRD_ACCEL_KVM_STATS_H

#include "accel/stats.h"

typedef struct KvmStats KvmStats;

/* The operations of accel/stats.h. */
bool kvm_describe_stats(Accel *accel, StatsTarget target, AccelStatFn fn, void *opaque,
                        GError **errp);
bool kvm_read_stats(Accel *accel, StatsTarget target, unsigned i, AccelStatFn fn, void *opaque,
                    GError **errp);

/* Closes the files. NULL is fine. */
void kvm_stats_free(KvmStats *stats);

#endif
