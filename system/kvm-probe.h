/*
 * Whether KVM can be used, without making a virtual machine.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_SYSTEM_KVM_PROBE_H
#define COWBIRD_SYSTEM_KVM_PROBE_H

#include <stdbool.h>

/* /dev/kvm can be opened and speaks the stable API. */
bool kvm_probe(void);
/* @name is one of a list like "kvm:tcg". */
bool accel_is_listed(const char *accel_list, const char *name);

#endif
