/*
 * Memory that takes the place of a copy-on-write mapping: what is moved away belongs to others afterwards.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
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

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/memory/staging/holes-belong-to-others", test_holes_belong_to_others);
    return g_test_run();
}
