/*
 * Which pages are written while the guest runs.
 *
 * The kernel write-protects the pages that are there and, when one is written by a thread, a system call
 * or a vCPU, takes the protection off again without telling us (userfaultfd, UFFD_FEATURE_WP_ASYNC).
 * PAGEMAP_SCAN finds the pages without protection and protects them in one step. A page that was not there
 * has none either, so it counts as written when it comes: too much, never too little. Pages of a file that
 * were only read are left out; a write gives them another page, which is found. A block of which a watched
 * mapping was replaced by another (detach) counts as written throughout.
 *
 * Source: Documentation/admin-guide/mm/pagemap.rst and userfaultfd.rst of the kernel. Only faults of user
 * mode are asked for, which needs no privilege; nobody waits for us in this mode, so it makes no
 * difference.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/write-watch.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/error.h"
#include "util/io.h"
#include "util/kernel-uapi.h"

/* More would make the ioctl tell some twice (pagemap-walk.h). */
#define REGIONS 512

struct WriteWatch {
    int uffd;
    int pagemap_fd;
};

static bool check_blocks(RamList *list, GError **errp)
{
    for (unsigned i = 0; i < ram_list_count(list); i++) {
        const RamBlock *block = ram_list_get(list, i);

        if ((block->kind != RAM_ANONYMOUS && block->kind != RAM_FILE_PRIVATE) || block->hugetlb) {
            error_set(errp,
                      "writes to RAM block '%s' cannot be watched: its memory is not private "
                      "or consists of hugetlb pages",
                      block->name);
            return false;
        }
    }
    return true;
}

static bool open_uffd(WriteWatch *watch, GError **errp)
{
    struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_WP_ASYNC };

    watch->uffd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    if (watch->uffd < 0 || ioctl(watch->uffd, UFFDIO_API, &api) < 0) {
        error_set_errno(errp, errno,
                        "writes to guest memory cannot be watched (userfaultfd, which "
                        "needs Linux 6.7 for it)");
        return false;
    }
    watch->pagemap_fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (watch->pagemap_fd < 0) {
        error_set_errno(errp, errno, "cannot open /proc/self/pagemap");
        return false;
    }
    return true;
}

static bool watch_block(const WriteWatch *watch, const RamBlock *block, GError **errp)
{
    struct uffdio_register reg = {
        .range = { .start = (uintptr_t)block->host, .len = block->size },
        .mode = UFFDIO_REGISTER_MODE_WP,
    };

    if (ioctl(watch->uffd, UFFDIO_REGISTER, &reg) < 0) {
        error_set_errno(errp, errno, "writes to RAM block '%s' cannot be watched", block->name);
        return false;
    }
    return true;
}

static bool ignore_range(const PageRange *range, void *opaque)
{
    return true;
}

WriteWatch *write_watch_new(RamList *list, GError **errp)
{
    g_autoptr(WriteWatch) watch = g_new0(WriteWatch, 1);

    watch->uffd = watch->pagemap_fd = -1;
    if (!check_blocks(list, errp) || !open_uffd(watch, errp)) {
        return NULL;
    }
    for (unsigned i = 0; i < ram_list_count(list); i++) {
        const RamBlock *block = ram_list_get(list, i);

        if (!watch_block(watch, block, errp) ||
            !write_watch_take(watch, block, ignore_range, NULL, errp)) {
            return NULL;
        }
    }
    return g_steal_pointer(&watch);
}

void write_watch_free(WriteWatch *watch)
{
    if (!watch) {
        return;
    }
    /* Closing it takes the protection off all pages. */
    close_fd(&watch->uffd);
    close_fd(&watch->pagemap_fd);
    g_free(watch);
}

static bool tell_all(const RamBlock *block, PageRangeFunc fn, void *opaque)
{
    PageRange range = { .length = block->size, .kind = PAGE_DATA };

    return fn(&range, opaque);
}

bool write_watch_take(WriteWatch *watch, const RamBlock *block, PageRangeFunc fn, void *opaque,
                      GError **errp)
{
    struct page_region regions[REGIONS];
    uint64_t base = (uintptr_t)block->host;
    struct pm_scan_arg arg = {
        .size = sizeof(arg),
        .flags = PM_SCAN_WP_MATCHING | PM_SCAN_CHECK_WPASYNC,
        .start = base,
        .end = base + block->size,
        .vec = (uintptr_t)regions,
        .vec_len = REGIONS,
        .category_inverted = PAGE_IS_FILE,
        .category_mask = PAGE_IS_WRITTEN | PAGE_IS_FILE,
        .category_anyof_mask = PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
        .return_mask = PAGE_IS_WRITTEN,
    };

    while (arg.start < arg.end) {
        int n = ioctl(watch->pagemap_fd, PAGEMAP_SCAN, &arg);

        if (n < 0 && errno == EPERM) {
            return tell_all(block, fn, opaque);
        }
        if (n < 0 || arg.walk_end <= arg.start) {
            error_set_errno(errp, n < 0 ? errno : EIO,
                            "cannot tell which pages of RAM block '%s' "
                            "were written",
                            block->name);
            return false;
        }
        for (int i = 0; i < n; i++) {
            PageRange range = { .offset = regions[i].start - base,
                                .length = regions[i].end - regions[i].start,
                                .kind = PAGE_DATA };

            if (!fn(&range, opaque)) {
                return false;
            }
        }
        arg.start = arg.walk_end;
        arg.walk_end = 0;
    }
    return true;
}
