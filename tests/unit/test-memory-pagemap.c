/*
 * Which pages must be saved: every way to ask the host against an oracle that compares bytes.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/chunk-map.h"
#include "memory/discard.h"
#include "memory/pagemap.h"
#include "tests/unit/memory-fixture.h"
#include "util/kernel-uapi.h"

#include <sys/prctl.h>
#include <sys/swap.h>

#define RAM_BYTES (24 * MiB)
#define PAGES(size) ((size) / FIXTURE_PAGE)

static const struct {
    PagemapPath path;
    const char *name;
} ways[] = {
    { PAGEMAP_SCAN_IOCTL, "scan" },
    { PAGEMAP_BIT61, "bit61" },
    { PAGEMAP_KPAGEFLAGS, "kpageflags" },
};

static PagemapScanner *scanner_or_skip(unsigned way)
{
    g_autoptr(GError) err = NULL;
    PagemapScanner *scanner = pagemap_scanner_new(ways[way].path, &err);

    if (!scanner) {
        g_test_message("SKIPPED way %s: %s", ways[way].name, err->message);
    }
    return scanner;
}

/* --- The answer as one byte a page --- */

typedef struct Answer {
    uint8_t *kinds; /* PageKind + 1; 0 = not told */
    uint64_t end;   /* of the last range */
} Answer;

static bool note_range(const PageRange *range, void *opaque)
{
    Answer *answer = opaque;

    g_assert_cmpuint(range->offset, >=, answer->end);
    g_assert_cmpuint(range->length, >, 0);
    for (uint64_t at = 0; at < range->length; at += FIXTURE_PAGE) {
        answer->kinds[PAGES(range->offset + at)] = range->kind + 1;
    }
    answer->end = range->offset + range->length;
    return true;
}

static uint8_t *scan(PagemapScanner *scanner, RamBlock *block, PagemapStats *stats)
{
    Answer answer = { .kinds = g_malloc0(PAGES(block->size)) };
    g_autoptr(GError) err = NULL;

    pagemap_scan_block(scanner, block, note_range, &answer, stats, &err);
    g_assert_no_error(err);
    return answer.kinds;
}

/*
 * What each page must be called, by its bytes alone: equal to the file, zero, or data. A page in a
 * released chunk is never "unchanged".
 */
static uint8_t *oracle(const Fixture *f, const RamBlock *block)
{
    uint8_t *kinds = g_malloc0(PAGES(block->size));
    uint8_t page[FIXTURE_PAGE];
    int fd = open(f->path, O_RDONLY | O_CLOEXEC);

    for (uint64_t at = 0; at < block->size; at += FIXTURE_PAGE) {
        const uint8_t *now = block->host + at;
        bool released = chunk_map_test(block->released, at >> RAM_CHUNK_SHIFT);

        g_assert_cmpint(pread(fd, page, FIXTURE_PAGE, f->offset + at), ==, FIXTURE_PAGE);
        if (!released && memcmp(now, page, FIXTURE_PAGE) == 0) {
            continue;
        }
        kinds[PAGES(at)] = (fixture_is_zero(now) ? PAGE_ZERO : PAGE_DATA) + 1;
    }
    close(fd);
    return kinds;
}

static void compare(const char *way, const uint8_t *got, const uint8_t *want, uint64_t pages)
{
    for (uint64_t i = 0; i < pages; i++) {
        if (got[i] != want[i]) {
            g_error("%s: page %" G_GUINT64_FORMAT " is called %d, and is %d", way, i, got[i] - 1,
                    want[i] - 1);
        }
    }
}

/* All ways that work here, then the oracle: it comes last, since it reads every page. */
static void check_all_ways(Fixture *f)
{
    uint64_t pages = PAGES(f->block->size);
    g_autofree uint8_t *want = NULL;
    g_autofree uint8_t *answers[G_N_ELEMENTS(ways)] = { NULL };
    PagemapStats stats[G_N_ELEMENTS(ways)] = { 0 };

    for (unsigned way = 0; way < G_N_ELEMENTS(ways); way++) {
        g_autoptr(PagemapScanner) scanner = scanner_or_skip(way);

        if (scanner) {
            g_assert_cmpstr(pagemap_scanner_name(scanner), ==, ways[way].name);
            answers[way] = scan(scanner, f->block, &stats[way]);
            g_assert_cmpuint(stats[way].data_pages + stats[way].zero_pages +
                                 stats[way].unchanged_pages,
                             ==, pages);
        }
    }
    want = oracle(f, f->block);
    for (unsigned way = 0; way < G_N_ELEMENTS(ways); way++) {
        if (answers[way]) {
            compare(ways[way].name, answers[way], want, pages);
        }
        g_free(g_steal_pointer(&answers[way]));
    }
}

static void write_page(Fixture *f, uint64_t number)
{
    fixture_stamp(f->block->host + number * FIXTURE_PAGE, number, 2);
}

static void write_some(Fixture *f)
{
    for (uint64_t i = 0; i < PAGES(f->block->size); i += 7) {
        write_page(f, i);
    }
    for (uint64_t i = 1000; i < 1300; i++) {
        write_page(f, i);
    }
}

static void read_all(const RamBlock *block)
{
    for (uint64_t at = 0; at < block->size; at += FIXTURE_PAGE) {
        (void)*(volatile uint8_t *)(block->host + at);
    }
}

/* --- Tests --- */

static void test_written_and_read(void)
{
    Fixture f = { 0 };

    fixture_init(&f, NULL, RAM_BYTES);
    check_all_ways(&f);
    read_all(f.block);
    check_all_ways(&f);
    write_some(&f);
    check_all_ways(&f);
    fixture_clear(&f);
}

/* T14: bit 56 says "not exclusive" of pages shared with a child; they are data all the same. */
static void t14_fork_child(void)
{
    Fixture f = { 0 };
    int pipe_fds[2];
    char byte = 0;
    pid_t child;

    fixture_init(&f, NULL, RAM_BYTES);
    write_some(&f);
    /* A block is kept out of children; here one shall share its pages. */
    g_assert_cmpint(madvise(f.block->host, f.block->size, MADV_DOFORK), ==, 0);
    g_assert_cmpint(pipe(pipe_fds), ==, 0);
    child = fork();
    if (child == 0) {
        close(pipe_fds[1]);
        _exit(read(pipe_fds[0], &byte, 1) != 0);
    }
    close(pipe_fds[0]);
    check_all_ways(&f);
    close(pipe_fds[1]);
    g_assert_cmpint(waitpid(child, NULL, 0), ==, child);
    fixture_clear(&f);
}

/* A swap file for the time of a test; NULL = cannot be had here. */
static char *swap_on(void)
{
    g_autofree char *path = NULL;
    g_autofree char *command = NULL;
    int fd = fixture_file("/var/tmp", 0, &path);

    g_assert_cmpint(fallocate(fd, 0, 0, 128 * MiB), ==, 0);
    close(fd);
    command = g_strdup_printf("PATH=$PATH:/sbin:/usr/sbin mkswap %s >/dev/null 2>&1", path);
    if (system(command) != 0 || swapon(path, 0) < 0) {
        g_test_message("SKIPPED: no swap file: %s", g_strerror(errno));
        unlink(path);
        return NULL;
    }
    return g_steal_pointer(&path);
}

static void swap_off(char *path)
{
    g_assert_cmpint(swapoff(path), ==, 0);
    unlink(path);
    g_free(path);
}

/* T15: a page in swap is a data page, and is counted. */
static void t15_swapped_pages_are_data(void)
{
    Fixture f = { 0 };
    char *swap = swap_on();
    PagemapStats stats = { 0 };
    g_autoptr(PagemapScanner) scanner = pagemap_scanner_new(PAGEMAP_AUTO, NULL);

    if (!swap) {
        g_test_skip("no swap file can be set up here");
        return;
    }
    fixture_init(&f, NULL, RAM_BYTES);
    write_some(&f);
    g_assert_cmpint(madvise(f.block->host, f.block->size / 2, MADV_PAGEOUT), ==, 0);
    g_free(scan(scanner, f.block, &stats));
    g_test_message("%" G_GUINT64_FORMAT " pages are in swap", stats.swapped_pages);
    g_assert_cmpuint(stats.swapped_pages, >, 100);
    check_all_ways(&f);
    /* Read back in: still data. */
    read_all(f.block);
    check_all_ways(&f);
    fixture_clear(&f);
    swap_off(swap);
}

static bool write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0) {
        close(fd);
    }
    return ok;
}

static uint64_t read_number(const char *path)
{
    g_autofree char *text = NULL;

    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    return g_ascii_strtoull(text, NULL, 10);
}

#define KSM "/sys/kernel/mm/ksm/"

typedef struct KsmSettings {
    char *run, *zero, *sleep, *pages;
} KsmSettings;

static void ksm_set(const char *run, const char *zero, const char *sleep, const char *pages)
{
    write_file(KSM "use_zero_pages", zero);
    write_file(KSM "sleep_millisecs", sleep);
    write_file(KSM "pages_to_scan", pages);
    write_file(KSM "run", run);
}

static bool ksm_on(KsmSettings *before)
{
    if (!g_file_get_contents(KSM "run", &before->run, NULL, NULL) ||
        !write_file(KSM "run", before->run)) {
        return false;
    }
    g_file_get_contents(KSM "use_zero_pages", &before->zero, NULL, NULL);
    g_file_get_contents(KSM "sleep_millisecs", &before->sleep, NULL, NULL);
    g_file_get_contents(KSM "pages_to_scan", &before->pages, NULL, NULL);
    ksm_set("1", "1", "0", "100000");
    return true;
}

static void ksm_off(KsmSettings *before)
{
    ksm_set("2", "0", before->sleep, before->pages);
    ksm_set(before->run, before->zero, before->sleep, before->pages);
    g_free(before->run);
    g_free(before->zero);
    g_free(before->sleep);
    g_free(before->pages);
}

/* T16: merged pages are anonymous; zeros merged into the page of zeros are zero. */
static void t16_ksm_pages_are_data(void)
{
    Fixture f = { 0 };
    KsmSettings before = { 0 };
    uint64_t scans, end;

    if (!ksm_on(&before)) {
        g_test_skip("KSM cannot be run here");
        return;
    }
    fixture_init(&f, NULL, RAM_BYTES);
    for (uint64_t i = 0; i < 2000; i++) {
        fixture_stamp(f.block->host + i * FIXTURE_PAGE, 7, 3);
    }
    memset(f.block->host + 3000 * FIXTURE_PAGE, 0, 1000 * FIXTURE_PAGE);
    g_assert_cmpint(madvise(f.block->host, f.block->size, MADV_MERGEABLE), ==, 0);
    scans = read_number(KSM "full_scans");
    end = g_get_monotonic_time() + 20 * G_USEC_PER_SEC;
    while (read_number(KSM "full_scans") < scans + 4 && (uint64_t)g_get_monotonic_time() < end) {
        g_usleep(10000);
    }
    g_test_message("%" G_GUINT64_FORMAT " pages merged", read_number(KSM "pages_sharing"));
    g_assert_cmpuint(read_number(KSM "pages_sharing"), >, 1000);
    check_all_ways(&f);
    ksm_off(&before);
    fixture_clear(&f);
}

static void release(Fixture *f, uint64_t chunk, uint64_t n)
{
    g_autoptr(GError) err = NULL;
    bool done = false;

    discard_remap_chunks(f->block, chunk, n, &done, &err);
    g_assert_no_error(err);
    g_assert_true(done);
}

/* T05: what is not data in a released chunk is zero, untouched or read or written. */
static void t05_released_chunk_is_zero(void)
{
    Fixture f = { 0 };

    fixture_init(&f, NULL, RAM_BYTES);
    write_some(&f);
    release(&f, 2, 3);
    check_all_ways(&f);
    (void)*(volatile uint8_t *)(f.block->host + 2 * RAM_CHUNK_SIZE + 5 * FIXTURE_PAGE);
    write_page(&f, PAGES(3 * RAM_CHUNK_SIZE) + 3);
    check_all_ways(&f);
    fixture_clear(&f);
}

/* T06: the huge page of zeros carries the bit of a file page. */
static void t06_huge_zero_page(void)
{
    Fixture f = { 0 };

    fixture_init(&f, NULL, RAM_BYTES);
    release(&f, 1, 2);
    if (madvise(f.block->host + RAM_CHUNK_SIZE, 2 * RAM_CHUNK_SIZE, MADV_HUGEPAGE) < 0) {
        g_test_skip("this kernel has no transparent huge pages");
    } else {
        (void)*(volatile uint8_t *)(f.block->host + RAM_CHUNK_SIZE);
        check_all_ways(&f);
    }
    fixture_clear(&f);
}

/* A huge page in a released chunk: all of it is present, so all of it counts as data. */
static void test_huge_page_in_released_chunk(void)
{
    Fixture f = { 0 };
    uint64_t first = PAGES(RAM_CHUNK_SIZE);

    fixture_init(&f, NULL, RAM_BYTES);
    release(&f, 1, 1);
    if (madvise(f.block->host + RAM_CHUNK_SIZE, RAM_CHUNK_SIZE, MADV_HUGEPAGE) < 0) {
        g_test_skip("this kernel has no transparent huge pages");
        fixture_clear(&f);
        return;
    }
    for (uint64_t i = 0; i < PAGES(RAM_CHUNK_SIZE); i++) {
        write_page(&f, first + i);
    }
    check_all_ways(&f);
    fixture_clear(&f);
}

/* T18: with more than 512 runs in one pass no range is told twice. */
static void t18_many_ranges_once(void)
{
    Fixture f = { 0 };

    fixture_init(&f, NULL, RAM_BYTES);
    for (uint64_t i = 0; i < PAGES(RAM_BYTES); i += 2) {
        write_page(&f, i);
    }
    check_all_ways(&f);
    fixture_clear(&f);
}

/* A written page that was dropped again shows the file. */
static void test_dropped_page_is_unchanged(void)
{
    Fixture f = { 0 };

    fixture_init(&f, NULL, RAM_BYTES);
    write_some(&f);
    g_assert_cmpint(madvise(f.block->host, MiB, MADV_DONTNEED), ==, 0);
    check_all_ways(&f);
    fixture_clear(&f);
}

/* --- Other kinds of blocks --- */

static void expect_kinds(RamBlock *block, const uint64_t *data, unsigned n)
{
    for (unsigned way = 0; way < G_N_ELEMENTS(ways); way++) {
        g_autoptr(PagemapScanner) scanner = scanner_or_skip(way);
        g_autofree uint8_t *kinds = scanner ? scan(scanner, block, NULL) : NULL;

        for (uint64_t i = 0; kinds && i < PAGES(block->size); i++) {
            bool is_data = false;

            for (unsigned k = 0; k < n; k++) {
                is_data |= data[k] == i;
            }
            g_assert_cmpuint(kinds[i], ==, (is_data ? PAGE_DATA : PAGE_ZERO) + 1);
        }
    }
}

static void test_anonymous_block(void)
{
    static const uint64_t data[] = { 0, 5, 700, 2047 };
    RamBlock *block = ram_block_new_anonymous("pc.ram", 8 * MiB, NULL);

    for (unsigned i = 0; i < G_N_ELEMENTS(data); i++) {
        block->host[data[i] * FIXTURE_PAGE] = 1;
    }
    (void)*(volatile uint8_t *)(block->host + 100 * FIXTURE_PAGE);
    expect_kinds(block, data, G_N_ELEMENTS(data));
    ram_block_free(block);
}

/* The page table of this process does not know what others have written to shared memory. */
static void test_shared_block(void)
{
    static const uint64_t data[] = { 3, 4, 1000 };
    int fd = memfd_create("shared", MFD_CLOEXEC);
    RamBlock *block;
    void *host;

    g_assert_cmpint(ftruncate(fd, 8 * MiB), ==, 0);
    host = mmap(NULL, 8 * MiB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    block = ram_block_new_from_mapping("shared", host, 8 * MiB, RAM_SHARED, fd);
    for (unsigned i = 0; i < G_N_ELEMENTS(data); i++) {
        fixture_write_page(fd, data[i] * FIXTURE_PAGE, i, 1);
    }
    expect_kinds(block, data, G_N_ELEMENTS(data));
    ram_block_free(block);
}

/* A private mapping of the user's file: what the file has, and what was written. */
static void test_backend_file_block(void)
{
    static const uint64_t data[] = { 3, 4, 1000, 1500 };
    g_autofree char *path = NULL;
    int fd = fixture_file(NULL, 8 * MiB, &path);
    void *host = mmap(NULL, 8 * MiB, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    RamBlock *block = ram_block_new_from_mapping("file", host, 8 * MiB, RAM_BACKEND_FILE, fd);

    for (unsigned i = 0; i < 3; i++) {
        fixture_write_page(fd, data[i] * FIXTURE_PAGE, i, 1);
    }
    block->host[1500 * FIXTURE_PAGE] = 1;
    expect_kinds(block, data, G_N_ELEMENTS(data));
    ram_block_free(block);
    unlink(path);
}

/* Blocks of 3, 4 and 5 GiB, the size at which guests get a hole; scanned by block offset. */
static void t21_sparse_large_blocks(void)
{
    for (uint64_t gib = 3; gib <= 5; gib++) {
        Fixture f = { .offset = MiB };
        uint64_t size = gib * GiB, seen = 0;
        GError *err = NULL;

        f.fd = fixture_file(NULL, f.offset + size, &f.path);
        close(f.fd);
        fixture_new_block(&f, size);
        fixture_open_base(&f);
        fixture_restore(&f, RESTORE_COPY_ON_WRITE, &err);
        g_assert_no_error(err);
        for (uint64_t at = 0; at < size; at += 256 * MiB) {
            f.block->host[at + 4095] = 1;
            seen++;
        }
        f.block->host[size - 1] = 1;
        seen++;
        for (unsigned way = 0; way < G_N_ELEMENTS(ways); way++) {
            g_autoptr(PagemapScanner) scanner = scanner_or_skip(way);
            g_autofree uint8_t *kinds = NULL;
            PagemapStats stats = { 0 };

            if (!scanner) {
                continue;
            }
            kinds = scan(scanner, f.block, &stats);
            g_assert_cmpuint(stats.data_pages, ==, seen);
            g_assert_cmpuint(kinds[PAGES(size) - 1], ==, PAGE_DATA + 1);
            for (uint64_t at = 0; at < size; at += 256 * MiB) {
                g_assert_cmpuint(kinds[PAGES(at)], ==, PAGE_DATA + 1);
            }
        }
        fixture_clear(&f);
    }
}

/* Pages written at random in 4 GiB, alone and in runs: exactly these are told. */
static void test_random_sparse(void)
{
    Fixture f = { .offset = MiB };
    uint64_t size = 4 * GiB;
    g_autofree uint8_t *want = g_malloc0(PAGES(size));
    GError *err = NULL;

    f.fd = fixture_file(NULL, f.offset + size, &f.path);
    close(f.fd);
    fixture_new_block(&f, size);
    fixture_open_base(&f);
    fixture_restore(&f, RESTORE_COPY_ON_WRITE, &err);
    g_assert_no_error(err);
    for (unsigned i = 0; i < 3000; i++) {
        uint64_t page = g_test_rand_int_range(0, PAGES(size));
        unsigned run = g_test_rand_int_range(1, 20);

        for (uint64_t k = page; k < MIN(page + run, PAGES(size)); k++) {
            f.block->host[k * FIXTURE_PAGE] = 1;
            want[k] = PAGE_DATA + 1;
        }
    }
    for (unsigned way = 0; way < G_N_ELEMENTS(ways); way++) {
        g_autoptr(PagemapScanner) scanner = scanner_or_skip(way);
        g_autofree uint8_t *kinds = scanner ? scan(scanner, f.block, NULL) : NULL;

        if (kinds) {
            compare(ways[way].name, kinds, want, PAGES(size));
        }
    }
    fixture_clear(&f);
}

/* A way that is asked for and cannot work is an error, in a process that may not see page frames. */
static void test_forced_way_fails(void)
{
    if (g_test_subprocess()) {
        g_autoptr(GError) err = NULL;

        /* The dumpable flag goes with the user id; without it /proc/self belongs to root. */
        g_assert_cmpint(setgid(65534), ==, 0);
        g_assert_cmpint(setuid(65534), ==, 0);
        g_assert_cmpint(prctl(PR_SET_DUMPABLE, 1), ==, 0);
        g_assert_null(pagemap_scanner_new(PAGEMAP_KPAGEFLAGS, &err));
        g_assert_nonnull(strstr(err->message, "ram-scan=kpageflags"));
        return;
    }
    if (geteuid() != 0) {
        g_test_skip("must be root to become somebody else");
        return;
    }
    g_test_trap_subprocess(NULL, 0, 0);
    g_test_trap_assert_passed();
}

static bool stop_at_once(const PageRange *range, void *opaque)
{
    (*(unsigned *)opaque)++;
    return false;
}

static void test_callback_can_stop(void)
{
    RamBlock *block = ram_block_new_anonymous("pc.ram", 8 * MiB, NULL);
    g_autoptr(PagemapScanner) scanner = pagemap_scanner_new(PAGEMAP_AUTO, NULL);
    g_autoptr(GError) err = NULL;
    unsigned calls = 0;

    block->host[MiB] = 1;
    g_assert_false(pagemap_scan_block(scanner, block, stop_at_once, &calls, NULL, &err));
    g_assert_no_error(err);
    g_assert_cmpuint(calls, ==, 1);
    ram_block_free(block);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/memory/pagemap/written-and-read", test_written_and_read);
    g_test_add_func("/memory/pagemap/t05_released_chunk_is_zero", t05_released_chunk_is_zero);
    g_test_add_func("/memory/pagemap/t06_huge_zero_page", t06_huge_zero_page);
    g_test_add_func("/memory/pagemap/huge-page", test_huge_page_in_released_chunk);
    g_test_add_func("/memory/pagemap/t14_fork_child", t14_fork_child);
    g_test_add_func("/memory/pagemap/t15_swapped_pages_are_data", t15_swapped_pages_are_data);
    g_test_add_func("/memory/pagemap/t16_ksm_pages_are_data", t16_ksm_pages_are_data);
    g_test_add_func("/memory/pagemap/t18_many_ranges_once", t18_many_ranges_once);
    g_test_add_func("/memory/pagemap/t21_sparse_large_blocks", t21_sparse_large_blocks);
    g_test_add_func("/memory/pagemap/random-sparse", test_random_sparse);
    g_test_add_func("/memory/pagemap/dropped-page", test_dropped_page_is_unchanged);
    g_test_add_func("/memory/pagemap/anonymous", test_anonymous_block);
    g_test_add_func("/memory/pagemap/shared", test_shared_block);
    g_test_add_func("/memory/pagemap/backend-file", test_backend_file_block);
    g_test_add_func("/memory/pagemap/forced-way-fails", test_forced_way_fails);
    g_test_add_func("/memory/pagemap/callback-can-stop", test_callback_can_stop);
    return g_test_run();
}
