/*
 * One file that guest RAM is mapped from: its identity, its lease, its private clone.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/ram-base.h"

#include "util/error.h"
#include "util/io.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct RamBase {
    gint refs;
    int fd;       /* the file as it was given, opened again read-only */
    int map_fd;   /* what is mapped: fd or a clone */
    int lease_fd; /* holds the lease; never mapped; -1 = none */
    bool given_up;
    bool wants_drain;
    char *path;
    bool has_uuid;
    Uuid uuid;
    struct stat at_open;
    gint64 break_began; /* 0 = nobody was held up by this lease yet */
    struct stat at_break;
};

/* A descriptor of its own open file description, read-only; -1 with errno. */
static int reopen_readonly(int fd)
{
    g_autofree char *self = g_strdup_printf("/proc/self/fd/%d", fd);

    return open(self, O_RDONLY | O_CLOEXEC | O_NOCTTY);
}

static char *readable_path(int fd, const char *path)
{
    g_autofree char *self = g_strdup_printf("/proc/self/fd/%d", fd);
    char *target;

    if (path) {
        return g_strdup(path);
    }
    target = g_file_read_link(self, NULL);
    return target ? target : g_strdup_printf("fd %d", fd);
}

/*
 * Reopening needs the permission to read the file, which a descriptor handed to us does not prove: then
 * its own description is used, and there will be no lease.
 */
static int own_descriptor(int fd, const char *path, GError **errp)
{
    int flags = fcntl(fd, F_GETFL);
    int own;

    if (flags < 0 || (flags & O_ACCMODE) == O_WRONLY) {
        error_set_errno(errp, flags < 0 ? errno : EBADF, "Snapshot %s is not open for reading",
                        path);
        return -1;
    }
    own = reopen_readonly(fd);
    if (own < 0) {
        own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    }
    if (own < 0) {
        error_set_errno(errp, errno, "Cannot duplicate the descriptor of snapshot %s", path);
    }
    return own;
}

RamBase *ram_base_open(int fd, const char *path, const Uuid *uuid, GError **errp)
{
    g_autofree char *shown = readable_path(fd, path);
    g_auto(FdHandle) own = own_descriptor(fd, shown, errp);
    struct stat st;
    RamBase *base;

    if (own < 0) {
        return NULL;
    }
    if (fstat(own, &st) < 0) {
        error_set_errno(errp, errno, "Cannot examine snapshot %s", shown);
        return NULL;
    }
    if (!S_ISREG(st.st_mode)) {
        error_set(errp, "Snapshot %s is not a regular file: its pages cannot be mapped", shown);
        return NULL;
    }
    base = g_new0(RamBase, 1);
    base->refs = 1;
    base->fd = base->map_fd = own;
    own = -1;
    base->lease_fd = -1;
    base->path = g_steal_pointer(&shown);
    base->at_open = st;
    if (uuid) {
        base->has_uuid = true;
        base->uuid = *uuid;
    }
    return base;
}

RamBase *ram_base_ref(RamBase *base)
{
    g_atomic_int_inc(&base->refs);
    return base;
}

void ram_base_unref(RamBase *base)
{
    if (!base || !g_atomic_int_dec_and_test(&base->refs)) {
        return;
    }
    ram_base_drop_lease(base);
    if (base->map_fd != base->fd) {
        close(base->map_fd);
    }
    close(base->fd);
    g_free(base->path);
    g_free(base);
}

int ram_base_fd(const RamBase *base)
{
    return base->map_fd;
}

bool ram_base_is_cloned(const RamBase *base)
{
    return base->map_fd != base->fd;
}

const char *ram_base_path(const RamBase *base)
{
    return base->path;
}

const Uuid *ram_base_uuid(const RamBase *base)
{
    return base->has_uuid ? &base->uuid : NULL;
}

uint64_t ram_base_size(const RamBase *base)
{
    return base->at_open.st_size;
}

bool ram_base_is_leased(const RamBase *base)
{
    return base->lease_fd >= 0;
}

bool ram_base_is_same_file(const RamBase *base, dev_t device, ino_t inode)
{
    return base->at_open.st_dev == device && base->at_open.st_ino == inode;
}

bool ram_base_check_same(const RamBase *base, const struct stat *then, GError **errp)
{
    struct stat now;

    if (fstat(base->fd, &now) < 0) {
        error_set_errno(errp, errno, "Cannot examine snapshot %s", base->path);
        return false;
    }
    if (now.st_dev != then->st_dev || now.st_ino != then->st_ino) {
        error_set(errp, "Snapshot %s is another file than the one that was opened", base->path);
        return false;
    }
    if (now.st_size != then->st_size) {
        error_set(errp,
                  "Snapshot %s has changed: it had %lld bytes when it was opened, it has %lld",
                  base->path, (long long)then->st_size, (long long)now.st_size);
        return false;
    }
    if (now.st_mtim.tv_sec != then->st_mtim.tv_sec ||
        now.st_mtim.tv_nsec != then->st_mtim.tv_nsec) {
        error_set(errp, "Snapshot %s has changed: it was written to after it was opened",
                  base->path);
        return false;
    }
    return true;
}

bool ram_base_check_identity(RamBase *base, GError **errp)
{
    return ram_base_check_same(base, &base->at_open, errp);
}

struct stat ram_base_identity(const RamBase *base)
{
    struct stat now;

    if (fstat(base->fd, &now) < 0) {
        memset(&now, 0, sizeof(now));
    }
    return now;
}

uint64_t ram_base_bytes_from(const RamBase *base, uint64_t offset)
{
    struct stat now;

    if (fstat(base->map_fd, &now) < 0) {
        return UINT64_MAX;
    }
    return (uint64_t)now.st_size > offset ? now.st_size - offset : 0;
}

bool ram_base_check_mappable(RamBase *base, GError **errp)
{
    size_t page = sysconf(_SC_PAGESIZE);
    void *got =
        mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, base->map_fd, 0);

    if (got == MAP_FAILED) {
        error_set_errno(errp, errno, "%s cannot be mapped", base->path);
        return false;
    }
    munmap(got, page);
    return true;
}

/* --- Lease --- */

/* F_UNLCK clears owner and signal (fcntl(2) is silent on it; measured), so both are always set. */
static bool arm_lease(int fd, int signal)
{
    struct f_owner_ex owner = { .type = F_OWNER_PID, .pid = getpid() };

    return fcntl(fd, F_SETSIG, signal) == 0 && fcntl(fd, F_SETOWN_EX, &owner) == 0 &&
           fcntl(fd, F_SETLEASE, F_RDLCK) == 0;
}

static void lease_error(const RamBase *base, int err, GError **errp)
{
    switch (err) {
    case EAGAIN:
        error_set(errp, "no read lease on %s: somebody has it open for writing", base->path);
        break;
    case EACCES:
    case EPERM:
        error_set(errp, "no read lease on %s: it takes the file's owner or CAP_LEASE", base->path);
        break;
    case EINVAL:
    case EOPNOTSUPP:
        error_set(errp, "no read lease on %s: its file system has none", base->path);
        break;
    default:
        error_set_errno(errp, err, "no read lease on %s", base->path);
        break;
    }
}

bool ram_base_take_lease(RamBase *base, int signal, GError **errp)
{
    g_auto(FdHandle) fd = -1;

    if (base->lease_fd >= 0) {
        return true;
    }
    fd = reopen_readonly(base->fd);
    if (fd < 0 || !arm_lease(fd, signal)) {
        lease_error(base, errno, errp);
        return false;
    }
    base->lease_fd = fd;
    base->break_began = 0;
    fd = -1;
    return true;
}

void ram_base_drop_lease(RamBase *base)
{
    if (base->lease_fd >= 0) {
        (void)fcntl(base->lease_fd, F_SETLEASE, F_UNLCK);
        close_fd(&base->lease_fd);
    }
}

bool ram_base_lease_breaking(const RamBase *base)
{
    /* While a break is under way the kernel answers with the type it asks us to go down to. */
    return base->lease_fd >= 0 && !base->given_up && fcntl(base->lease_fd, F_GETLEASE) == F_UNLCK;
}

gint64 ram_base_break_began(RamBase *base, struct stat *ret_then)
{
    if (base->break_began == 0) {
        base->break_began = g_get_monotonic_time();
        base->at_break = ram_base_identity(base);
    }
    *ret_then = base->at_break;
    return base->break_began;
}

void ram_base_give_up(RamBase *base)
{
    base->given_up = true;
}

/* --- Without a lease --- */

void ram_base_want_drain(RamBase *base, bool wanted)
{
    base->wants_drain = wanted;
}

bool ram_base_wants_drain(const RamBase *base)
{
    return base->wants_drain;
}

bool ram_base_is_unlinked(const RamBase *base)
{
    struct stat now;

    /* A memfd or O_TMPFILE file never had one: who made it may have it open still. */
    return base->at_open.st_nlink > 0 && fstat(base->fd, &now) == 0 && now.st_nlink == 0;
}

/* --- Clone --- */

static int open_unnamed(RamBase *base, GError **errp)
{
    g_autofree char *self = g_strdup_printf("/proc/self/fd/%d", base->fd);
    g_autofree char *path = g_file_read_link(self, NULL);
    g_autofree char *folder = path ? g_path_get_dirname(path) : NULL;
    int fd = folder ? open(folder, O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600) : -1;

    if (fd < 0) {
        error_set_errno(errp, errno, "cannot make an unnamed file in the folder of %s", base->path);
    }
    return fd;
}

int ram_base_make_clone(RamBase *base, GError **errp)
{
    g_auto(FdHandle) writable = open_unnamed(base, errp);
    struct stat st;
    int clone;

    if (writable < 0) {
        return -1;
    }
    if (ioctl(writable, FICLONE, base->fd) < 0) {
        error_set_errno(errp, errno, "cannot make a reflink clone of %s", base->path);
        return -1;
    }
    if (fstat(writable, &st) < 0 || st.st_size < base->at_open.st_size) {
        error_set(errp, "%s was truncated", base->path);
        return -1;
    }
    clone = reopen_readonly(writable);
    if (clone < 0) {
        error_set_errno(errp, errno, "cannot open the clone of %s again", base->path);
    }
    return clone;
}

void ram_base_use_clone(RamBase *base, int clone_fd)
{
    if (base->map_fd != base->fd) {
        close(base->map_fd);
    }
    base->map_fd = clone_fd;
    base->wants_drain = false;
    ram_base_drop_lease(base);
}
