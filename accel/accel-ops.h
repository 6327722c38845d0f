/*
 * What every accelerator has in common, and the table of what each does in its own way.
 *
 * accel.h says what the operations mean. NULL in the table: there is nothing to do, and it succeeds.
 * Nobody outside accel/ includes it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_ACCEL_ACCEL_OPS_H
#define COWBIRD_ACCEL_ACCEL_OPS_H

#include "accel/accel.h"
#include "accel/cpu-models.h"
#include "accel/stats.h"

typedef struct AccelOps {
    const char *name;
    bool irqfds;   /* eventfds can raise interrupts: msi routes and irqfds are there */
    bool ioevents; /* guest writes can signal eventfds */

    /* A new object, whose first member is an Accel set up by accel_init. */
    Accel *(*create)(const AccelEnv *env, GError **errp);
    /* Undoes create, but for the common part and the object itself (without the big lock). */
    void (*close)(Accel *accel);

    /* Returns when no vCPU is in the guest or will be (lock held, given up while waiting). */
    void (*hold)(Accel *accel);
    /* Lets vCPUs look whether they may run (lock held). @resumed: the VM was stopped before. */
    void (*let_go)(Accel *accel, bool resumed);
    /* May the VM run? */
    bool (*start_check)(Accel *accel, GError **errp);

    bool (*create_irqchip)(Accel *accel, bool pit, GError **errp);
    bool (*create_vcpus)(Accel *accel, const CpuConfig *config, unsigned n, GError **errp);
    unsigned (*vcpu_count)(const Accel *accel);
    int (*vcpu_thread_id)(const Accel *accel, unsigned i);
    bool (*set_boot_registers)(Accel *accel, const VcpuBoot *boot, GError **errp);
    bool (*reset)(Accel *accel, GError **errp);

    void (*set_irq)(Accel *accel, unsigned gsi, int level);
    bool (*send_msi)(Accel *accel, uint64_t address, uint32_t data);
    void (*inject_nmi)(Accel *accel);
    /* Only with irqfds. */
    int (*add_msi_route)(Accel *accel, uint64_t address, uint32_t data, GError **errp);
    void (*update_msi_route)(Accel *accel, int gsi, uint64_t address, uint32_t data);
    void (*remove_msi_route)(Accel *accel, int gsi);
    bool (*commit_routes)(Accel *accel, GError **errp);
    bool (*add_irqfd)(Accel *accel, int eventfd, int resample, int gsi, GError **errp);
    bool (*remove_irqfd)(Accel *accel, int eventfd, int gsi, GError **errp);
    /* Only with ioevents. */
    bool (*add_ioevent)(Accel *accel, const AccelIoEvent *e, GError **errp);
    void (*remove_ioevent)(Accel *accel, const AccelIoEvent *e);

    bool (*fetch_state)(Accel *accel, GError **errp);
    bool (*cpu_dump_state)(Accel *accel, unsigned i, CpuDumpState *ret, GError **errp);
    char *(*format_registers)(Accel *accel, unsigned i); /* with vCPUs held */
    const CpuDigest *(*cpuid_digest)(const Accel *accel);
    void (*cpu_flags)(const Accel *accel, uint32_t ret_flags[CPU_WORD__MAX]);
    bool (*describe_stats)(Accel *accel, StatsTarget target, AccelStatFn fn, void *opaque,
                           GError **errp);
    bool (*read_stats)(Accel *accel, StatsTarget target, unsigned i, AccelStatFn fn, void *opaque,
                       GError **errp);
} AccelOps;

struct Accel {
    const AccelOps *ops;
    AccelEnv env;
    GMutex lock;     /* the big lock */
    bool running;    /* the run state lets vCPUs run */
    unsigned pauses; /* of accel_pause */
};

/* First thing in create; accel_destroy undoes it. */
void accel_init(Accel *accel, const AccelOps *ops, const AccelEnv *env);

extern const AccelOps kvm_accel_ops, qtest_accel_ops;

#endif
