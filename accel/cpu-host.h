/*
 * What CPUID of a guest can be on this host, as KVM tells it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_ACCEL_CPU_HOST_H
#define COWBIRD_ACCEL_CPU_HOST_H

#include <glib.h>
#include <linux/kvm.h>
#include <stdbool.h>

/*
 * KVM_GET_SUPPORTED_CPUID of the open /dev/kvm; with @irqchip with the deadline timer of the interrupt controllers in the
 * kernel, of which KVM tells elsewhere. Free with g_free.
 */
struct kvm_cpuid2 *cpu_host_read(int kvm_fd, bool irqchip, GError **errp);

/* The same where no virtual machine is at hand; opens /dev/kvm itself. */
struct kvm_cpuid2 *cpu_host_probe(GError **errp);

#endif
