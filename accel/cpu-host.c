/*
 * What CPUID of a guest can be on this host, as KVM tells it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "accel/cpu-host.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>

#include "accel/cpuid.h"
#include "util/error.h"
#include "util/io.h"

#define KVM_DEVICE "/dev/kvm"
#define MOST_ENTRIES 4096
#define DEADLINE_TIMER (1u << 24) /* of CPUID 1 ECX */

/* The deadline timer comes with the local APIC in the kernel; KVM tells of it by a capability. */
static void add_deadline_timer(int kvm_fd, struct kvm_cpuid2 *cpuid)
{
    struct kvm_cpuid_entry2 *e = cpuid_find(cpuid, 1, 0);

    if (e && ioctl(kvm_fd, KVM_CHECK_EXTENSION, KVM_CAP_TSC_DEADLINE_TIMER) > 0) {
        e->ecx |= DEADLINE_TIMER;
    }
}

struct kvm_cpuid2 *cpu_host_read(int kvm_fd, bool irqchip, GError **errp)
{
    for (unsigned n = 128; n <= MOST_ENTRIES; n *= 2) {
        g_autofree struct kvm_cpuid2 *c =
            g_malloc0(sizeof(*c) + n * sizeof(struct kvm_cpuid_entry2));

        c->nent = n;
        if (ioctl(kvm_fd, KVM_GET_SUPPORTED_CPUID, c) == 0) {
            if (irqchip) {
                add_deadline_timer(kvm_fd, c);
            }
            return g_steal_pointer(&c);
        }
        if (errno != E2BIG) {
            break;
        }
    }
    error_set_errno(errp, errno, "%s: KVM_GET_SUPPORTED_CPUID", KVM_DEVICE);
    return NULL;
}

struct kvm_cpuid2 *cpu_host_probe(GError **errp)
{
    int fd = open(KVM_DEVICE, O_RDWR | O_CLOEXEC);
    struct kvm_cpuid2 *cpuid = NULL;

    if (fd < 0) {
        error_set_errno(errp, errno, "cannot open %s, which knows what CPUs there can be",
                        KVM_DEVICE);
    } else {
        cpuid = cpu_host_read(fd, true, errp);
    }
    close_fd(&fd);
    return cpuid;
}
