/*
 * Pages given back to the host, for each kind of block: the traps T1 to T7, T10 and T12.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/guest-access.h"
#include "memory/pagemap.h"
#include "tests/unit/discard-fixture.h"

#define RAM_BYTES (16 * MiB)

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
    DiscardRequest inflated = { .why = DISCARD_INFLATED, .page_poison = true };

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

/* T03: before a chunk is complete no page changes but those that were given. */
static void t03_only_what_was_given_changes(void)
{
    Fixture f = { 0 };
    DiscardRequest inflated = { .why = DISCARD_INFLATED };

    fixture_init(&f, NULL, RAM_BYTES);
    for (uint64_t at = CHUNK; at < 2 * CHUNK; at += FIXTURE_PAGE) {
        write_page(&f, at);
    }
    discard(&f, CHUNK, CHUNK / 2, &inflated);
    discard(&f, CHUNK + CHUNK / 2, CHUNK / 2 - FIXTURE_PAGE, &inflated);
    g_assert_true(page_is_written(&f, 2 * CHUNK - FIXTURE_PAGE));
    g_assert_cmpuint(chunk_map_count(f.block->released), ==, 0);
    g_assert_cmpuint(discard(&f, CHUNK, CHUNK, &inflated).remapped, ==, CHUNK);
    g_assert_true(page_is_zero(&f, 2 * CHUNK - FIXTURE_PAGE));
    fixture_clear(&f);
}

/*
 * T04: the map of released chunks says what is mapped, not what is in a balloon: it stays when the guest
 * uses a page again, and releasing that again is no second remap.
 */
static void t04_map_outlives_the_balloon(void)
{
    Fixture f = { 0 };
    DiscardRequest reported = { .why = DISCARD_REPORTED };
    DiscardResult again;

    fixture_init(&f, NULL, RAM_BYTES);
    discard(&f, CHUNK, CHUNK, &reported);
    write_page(&f, CHUNK + FIXTURE_PAGE);
    g_assert_true(chunk_map_test(f.block->released, 1));
    g_assert_true(page_is_written(&f, CHUNK + FIXTURE_PAGE));
    again = discard(&f, CHUNK, CHUNK, &reported);
    g_assert_cmpuint(again.released, ==, CHUNK);
    g_assert_cmpuint(again.remapped, ==, 0);
    g_assert_true(page_is_zero(&f, CHUNK + FIXTURE_PAGE));
    g_assert_cmpuint(chunk_map_count(f.block->released), ==, 1);
    fixture_clear(&f);
}

/*
 * T07: inflated pieces go back to the file only while the mapped files have what the next increment takes
 * for unchanged.
 */
static void t07_inflated_pieces(void)
{
    Fixture f = { 0 };
    DiscardRequest inflated = { .why = DISCARD_INFLATED };

    fixture_init(&f, NULL, RAM_BYTES);
    write_page(&f, CHUNK);
    f.block->pages_laid = true;
    g_assert_cmpuint(discard(&f, CHUNK, FIXTURE_PAGE, &inflated).released, ==, 0);
    g_assert_true(page_is_written(&f, CHUNK));
    f.block->pages_laid = false;
    f.block->report.increment_possible = false;
    g_assert_cmpuint(discard(&f, CHUNK, FIXTURE_PAGE, &inflated).released, ==, 0);
    g_assert_true(page_is_written(&f, CHUNK));
    f.block->report.increment_possible = true;
    g_assert_cmpuint(discard(&f, CHUNK, FIXTURE_PAGE, &inflated).released, ==, FIXTURE_PAGE);
    g_assert_true(page_is_snapshot(&f, CHUNK));
    /* In a chunk that is anonymous already any piece can go. */
    discard(&f, CHUNK, CHUNK, &inflated);
    write_page(&f, CHUNK);
    f.block->pages_laid = true;
    g_assert_cmpuint(discard(&f, CHUNK, FIXTURE_PAGE, &inflated).released, ==, FIXTURE_PAGE);
    g_assert_true(page_is_zero(&f, CHUNK));
    fixture_clear(&f);
}

/* The policy to measure against: the snapshot shows again, in an increment it is unchanged. */
static void test_policy_dontneed(void)
{
    Fixture f = { 0 };
    DiscardRequest request = { .why = DISCARD_REPORTED, .policy = DISCARD_POLICY_DONTNEED };
    DiscardRequest poison = request;
    DiscardResult result;

    poison.page_poison = true;
    fixture_init(&f, NULL, RAM_BYTES);
    write_page(&f, CHUNK);
    g_assert_cmpuint(discard(&f, CHUNK, CHUNK, &poison).released, ==, 0);
    g_assert_true(page_is_written(&f, CHUNK));
    result = discard(&f, CHUNK, CHUNK, &request);
    g_assert_cmpuint(result.released, ==, CHUNK);
    g_assert_cmpuint(result.remapped, ==, 0);
    g_assert_true(page_is_snapshot(&f, CHUNK));
    g_assert_cmpuint(fixture_count_vmas(f.block), ==, 1);
    fixture_clear(&f);
}

/* T48: a chunk with I/O under way is not remapped under it. */
static void t48_chunk_with_io_is_left_alone(void)
{
    Fixture f = { 0 };
    DiscardRequest reported = { .why = DISCARD_REPORTED };

    fixture_init(&f, NULL, RAM_BYTES);
    write_page(&f, 2 * CHUNK);
    ram_access_begin(f.block, 2 * CHUNK, FIXTURE_PAGE);
    g_assert_cmpuint(discard(&f, CHUNK, 3 * CHUNK, &reported).remapped, ==, 2 * CHUNK);
    g_assert_true(page_is_written(&f, 2 * CHUNK));
    g_assert_false(chunk_map_test(f.block->released, 2));
    g_assert_cmpuint(f.block->discard.busy, ==, CHUNK);
    ram_access_end(f.block, 2 * CHUNK, FIXTURE_PAGE);
    g_assert_cmpuint(discard(&f, 2 * CHUNK, CHUNK, &reported).remapped, ==, CHUNK);
    g_assert_true(ram_chunk_is_idle(f.block, 1));
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

/* T12: while a save or an incoming state inhibits releasing, nothing changes, and it is counted. */
static void t12_inhibited(void)
{
    Fixture f = { 0 };
    DiscardRequest reported = { .why = DISCARD_REPORTED };

    fixture_init(&f, NULL, RAM_BYTES);
    write_page(&f, CHUNK);
    ram_discard_inhibit(f.list, "test");
    ram_discard_inhibit(f.list, "another");
    g_assert_cmpuint(discard(&f, 0, RAM_BYTES, &reported).released, ==, 0);
    ram_discard_allow(f.list, "test");
    g_assert_cmpuint(discard(&f, 0, CHUNK, &reported).released, ==, 0);
    g_assert_true(page_is_written(&f, CHUNK));
    g_assert_cmpuint(f.block->discard.inhibited, ==, RAM_BYTES + CHUNK);
    ram_discard_allow(f.list, "another");
    g_assert_cmpuint(discard(&f, CHUNK, CHUNK, &reported).released, ==, CHUNK);
    g_assert_cmpuint(f.block->discard.released, ==, CHUNK);
    fixture_clear(&f);
}

/* T10: a ROM is never given back. */
static void t10_rom(void)
{
    Fixture f = { 0 };
    DiscardRequest reported = { .why = DISCARD_REPORTED };

    fixture_new_block(&f, RAM_BYTES);
    write_page(&f, CHUNK);
    f.block->readonly = true;
    g_assert_cmpuint(discard(&f, 0, RAM_BYTES, &reported).released, ==, 0);
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

/* A private mapping of the user's own file: its bytes would show again, so nothing is released. */
static void test_backend_file(void)
{
    Fixture f = { 0 };
    DiscardRequest reported = { .why = DISCARD_REPORTED };
    void *host;

    f.fd = fixture_file(NULL, RAM_BYTES, &f.path);
    fixture_fill_file(f.fd, 0, RAM_BYTES, 1);
    host = mmap(NULL, RAM_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, f.fd, 0);
    f.block = ram_block_new_from_mapping("own", host, RAM_BYTES, RAM_BACKEND_FILE, f.fd);
    write_page(&f, CHUNK);
    g_assert_cmpuint(discard(&f, 0, RAM_BYTES, &reported).released, ==, 0);
    g_assert_true(page_is_written(&f, CHUNK));
    ram_block_free(f.block);
    unlink(f.path);
    g_free(f.path);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/memory/discard/t01_no_old_bytes_after_release",
                    t01_no_old_bytes_after_release);
    g_test_add_func("/memory/discard/t01_reported_pieces_are_left_alone",
                    t01_reported_pieces_are_left_alone);
    g_test_add_func("/memory/discard/t02_page_poison", t02_page_poison);
    g_test_add_func("/memory/discard/t03_only_what_was_given_changes",
                    t03_only_what_was_given_changes);
    g_test_add_func("/memory/discard/t04_map_outlives_the_balloon", t04_map_outlives_the_balloon);
    g_test_add_func("/memory/discard/t05_released_chunk_is_zero", t05_released_chunk_is_zero);
    g_test_add_func("/memory/discard/t07_inflated_pieces", t07_inflated_pieces);
    g_test_add_func("/memory/discard/t10_bounds", t10_bounds);
    g_test_add_func("/memory/discard/t10_rom", t10_rom);
    g_test_add_func("/memory/discard/t12_inhibited", t12_inhibited);
    g_test_add_func("/memory/discard/t48_chunk_with_io_is_left_alone",
                    t48_chunk_with_io_is_left_alone);
    g_test_add_func("/memory/discard/policy-dontneed", test_policy_dontneed);
    g_test_add_func("/memory/discard/anonymous", test_anonymous);
    g_test_add_func("/memory/discard/shared", test_shared);
    g_test_add_func("/memory/discard/backend-file", test_backend_file);
    return g_test_run();
}
