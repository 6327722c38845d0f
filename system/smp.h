/*
 * -smp: how many virtual CPUs there are and how they are arranged.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_SYSTEM_SMP_H
#define COWBIRD_SYSTEM_SMP_H

#include "hw/core/machine.h"
#include "qapi/qapi-types.h"

/*
 * Completes what -smp leaves out: cores before sockets, and one for everything else. A number that does not fit the others, or more
 * than the machine takes, is an error. given may be NULL.
 */
bool smp_complete(const SMPConfiguration *given, const MachineClass *machine, SmpConfig *ret_smp,
                  GError **errp);

#endif
