/*
 * Times the page scanner of memory/ against its own other ways and against a bare loop of PAGEMAP_SCAN, on a private
 * mapping of a file, as a guest restored copy-on-write has.
 *
 *     scan-times FILE MIB TOUCHED ROUNDS WAY...
 *
 * FILE becomes MIB large. TOUCHED is "tenth" (all pages mapped, every tenth written) or a number of pages written, the
 * others not even mapped. WAY: auto, scan, bit61, kpageflags, floor. One line "WAY MICROSECONDS" a round and
 * way, in turn.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/pagemap.h"
#include "util/kernel-uapi.h"
#include "util/units.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE UINT64_C(4096)
#define REGIONS 512
#define WAYS_MAX 8

typedef struct Way {
    const char *name;
    PagemapScanner *scanner; /* NULL: the bare loop */
} Way;

static void die(const char *what, GError *err)
{
    fprintf(stderr, "%s: %s\n", what, err ? err->message : g_strerror(errno));
    exit(1);
}

static RamBlock *map_file(const char *path, uint64_t size)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *host;

    if (fd < 0 || ftruncate(fd, size) < 0) {
        die(path, NULL);
    }
    host = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, 0);
    if (host == MAP_FAILED) {
        die("mmap", NULL);
    }
    close(fd);
    return ram_block_new_from_mapping("ram", host, size, RAM_FILE_PRIVATE, -1);
}

static uint64_t touch(RamBlock *block, const char *touched)
{
    volatile uint8_t *host = block->host;
    uint64_t pages = block->size / PAGE, written = 0;
    bool tenth = strcmp(touched, "tenth") == 0;
    uint64_t step = tenth ? 10 : pages / strtoull(touched, NULL, 0);

    for (uint64_t i = 0; tenth && i < pages; i++) {
        (void)host[i * PAGE];
    }
    for (uint64_t i = 0; i + step <= pages; i += step, written++) {
        host[i * PAGE] = 1;
    }
    return written;
}

static bool count_range(const PageRange *range, void *opaque)
{
    uint64_t *pages = opaque;

    *pages += range->kind == PAGE_DATA ? range->length / PAGE : 0;
    return true;
}

static uint64_t scan_with(PagemapScanner *scanner, RamBlock *block)
{
    g_autoptr(GError) err = NULL;
    uint64_t pages = 0;

    if (!pagemap_scan_block(scanner, block, count_range, &pages, NULL, &err)) {
        die("scan", err);
    }
    return pages;
}

/* The system calls alone, and a sum over what they return. */
static uint64_t scan_bare(RamBlock *block)
{
    static struct page_region regions[REGIONS];
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    uint64_t pages = 0;
    struct pm_scan_arg arg = {
        .size = sizeof(arg),
        .start = (uintptr_t)block->host,
        .end = (uintptr_t)block->host + block->size,
        .vec = (uintptr_t)regions,
        .vec_len = REGIONS,
        .category_inverted = PAGE_IS_FILE,
        .category_mask = PAGE_IS_FILE,
        .category_anyof_mask = PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
        .return_mask = PAGE_IS_PRESENT,
    };

    while (arg.start < arg.end) {
        int n = ioctl(fd, PAGEMAP_SCAN, &arg);

        if (n < 0) {
            die("PAGEMAP_SCAN", NULL);
        }
        for (int i = 0; i < n; i++) {
            pages += (regions[i].end - regions[i].start) / PAGE;
        }
        arg.start = arg.walk_end;
    }
    close(fd);
    return pages;
}

static Way way_new(const char *name)
{
    static const char *const names[] = { "auto", "scan", "bit61", "kpageflags" };
    g_autoptr(GError) err = NULL;
    Way way = { .name = name };

    for (unsigned i = 0; i < G_N_ELEMENTS(names); i++) {
        if (strcmp(name, names[i]) == 0) {
            way.scanner = pagemap_scanner_new(PAGEMAP_AUTO + i, &err);
            if (!way.scanner) {
                die(name, err);
            }
        }
    }
    return way;
}

static void time_way(const Way *way, RamBlock *block, uint64_t expected)
{
    int64_t start = g_get_monotonic_time();
    uint64_t pages = way->scanner ? scan_with(way->scanner, block) : scan_bare(block);
    int64_t took = g_get_monotonic_time() - start;

    if (pages != expected) {
        fprintf(stderr, "%s found %" G_GUINT64_FORMAT " pages of %" G_GUINT64_FORMAT "\n",
                way->name, pages, expected);
        exit(1);
    }
    printf("%s %" G_GINT64_FORMAT "\n", way->name, took);
}

int main(int argc, char **argv)
{
    Way ways[WAYS_MAX];
    unsigned n = 0, rounds;
    RamBlock *block;
    uint64_t written;

    if (argc < 6 || argc - 5 > WAYS_MAX) {
        fputs("usage: scan-times FILE MIB TOUCHED ROUNDS WAY...\n", stderr);
        return 2;
    }
    block = map_file(argv[1], strtoull(argv[2], NULL, 0) * MiB);
    written = touch(block, argv[3]);
    rounds = atoi(argv[4]);
    for (int i = 5; i < argc; i++) {
        ways[n++] = way_new(argv[i]);
    }
    for (unsigned round = 0; round < rounds; round++) {
        for (unsigned i = 0; i < n; i++) {
            time_way(&ways[i], block, written);
        }
    }
    for (unsigned i = 0; i < n; i++) {
        pagemap_scanner_free(ways[i].scanner);
    }
    ram_block_free(block);
    return 0;
}
