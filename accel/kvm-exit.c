/*
 * Why KVM_RUN came back: port and memory-mapped I/O, resets, errors, lost pages.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "accel/kvm.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>

#include "memory/base-guard.h"
#include "util/error.h"
#include "util/log.h"

/* Linux 6.8; Debian 12's linux/kvm.h does not know it. */
#define EXIT_MEMORY_FAULT 39
typedef struct MemoryFaultExit {
    uint64_t flags;
    uint64_t gpa;
    uint64_t size;
} MemoryFaultExit;

/* --- Lost pages: design.md §5 --- */

/* A page of guest RAM cannot be read: the VM must never run again. @gpa: where, NULL = unknown. */
static void lose_page(KvmVcpu *vcpu, const char *reason, const uint64_t *gpa)
{
    const AccelEnv *env = &vcpu->kvm->common.env;
    AddressRange range;

    runstate_request_stop(env->runstate, RUN_STATE_IO_ERROR);
    if (!ram_list_guard(env->ram)) {
        /* No snapshot file is behind it: a failing host, or a file of the user's own. */
        g_autofree char *where =
            gpa ? g_strdup_printf(" at 0x%" G_GINT64_MODIFIER "x", *gpa) : g_strdup("");

        error_report("CPU %u: %s%s", vcpu->index, reason, where);
    } else if (gpa && address_map_find(env->memory, *gpa, &range) && range.kind == ADDRESS_RAM) {
        ram_list_report_lost(env->ram, reason, range.block,
                             range.block_offset + (*gpa - range.base));
    } else {
        ram_list_report_lost(env->ram, reason, ram_list_get(env->ram, 0), 0);
    }
}

/* Lost memory explains the failure of a vCPU: then that is what is reported, and nothing else. */
static bool explained_by_lost_file(KvmVcpu *vcpu, const char *reason)
{
    const AccelEnv *env = &vcpu->kvm->common.env;

    if (!ram_list_check_files(env->ram, reason)) {
        return false;
    }
    runstate_request_stop(env->runstate, RUN_STATE_IO_ERROR);
    return true;
}

/* --- I/O --- */

static void handle_pio(KvmVcpu *vcpu)
{
    struct kvm_run *run = vcpu->run;
    AddressMap *io = vcpu->kvm->common.env.io;
    uint8_t *data = (uint8_t *)run + run->io.data_offset;

    for (uint32_t i = 0; i < run->io.count; i++, data += run->io.size) {
        if (run->io.direction == KVM_EXIT_IO_OUT) {
            address_map_write(io, run->io.port, data, run->io.size);
        } else {
            address_map_read(io, run->io.port, data, run->io.size);
        }
    }
    vcpu->io_pending = true;
}

/*
 * RAM that comes back as MMIO: a write to ROM is nothing, RAM whose slot was being changed while
 * the vCPU ran is accessed here, and anything else is a page that is gone.
 */
static bool mmio_is_lost_page(KvmVcpu *vcpu, const AddressRange *range)
{
    return range->kind == ADDRESS_RAM && !(range->readonly && vcpu->run->mmio.is_write) &&
           vcpu->slots_seen == vcpu->kvm->slots_generation;
}

static void handle_mmio(KvmVcpu *vcpu)
{
    struct kvm_run *run = vcpu->run;
    AddressMap *memory = vcpu->kvm->common.env.memory;
    uint64_t gpa = run->mmio.phys_addr;
    AddressRange range;

    if (address_map_find(memory, gpa, &range) && mmio_is_lost_page(vcpu, &range)) {
        lose_page(vcpu, "KVM could not read guest memory", &gpa);
        return;
    }
    if (run->mmio.is_write) {
        address_map_write(memory, gpa, run->mmio.data, run->mmio.len);
    } else {
        address_map_read(memory, gpa, run->mmio.data, run->mmio.len);
    }
    vcpu->io_pending = true;
}

/* --- Ends --- */

static void handle_shutdown(KvmVcpu *vcpu)
{
    if (!explained_by_lost_file(vcpu, "a processor shut down")) {
        log_printf(LOG_KVM, "kvm_triple_fault: cpu=%u", vcpu->index);
        runstate_request_reset(vcpu->kvm->common.env.runstate, SHUTDOWN_CAUSE_GUEST_RESET);
    }
}

/* Where the vCPU is, for a report; not a hot path. */
static void report_place(KvmVcpu *vcpu)
{
    struct kvm_regs regs;
    struct kvm_sregs sregs;

    if (ioctl(vcpu->fd, KVM_GET_REGS, &regs) == 0 && ioctl(vcpu->fd, KVM_GET_SREGS, &sregs) == 0) {
        error_report("CPU %u: rip 0x%llx, cs 0x%x (base 0x%llx), rflags 0x%llx, cr0 0x%llx, cr3 "
                     "0x%llx, cr4 0x%llx, efer 0x%llx",
                     vcpu->index, regs.rip, sregs.cs.selector, sregs.cs.base, regs.rflags,
                     sregs.cr0, sregs.cr3, sregs.cr4, sregs.efer);
    }
}

static void stop_on_error(KvmVcpu *vcpu)
{
    report_place(vcpu);
    runstate_request_stop(vcpu->kvm->common.env.runstate, RUN_STATE_INTERNAL_ERROR);
}

static const char *suberror_name(uint32_t suberror)
{
    switch (suberror) {
    case KVM_INTERNAL_ERROR_EMULATION:
        return "an instruction that KVM cannot emulate";
    case KVM_INTERNAL_ERROR_SIMUL_EX:
        return "exceptions that KVM cannot combine";
    case KVM_INTERNAL_ERROR_DELIVERY_EV:
        return "an exit while an event was delivered";
    case KVM_INTERNAL_ERROR_UNEXPECTED_EXIT_REASON:
        return "an exit that KVM does not know";
    default:
        return "unknown";
    }
}

/* The bytes of the instruction that could not be emulated, " 0f 0b", or "". */
static char *instruction_bytes(const struct kvm_run *run)
{
    GString *s = g_string_new("");

    if (run->internal.suberror == KVM_INTERNAL_ERROR_EMULATION && run->internal.ndata >= 4 &&
        (run->emulation_failure.flags & KVM_INTERNAL_ERROR_EMULATION_FLAG_INSTRUCTION_BYTES)) {
        unsigned n =
            MIN(run->emulation_failure.insn_size, sizeof(run->emulation_failure.insn_bytes));

        for (unsigned i = 0; i < n; i++) {
            g_string_append_printf(s, " %02x", run->emulation_failure.insn_bytes[i]);
        }
    }
    return g_string_free(s, FALSE);
}

static void handle_internal_error(KvmVcpu *vcpu)
{
    const struct kvm_run *run = vcpu->run;

    if (explained_by_lost_file(vcpu, "KVM could not go on")) {
        return;
    }
    g_autofree char *bytes = instruction_bytes(run);

    error_report("CPU %u: KVM stopped with internal error %u: %s%s%s", vcpu->index,
                 run->internal.suberror, suberror_name(run->internal.suberror),
                 *bytes ? ", bytes" : "", bytes);
    stop_on_error(vcpu);
}

static void handle_system_event(KvmVcpu *vcpu)
{
    RunStateControl *rs = vcpu->kvm->common.env.runstate;

    switch (vcpu->run->system_event.type) {
    case KVM_SYSTEM_EVENT_SHUTDOWN:
        runstate_request_shutdown(rs, SHUTDOWN_CAUSE_GUEST_SHUTDOWN);
        break;
    case KVM_SYSTEM_EVENT_RESET:
        runstate_request_reset(rs, SHUTDOWN_CAUSE_GUEST_RESET);
        break;
    case KVM_SYSTEM_EVENT_CRASH:
        runstate_request_panicked(rs);
        break;
    default:
        log_printf(LOG_KVM, "kvm_system_event: type=%u ignored", vcpu->run->system_event.type);
        break;
    }
}

void kvm_handle_exit(KvmVcpu *vcpu)
{
    const struct kvm_run *run = vcpu->run;

    switch (run->exit_reason) {
    case KVM_EXIT_IO:
        handle_pio(vcpu);
        break;
    case KVM_EXIT_MMIO:
        handle_mmio(vcpu);
        break;
    case KVM_EXIT_INTR:
    case KVM_EXIT_IRQ_WINDOW_OPEN:
        break;
    case KVM_EXIT_SHUTDOWN:
        handle_shutdown(vcpu);
        break;
    case KVM_EXIT_SYSTEM_EVENT:
        handle_system_event(vcpu);
        break;
    case KVM_EXIT_INTERNAL_ERROR:
        handle_internal_error(vcpu);
        break;
    case KVM_EXIT_FAIL_ENTRY:
        error_report("CPU %u: the processor refuses to enter the guest, hardware reason 0x%llx",
                     vcpu->index, run->fail_entry.hardware_entry_failure_reason);
        stop_on_error(vcpu);
        break;
    default:
        error_report("CPU %u: KVM stopped for the unknown reason %u (hardware 0x%llx)", vcpu->index,
                     run->exit_reason, run->hw.hardware_exit_reason);
        stop_on_error(vcpu);
        break;
    }
}

void kvm_handle_run_error(KvmVcpu *vcpu, int err)
{
    const struct kvm_run *run = vcpu->run;

    if (err == EFAULT || err == EHWPOISON) {
        const char *reason = err == EFAULT ? "KVM could not read guest memory"
                                           : "a page of guest memory is damaged in hardware";

        if (run->exit_reason == EXIT_MEMORY_FAULT) {
            MemoryFaultExit fault;

            memcpy(&fault, &run->hw, sizeof(fault));
            lose_page(vcpu, reason, &fault.gpa);
        } else if (!explained_by_lost_file(vcpu, reason)) {
            lose_page(vcpu, reason, NULL);
        }
        return;
    }
    error_report("CPU %u: KVM_RUN: %s (errno %d)", vcpu->index, g_strerror(err), err);
    stop_on_error(vcpu);
}
