/*
 * Which pages of a RAM block must be saved.
 *
 *     data page = (present or swapped) and not file-backed
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MEMORY_PAGEMAP_H
#define COWBIRD_MEMORY_PAGEMAP_H

#include "memory/ram-block.h"

typedef enum PageKind {
    PAGE_DATA,      /* contents must be written */
    PAGE_ZERO,      /* all bytes are zero, whatever the parent snapshot has there */
    PAGE_UNCHANGED, /* the mapped snapshot has the contents (RAM_FILE_PRIVATE blocks only) */
} PageKind;

/* In bytes, page-aligned, relative to the block. */
typedef struct PageRange {
    uint64_t offset;
    uint64_t length;
    PageKind kind;
} PageRange;

/* How the host is asked. The values are those of the QAPI enum RamScan. */
typedef enum PagemapPath {
    PAGEMAP_AUTO,
    PAGEMAP_SCAN_IOCTL,
    PAGEMAP_BIT61,
    PAGEMAP_KPAGEFLAGS,
} PagemapPath;

/* In pages of 4 KiB. A swapped page is a data page too. */
typedef struct PagemapStats {
    uint64_t data_pages;
    uint64_t zero_pages;
    uint64_t unchanged_pages;
    uint64_t swapped_pages;
    uint64_t scan_time_us;
} PagemapStats;

typedef struct PagemapScanner PagemapScanner;

/*
 * Open /proc/self/pagemap, before any privilege is dropped, and choose the way; logs it once per
 * process. A way that is asked for and cannot work is an error.
 */
PagemapScanner *pagemap_scanner_new(PagemapPath path, GError **errp);
/* The same without a word in the log, for those who do not save: the best way that works. */
PagemapScanner *pagemap_scanner_new_quiet(GError **errp);
void pagemap_scanner_free(PagemapScanner *scanner);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PagemapScanner, pagemap_scanner_free)

/* The way in use: "scan", "bit61" or "kpageflags". */
const char *pagemap_scanner_name(const PagemapScanner *scanner);

/* False from @fn ends the scan, which then returns false without an error. */
typedef bool (*PageRangeFunc)(const PageRange *range, void *opaque);

/*
 * One pass over a block: @fn is told data and zero ranges in ascending order, neighbours of one kind
 * merged; what lies between is unchanged (only in RAM_FILE_PRIVATE blocks: in all others the ranges
 * cover the block). @fn runs with the block's layout locked: it neither waits for I/O nor maps memory
 * of the block. No vCPU may run and no I/O be under way, or pages change behind the scan. @ret_stats
 * may be NULL; it is added to, so that several blocks sum up.
 */
bool pagemap_scan_block(PagemapScanner *scanner, RamBlock *block, PageRangeFunc fn, void *opaque,
                        PagemapStats *ret_stats, GError **errp);

/*
 * The same on any private mapping of this process, data pages only: used by detach and by reports.
 * @host page-aligned.
 */
bool pagemap_scan_private(PagemapScanner *scanner, const void *host, uint64_t length,
                          PageRangeFunc fn, void *opaque, PagemapStats *ret_stats, GError **errp);

/* Pages of 4 KiB now resident (in memory) in a block, file pages too; for query-ram-restore. */
bool pagemap_count_resident(PagemapScanner *scanner, RamBlock *block, uint64_t *ret_pages,
                            GError **errp);

#endif
