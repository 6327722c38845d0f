/*
 * State of the interrupt controllers, the timer and the clock inside KVM.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_ACCEL_KVM_CHIPS_H
#define COWBIRD_ACCEL_KVM_CHIPS_H

#include <linux/kvm.h>

#include "accel/kvm.h"

/* One of the three interrupt controllers: state.chip_id tells which. */
typedef struct KvmChip {
    KvmAccel *kvm;
    struct kvm_irqchip state;
} KvmChip;

typedef struct KvmPit {
    KvmAccel *kvm;
    struct kvm_pit_state2 state;
} KvmPit;

typedef struct KvmClock {
    KvmAccel *kvm;
    uint64_t nanoseconds;
    bool stopped; /* the VM has stopped, or been restored, at that time */
} KvmClock;

struct KvmChips {
    KvmChip chip[KVM_NR_IRQCHIPS];
    KvmPit pit;
    KvmClock clock;
    bool has_pit;
    guint clock_listener;
    struct kvm_irqchip reset[KVM_NR_IRQCHIPS]; /* as created */
    struct kvm_pit_state2 pit_reset;
};

void kvm_chips_free(KvmAccel *kvm);
bool kvm_chips_reset(KvmAccel *kvm, GError **errp);

#endif
