/*
 * -sandbox: chooses the filter of system calls (seccomp) and enters it. What the filters say: sandbox-filters.c.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "system/sandbox.h"

#include "system/sandbox-filters.h"
#include "system/sandbox-sets.h"
#include "util/error.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static unsigned choose_filter(const SandboxOptions *o)
{
    bool obsolete = o->has_obsolete && o->obsolete == SANDBOX_RULE_ALLOW;
    bool spawn = !o->has_spawn || o->spawn == SANDBOX_RULE_ALLOW;
    bool resources = !o->has_resourcecontrol || o->resourcecontrol == SANDBOX_RULE_ALLOW;
    bool privileges =
        !o->has_elevateprivileges || o->elevateprivileges != SANDBOX_PRIVILEGE_RULE_DENY;

    return (obsolete ? 0 : SANDBOX_NO_OBSOLETE) | (privileges ? 0 : SANDBOX_NO_PRIVILEGES) |
           (spawn ? 0 : SANDBOX_NO_SPAWN) | (resources ? 0 : SANDBOX_NO_RESOURCES);
}

/* All threads at once. The result is that of seccomp(2). */
static long enter(const struct sock_fprog *filter)
{
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, filter);
}

/* "No new privileges" is also what the kernel wants for a filter of a process without CAP_SYS_ADMIN. */
static long enter_without_privileges(const struct sock_fprog *filter)
{
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -1 : enter(filter);
}

bool sandbox_enter(const SandboxOptions *o, GError **errp)
{
    const struct sock_fprog *filter = &filters[choose_filter(o)];
    bool elevate =
        !o->has_elevateprivileges || o->elevateprivileges == SANDBOX_PRIVILEGE_RULE_ALLOW;
    long result;

    if (!o->enable) {
        return true;
    }
    result = elevate ? enter(filter) : enter_without_privileges(filter);
    if (elevate && result < 0 && errno == EACCES) {
        result = enter_without_privileges(filter);
    }
    if (result < 0) {
        error_set_errno(errp, errno, "-sandbox: the kernel does not take the filter of calls");
    } else if (result > 0) {
        error_set(errp, "-sandbox: thread %ld has another filter of calls than the rest", result);
    }
    return result == 0;
}
