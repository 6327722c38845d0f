/*
 * The three ways to learn from the host which pages of a mapping are present, swapped or zero.
 *
 * Facts: Documentation/admin-guide/mm/pagemap.rst of the kernel, and measurements on 6.1, 6.12, 6.18.
 * Bit 56 and mincore() are of no use: the first tells exclusive from shared, not private from file, and
 * the second does not see swapped pages.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/pagemap-walk.h"

#include "util/error.h"
#include "util/units.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define PAGE UINT64_C(4096)
#define ENTRY_SIZE sizeof(uint64_t)

/* --- PAGEMAP_SCAN --- */

static WalkPage region_page(uint64_t categories)
{
    if (categories & PAGE_IS_PFNZERO) {
        return WALK_ZERO;
    }
    return categories & PAGE_IS_SWAPPED ? WALK_SWAPPED : WALK_DATA;
}

bool pagemap_walk_scan(PagemapWalker *walker, const uint8_t *host, uint64_t length, bool file_pages,
                       WalkFunc fn, void *opaque, GError **errp)
{
    uint64_t base = (uintptr_t)host;
    struct pm_scan_arg arg = {
        .size = sizeof(arg),
        .start = base,
        .end = base + length,
        .vec = (uintptr_t)walker->regions,
        .vec_len = WALK_REGIONS,
        .category_inverted = file_pages ? 0 : PAGE_IS_FILE,
        .category_mask = file_pages ? 0 : PAGE_IS_FILE,
        .category_anyof_mask = PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
        .return_mask = PAGE_IS_SWAPPED | PAGE_IS_PFNZERO,
    };

    while (arg.start < arg.end) {
        int n = ioctl(walker->pagemap_fd, PAGEMAP_SCAN, &arg);

        if (n < 0) {
            error_set_errno(errp, errno, "PAGEMAP_SCAN of %" G_GUINT64_FORMAT " KiB failed",
                            length / KiB);
            return false;
        }
        for (int i = 0; i < n; i++) {
            const struct page_region *r = &walker->regions[i];

            if (!fn(r->start - base, r->end - base, region_page(r->categories), opaque)) {
                return false;
            }
        }
        if (arg.walk_end <= arg.start) {
            error_set(errp, "PAGEMAP_SCAN of %" G_GUINT64_FORMAT " KiB does not advance",
                      length / KiB);
            return false;
        }
        arg.start = arg.walk_end;
        arg.walk_end = 0;
    }
    return true;
}

/* --- Entries of /proc/self/pagemap --- */

static bool read_entries(PagemapWalker *walker, uint64_t *entries, uint64_t address, uint64_t count,
                         GError **errp)
{
    uint8_t *to = (uint8_t *)entries;
    size_t left = count * ENTRY_SIZE;
    off_t at = address / PAGE * ENTRY_SIZE;

    while (left > 0) {
        ssize_t n = pread(walker->pagemap_fd, to, left, at);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            error_set_errno(errp, n < 0 ? errno : ENODATA, "Cannot read /proc/self/pagemap");
            return false;
        }
        to += n;
        at += n;
        left -= n;
    }
    return true;
}

/* Gathers equal neighbours before they are told. */
typedef struct Run {
    WalkFunc fn;
    void *opaque;
    uint64_t start, end;
    WalkPage page;
} Run;

static bool run_end(Run *run)
{
    WalkPage page = run->page;

    run->page = WALK_NONE;
    return page == WALK_NONE || run->fn(run->start, run->end, page, run->opaque);
}

static inline bool run_add(Run *run, uint64_t start, WalkPage page)
{
    if (page == run->page && page != WALK_NONE && run->end == start) {
        run->end = start + PAGE;
        return true;
    }
    if (run->page != WALK_NONE && !run_end(run)) {
        return false;
    }
    run->page = page;
    run->start = start;
    run->end = start + PAGE;
    return true;
}

static inline WalkPage entry_page(uint64_t entry, uint64_t zero_pfn, bool file_pages)
{
    if (!(entry & (PAGEMAP_PRESENT | PAGEMAP_SWAPPED)) || (entry & PAGEMAP_FILE && !file_pages)) {
        return WALK_NONE;
    }
    if (entry & PAGEMAP_SWAPPED) {
        return WALK_SWAPPED;
    }
    return zero_pfn && (entry & PAGEMAP_PFN_MASK) == zero_pfn ? WALK_ZERO : WALK_DATA;
}

bool pagemap_walk_bit61(PagemapWalker *walker, const uint8_t *host, uint64_t length,
                        bool file_pages, WalkFunc fn, void *opaque, GError **errp)
{
    Run run = { .fn = fn, .opaque = opaque, .page = WALK_NONE };

    for (uint64_t at = 0; at < length; at += WALK_ENTRIES * PAGE) {
        uint64_t count = MIN(WALK_ENTRIES, (length - at) / PAGE);

        if (!read_entries(walker, walker->entries, (uintptr_t)host + at, count, errp)) {
            return false;
        }
        for (uint64_t i = 0; i < count; i++) {
            WalkPage page = entry_page(walker->entries[i], walker->zero_pfn, file_pages);

            if ((page != WALK_NONE || run.page != WALK_NONE) &&
                !run_add(&run, at + i * PAGE, page)) {
                return false;
            }
        }
    }
    return run_end(&run);
}

/* --- /proc/kpageflags --- */

/* Flags of the frames of all present entries; runs of neighbouring frames in one read. */
static void read_flags(PagemapWalker *walker, uint64_t count)
{
    uint64_t i = 0;

    while (i < count) {
        uint64_t pfn = walker->entries[i] & PAGEMAP_PFN_MASK;
        uint64_t n = 1;
        ssize_t got;

        if (!(walker->entries[i] & PAGEMAP_PRESENT)) {
            walker->flags[i++] = 0;
            continue;
        }
        while (i + n < count && walker->entries[i + n] & PAGEMAP_PRESENT &&
               (walker->entries[i + n] & PAGEMAP_PFN_MASK) == pfn + n) {
            n++;
        }
        got = pread(walker->kpageflags_fd, &walker->flags[i], n * ENTRY_SIZE, pfn * ENTRY_SIZE);
        /* A frame that cannot be asked about counts as data. */
        for (uint64_t k = MAX(got, 0) / ENTRY_SIZE; k < n; k++) {
            walker->flags[i + k] = KPAGEFLAGS_ANON;
        }
        i += n;
    }
}

static WalkPage flags_page(uint64_t entry, uint64_t again, uint64_t flags, bool file_pages)
{
    if (entry != again) {
        /* The frame may have belonged to another page when its flags were read. */
        return (entry | again) & (PAGEMAP_PRESENT | PAGEMAP_SWAPPED) ? WALK_DATA : WALK_NONE;
    }
    if (entry & PAGEMAP_SWAPPED) {
        return entry & PAGEMAP_FILE && !file_pages ? WALK_NONE : WALK_SWAPPED;
    }
    if (!(entry & PAGEMAP_PRESENT)) {
        return WALK_NONE;
    }
    if (flags & KPAGEFLAGS_ZERO_PAGE) {
        return WALK_ZERO;
    }
    return flags & KPAGEFLAGS_ANON || file_pages ? WALK_DATA : WALK_NONE;
}

bool pagemap_walk_kpageflags(PagemapWalker *walker, const uint8_t *host, uint64_t length,
                             bool file_pages, WalkFunc fn, void *opaque, GError **errp)
{
    Run run = { .fn = fn, .opaque = opaque, .page = WALK_NONE };

    for (uint64_t at = 0; at < length; at += WALK_ENTRIES * PAGE) {
        uint64_t count = MIN(WALK_ENTRIES, (length - at) / PAGE);
        uint64_t address = (uintptr_t)host + at;

        if (!read_entries(walker, walker->entries, address, count, errp)) {
            return false;
        }
        read_flags(walker, count);
        if (!read_entries(walker, walker->entries_again, address, count, errp)) {
            return false;
        }
        for (uint64_t i = 0; i < count; i++) {
            WalkPage page = flags_page(walker->entries[i], walker->entries_again[i],
                                       walker->flags[i], file_pages);

            if (!run_add(&run, at + i * PAGE, page)) {
                return false;
            }
        }
    }
    return run_end(&run);
}

/* --- Probes --- */

typedef struct ProbeSeen {
    uint64_t data, zero;
} ProbeSeen;

static bool probe_note(uint64_t start, uint64_t end, WalkPage page, void *opaque)
{
    ProbeSeen *seen = opaque;

    *(page == WALK_ZERO ? &seen->zero : &seen->data) += end - start;
    return true;
}

/* Three pages: untouched, written, read. NULL on error. */
static volatile uint8_t *probe_pages(GError **errp)
{
    volatile uint8_t *pages =
        mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (pages == MAP_FAILED) {
        error_set_errno(errp, errno, "Cannot map three pages to try the page map with");
        return NULL;
    }
    /* Without NOHUGEPAGE the read page could be a huge one; the call fails where there are none. */
    (void)madvise((void *)pages, 3 * PAGE, MADV_NOHUGEPAGE);
    pages[PAGE] = 1;
    (void)pages[2 * PAGE];
    return pages;
}

bool pagemap_probe_scan(PagemapWalker *walker, GError **errp)
{
    volatile uint8_t *pages = probe_pages(errp);
    ProbeSeen seen = { 0 };
    bool ok;

    if (!pages) {
        return false;
    }
    ok = pagemap_walk_scan(walker, (uint8_t *)pages, 3 * PAGE, false, probe_note, &seen, errp);
    munmap((void *)pages, 3 * PAGE);
    if (ok && (seen.data != PAGE || seen.zero != PAGE)) {
        error_set(errp, "PAGEMAP_SCAN gives wrong answers on this host");
        return false;
    }
    return ok;
}

bool pagemap_probe_kpageflags(PagemapWalker *walker, GError **errp)
{
    volatile uint8_t *pages;
    ProbeSeen seen = { 0 };
    uint64_t entry = 0;
    bool ok;

    walker->kpageflags_fd = open("/proc/kpageflags", O_RDONLY | O_CLOEXEC);
    if (walker->kpageflags_fd < 0) {
        error_set_errno(errp, errno, "Cannot open /proc/kpageflags");
        return false;
    }
    pages = probe_pages(errp);
    if (!pages) {
        return false;
    }
    ok = read_entries(walker, &entry, (uintptr_t)pages + PAGE, 1, errp);
    if (ok && (entry & PAGEMAP_PFN_MASK) == 0) {
        error_set(errp, "/proc/self/pagemap hides page frames: CAP_SYS_ADMIN is needed");
        ok = false;
    }
    ok = ok && pagemap_walk_kpageflags(walker, (uint8_t *)pages, 3 * PAGE, false, probe_note, &seen,
                                       errp);
    munmap((void *)pages, 3 * PAGE);
    if (ok && (seen.data != PAGE || seen.zero != PAGE)) {
        error_set(errp, "/proc/kpageflags gives wrong answers on this host");
        return false;
    }
    return ok;
}

void pagemap_probe_zero_pfn(PagemapWalker *walker)
{
    volatile uint8_t *pages = probe_pages(NULL);
    uint64_t entry = 0;

    walker->zero_pfn = 0;
    if (!pages) {
        return;
    }
    if (read_entries(walker, &entry, (uintptr_t)pages + 2 * PAGE, 1, NULL) &&
        entry & PAGEMAP_PRESENT && !(entry & PAGEMAP_FILE)) {
        walker->zero_pfn = entry & PAGEMAP_PFN_MASK;
    }
    munmap((void *)pages, 3 * PAGE);
}
