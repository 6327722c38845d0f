/*
 * The set of 2 MiB chunks.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/chunk-map.h"
#include "util/units.h"

static void test_set_and_clear(void)
{
    g_autoptr(ChunkMap) map = chunk_map_new(300 * RAM_CHUNK_SIZE + 1);

    g_assert_cmpuint(chunk_map_count(map), ==, 0);
    chunk_map_set(map, 0);
    chunk_map_set(map, 300);
    chunk_map_set(map, 300);
    g_assert_cmpuint(chunk_map_count(map), ==, 2);
    g_assert_true(chunk_map_test(map, 300));
    g_assert_false(chunk_map_test(map, 299));
    g_assert_false(chunk_map_test(map, 301));
    chunk_map_clear(map, 0);
    chunk_map_clear(map, 1);
    g_assert_cmpuint(chunk_map_count(map), ==, 1);
    chunk_map_clear_all(map);
    g_assert_cmpuint(chunk_map_count(map), ==, 0);
    g_assert_false(chunk_map_test(map, 300));
}

static void test_no_map_is_empty(void)
{
    uint64_t first, end;

    g_assert_false(chunk_map_test(NULL, 0));
    g_assert_cmpuint(chunk_map_count(NULL), ==, 0);
    g_assert_false(chunk_map_next_run(NULL, 0, &first, &end));
}

/* Against a plain array. */
static void test_runs(void)
{
    enum { CHUNKS = 517 };
    g_autoptr(ChunkMap) map = chunk_map_new(CHUNKS * RAM_CHUNK_SIZE);
    bool want[CHUNKS] = { false };

    for (unsigned round = 0; round < 200; round++) {
        unsigned from = g_test_rand_int_range(0, CHUNKS);
        unsigned length = g_test_rand_int_range(1, 150);
        unsigned to = MIN(CHUNKS, from + length);
        bool set = g_test_rand_bit();
        uint64_t first, end, at = 0;
        bool got[CHUNKS] = { false };

        for (unsigned i = from; i < to; i++) {
            want[i] = set;
            (set ? chunk_map_set : chunk_map_clear)(map, i);
        }
        for (; chunk_map_next_run(map, at, &first, &end); at = end) {
            g_assert_cmpuint(first, >=, at);
            g_assert_cmpuint(end, >, first);
            g_assert_cmpuint(end, <=, CHUNKS);
            for (uint64_t i = first; i < end; i++) {
                got[i] = true;
            }
        }
        g_assert_cmpmem(got, CHUNKS, want, CHUNKS);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/memory/chunk-map/set-and-clear", test_set_and_clear);
    g_test_add_func("/memory/chunk-map/no-map", test_no_map_is_empty);
    g_test_add_func("/memory/chunk-map/runs", test_runs);
    return g_test_run();
}
