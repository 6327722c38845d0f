/*
 * Test of the balloon's record of partly given up chunks: against a plain array of flags, and its edges.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/inflate-map.h"

#include <string.h>

#define PAGES_PER_CHUNK 512
#define CHUNKS 8
#define PAGES (CHUNKS * PAGES_PER_CHUNK)

static RamBlock *make_block(const char *name, uint64_t pages)
{
    GError *err = NULL;
    RamBlock *block = ram_block_new_anonymous(name, pages << INFLATE_PAGE_SHIFT, &err);

    g_assert_no_error(err);
    return block;
}

static void test_fills_up(void)
{
    g_autoptr(RamBlock) block = make_block("pc.ram", PAGES);
    g_autoptr(InflateMap) map = inflate_map_new();

    for (unsigned i = 0; i < PAGES_PER_CHUNK; i++) {
        g_assert_false(inflate_map_has_chunk(map, block, PAGES_PER_CHUNK) != (i > 0));
        /* Odd pages upwards, then even ones downwards. */
        unsigned page = i < 256 ? 2 * i + 1 : 2 * (511 - i);

        g_assert_true(inflate_map_set(map, block, PAGES_PER_CHUNK + page) ==
                      (i == PAGES_PER_CHUNK - 1));
    }
    g_assert_cmpuint(inflate_map_pages(map), ==, 0);
    g_assert_cmpuint(inflate_map_chunks(map), ==, 0);
    g_assert_false(inflate_map_has_chunk(map, block, PAGES_PER_CHUNK));
    /* It is forgotten: the same again needs all of it again. */
    g_assert_false(inflate_map_set(map, block, PAGES_PER_CHUNK));
    g_assert_cmpuint(inflate_map_pages(map), ==, 1);
}

static void test_same_page_twice(void)
{
    g_autoptr(RamBlock) block = make_block("pc.ram", PAGES);
    g_autoptr(InflateMap) map = inflate_map_new();

    for (unsigned i = 0; i < 2 * PAGES_PER_CHUNK; i++) {
        g_assert_false(inflate_map_set(map, block, i % (PAGES_PER_CHUNK - 1)));
    }
    g_assert_cmpuint(inflate_map_pages(map), ==, PAGES_PER_CHUNK - 1);
    g_assert_true(inflate_map_set(map, block, PAGES_PER_CHUNK - 1));
}

/* A page that the guest has taken back keeps its chunk from being given away. */
static void test_live_neighbour(void)
{
    g_autoptr(RamBlock) block = make_block("pc.ram", PAGES);
    g_autoptr(InflateMap) map = inflate_map_new();

    for (unsigned i = 0; i < PAGES_PER_CHUNK - 1; i++) {
        inflate_map_set(map, block, i);
    }
    inflate_map_clear(map, block, 17);
    inflate_map_clear(map, block, 17);
    g_assert_false(inflate_map_set(map, block, PAGES_PER_CHUNK - 1));
    g_assert_cmpuint(inflate_map_pages(map), ==, PAGES_PER_CHUNK - 1);
    g_assert_true(inflate_map_set(map, block, 17));
}

static void test_clear_unknown(void)
{
    g_autoptr(RamBlock) block = make_block("pc.ram", PAGES);
    g_autoptr(RamBlock) other = make_block("other", PAGES);
    g_autoptr(InflateMap) map = inflate_map_new();

    inflate_map_clear(map, block, 3);
    inflate_map_set(map, block, 3);
    inflate_map_clear(map, block, 4);
    inflate_map_clear(map, other, 3);
    inflate_map_clear(map, block, UINT64_MAX);
    g_assert_cmpuint(inflate_map_pages(map), ==, 1);
    inflate_map_clear(map, block, 3);
    g_assert_cmpuint(inflate_map_pages(map), ==, 0);
    g_assert_cmpuint(inflate_map_chunks(map), ==, 0);
}

static void test_short_last_chunk(void)
{
    g_autoptr(RamBlock) block = make_block("odd", PAGES_PER_CHUNK + 3);
    g_autoptr(InflateMap) map = inflate_map_new();

    g_assert_false(inflate_map_set(map, block, PAGES_PER_CHUNK + 2));
    g_assert_false(inflate_map_set(map, block, PAGES_PER_CHUNK));
    g_assert_true(inflate_map_set(map, block, PAGES_PER_CHUNK + 1));
}

static void test_blocks_apart_and_reset(void)
{
    g_autoptr(RamBlock) a = make_block("a", PAGES);
    g_autoptr(RamBlock) b = make_block("b", PAGES);
    g_autoptr(InflateMap) map = inflate_map_new();

    for (unsigned i = 0; i < PAGES_PER_CHUNK - 1; i++) {
        inflate_map_set(map, i % 2 ? a : b, i);
    }
    g_assert_cmpuint(inflate_map_chunks(map), ==, 2);
    inflate_map_reset(map);
    g_assert_cmpuint(inflate_map_pages(map), ==, 0);
    g_assert_cmpuint(inflate_map_chunks(map), ==, 0);
    g_assert_false(inflate_map_set(map, a, PAGES_PER_CHUNK - 1));
}

/* Random pages come and go; a plain array of flags tells what is right. */
static void test_random(void)
{
    g_autoptr(RamBlock) block = make_block("pc.ram", PAGES);
    g_autoptr(InflateMap) map = inflate_map_new();
    g_autofree bool *have = g_new0(bool, PAGES);
    unsigned full = 0;

    for (unsigned i = 0; i < 200000; i++) {
        unsigned page = g_test_rand_int_range(0, PAGES);
        unsigned first = page - page % PAGES_PER_CHUNK, count = 0;

        if (g_test_rand_int_range(0, 1024) == 0) {
            inflate_map_clear(map, block, page);
            have[page] = false;
            continue;
        }
        have[page] = true;
        for (unsigned p = first; p < first + PAGES_PER_CHUNK; p++) {
            count += have[p];
        }
        g_assert_true(inflate_map_set(map, block, page) == (count == PAGES_PER_CHUNK));
        if (count == PAGES_PER_CHUNK) {
            memset(have + first, 0, PAGES_PER_CHUNK);
            full++;
        }
    }
    uint64_t left = 0;
    for (unsigned p = 0; p < PAGES; p++) {
        left += have[p];
    }
    g_assert_cmpuint(inflate_map_pages(map), ==, left);
    g_assert_cmpuint(full, >, 0);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/inflate-map/fills-up", test_fills_up);
    g_test_add_func("/inflate-map/same-page-twice", test_same_page_twice);
    g_test_add_func("/inflate-map/live-neighbour", test_live_neighbour);
    g_test_add_func("/inflate-map/clear-unknown", test_clear_unknown);
    g_test_add_func("/inflate-map/short-last-chunk", test_short_last_chunk);
    g_test_add_func("/inflate-map/blocks-apart-and-reset", test_blocks_apart_and_reset);
    g_test_add_func("/inflate-map/random", test_random);
    return g_test_run();
}
