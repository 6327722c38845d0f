/*
 * -sandbox: system calls that the process gives up for good before the guest runs.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_SYSTEM_SANDBOX_H
#define COWBIRD_SYSTEM_SANDBOX_H

#include "qapi/qapi-types.h"

/*
 * Forbids what o says to every thread there is, to those they make, and to programs they start. A forbidden call fails
 * with EPERM (clone3 with ENOSYS, which sends the C library to clone); nothing is killed. Nothing happens
 * with enable=off. Fails if the kernel cannot filter.
 */
bool sandbox_enter(const SandboxOptions *o, GError **errp);

#endif
