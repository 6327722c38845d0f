/*
 * What stands for a virtual CPU in the object tree.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_SYSTEM_CPU_OBJECT_H
#define COWBIRD_SYSTEM_CPU_OBJECT_H

#include "hw/core/machine.h"

/* "x86_64-cpu" and the models. Ended by a line without name. */
extern const QomType cpu_object_types[];

/* Puts one object a vCPU at /machine/unattached/device[N], N from 0, before any device is there. */
bool cpu_objects_create(Machine *m, GError **errp);

/* Gives them a property for each flag that the guest sees. To be called once, when the accelerator has its vCPUs. */
void cpu_objects_show_flags(Machine *m);

#endif
