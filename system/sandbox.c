/*
 * -sandbox, a filter of system calls (seccomp).
 *
 * It is a list of what is forbidden: calls that change the host, reach into other processes, or are
 * wide doors into the kernel that a monitor has no use for, and those of the sub-options. A monitor and the libraries it
 * is made of need most of the rest.
 *
 * The kernel notes which calls pass whatever their arguments are and does not run the filter for those. So no
 * rule looks at the arguments of a call that is made often: ioctl (KVM_RUN) above all.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "system/sandbox.h"

#include "util/error.h"

#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/stat.h>

#define CALL(name) SCMP_SYS(name)

/* seccomp takes the first argument of clone for its flags on x86-64 (clone(2)). */
enum { CLONE_FLAGS = 0, MKNOD_MODE = 1, MKNODAT_MODE = 2 };

/* Ended by END_OF_CALLS, which is no call. */
#define END_OF_CALLS __NR_SCMP_ERROR

static const int host_calls[] = {
    /* the machine */
    CALL(reboot), CALL(kexec_load), CALL(kexec_file_load), CALL(init_module), CALL(finit_module),
    CALL(delete_module), CALL(swapon), CALL(swapoff), CALL(syslog), CALL(acct), CALL(quotactl),
    CALL(quotactl_fd), CALL(sethostname), CALL(setdomainname), CALL(settimeofday),
    CALL(clock_settime), CALL(clock_adjtime), CALL(adjtimex), CALL(vhangup), CALL(iopl),
    CALL(ioperm), CALL(modify_ldt),
    /* what the process sees of it */
    CALL(mount), CALL(umount2), CALL(pivot_root), CALL(chroot), CALL(move_mount), CALL(open_tree),
    CALL(mount_setattr), CALL(fsopen), CALL(fsconfig), CALL(fsmount), CALL(fspick), CALL(unshare),
    CALL(setns),
    /* other processes, and files without their names */
    CALL(ptrace), CALL(process_vm_readv), CALL(process_vm_writev), CALL(process_madvise),
    CALL(pidfd_getfd), CALL(kcmp), CALL(migrate_pages), CALL(move_pages), CALL(open_by_handle_at),
    CALL(fanotify_init),
    /* doors */
    CALL(bpf), CALL(perf_event_open), CALL(add_key), CALL(request_key), CALL(keyctl), END_OF_CALLS
};

static const int obsolete_calls[] = {
    CALL(_sysctl),        CALL(create_module), CALL(query_module), CALL(get_kernel_syms),
    CALL(nfsservctl),     CALL(uselib),        CALL(ustat),        CALL(sysfs),
    CALL(lookup_dcookie), CALL(getpmsg),       CALL(putpmsg),      CALL(afs_syscall),
    CALL(tuxcall),        CALL(security),      CALL(vserver),      CALL(epoll_ctl_old),
    CALL(epoll_wait_old), END_OF_CALLS
};

static const int privilege_calls[] = { CALL(setuid),   CALL(setgid),    CALL(setreuid),
                                       CALL(setregid), CALL(setresuid), CALL(setresgid),
                                       CALL(setfsuid), CALL(setfsgid),  CALL(setgroups),
                                       CALL(capset),   END_OF_CALLS };

static const int spawn_calls[] = { CALL(fork), CALL(vfork), CALL(execve), CALL(execveat),
                                   END_OF_CALLS };

static const int resource_calls[] = {
    CALL(setpriority),   CALL(sched_setparam),    CALL(sched_setscheduler),
    CALL(sched_setattr), CALL(sched_setaffinity), CALL(ioprio_set),
    END_OF_CALLS
};

static const unsigned namespace_flags[] = { CLONE_NEWNS,  CLONE_NEWCGROUP, CLONE_NEWUTS,
                                            CLONE_NEWIPC, CLONE_NEWUSER,   CLONE_NEWPID,
                                            CLONE_NEWNET };

static const unsigned device_modes[] = { S_IFCHR, S_IFBLK };

/* A rule that cannot be added would be a hole: an error like any other. */
static bool forbid_calls(scmp_filter_ctx filter, const int *calls)
{
    for (; *calls != END_OF_CALLS; calls++) {
        if (seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), *calls, 0) < 0) {
            return false;
        }
    }
    return true;
}

/* call fails if the bits of mask in its argument are value. */
static bool forbid_bits(scmp_filter_ctx filter, int call, unsigned argument, unsigned mask,
                        unsigned value)
{
    return seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), call, 1,
                            SCMP_CMP64(argument, SCMP_CMP_MASKED_EQ, mask, value)) == 0;
}

/* Flags of clone3 lie in memory, where no filter sees them: it is as if the kernel had no such call. */
static bool forbid_namespaces(scmp_filter_ctx filter)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(namespace_flags); i++) {
        if (!forbid_bits(filter, CALL(clone), CLONE_FLAGS, namespace_flags[i],
                         namespace_flags[i])) {
            return false;
        }
    }
    return seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), CALL(clone3), 0) == 0;
}

static bool forbid_device_files(scmp_filter_ctx filter)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(device_modes); i++) {
        if (!forbid_bits(filter, CALL(mknod), MKNOD_MODE, S_IFMT, device_modes[i]) ||
            !forbid_bits(filter, CALL(mknodat), MKNODAT_MODE, S_IFMT, device_modes[i])) {
            return false;
        }
    }
    return true;
}

/* Threads are made by clone too. */
static bool forbid_spawn(scmp_filter_ctx filter)
{
    return forbid_calls(filter, spawn_calls) &&
           forbid_bits(filter, CALL(clone), CLONE_FLAGS, CLONE_THREAD, 0);
}

static bool add_rules(scmp_filter_ctx filter, const SandboxOptions *o)
{
    bool obsolete = !o->has_obsolete || o->obsolete == SANDBOX_RULE_DENY;
    bool spawn = o->has_spawn && o->spawn == SANDBOX_RULE_DENY;
    bool resources = o->has_resourcecontrol && o->resourcecontrol == SANDBOX_RULE_DENY;
    bool privileges =
        o->has_elevateprivileges && o->elevateprivileges == SANDBOX_PRIVILEGE_RULE_DENY;

    return forbid_calls(filter, host_calls) && forbid_namespaces(filter) &&
           forbid_device_files(filter) && (!obsolete || forbid_calls(filter, obsolete_calls)) &&
           (!privileges || forbid_calls(filter, privilege_calls)) &&
           (!spawn || forbid_spawn(filter)) && (!resources || forbid_calls(filter, resource_calls));
}

/* All threads; calls of other architectures (int 0x80, x32) fail; a search tree, as there are many rules. */
static bool set_attributes(scmp_filter_ctx filter)
{
    return seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1) == 0 &&
           seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(EPERM)) == 0 &&
           seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2) == 0 &&
           seccomp_attr_set(filter, SCMP_FLTATR_API_SYSRAWRC, 1) == 0;
}

/* "No new privileges" is what the kernel wants for a filter of a process without CAP_SYS_ADMIN. */
static int load(scmp_filter_ctx filter, const SandboxOptions *o)
{
    bool elevate =
        !o->has_elevateprivileges || o->elevateprivileges == SANDBOX_PRIVILEGE_RULE_ALLOW;
    int err = -EACCES;

    if (elevate) {
        seccomp_attr_set(filter, SCMP_FLTATR_CTL_NNP, 0);
        err = seccomp_load(filter);
    }
    if (err == -EACCES) {
        seccomp_attr_set(filter, SCMP_FLTATR_CTL_NNP, 1);
        err = seccomp_load(filter);
    }
    return err;
}

bool sandbox_enter(const SandboxOptions *o, GError **errp)
{
    scmp_filter_ctx filter;
    int err;

    if (!o->enable) {
        return true;
    }
    filter = seccomp_init(SCMP_ACT_ALLOW);
    if (!filter || !set_attributes(filter) || !add_rules(filter, o)) {
        error_set(errp, "-sandbox: libseccomp cannot make the filter of system calls");
        seccomp_release(filter);
        return false;
    }
    err = load(filter, o);
    seccomp_release(filter);
    if (err) {
        error_set_errno(errp, -err, "-sandbox: this kernel takes no filter of system calls");
        return false;
    }
    return true;
}
