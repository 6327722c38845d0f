/*
 * The KVM device and the VM: opening, capabilities, what KVM supports.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "accel/kvm.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "accel/cpu-host.h"
#include "util/error.h"
#include "util/log.h"

#define KVM_DEVICE "/dev/kvm"

/*
 * Where Intel processors that cannot run real mode keep a TSS and a page table of KVM's own: below
 * the firmware at the end of 4 GiB. The memory map must leave [0xfffbc000, 0xfffc0000) free.
 */
#define KVM_IDENTITY_MAP_ADDR 0xfffbc000ull
#define KVM_TSS_ADDR 0xfffbd000ull

int kvm_check(KvmAccel *kvm, long cap)
{
    int r = ioctl(kvm->vm_fd, KVM_CHECK_EXTENSION, cap);

    return MAX(r, 0);
}

static bool open_device(KvmAccel *kvm, GError **errp)
{
    int version;

    kvm->kvm_fd = open(KVM_DEVICE, O_RDWR | O_CLOEXEC);
    if (kvm->kvm_fd < 0) {
        const char *hint = "";

        if (errno == ENOENT || errno == ENODEV || errno == ENXIO) {
            hint = " (is virtualization switched on in the firmware, and the module kvm_intel or "
                   "kvm_amd loaded?)";
        } else if (errno == EACCES || errno == EPERM) {
            hint = " (add the user to the group that owns it, usually 'kvm')";
        }
        int err = errno;
        error_set(errp, "cannot open %s%s: %s (errno %d)", KVM_DEVICE, hint, g_strerror(err), err);
        return false;
    }
    version = ioctl(kvm->kvm_fd, KVM_GET_API_VERSION, 0);
    if (version != KVM_API_VERSION) {
        error_set(errp, "%s speaks version %d of KVM's interface, %d is needed", KVM_DEVICE,
                  version, KVM_API_VERSION);
        return false;
    }
    return true;
}

static bool create_vm(KvmAccel *kvm, GError **errp)
{
    do {
        kvm->vm_fd = ioctl(kvm->kvm_fd, KVM_CREATE_VM, 0);
    } while (kvm->vm_fd < 0 && errno == EINTR);
    if (kvm->vm_fd < 0) {
        int err = errno;

        error_set_errno(errp, err, "%s: cannot create a virtual machine%s", KVM_DEVICE,
                        err == EBUSY ? " (another hypervisor uses the processor)" : "");
        return false;
    }
    return true;
}

static bool check_required(KvmAccel *kvm, GError **errp)
{
    static const struct {
        long cap;
        const char *name;
    } required[] = {
        { KVM_CAP_USER_MEMORY, "KVM_CAP_USER_MEMORY" },
        { KVM_CAP_DESTROY_MEMORY_REGION_WORKS, "KVM_CAP_DESTROY_MEMORY_REGION_WORKS" },
        { KVM_CAP_READONLY_MEM, "KVM_CAP_READONLY_MEM" },
        { KVM_CAP_IRQCHIP, "KVM_CAP_IRQCHIP" },
        { KVM_CAP_IRQ_ROUTING, "KVM_CAP_IRQ_ROUTING" },
        { KVM_CAP_IRQFD, "KVM_CAP_IRQFD" },
        { KVM_CAP_IOEVENTFD, "KVM_CAP_IOEVENTFD" },
        { KVM_CAP_SIGNAL_MSI, "KVM_CAP_SIGNAL_MSI" },
        { KVM_CAP_MP_STATE, "KVM_CAP_MP_STATE" },
        { KVM_CAP_ADJUST_CLOCK, "KVM_CAP_ADJUST_CLOCK" },
        { KVM_CAP_VCPU_EVENTS, "KVM_CAP_VCPU_EVENTS" },
        { KVM_CAP_DEBUGREGS, "KVM_CAP_DEBUGREGS" },
        { KVM_CAP_XSAVE, "KVM_CAP_XSAVE" },
        { KVM_CAP_XCRS, "KVM_CAP_XCRS" },
        { KVM_CAP_IMMEDIATE_EXIT, "KVM_CAP_IMMEDIATE_EXIT" },
    };

    for (size_t i = 0; i < G_N_ELEMENTS(required); i++) {
        if (!kvm_check(kvm, required[i].cap)) {
            error_set_class(errp, COWBIRD_ERROR_KVM_MISSING_CAP,
                            "this host's KVM lacks %s (Linux 4.13 or later on x86-64 has it)",
                            required[i].name);
            return false;
        }
    }
    return true;
}

static void read_optional(KvmAccel *kvm)
{
    KvmCaps *caps = &kvm->caps;

    caps->sregs2 = kvm_check(kvm, KVM_CAP_SREGS2);
    caps->exit_on_emulation_failure = kvm_check(kvm, KVM_CAP_EXIT_ON_EMULATION_FAILURE);
    caps->kvmclock_ctrl = kvm_check(kvm, KVM_CAP_KVMCLOCK_CTRL);
    caps->slots = kvm_check(kvm, KVM_CAP_NR_MEMSLOTS);
    if (!caps->slots) {
        caps->slots = 32; /* what kernels without the capability have */
    }
    caps->max_vcpus = kvm_check(kvm, KVM_CAP_MAX_VCPUS);
    if (!caps->max_vcpus) {
        caps->max_vcpus = MAX(kvm_check(kvm, KVM_CAP_NR_VCPUS), 1);
    }
    caps->xsave_size = kvm_check(kvm, KVM_CAP_XSAVE2);
    log_printf(LOG_KVM, "kvm_caps: sregs2=%d slots=%u vcpus=%u xsave=%zu", caps->sregs2,
               caps->slots, caps->max_vcpus, caps->xsave_size);
}

static bool set_up_vm(KvmAccel *kvm, GError **errp)
{
    uint64_t identity = KVM_IDENTITY_MAP_ADDR;
    struct kvm_enable_cap cap = { .cap = KVM_CAP_EXIT_ON_EMULATION_FAILURE, .args = { 1 } };

    if (kvm_check(kvm, KVM_CAP_SET_IDENTITY_MAP_ADDR) &&
        ioctl(kvm->vm_fd, KVM_SET_IDENTITY_MAP_ADDR, &identity) < 0) {
        error_set_errno(errp, errno, "KVM_SET_IDENTITY_MAP_ADDR 0x%" G_GINT64_MODIFIER "x",
                        identity);
        return false;
    }
    if (kvm_check(kvm, KVM_CAP_SET_TSS_ADDR) &&
        ioctl(kvm->vm_fd, KVM_SET_TSS_ADDR, KVM_TSS_ADDR) < 0) {
        error_set_errno(errp, errno, "KVM_SET_TSS_ADDR 0x%llx", KVM_TSS_ADDR);
        return false;
    }
    if (kvm->caps.exit_on_emulation_failure && ioctl(kvm->vm_fd, KVM_ENABLE_CAP, &cap) < 0) {
        /* Only the bytes of the instruction are missing from the report then. */
        kvm->caps.exit_on_emulation_failure = false;
    }
    return true;
}

bool kvm_open(KvmAccel *kvm, GError **errp)
{
    if (!open_device(kvm, errp) || !create_vm(kvm, errp) || !check_required(kvm, errp)) {
        return false;
    }
    kvm->run_size = ioctl(kvm->kvm_fd, KVM_GET_VCPU_MMAP_SIZE, 0);
    if ((ssize_t)kvm->run_size < (ssize_t)sizeof(struct kvm_run)) {
        error_set(errp, "%s: KVM_GET_VCPU_MMAP_SIZE gives %zd bytes", KVM_DEVICE,
                  (ssize_t)kvm->run_size);
        return false;
    }
    read_optional(kvm);
    return set_up_vm(kvm, errp);
}

void kvm_close(KvmAccel *kvm)
{
    if (kvm->vm_fd >= 0) {
        close(kvm->vm_fd);
    }
    if (kvm->kvm_fd >= 0) {
        close(kvm->kvm_fd);
    }
    g_free(kvm->supported);
}

const struct kvm_cpuid2 *kvm_supported_cpuid(KvmAccel *kvm, GError **errp)
{
    if (!kvm->supported) {
        kvm->supported = cpu_host_read(kvm->kvm_fd, kvm->chips != NULL, errp);
    }
    return kvm->supported;
}
