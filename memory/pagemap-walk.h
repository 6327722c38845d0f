/*
 * The three ways to learn from the host which pages of a mapping are present, swapped or zero.
 * Internal to memory/.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MEMORY_PAGEMAP_WALK_H
#define COWBIRD_MEMORY_PAGEMAP_WALK_H

#include "memory/pagemap.h"
#include "util/kernel-uapi.h"

#include <stddef.h>

/*
 * With more than 512 elements the ioctl can leave walk_end at an earlier place than it has reported
 * (seen on 6.12 and 6.18), and a caller that goes on from there is given ranges twice.
 */
#define WALK_REGIONS 512
/* Entries of 8 bytes read at a time: 128 MiB of address space; the buffer fits a level 2 cache. */
#define WALK_ENTRIES 32768

typedef enum WalkPage {
    WALK_NONE, /* not present, or a page of the file */
    WALK_DATA,
    WALK_SWAPPED, /* a data page that is in swap */
    WALK_ZERO,    /* the kernel's page of zeros */
} WalkPage;

/* One run of pages that are not WALK_NONE, in bytes from the start of the walk. */
typedef bool (*WalkFunc)(uint64_t start, uint64_t end, WalkPage page, void *opaque);

typedef struct PagemapWalker {
    int pagemap_fd;
    int kpageflags_fd; /* -1 unless that way is used */
    uint64_t zero_pfn; /* frame of the page of zeros; 0 = frames are hidden from us */
    struct page_region regions[WALK_REGIONS];
    uint64_t entries[WALK_ENTRIES];
    uint64_t entries_again[WALK_ENTRIES];
    uint64_t flags[WALK_ENTRIES];
} PagemapWalker;

/*
 * Walks call @fn for ascending runs in [host, host + length), page-aligned; runs of one kind may come
 * in pieces. With @file_pages pages of files count as data (memory of hugetlbfs, whose private pages
 * carry the bit of a file too). False from @fn ends a walk with false and no error.
 */
bool pagemap_walk_scan(PagemapWalker *walker, const uint8_t *host, uint64_t length, bool file_pages,
                       WalkFunc fn, void *opaque, GError **errp);
bool pagemap_walk_bit61(PagemapWalker *walker, const uint8_t *host, uint64_t length,
                        bool file_pages, WalkFunc fn, void *opaque, GError **errp);
bool pagemap_walk_kpageflags(PagemapWalker *walker, const uint8_t *host, uint64_t length,
                             bool file_pages, WalkFunc fn, void *opaque, GError **errp);

/* Find out whether a way works here, by trying it on memory of our own; the error says why not. */
bool pagemap_probe_scan(PagemapWalker *walker, GError **errp);
bool pagemap_probe_kpageflags(PagemapWalker *walker, GError **errp);
/* Learn zero_pfn; leaves 0 without CAP_SYS_ADMIN. */
void pagemap_probe_zero_pfn(PagemapWalker *walker);

#endif
