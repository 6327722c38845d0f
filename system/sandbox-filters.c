/*
 * Writes the filters of -sandbox as a C table, one for each set of sub-options, when Cowbird is built.
 *
 * A filter is a list of what is forbidden: calls that change the host, reach into other processes, or are
 * wide doors into the kernel that a monitor has no use for, and those of the sub-options. A monitor and the libraries it
 * is made of need most of the rest.
 *
 * The kernel notes which calls pass whatever their arguments are and does not run the filter for those. So no
 * rule looks at the arguments of a call that is made often: ioctl (KVM_RUN) above all.
 *
 * libseccomp makes the programs here and not when a guest starts: that took 0.3 ms, and linking to it 0.05 ms.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <errno.h>
#include <linux/filter.h>
#include <sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "system/sandbox-sets.h"

#define N_ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))
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
    for (unsigned i = 0; i < N_ELEMENTS(namespace_flags); i++) {
        if (!forbid_bits(filter, CALL(clone), CLONE_FLAGS, namespace_flags[i],
                         namespace_flags[i])) {
            return false;
        }
    }
    return seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), CALL(clone3), 0) == 0;
}

static bool forbid_device_files(scmp_filter_ctx filter)
{
    for (unsigned i = 0; i < N_ELEMENTS(device_modes); i++) {
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

static bool add_rules(scmp_filter_ctx filter, unsigned set)
{
    return forbid_calls(filter, host_calls) && forbid_namespaces(filter) &&
           forbid_device_files(filter) &&
           (!(set & SANDBOX_NO_OBSOLETE) || forbid_calls(filter, obsolete_calls)) &&
           (!(set & SANDBOX_NO_PRIVILEGES) || forbid_calls(filter, privilege_calls)) &&
           (!(set & SANDBOX_NO_SPAWN) || forbid_spawn(filter)) &&
           (!(set & SANDBOX_NO_RESOURCES) || forbid_calls(filter, resource_calls));
}

/* Calls of other architectures (int 0x80, x32) fail; a search tree, as there are many rules. */
static bool set_attributes(scmp_filter_ctx filter)
{
    return seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(EPERM)) == 0 &&
           seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2) == 0;
}

/* The program as the lines of an array. */
static bool print_program(int fd)
{
    struct sock_filter step;
    ssize_t n;

    lseek(fd, 0, SEEK_SET);
    while ((n = read(fd, &step, sizeof(step))) == sizeof(step)) {
        printf("    { 0x%x, %u, %u, 0x%x },\n", step.code, step.jt, step.jf, step.k);
    }
    return n == 0;
}

static bool print_filter(unsigned set)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    int fd = memfd_create("filter", MFD_CLOEXEC);
    bool ok;

    printf("static const struct sock_filter filter_%u[] = {\n", set);
    ok = filter && fd >= 0 && set_attributes(filter) && add_rules(filter, set) &&
         seccomp_export_bpf(filter, fd) == 0 && print_program(fd);
    printf("};\n\n");
    seccomp_release(filter);
    close(fd);
    return ok;
}

int main(void)
{
    printf("/* Made by sandbox-filters.c. */\n#include <glib.h>\n#include <linux/filter.h>\n\n");
    for (unsigned set = 0; set < SANDBOX_SETS; set++) {
        if (!print_filter(set)) {
            fprintf(stderr, "sandbox-filters: libseccomp cannot make filter %u\n", set);
            return EXIT_FAILURE;
        }
    }
    printf("static const struct sock_fprog filters[] = {\n");
    for (unsigned set = 0; set < SANDBOX_SETS; set++) {
        printf("    { G_N_ELEMENTS(filter_%u), (struct sock_filter *)filter_%u },\n", set, set);
    }
    printf("};\n");
    return EXIT_SUCCESS;
}
