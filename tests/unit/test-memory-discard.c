/*
 * Pages given back to the host, for each kind of block, and the failures of it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/discard.h"
#include "memory/pagemap.h"
#include "tests/unit/memory-fixture.h"

#include <sys/syscall.h>

#define RAM_BYTES (16 * MiB)
#define CHUNK RAM_CHUNK_SIZE

/* --- Fault injection: this program's mmap64 takes the place of libc's --- */

static struct {
    unsigned skip;   /* calls with MAP_FIXED that still succeed */
    unsigned fail;   /* calls after them that fail */
    bool leave_hole; /* as kernels before 6.12 do with vm.overcommit_memory=2 */
} fault;

static bool must_fail(int flags)
{
    if (!(flags & MAP_FIXED) || fault.fail == 0) {
        return false;
    }
    if (fault.skip > 0) {
        fault.skip--;
        return false;
    }
    fault.fail--;
    return true;
}

void *mmap64(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
    if (must_fail(flags)) {
        if (fault.leave_hole) {
            munmap(addr, len);
        }
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return (void *)syscall(SYS_mmap, addr, len, prot, flags, fd, offset);
}

/* --- Helpers --- */

static DiscardResult discard(Fixture *f, uint64_t offset, uint64_t length,
                             const DiscardRequest *request)
{
    g_autoptr(GError) err = NULL;
    DiscardResult result;

    g_assert_true(discard_range(f->block, offset, length, request, &result, &err));
    g_assert_no_error(err);
    return result;
}

static bool page_is_zero(const Fixture *f, uint64_t offset)
{
    return fixture_is_zero(f->block->host + offset);
}

static bool page_is_snapshot(const Fixture *f, uint64_t offset)
{
    return fixture_is_stamped(f->block->host + offset, offset / FIXTURE_PAGE, 1);
}

static void write_page(Fixture *f, uint64_t offset)
{
    fixture_stamp(f->block->host + offset, offset / FIXTURE_PAGE, 2);
}

static bool page_is_written(const Fixture *f, uint64_t offset)
{
    return fixture_is_stamped(f->block->host + offset, offset / FIXTURE_PAGE, 2);
}

/* --- Copy-on-write blocks --- */

/* T01: a reported chunk never shows bytes of the snapshot again. */
static void t01_no_old_bytes_after_release(void)
{
    Fixture f = { 0 };
    DiscardRequest reported = { .why = DISCARD_REPORTED };
    DiscardResult result;

    fixture_init(&f, NULL, RAM_BYTES);
    write_page(&f, 2 * CHUNK);
    result = discard(&f, 2 * CHUNK, 2 * CHUNK, &reported);
    g_assert_cmpuint(result.released, ==, 2 * CHUNK);
    g_assert_cmpuint(result.remapped, ==, 2 * CHUNK);
    for (uint64_t at = 2 * CHUNK; at < 4 * CHUNK; at += FIXTURE_PAGE) {
        g_assert_true(page_is_zero(&f, at));
    }
    g_assert_true(page_is_snapshot(&f, 2 * CHUNK - FIXTURE_PAGE));
    g_assert_true(page_is_snapshot(&f, 4 * CHUNK));
    g_assert_cmpuint(chunk_map_count(f.block->released), ==, 2);
    fixture_clear(&f);
}

/* Less than a chunk, reported: only an offer, left alone. */
static void t01_reported_pieces_are_left_alone(void)
{
    Fixture f = { 0 };
    DiscardRequest reported = { .why = DISCARD_REPORTED };
    DiscardResult result;

    fixture_init(&f, NULL, RAM_BYTES);
    write_page(&f, CHUNK - FIXTURE_PAGE);
    write_page(&f, 3 * CHUNK);
    result = discard(&f, CHUNK - FIXTURE_PAGE, 2 * CHUNK + 2 * FIXTURE_PAGE, &reported);
    g_assert_cmpuint(result.released, ==, 2 * CHUNK);
    g_assert_true(page_is_written(&f, CHUNK - FIXTURE_PAGE));
    g_assert_true(page_is_written(&f, 3 * CHUNK));
    result = discard(&f, 5 * CHUNK + FIXTURE_PAGE, CHUNK, &reported);
    g_assert_cmpuint(result.released, ==, 0);
    fixture_clear(&f);
}

/* T02: with PAGE_POISON a released page holds the value that was agreed, or is not released. */
static void t02_page_poison(void)
{
    Fixture f = { 0 };
    DiscardRequest zero = { .why = DISCARD_REPORTED, .page_poison = true };
    DiscardRequest pattern = { .page_poison = true, .poison_value = 0xaa };
    DiscardRequest inflated = { .why = DISCARD_INFLATED,
                                .page_poison = true,
                                .base_is_parent = true };

    fixture_init(&f, NULL, RAM_BYTES);
    write_page(&f, CHUNK);
    g_assert_cmpuint(discard(&f, CHUNK, CHUNK, &pattern).released, ==, 0);
    g_assert_true(page_is_written(&f, CHUNK));
    g_assert_cmpuint(discard(&f, CHUNK, FIXTURE_PAGE, &inflated).released, ==, 0);
    g_assert_true(page_is_written(&f, CHUNK));
    g_assert_cmpuint(discard(&f, CHUNK, CHUNK, &zero).released, ==, CHUNK);
    g_assert_true(page_is_zero(&f, CHUNK));
    fixture_clear(&f);
}

/* T07: inflated pieces go back to the file only while that file is the parent of the next increment. */
static void t07_inflated_pieces(void)
{
    Fixture f = { 0 };
    DiscardRequest parent = { .why = DISCARD_INFLATED, .base_is_parent = true };
    DiscardRequest older = { .why = DISCARD_INFLATED };

    fixture_init(&f, NULL, RAM_BYTES);
    write_page(&f, CHUNK);
    g_assert_cmpuint(discard(&f, CHUNK, FIXTURE_PAGE, &older).released, ==, 0);
    g_assert_true(page_is_written(&f, CHUNK));
    g_assert_cmpuint(discard(&f, CHUNK, FIXTURE_PAGE, &parent).released, ==, FIXTURE_PAGE);
    g_assert_true(page_is_snapshot(&f, CHUNK));
    /* In a chunk that is anonymous already any piece can go. */
    discard(&f, CHUNK, CHUNK, &older);
    write_page(&f, CHUNK);
    g_assert_cmpuint(discard(&f, CHUNK, FIXTURE_PAGE, &older).released, ==, FIXTURE_PAGE);
    g_assert_true(page_is_zero(&f, CHUNK));
    fixture_clear(&f);
}

static bool note_zero(const PageRange *range, void *opaque)
{
    PageRange *seen = opaque;

    g_assert_cmpint(range->kind, ==, PAGE_ZERO);
    *seen = *range;
    return true;
}

/* T05: the next increment records a released chunk as zero. */
static void t05_released_chunk_is_zero(void)
{
    Fixture f = { 0 };
    DiscardRequest reported = { .why = DISCARD_REPORTED };
    g_autoptr(PagemapScanner) scanner = pagemap_scanner_new(PAGEMAP_AUTO, NULL);
    PageRange seen = { 0 };

    fixture_init(&f, NULL, RAM_BYTES);
    discard(&f, CHUNK, CHUNK, &reported);
    discard(&f, 2 * CHUNK, CHUNK, &reported);
    g_assert_true(pagemap_scan_block(scanner, f.block, note_zero, &seen, NULL, NULL));
    g_assert_cmpuint(seen.offset, ==, CHUNK);
    g_assert_cmpuint(seen.length, ==, 2 * CHUNK);
    fixture_clear(&f);
}

/*
 * T08: neighbours released one after the other merge into one mapping. (Chunks that were written to
 * while they had no released neighbour keep mappings of their own: the kernel's anon_vma differs.)
 */
static void t08_neighbours_merge(void)
{
    Fixture f = { 0 };
    DiscardRequest reported = { .why = DISCARD_REPORTED };
    g_autofree char *flags = NULL;

    fixture_init(&f, NULL, RAM_BYTES);
    for (unsigned i = 0; i < 8; i += 2) {
        discard(&f, i * CHUNK, CHUNK, &reported);
    }
    for (unsigned i = 1; i < 8; i += 2) {
        discard(&f, i * CHUNK, CHUNK, &reported);
    }
    g_assert_cmpuint(fixture_count_vmas(f.block), ==, 1);
    flags = fixture_vm_flags(f.block->host);
    g_assert_nonnull(strstr(flags, " dd "));
    g_assert_nonnull(strstr(flags, " dc "));
    g_assert_nonnull(strstr(flags, " nh "));
    g_assert_nonnull(strstr(flags, " nr "));
    fixture_clear(&f);
}

/* T08: a failed MAP_FIXED that leaves the old mapping: the chunk is left alone. */
static void t08_failed_mapping_is_left_alone(void)
{
    Fixture f = { 0 };
    DiscardRequest reported = { .why = DISCARD_REPORTED };
    DiscardResult result;

    fixture_init(&f, NULL, RAM_BYTES);
    write_page(&f, CHUNK);
    fault.fail = 1;
    result = discard(&f, CHUNK, CHUNK, &reported);
    g_assert_cmpuint(fault.fail, ==, 0);
    g_assert_cmpuint(result.released, ==, 0);
    g_assert_false(chunk_map_test(f.block->released, 1));
    g_assert_true(page_is_written(&f, CHUNK));
    fixture_clear(&f);
}

/* T08: one that leaves a hole is repaired: with anonymous memory, else with the file. */
static void t08_hole_is_repaired(void)
{
    Fixture f = { 0 };
    DiscardRequest reported = { .why = DISCARD_REPORTED };

    fixture_init(&f, NULL, RAM_BYTES);
    fault.leave_hole = true;
    fault.fail = 1;
    g_assert_cmpuint(discard(&f, CHUNK, CHUNK, &reported).released, ==, CHUNK);
    g_assert_true(page_is_zero(&f, CHUNK));
    g_assert_true(chunk_map_test(f.block->released, 1));

    write_page(&f, 3 * CHUNK);
    fault.fail = 2;
    g_assert_cmpuint(discard(&f, 3 * CHUNK, CHUNK, &reported).released, ==, 0);
    g_assert_true(page_is_snapshot(&f, 3 * CHUNK));
    g_assert_false(chunk_map_test(f.block->released, 3));
    fault.leave_hole = false;
    fixture_clear(&f);
}

/* T08: what cannot be repaired stops the VM. */
static void t08_hole_that_stays_is_an_error(void)
{
    Fixture f = { 0 };
    DiscardRequest reported = { .why = DISCARD_REPORTED };
    g_autoptr(GError) err = NULL;
    DiscardResult result;

    fixture_init(&f, NULL, RAM_BYTES);
    fault.leave_hole = true;
    fault.fail = 3;
    g_assert_false(discard_range(f.block, CHUNK, CHUNK, &reported, &result, &err));
    g_assert_nonnull(strstr(err->message, "pc.ram"));
    fault.leave_hole = false;
    fixture_clear(&f);
}

/* T08: remapping stops before the process has too many mappings; pieces are left alone then. */
static void t08_limit_of_mappings(void)
{
    Fixture f = { 0 };
    DiscardRequest reported = { .why = DISCARD_REPORTED };
    g_autofree char *limit = NULL;
    unsigned budget = discard_vma_budget();
    uint8_t *pages;

    g_assert_true(g_file_get_contents("/proc/sys/vm/max_map_count", &limit, NULL, NULL));
    fixture_init(&f, NULL, RAM_BYTES);
    /* Every other page of another protection: as many mappings as are left. */
    pages = mmap(NULL, (budget + 16) * FIXTURE_PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (unsigned i = 0; i < budget; i += 2) {
        g_assert_cmpint(mprotect(pages + i * FIXTURE_PAGE, FIXTURE_PAGE, PROT_NONE), ==, 0);
    }
    g_assert_cmpuint(discard_vma_budget(), <, 20);
    f.block->remaps_left = 0;
    for (unsigned i = 0; i < 8; i++) {
        discard(&f, i * CHUNK, CHUNK, &reported);
    }
    g_assert_cmpuint(chunk_map_count(f.block->released), <, 8);
    munmap(pages, (budget + 16) * FIXTURE_PAGE);
    fixture_clear(&f);
}

/* T10: ranges are cut to the block and to whole pages. */
static void t10_bounds(void)
{
    Fixture f = { 0 };
    DiscardRequest reported = { .why = DISCARD_REPORTED };

    fixture_init(&f, NULL, RAM_BYTES + MiB);
    g_assert_cmpuint(discard(&f, UINT64_MAX, UINT64_MAX, &reported).released, ==, 0);
    g_assert_cmpuint(discard(&f, RAM_BYTES + MiB, CHUNK, &reported).released, ==, 0);
    g_assert_cmpuint(discard(&f, CHUNK, 0, &reported).released, ==, 0);
    g_assert_cmpuint(discard(&f, 1, CHUNK, &reported).released, ==, 0);
    /* The short last chunk is whole. */
    g_assert_cmpuint(discard(&f, RAM_BYTES, UINT64_MAX, &reported).released, ==, MiB);
    g_assert_true(page_is_zero(&f, RAM_BYTES));
    fixture_clear(&f);
}

/* T12: while a save or an incoming state inhibits releasing, nothing changes. */
static void t12_inhibited(void)
{
    Fixture f = { 0 };
    DiscardRequest inhibited = { .why = DISCARD_REPORTED, .inhibited = true };

    fixture_init(&f, NULL, RAM_BYTES);
    write_page(&f, CHUNK);
    g_assert_cmpuint(discard(&f, 0, RAM_BYTES, &inhibited).released, ==, 0);
    g_assert_true(page_is_written(&f, CHUNK));
    fixture_clear(&f);
}

/* --- Other kinds --- */

static void test_anonymous(void)
{
    Fixture f = { 0 };
    DiscardRequest reported = { .why = DISCARD_REPORTED };

    fixture_new_block(&f, RAM_BYTES);
    write_page(&f, CHUNK);
    write_page(&f, CHUNK + FIXTURE_PAGE);
    g_assert_cmpuint(discard(&f, CHUNK, FIXTURE_PAGE, &reported).released, ==, FIXTURE_PAGE);
    g_assert_true(page_is_zero(&f, CHUNK));
    g_assert_true(page_is_written(&f, CHUNK + FIXTURE_PAGE));
    fixture_clear(&f);
}

static void test_shared(void)
{
    Fixture f = { 0 };
    DiscardRequest reported = { .why = DISCARD_REPORTED };
    int fd = memfd_create("shared", MFD_CLOEXEC);
    void *host;
    struct stat st;

    g_assert_cmpint(ftruncate(fd, RAM_BYTES), ==, 0);
    host = mmap(NULL, RAM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    f.block = ram_block_new_from_mapping("shared", host, RAM_BYTES, RAM_SHARED, fd);
    memset(f.block->host, 1, RAM_BYTES);
    g_assert_cmpuint(discard(&f, FIXTURE_PAGE, 2 * CHUNK, &reported).released, ==, 2 * CHUNK);
    g_assert_true(page_is_zero(&f, FIXTURE_PAGE));
    g_assert_cmpuint(f.block->host[0], ==, 1);
    fstat(fd, &st);
    g_assert_cmpuint(st.st_blocks * 512, ==, RAM_BYTES - 2 * CHUNK + FIXTURE_PAGE);
    ram_block_free(f.block);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/memory/discard/t01_no_old_bytes_after_release",
                    t01_no_old_bytes_after_release);
    g_test_add_func("/memory/discard/t01_reported_pieces_are_left_alone",
                    t01_reported_pieces_are_left_alone);
    g_test_add_func("/memory/discard/t02_page_poison", t02_page_poison);
    g_test_add_func("/memory/discard/t05_released_chunk_is_zero", t05_released_chunk_is_zero);
    g_test_add_func("/memory/discard/t07_inflated_pieces", t07_inflated_pieces);
    g_test_add_func("/memory/discard/t08_neighbours_merge", t08_neighbours_merge);
    g_test_add_func("/memory/discard/t08_failed_mapping_is_left_alone",
                    t08_failed_mapping_is_left_alone);
    g_test_add_func("/memory/discard/t08_hole_is_repaired", t08_hole_is_repaired);
    g_test_add_func("/memory/discard/t08_hole_that_stays_is_an_error",
                    t08_hole_that_stays_is_an_error);
    g_test_add_func("/memory/discard/t08_limit_of_mappings", t08_limit_of_mappings);
    g_test_add_func("/memory/discard/t10_bounds", t10_bounds);
    g_test_add_func("/memory/discard/t12_inhibited", t12_inhibited);
    g_test_add_func("/memory/discard/anonymous", test_anonymous);
    g_test_add_func("/memory/discard/shared", test_shared);
    return g_test_run();
}
