/*
 * Memory that takes the place of a copy-on-write mapping: what is moved away belongs to others afterwards.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/discard.h"
#include "memory/staging.h"
#include "tests/unit/memory-fixture.h"

#define RAM_BYTES (16 * MiB)
#define CHUNKS (RAM_BYTES / RAM_CHUNK_SIZE)
#define NEIGHBOURS 256

/* Mappings as a new thread or an allocator would make them, wherever the kernel finds room. */
static void map_neighbours(void **ret_neighbours)
{
    for (unsigned i = 0; i < NEIGHBOURS; i++) {
        ret_neighbours[i] = mmap(NULL, MiB, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        g_assert_true(ret_neighbours[i] != MAP_FAILED);
    }
}

static void check_neighbours(void **neighbours)
{
    for (unsigned i = 0; i < NEIGHBOURS; i++) {
        if (msync(neighbours[i], MiB, MS_ASYNC) < 0) {
            g_error("the mapping at %p was unmapped together with the staging area", neighbours[i]);
        }
        munmap(neighbours[i], MiB);
    }
}

static void test_holes_belong_to_others(void)
{
    g_autoptr(GPtrArray) bases = g_ptr_array_new();
    void *neighbours[NEIGHBOURS];
    PagemapScanner *scanner = pagemap_scanner_new(PAGEMAP_AUTO, NULL);
    CloneSet set = { .bases = bases };
    Fixture f = { 0 };
    GError *err = NULL;
    uint64_t bytes = 0;
    Staging *staging;

    fixture_init(&f, fixture_plain_folder(), RAM_BYTES);
    g_ptr_array_add(bases, f.base);
    staging = staging_new(f.block, &set, &err);
    g_assert_no_error(err);
    for (uint64_t chunk = CHUNKS; chunk-- > 1;) {
        g_assert_true(staging_fill(staging, chunk, scanner, &err));
        g_assert_true(staging_move(staging, chunk, scanner, &bytes, &err));
    }
    map_neighbours(neighbours);
    staging_free(staging);
    check_neighbours(neighbours);
    for (uint64_t i = 0; i < RAM_BYTES / FIXTURE_PAGE; i++) {
        g_assert_true(fixture_is_stamped(f.block->host + i * FIXTURE_PAGE, i, 1));
    }
    pagemap_scanner_free(scanner);
    fixture_clear(&f);
}

/*
 * A failed mremap: kernels that look before they unmap leave the guest's memory, elsewhere there is
 * memory again and the loss is told. Never a hole.
 */
static void test_hole_after_a_failed_move(void)
{
    g_autoptr(GPtrArray) bases = g_ptr_array_new();
    g_autoptr(PagemapScanner) scanner = pagemap_scanner_new(PAGEMAP_AUTO, NULL);
    g_autoptr(GError) err = NULL;
    CloneSet set = { .bases = bases };
    Fixture f = { 0 };
    uint64_t bytes = 0;
    Staging *staging;

    fixture_init(&f, fixture_plain_folder(), RAM_BYTES);
    g_ptr_array_add(bases, f.base);
    staging = staging_new(f.block, &set, &err);
    g_assert_no_error(err);
    /* An empty chunk moves without pages; the second time there is nothing to be moved. */
    g_assert_true(staging_move(staging, 3, scanner, &bytes, &err));
    g_assert_false(ram_list_is_lost(f.list));
    g_assert_false(staging_move(staging, 3, scanner, &bytes, &err));
    g_assert_nonnull(strstr(err->message, "cannot move"));
    g_test_message("lost: %d", ram_list_is_lost(f.list));
    g_assert_true(fixture_is_zero(f.block->host + 3 * RAM_CHUNK_SIZE));
    staging_free(staging);
    fixture_clear(&f);
}

/* Neither what was given back nor what the guest has of its own is needed again. */
static void test_need(void)
{
    g_autoptr(GPtrArray) bases = g_ptr_array_new();
    g_autoptr(PagemapScanner) scanner = pagemap_scanner_new(PAGEMAP_AUTO, NULL);
    DiscardRequest request = { .why = DISCARD_REPORTED, .policy = DISCARD_POLICY_REMAP };
    DiscardResult result;
    CloneSet set = { .bases = bases };
    Fixture f = { 0 };
    uint64_t bytes = 0;

    fixture_init(&f, fixture_plain_folder(), RAM_BYTES);
    g_ptr_array_add(bases, f.base);
    g_assert_true(staging_need(f.block, &set, scanner, &bytes, NULL));
    g_assert_cmpuint(bytes, ==, RAM_BYTES);
    g_assert_true(discard_range(f.block, 0, 2 * RAM_CHUNK_SIZE, &request, &result, NULL));
    g_assert_true(
        discard_range(f.block, 5 * RAM_CHUNK_SIZE, RAM_CHUNK_SIZE, &request, &result, NULL));
    memset(f.block->host + 3 * RAM_CHUNK_SIZE, 1, 10 * FIXTURE_PAGE);
    memset(f.block->host, 1, 10 * FIXTURE_PAGE); /* in a released chunk */
    bytes = 0;
    g_assert_true(staging_need(f.block, &set, scanner, &bytes, NULL));
    g_assert_cmpuint(bytes, ==, RAM_BYTES - 3 * RAM_CHUNK_SIZE - 10 * FIXTURE_PAGE);
    fixture_clear(&f);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/memory/staging/holes-belong-to-others", test_holes_belong_to_others);
    g_test_add_func("/memory/staging/hole-after-a-failed-move", test_hole_after_a_failed_move);
    g_test_add_func("/memory/staging/need", test_need);
    return g_test_run();
}
