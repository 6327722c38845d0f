/*
 * Which pages of a RAM block must be saved: the way the host is asked is chosen, and its answer is
 * read by what the block is.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/pagemap.h"

#include "memory/chunk-map.h"
#include "memory/kernel-release.h"
#include "memory/pagemap-walk.h"
#include "util/error.h"
#include "util/units.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <unistd.h>

#define PAGE UINT64_C(4096)

struct PagemapScanner {
    PagemapPath path;
    bool (*walk)(PagemapWalker *, const uint8_t *, uint64_t, bool, WalkFunc, void *, GError **);
    PagemapWalker walker;
};

/* --- Choice --- */

static const struct {
    const char *name;
    bool (*walk)(PagemapWalker *, const uint8_t *, uint64_t, bool, WalkFunc, void *, GError **);
} paths[] = {
    [PAGEMAP_SCAN_IOCTL] = { "scan", pagemap_walk_scan },
    [PAGEMAP_BIT61] = { "bit61", pagemap_walk_bit61 },
    [PAGEMAP_KPAGEFLAGS] = { "kpageflags", pagemap_walk_kpageflags },
};

static PagemapPath choose(PagemapWalker *walker, const char *kernel)
{
    KernelRelease release = kernel_release_parse(kernel);

    if (pagemap_probe_scan(walker, NULL)) {
        return PAGEMAP_SCAN_IOCTL;
    }
    if (!kernel_release_has_exact_file_bit(&release) && pagemap_probe_kpageflags(walker, NULL)) {
        return PAGEMAP_KPAGEFLAGS;
    }
    /* Where bit 61 is not exact, a huge page of a file may be saved that need not be. */
    return PAGEMAP_BIT61;
}

static bool probe(PagemapWalker *walker, PagemapPath path, GError **errp)
{
    switch (path) {
    case PAGEMAP_SCAN_IOCTL:
        return pagemap_probe_scan(walker, errp);
    case PAGEMAP_KPAGEFLAGS:
        return pagemap_probe_kpageflags(walker, errp);
    case PAGEMAP_AUTO:
    case PAGEMAP_BIT61:
        break;
    }
    return true;
}

static void log_choice(const char *kernel, const char *name)
{
    static gsize logged; /* once per process */

    if (g_once_init_enter(&logged)) {
        info_report("pagemap_anon: kernel=%s path=%s", kernel, name);
        g_once_init_leave(&logged, 1);
    }
}

/*
 * The kernel gives /proc/self to root when the program file cannot be read or carries capabilities, until the process is
 * "dumpable" (proc(5)). It is made so for as long as the opening takes.
 */
static int open_pagemap(void)
{
    static const char path[] = "/proc/self/pagemap";
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0 && errno == EACCES && prctl(PR_GET_DUMPABLE) != 1 &&
        prctl(PR_SET_DUMPABLE, 1) == 0) {
        fd = open(path, O_RDONLY | O_CLOEXEC);
        prctl(PR_SET_DUMPABLE, 0);
    }
    return fd;
}

static PagemapScanner *scanner_new(PagemapPath path, const char *kernel, GError **errp)
{
    g_autoptr(PagemapScanner) scanner = g_new0(PagemapScanner, 1);
    PagemapWalker *walker = &scanner->walker;
    g_autoptr(GError) cause = NULL;

    walker->kpageflags_fd = -1;
    walker->pagemap_fd = open_pagemap();
    if (walker->pagemap_fd < 0) {
        error_set_errno(errp, errno,
                        "Cannot open /proc/self/pagemap; it tells which pages of "
                        "guest RAM must be saved, so /proc has to be mounted");
        return NULL;
    }
    if (!probe(walker, path, &cause)) {
        error_set(errp, "ram-scan=%s cannot be used on this host: %s", paths[path].name,
                  cause->message);
        return NULL;
    }
    scanner->path = path == PAGEMAP_AUTO ? choose(walker, kernel) : path;
    scanner->walk = paths[scanner->path].walk;
    if (scanner->path == PAGEMAP_BIT61) {
        pagemap_probe_zero_pfn(walker);
    }
    return g_steal_pointer(&scanner);
}

PagemapScanner *pagemap_scanner_new(PagemapPath path, GError **errp)
{
    PagemapScanner *scanner;
    struct utsname host;

    uname(&host);
    scanner = scanner_new(path, host.release, errp);
    if (scanner) {
        log_choice(host.release, pagemap_scanner_name(scanner));
    }
    return scanner;
}

PagemapScanner *pagemap_scanner_new_quiet(GError **errp)
{
    struct utsname host;

    uname(&host);
    return scanner_new(PAGEMAP_AUTO, host.release, errp);
}

void pagemap_scanner_free(PagemapScanner *scanner)
{
    if (!scanner) {
        return;
    }
    if (scanner->walker.pagemap_fd >= 0) {
        close(scanner->walker.pagemap_fd);
    }
    if (scanner->walker.kpageflags_fd >= 0) {
        close(scanner->walker.kpageflags_fd);
    }
    g_free(scanner);
}

const char *pagemap_scanner_name(const PagemapScanner *scanner)
{
    return paths[scanner->path].name;
}

/* --- From runs to ranges --- */

typedef struct Emitter {
    RamBlock *block; /* NULL: a bare mapping, of which only what is present is told */
    PageRangeFunc fn;
    void *opaque;
    PagemapStats stats;
    uint64_t cursor;   /* what lies before is accounted for */
    PageRange pending; /* length 0 = none; not told yet since it may grow */
    bool stopped;
} Emitter;

static bool emit_pending(Emitter *e)
{
    if (e->pending.length > 0) {
        PageRange range = e->pending;

        e->pending.length = 0;
        e->stopped = !e->fn(&range, e->opaque);
    }
    return !e->stopped;
}

static bool emit(Emitter *e, uint64_t start, uint64_t end, PageKind kind)
{
    uint64_t pages = (end - start) / PAGE;

    switch (kind) {
    case PAGE_UNCHANGED:
        e->stats.unchanged_pages += pages;
        return true;
    case PAGE_DATA:
        e->stats.data_pages += pages;
        break;
    case PAGE_ZERO:
        e->stats.zero_pages += pages;
        break;
    }
    if (e->pending.length > 0 && e->pending.kind == kind &&
        e->pending.offset + e->pending.length == start) {
        e->pending.length += end - start;
        return true;
    }
    if (!emit_pending(e)) {
        return false;
    }
    e->pending = (PageRange){ .offset = start, .length = end - start, .kind = kind };
    return true;
}

/* Of a copy-on-write block: zero in released chunks, elsewhere as the file has it. */
static bool emit_file_gap(Emitter *e, uint64_t start, uint64_t end)
{
    uint64_t first, last;

    while (start < end &&
           chunk_map_next_run(e->block->released, start >> RAM_CHUNK_SHIFT, &first, &last)) {
        uint64_t from = MAX(start, first << RAM_CHUNK_SHIFT);
        uint64_t to = MIN(end, last << RAM_CHUNK_SHIFT);

        if (from >= end) {
            break;
        }
        if (from > start) {
            emit(e, start, from, PAGE_UNCHANGED);
        }
        if (!emit(e, from, to, PAGE_ZERO)) {
            return false;
        }
        start = to;
    }
    if (start < end) {
        emit(e, start, end, PAGE_UNCHANGED);
    }
    return true;
}

/* Of a file of the user's: data where the file has data, also what is unreadable to lseek(). */
static bool emit_backend_gap(Emitter *e, uint64_t start, uint64_t end)
{
    const RamBlock *block = e->block;

    while (start < end) {
        off_t at = block->fd_offset + start;
        off_t data = block->hugetlb ? at : lseek(block->fd, at, SEEK_DATA);
        off_t hole;
        uint64_t from, to;

        if (data < 0) {
            data = errno == ENXIO ? (off_t)(block->fd_offset + end) : at;
        }
        from = MIN(end, ROUND_DOWN((uint64_t)data - block->fd_offset, PAGE));
        if (from > start && !emit(e, start, from, PAGE_ZERO)) {
            return false;
        }
        from = MAX(from, start);
        if (from >= end) {
            break;
        }
        hole = block->hugetlb ? -1 : lseek(block->fd, data, SEEK_HOLE);
        to = hole < 0 ? end : MIN(end, ROUND_UP((uint64_t)hole - block->fd_offset, PAGE));
        if (!emit(e, from, to, PAGE_DATA)) {
            return false;
        }
        start = to;
    }
    return true;
}

static bool emit_gap(Emitter *e, uint64_t end)
{
    uint64_t start = e->cursor;

    e->cursor = end;
    if (start >= end || !e->block) {
        return true;
    }
    switch (e->block->kind) {
    case RAM_ANONYMOUS:
        return emit(e, start, end, PAGE_ZERO);
    case RAM_FILE_PRIVATE:
        return emit_file_gap(e, start, end);
    case RAM_SHARED:
    case RAM_BACKEND_FILE:
        break;
    }
    return emit_backend_gap(e, start, end);
}

static bool emit_run(uint64_t start, uint64_t end, WalkPage page, void *opaque)
{
    Emitter *e = opaque;

    if (!emit_gap(e, start) || !emit(e, start, end, page == WALK_ZERO ? PAGE_ZERO : PAGE_DATA)) {
        return false;
    }
    if (page == WALK_SWAPPED) {
        e->stats.swapped_pages += (end - start) / PAGE;
    }
    e->cursor = end;
    return true;
}

static void add_stats(PagemapStats *to, const PagemapStats *from, gint64 started)
{
    if (to) {
        to->data_pages += from->data_pages;
        to->zero_pages += from->zero_pages;
        to->unchanged_pages += from->unchanged_pages;
        to->swapped_pages += from->swapped_pages;
        to->scan_time_us += g_get_monotonic_time() - started;
    }
}

bool pagemap_scan_block(PagemapScanner *scanner, RamBlock *block, PageRangeFunc fn, void *opaque,
                        PagemapStats *ret_stats, GError **errp)
{
    Emitter e = { .block = block, .fn = fn, .opaque = opaque };
    gint64 started = g_get_monotonic_time();
    bool ok = true;

    g_rw_lock_reader_lock(&block->layout);
    /* The page table of a shared mapping knows only what this process has touched. */
    if (block->kind != RAM_SHARED) {
        ok = scanner->walk(&scanner->walker, block->host, block->size, block->hugetlb, emit_run, &e,
                           errp);
    }
    ok = ok && emit_gap(&e, block->size) && emit_pending(&e);
    g_rw_lock_reader_unlock(&block->layout);
    if (ok) {
        add_stats(ret_stats, &e.stats, started);
    } else if (errp && *errp) {
        g_prefix_error(errp, "RAM block '%s': ", block->name);
    }
    return ok;
}

bool pagemap_scan_private(PagemapScanner *scanner, const void *host, uint64_t length,
                          PageRangeFunc fn, void *opaque, PagemapStats *ret_stats, GError **errp)
{
    Emitter e = { .fn = fn, .opaque = opaque };
    gint64 started = g_get_monotonic_time();

    if (!scanner->walk(&scanner->walker, host, length, false, emit_run, &e, errp) ||
        !emit_pending(&e)) {
        return false;
    }
    add_stats(ret_stats, &e.stats, started);
    return true;
}

static bool count_run(uint64_t start, uint64_t end, WalkPage page, void *opaque)
{
    if (page != WALK_SWAPPED) {
        *(uint64_t *)opaque += (end - start) / PAGE;
    }
    return true;
}

bool pagemap_count_resident(PagemapScanner *scanner, RamBlock *block, uint64_t *ret_pages,
                            GError **errp)
{
    uint64_t pages = 0;

    if (!scanner->walk(&scanner->walker, block->host, block->size, true, count_run, &pages, errp)) {
        return false;
    }
    *ret_pages = pages;
    return true;
}
