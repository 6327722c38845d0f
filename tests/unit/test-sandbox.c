/*
 * Tests of -sandbox: what each sub-option forbids, to whom, and what still works. A filter cannot be taken off again, so
 * every case is a process of its own.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "system/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

typedef enum Group { HOST, OBSOLETE, PRIVILEGES, SPAWN, RESOURCES, NEVER } Group;

typedef struct Probe {
    const char *name;
    Group group; /* the sub-option that forbids it; HOST: all, NEVER: none */
    long call, args[5];
} Probe;

#define NOWHERE ((long)"/nonexistent/file")
#define X32 0x40000000

/*
 * Calls with arguments that do no harm if they pass, and for which the kernel itself never says EPERM, to no user.
 */
static const Probe probes[] = {
    { "unshare", HOST, SYS_unshare, { 0 } },
    { "setns", HOST, SYS_setns, { -1, 0 } },
    { "ptrace", HOST, SYS_ptrace, { 1000, 0 } },
    { "process_vm_readv", HOST, SYS_process_vm_readv, { 0, 0, 0, 0, 0 } },
    { "pidfd_getfd", HOST, SYS_pidfd_getfd, { -1, 0, 0 } },
    { "process_madvise", HOST, SYS_process_madvise, { -1, 0, 0, 0, 0 } },
    { "keyctl", HOST, SYS_keyctl, { -1 } },
    { "add_key", HOST, SYS_add_key, { 0, 0, 0, 0, 0 } },
    { "new user namespace", HOST, SYS_clone, { CLONE_NEWUSER | CLONE_FS, 0 } },
    { "new mount namespace", HOST, SYS_clone, { CLONE_NEWNS | CLONE_FS, 0 } },
    { "device file", HOST, SYS_mknod, { 0, S_IFCHR | 0600, 0x103 } },
    { "device file at", HOST, SYS_mknodat, { AT_FDCWD, 0, S_IFBLK | 0600, 0x103 } },
    { "a call of x32", HOST, X32 | SYS_getpid, { 0 } },
    { "fifo", NEVER, SYS_mknodat, { AT_FDCWD, 0, S_IFIFO | 0600, 0 } },
    { "ustat", OBSOLETE, SYS_ustat, { 0, 0 } },
    { "sysfs", OBSOLETE, SYS_sysfs, { 99 } },
    { "setuid", PRIVILEGES, SYS_setuid, { -1 } },
    { "setresgid", PRIVILEGES, SYS_setresgid, { -1, -1, -1 } },
    { "capset", PRIVILEGES, SYS_capset, { 0, 0 } },
    { "execve", SPAWN, SYS_execve, { NOWHERE, 0, 0 } },
    { "execveat", SPAWN, SYS_execveat, { AT_FDCWD, NOWHERE, 0, 0, 0 } },
    { "fork", SPAWN, SYS_fork, { 0 } },
    { "clone", SPAWN, SYS_clone, { SIGCHLD, 0 } },
    { "sched_setaffinity", RESOURCES, SYS_sched_setaffinity, { 0, 0, 0 } },
    { "sched_setscheduler", RESOURCES, SYS_sched_setscheduler, { 0, -1, 0 } },
    { "sched_setattr", RESOURCES, SYS_sched_setattr, { 0, 0, 0 } },
    { "setpriority", RESOURCES, SYS_setpriority, { 99, 0, 0 } },
    { "ioprio_set", RESOURCES, SYS_ioprio_set, { 99, 0, 0 } },
    { "setsid", NEVER, SYS_setsid, { 0 } },
    { "sched_getaffinity", NEVER, SYS_sched_getaffinity, { 0, 0, 0 } },
    { "io_uring_setup", NEVER, SYS_io_uring_setup, { 0, 0 } },
    { "vmsplice", NEVER, SYS_vmsplice, { -1, 0, 0, 0 } },
};

typedef struct Case {
    const char *path;
    SandboxOptions options;
    bool forbidden[NEVER + 1];
    bool no_new_privs;
} Case;

#define DENY SANDBOX_RULE_DENY

static const Case cases[] = {
    { "/sandbox/off", { .enable = false, .has_spawn = true, .spawn = DENY }, { false }, false },
    { "/sandbox/on", { .enable = true }, { [HOST] = true, [OBSOLETE] = true }, false },
    { "/sandbox/obsolete-allow",
      { .enable = true, .has_obsolete = true, .obsolete = SANDBOX_RULE_ALLOW },
      { [HOST] = true },
      false },
    { "/sandbox/elevateprivileges-deny",
      { .enable = true,
        .has_elevateprivileges = true,
        .elevateprivileges = SANDBOX_PRIVILEGE_RULE_DENY },
      { [HOST] = true, [OBSOLETE] = true, [PRIVILEGES] = true },
      true },
    { "/sandbox/elevateprivileges-children",
      { .enable = true,
        .has_elevateprivileges = true,
        .elevateprivileges = SANDBOX_PRIVILEGE_RULE_CHILDREN },
      { [HOST] = true, [OBSOLETE] = true },
      true },
    { "/sandbox/spawn-deny",
      { .enable = true, .has_spawn = true, .spawn = DENY },
      { [HOST] = true, [OBSOLETE] = true, [SPAWN] = true },
      false },
    { "/sandbox/resourcecontrol-deny",
      { .enable = true, .has_resourcecontrol = true, .resourcecontrol = DENY },
      { [HOST] = true, [OBSOLETE] = true, [RESOURCES] = true },
      false },
};

/* What libvirt passes. */
static const SandboxOptions strictest = {
    .enable = true,
    .has_obsolete = true,
    .obsolete = DENY,
    .has_elevateprivileges = true,
    .elevateprivileges = SANDBOX_PRIVILEGE_RULE_DENY,
    .has_spawn = true,
    .spawn = DENY,
    .has_resourcecontrol = true,
    .resourcecontrol = DENY,
};

static void must(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "in the sandbox: %s: errno %d\n", what, errno);
        _exit(1);
    }
}

/* Runs body in a child, which ends well if body returns. */
static void in_child(void (*body)(gconstpointer), gconstpointer data)
{
    pid_t child;
    int status;

    fflush(NULL);
    child = fork();
    g_assert_cmpint(child, >=, 0);
    if (child == 0) {
        body(data);
        _exit(0);
    }
    g_assert_cmpint(waitpid(child, &status, 0), ==, child);
    g_assert_true(WIFEXITED(status));
    g_assert_cmpint(WEXITSTATUS(status), ==, 0);
}

static void enter(const SandboxOptions *options)
{
    g_autoptr(GError) err = NULL;

    must(sandbox_enter(options, &err), err ? err->message : "entered");
}

/* 0 or the errno of the call; a process that it makes ends at once. */
static int attempt(const Probe *p)
{
    pid_t self = getpid();
    long result = syscall(p->call, p->args[0], p->args[1], p->args[2], p->args[3], p->args[4]);

    if (getpid() != self) {
        _exit(0);
    }
    return result < 0 ? errno : 0;
}

static void check_case(gconstpointer data)
{
    const Case *c = data;
    bool kernel_wants_it = c->options.enable && geteuid() != 0;

    enter(&c->options);
    must(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == (c->no_new_privs || kernel_wants_it),
         "no new privileges");
    for (unsigned i = 0; i < G_N_ELEMENTS(probes); i++) {
        errno = attempt(&probes[i]);
        must((errno == EPERM) == c->forbidden[probes[i].group] ||
                 (probes[i].group == HOST && !c->options.enable),
             probes[i].name);
    }
}

static void test_case(gconstpointer data)
{
    in_child(check_case, data);
}

/* A thread that is there before the filter. */
typedef struct Early {
    int go[2];
    int result;
} Early;

static void *try_to_exec(void *opaque)
{
    Early *early = opaque;
    char byte;

    must(read(early->go[0], &byte, 1) == 1, "pipe");
    early->result = execl("/nonexistent/file", "file", NULL) < 0 ? errno : 0;
    return NULL;
}

static void check_threads(gconstpointer data)
{
    Early early = { .result = 0 };
    GThread *before, *after;

    must(pipe(early.go) == 0, "pipe");
    before = g_thread_new("before", try_to_exec, &early);
    enter(&strictest);
    must(write(early.go[1], "", 1) == 1, "pipe");
    g_thread_join(before);
    errno = early.result;
    must(errno == EPERM, "a thread that was there");
    early.result = 0;
    after = g_thread_new("after", try_to_exec, &early);
    must(write(early.go[1], "", 1) == 1, "pipe");
    g_thread_join(after);
    errno = early.result;
    must(errno == EPERM, "a thread that was made later");
}

/* All threads are held, old and new, and new ones can be made. */
static void test_threads(void)
{
    in_child(check_threads, NULL);
}

static const Probe userfaultfd = { "userfaultfd", NEVER, SYS_userfaultfd, { O_CLOEXEC } };
static const Probe clone3 = { "clone3", HOST, SYS_clone3, { 0, 0 } };

static void check_needed(gconstpointer data)
{
    int fault_before = attempt(&userfaultfd);
    size_t page = sysconf(_SC_PAGESIZE);
    uint64_t entry;
    char *old, *moved;
    int fd;

    enter(&strictest);
    errno = attempt(&userfaultfd);
    must(errno == fault_before, "userfaultfd");
    errno = attempt(&clone3);
    must(errno == ENOSYS, "clone3 is as if it did not exist");
    old = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(old != MAP_FAILED, "mmap");
    *old = 'x';
    moved = mremap(old, page, page, MREMAP_MAYMOVE | MREMAP_FIXED, old + page);
    must(moved == old + page && *moved == 'x', "mremap");
    fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    must(fd >= 0, "open of pagemap");
    must(pread(fd, &entry, sizeof(entry), (uintptr_t)moved / page * sizeof(entry)) == sizeof(entry),
         "read of pagemap");
    must(entry >> 63, "the page is present");
}

/* What saving, restoring and releasing memory is made of. */
static void test_needed(void)
{
    in_child(check_needed, NULL);
}

static void check_double(gconstpointer data)
{
    enter(&strictest);
    enter(&strictest);
}

/* libvirt's option and the user's add up; a second filter on top is harmless. */
static void test_twice(void)
{
    in_child(check_double, NULL);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_test_add_data_func(cases[i].path, &cases[i], test_case);
    }
    g_test_add_func("/sandbox/threads", test_threads);
    g_test_add_func("/sandbox/needed", test_needed);
    g_test_add_func("/sandbox/twice", test_twice);
    return g_test_run();
}
