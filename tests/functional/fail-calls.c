/*
 * Preloaded into a program: the n-th call of one kind on files of a folder "victim", or of one that maps memory over
 * memory, fails, or kills.
 *
 * What is to fail is told through a shared file named by FAIL_CALLS (fail_calls.py writes it), so that it
 * can be changed while the program runs. The calls are made directly, not through the C library.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* PLACE: sizes, holes and names. MAP, HOLE: anonymous memory over 2 MiB or more; HOLE and LOST leave nothing there; LOST: all. */
enum { WRITE = 1, SYNC = 2, READ = 4, PLACE = 8, MAP = 16, HOLE = 32, LOST = 64 };
#define CHUNK 0x200000

/* fail_calls.py has the same layout. */
typedef struct Control {
    int32_t kinds; /* that are counted and fail; 0 = none */
    int32_t left;  /* so many calls work before */
    int32_t error; /* errno; 0 = the process kills itself before the call */
    int32_t once;  /* only one call fails */
    int32_t seen;  /* calls of these kinds until now */
} Control;

static Control *control;

__attribute__((constructor)) static void map_control(void)
{
    const char *path = getenv("FAIL_CALLS");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *p = fd < 0 ? MAP_FAILED
                     : mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (p != MAP_FAILED) {
        control = p;
    }
    if (fd >= 0) {
        close(fd);
    }
}

static bool is_victim(int fd, const char *path)
{
    char link[64], name[512];
    ssize_t n;

    if (path) {
        return strstr(path, "/victim/") != NULL;
    }
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, name, sizeof(name) - 1);
    name[n < 0 ? 0 : n] = '\0';
    return strstr(name, "/victim/") != NULL;
}

static bool is_next(void)
{
    int32_t number;

    number = __atomic_fetch_add(&control->seen, 1, __ATOMIC_RELAXED);
    if (number < control->left || (control->once && number > control->left)) {
        return false;
    }
    if (control->error == 0) {
        kill(getpid(), SIGKILL);
    }
    errno = control->error;
    return true;
}

static bool fails(int kind, int fd, const char *path)
{
    return control && (control->kinds & kind) && is_victim(fd, path) && is_next();
}

static bool map_fails(int kinds, void *at, size_t n)
{
    if (!control || !(control->kinds & kinds) || n < CHUNK || !is_next()) {
        return false;
    }
    if (control->kinds & (HOLE | LOST)) {
        syscall(SYS_munmap, at, n);
    }
    errno = control->error;
    return true;
}

void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    int kinds = flags & MAP_ANONYMOUS ? MAP | HOLE | LOST : LOST;

    return (flags & MAP_FIXED) && map_fails(kinds, at, n)
               ? MAP_FAILED
               : (void *)syscall(SYS_mmap, at, n, protection, flags, fd, offset);
}

void *mremap(void *old, size_t old_size, size_t n, int flags, ...)
{
    va_list arguments;
    void *at;

    va_start(arguments, flags);
    at = flags & MREMAP_FIXED ? va_arg(arguments, void *) : NULL;
    va_end(arguments);
    return at && map_fails(MAP | HOLE | LOST, at, n)
               ? MAP_FAILED
               : (void *)syscall(SYS_mremap, old, old_size, n, flags, at);
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t offset)
{
    return fails(WRITE, fd, NULL) ? -1 : syscall(SYS_pwrite64, fd, data, n, offset);
}

ssize_t pwritev(int fd, const struct iovec *iov, int n, off_t offset)
{
    return fails(WRITE, fd, NULL) ? -1 : syscall(SYS_pwritev, fd, iov, n, offset, 0);
}

ssize_t copy_file_range(int in, off_t *in_offset, int out, off_t *out_offset, size_t n,
                        unsigned flags)
{
    return fails(WRITE, out, NULL)
               ? -1
               : syscall(SYS_copy_file_range, in, in_offset, out, out_offset, n, flags);
}

ssize_t pread(int fd, void *data, size_t n, off_t offset)
{
    return fails(READ, fd, NULL) ? -1 : syscall(SYS_pread64, fd, data, n, offset);
}

int fsync(int fd)
{
    return fails(SYNC, fd, NULL) ? -1 : (int)syscall(SYS_fsync, fd);
}

int ftruncate(int fd, off_t size)
{
    return fails(PLACE, fd, NULL) ? -1 : (int)syscall(SYS_ftruncate, fd, size);
}

int fallocate(int fd, int mode, off_t offset, off_t length)
{
    return fails(PLACE, fd, NULL) ? -1 : (int)syscall(SYS_fallocate, fd, mode, offset, length);
}

int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
    return fails(PLACE, -1, to) ? -1 : (int)syscall(SYS_linkat, from_dir, from, to_dir, to, flags);
}

int rename(const char *from, const char *to)
{
    return fails(PLACE, -1, to) ? -1 : (int)syscall(SYS_rename, from, to);
}
