/*
 * What the files of the KVM accelerator share. Nobody outside accel/ includes it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_ACCEL_KVM_H
#define COWBIRD_ACCEL_KVM_H

#include <linux/kvm.h>
#include <pthread.h>

#include "accel/accel-ops.h"
#include "accel/kvm-state.h"
#include "accel/kvm-stats.h"

typedef struct KvmAccel KvmAccel;

/* Optional capabilities; the required ones are checked once and not kept. */
typedef struct KvmCaps {
    bool sregs2;
    bool exit_on_emulation_failure;
    bool kvmclock_ctrl;
    unsigned slots;
    unsigned max_vcpus;
    size_t xsave_size; /* of KVM_GET_XSAVE2, 0 without it */
} KvmCaps;

typedef struct KvmVcpu {
    KvmAccel *kvm;
    unsigned index;
    int fd;
    struct kvm_run *run;
    pthread_t thread;
    bool has_thread;
    int thread_id;   /* gettid, valid after accel_create_vcpus */
    bool parked;     /* outside the guest, waiting; big lock */
    bool io_pending; /* the last exit was I/O whose result KVM has not taken yet; its own thread */
    unsigned slots_seen; /* of kvm->slots_generation when it entered the guest; its own thread */
    bool tell_paused;    /* the guest's clock shall know of a pause; big lock */
    gint in_guest;       /* atomic: set with the lock held, cleared as soon as KVM_RUN returns */
    gint nmi_wanted;     /* atomic */

    VcpuState state;
    bool state_valid; /* state holds the registers; big lock, only while parked or on its thread */
    bool state_dirty; /* and KVM does not yet */
    bool mp_dirty;    /* mp_state is put last, before the first run */
} KvmVcpu;

/* Guest-physical memory that is one piece of host memory. */
typedef struct KvmSlot {
    uint64_t base;
    uint64_t size;
    uint64_t host;
    bool readonly;
    unsigned number; /* KVM's; only of what KVM has */
} KvmSlot;

typedef struct KvmChips KvmChips;

struct KvmAccel {
    Accel common; /* first */
    int kvm_fd;
    int vm_fd;
    KvmCaps caps;
    size_t run_size;
    struct kvm_cpuid2 *supported; /* KVM_GET_SUPPORTED_CPUID, read once; NULL = not yet */

    GCond run_cond;    /* vCPUs may have become free to run */
    GCond parked_cond; /* a vCPU has parked */
    bool ending;       /* threads end */

    GArray *ranges;            /* of KvmSlot: the RAM of the address map, ascending */
    GArray *slots;             /* of KvmSlot: what KVM has */
    unsigned slots_generation; /* counts changes of the slots; big lock once vCPUs run */
    GError *slot_error;        /* the first one, told when the VM shall start */

    KvmVcpu *vcpus;
    unsigned n_vcpus;
    CpuTopology topology;
    CpuDigest cpuid_digest;
    uint32_t cpu_flags[CPU_WORD__MAX]; /* as CPUID shows them */
    VcpuTemplate vcpu_template;        /* reset values, as KVM gave them to the first vCPU */
    uint32_t tsc_khz;                  /* of this host's guests; 0 = unknown */
    VcpuBoot boot;
    GHashTable *msrs_reported; /* indices KVM did not take; big lock */

    GMutex routes_lock;
    GArray *routes; /* of struct kvm_irq_routing_entry for MSIs; type 0 = free */
    bool routes_dirty;
    KvmChips *chips; /* NULL without irqchip */
    KvmStats *stats; /* NULL until somebody asks, and where KVM has none */
};

#define KVM_ACCEL(accel) ((KvmAccel *)(accel))

/* --- kvm.c --- */
bool kvm_open(KvmAccel *kvm, GError **errp);
void kvm_close(KvmAccel *kvm);
/* KVM_CHECK_EXTENSION on the VM, 0 = absent. */
int kvm_check(KvmAccel *kvm, long cap);
const struct kvm_cpuid2 *kvm_supported_cpuid(KvmAccel *kvm, GError **errp);

/* --- kvm-slots.c --- */
/* The address map's listener (lock held once there are vCPUs). */
void kvm_commit_slots(void *opaque, const AddressRange *removed, size_t n_removed,
                      const AddressRange *added, size_t n_added);

/* --- kvm-chips.c --- */
bool kvm_create_irqchip(Accel *accel, bool pit, GError **errp);

/* --- kvm-irq.c: see accel.h --- */
void kvm_set_irq(Accel *accel, unsigned gsi, int level);
bool kvm_send_msi(Accel *accel, uint64_t address, uint32_t data);
void kvm_inject_nmi(Accel *accel);
int kvm_add_msi_route(Accel *accel, uint64_t address, uint32_t data, GError **errp);
void kvm_update_msi_route(Accel *accel, int gsi, uint64_t address, uint32_t data);
void kvm_remove_msi_route(Accel *accel, int gsi);
bool kvm_commit_routes(Accel *accel, GError **errp);
bool kvm_add_irqfd(Accel *accel, int eventfd, int resample, int gsi, GError **errp);
bool kvm_remove_irqfd(Accel *accel, int eventfd, int gsi, GError **errp);
bool kvm_add_ioevent(Accel *accel, const AccelIoEvent *e, GError **errp);
void kvm_remove_ioevent(Accel *accel, const AccelIoEvent *e);

/* --- kvm-vcpu.c --- */
bool kvm_create_vcpu(KvmAccel *kvm, KvmVcpu *vcpu, const struct kvm_cpuid2 *cpuid, GError **errp);
bool kvm_start_vcpu_thread(KvmVcpu *vcpu, GError **errp);
void kvm_destroy_vcpu(KvmVcpu *vcpu);
/* Makes every vCPU leave the guest and look at what it may do (lock held). */
void kvm_kick_all(KvmAccel *kvm);
/* Waits until every vCPU is parked (lock held, given up while waiting; not on a vCPU's thread). */
void kvm_wait_parked(KvmAccel *kvm);

/* Writes back what is dirty of all vCPUs, then lets them look whether they may run (lock held). */
void kvm_release(KvmAccel *kvm);
/*
 * Returns when no vCPU is in the guest; none can enter it before the lock is given up (lock held
 * all the time, any thread).
 */
void kvm_exclude_guests(KvmAccel *kvm);

/* --- kvm-exit.c --- */
/* Deals with the exit that is in vcpu->run (lock held). */
void kvm_handle_exit(KvmVcpu *vcpu);
/* KVM_RUN failed with @err (lock held). */
void kvm_handle_run_error(KvmVcpu *vcpu, int err);

/* --- kvm-dump.c: see accel.h --- */
bool kvm_cpu_dump_state(Accel *accel, unsigned i, CpuDumpState *ret, GError **errp);

/* --- kvm-boot.c --- */
/* Changes a reset state into what the boot protocol asks for. */
void kvm_boot_apply(const VcpuBoot *boot, VcpuState *state);

#endif
