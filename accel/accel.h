/*
 * Running vCPUs: the interface that machines and devices use, whatever accelerator is behind it.
 *
 * Order: accel_create, RAM into the address map, accel_create_irqchip, accel_create_vcpus,
 * accel_set_boot_registers, then runstate_start. Memory slots that are added after the irqchip cost
 * 5 to 12 ms, so the layout comes first.
 *
 * The big lock is held by the main loop while it dispatches and by a vCPU thread while it handles
 * an exit. Devices are entered only with it held.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_ACCEL_ACCEL_H
#define COWBIRD_ACCEL_ACCEL_H

#include <glib.h>
#include <stdbool.h>

#include "accel/cpu-digest.h"
#include "accel/cpu-dump.h"
#include "accel/cpu-topology.h"
#include "accel/runstate.h"
#include "memory/address-map.h"
#include "vmstate/registry.h"

typedef struct Accel Accel;

/* What the accelerator works with; nothing is owned, everything outlives it. */
typedef struct AccelEnv {
    RunStateControl *runstate;
    AddressMap *memory;
    AddressMap *io;
    RamList *ram; /* told of lost pages */
    VMStateRegistry *vmstate;
} AccelEnv;

/*
 * The first of @list ("kvm:tcg", "kvm") that starts. Ours are kvm and qtest (no vCPUs; for tests of
 * devices); tcg is known and skipped with a report, anything else is an error that names the
 * nearest. Adds a listener to the memory map.
 */
Accel *accel_create(const char *list, const AccelEnv *env, GError **errp);
/* Ends the vCPU threads, closes everything. Called without the big lock. */
void accel_destroy(Accel *accel);
const char *accel_name(const Accel *accel);
/* Interrupts by eventfd: message routes and irqfds below work. Without it send them one by one. */
bool accel_has_irqfd(const Accel *accel);
/* Doorbells by eventfd: accel_add_ioevent works. Without it they arrive as register writes. */
bool accel_has_ioevents(const Accel *accel);

/* The big lock; not recursive. */
void accel_lock(Accel *accel);
void accel_unlock(Accel *accel);

/*
 * Holds every vCPU outside the guest, and lets them go, without any change of run state (lock held,
 * not on a vCPU's thread). Nests.
 */
void accel_pause(Accel *accel);
void accel_resume(Accel *accel);

/* In-kernel local APICs, I/O APIC and the two 8259; @pit adds the 8254. GSIs 0..23. */
bool accel_create_irqchip(Accel *accel, bool pit, GError **errp);

/* What -cpu and -smp say. Numbers are at least 1 and their product is the number of vCPUs. */
typedef struct CpuConfig {
    const char *model; /* the text of -cpu: "host,-avx512f"; NULL = "host" */
    CpuTopology topology;
} CpuConfig;

/*
 * Creates all @n vCPUs and their threads ("CPU 0/KVM"), which wait until the run state lets them
 * go.
 */
bool accel_create_vcpus(Accel *accel, const CpuConfig *config, unsigned n, GError **errp);
unsigned accel_vcpu_count(const Accel *accel);
/* The Linux thread id of vCPU @i. */
int accel_vcpu_thread_id(const Accel *accel, unsigned i);
/* Checked without creating anything: unknown model, unknown flag. */
bool accel_check_cpu_model(const char *model, GError **errp);

/*
 * How the boot processor starts instead of at the reset vector. Kept: every guest reset starts so
 * again.
 */
typedef enum { VCPU_BOOT_RESET_VECTOR, VCPU_BOOT_LINUX64, VCPU_BOOT_PVH32 } VcpuBootMode;
typedef struct VcpuBoot {
    VcpuBootMode mode;
    uint64_t rip;
    uint64_t rsi;      /* LINUX64: address of the zero page */
    uint64_t rbx;      /* PVH32: address of the hvm_start_info */
    uint64_t rsp;      /* LINUX64; 0 is allowed */
    uint64_t cr3;      /* LINUX64: identity-mapping page tables in guest RAM */
    uint64_t gdt_base; /* where a GDT lies in guest RAM that agrees with the selectors below */
    uint16_t gdt_limit;
    uint16_t cs; /* flat selectors: LINUX64 code 0x10 and data 0x18 by its protocol */
    uint16_t ds;
    uint16_t tr; /* PVH32: a 32-bit TSS of limit 0x67 at base 0; 0 = the reset value */
} VcpuBoot;
/*
 * Before the first run, or between stop and reset; takes effect with the next accel_reset or
 * first run.
 */
bool accel_set_boot_registers(Accel *accel, const VcpuBoot *boot, GError **errp);

/* Every vCPU, interrupt controller and timer into its reset state (vCPUs held, lock held). */
bool accel_reset(Accel *accel, GError **errp);

/* --- Interrupts; any thread, with or without the big lock. Routes: only with accel_has_irqfd --- */

void accel_set_irq(Accel *accel, unsigned gsi, int level);
bool accel_send_msi(Accel *accel, uint64_t address, uint32_t data);
/* To every vCPU. */
void accel_inject_nmi(Accel *accel);

/*
 * A GSI of its own for an MSI message, for irqfds; -1 with an error when the routing table is
 * full. The kernel's table is written once by accel_commit_routes, or by the first resume of the
 * VM.
 */
int accel_add_msi_route(Accel *accel, uint64_t address, uint32_t data, GError **errp);
void accel_update_msi_route(Accel *accel, int gsi, uint64_t address, uint32_t data);
void accel_remove_msi_route(Accel *accel, int gsi);
bool accel_commit_routes(Accel *accel, GError **errp);
/* @eventfd raises @gsi without us; @resample (or -1) is told of the EOI of a level interrupt. */
bool accel_add_irqfd(Accel *accel, int eventfd, int resample, int gsi, GError **errp);
bool accel_remove_irqfd(Accel *accel, int eventfd, int gsi, GError **errp);

/* Only with accel_has_ioevents: a guest write there signals @eventfd without an exit. @match: only writes of @value. */
typedef struct AccelIoEvent {
    int eventfd;
    bool pio;
    uint64_t addr;
    unsigned size; /* 0 = any */
    bool match;
    uint64_t value;
} AccelIoEvent;
bool accel_add_ioevent(Accel *accel, const AccelIoEvent *e, GError **errp);
void accel_remove_ioevent(Accel *accel, const AccelIoEvent *e);

/* --- State --- */

/*
 * Reads the registers of every vCPU into our memory (vCPUs held) unless they are there already;
 * they stay valid, without any further ioctl, until the vCPUs run. Sections do it by themselves
 * when saved.
 */
bool accel_fetch_state(Accel *accel, GError **errp);
/*
 * Registers of vCPU @i as text, for "info registers". The caller frees it. Running vCPUs are held
 * for a moment.
 */
char *accel_format_registers(Accel *accel, unsigned i);
/*
 * Registers of vCPU @i of a VM that does not run, for a memory dump (lock held). An accelerator without
 * vCPUs has none to tell: an error.
 */
bool accel_cpu_dump_state(Accel *accel, unsigned i, CpuDumpState *ret_state, GError **errp);
/* Of the guest's CPUID, for the snapshot's header: restoring elsewhere must give the same. */
const CpuDigest *accel_cpuid_digest(const Accel *accel);
/* The feature flags that CPUID shows the guest: CPU_WORD__MAX (accel/cpu-models.h) words; none before there are vCPUs. */
void accel_cpu_flags(const Accel *accel, uint32_t *ret_flags);

#endif
