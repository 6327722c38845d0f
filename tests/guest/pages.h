/*
 * The content of test pages: what `fill` writes and `verify` expects. Shared by the guest and by page-oracle on the host.
 *
 * A page's words depend on the seed and on the page's number (guest-physical address / 4096) and do not compress. Seed 0 is
 * the zero page.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef TESTS_GUEST_PAGES_H
#define TESTS_GUEST_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#define TEST_PAGE_SIZE 4096
#define TEST_PAGE_WORDS (TEST_PAGE_SIZE / 8)

static inline uint64_t page_mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93ull;
    x ^= x >> 32;
    return x * 0xd6e8feb86659fd93ull;
}

/* The counter from which word i of the page is mixed is page_start() + i * PAGE_STRIDE. */
#define PAGE_STRIDE 0x9e3779b97f4a7c15ull

static inline uint64_t page_start(uint64_t seed, uint64_t number)
{
    return page_mix(seed * 0xa0761d6478bd642full + number);
}

static inline void page_write(uint64_t *page, uint64_t seed, uint64_t number)
{
    uint64_t x = page_start(seed, number);

    for (int i = 0; i < TEST_PAGE_WORDS; i++, x += PAGE_STRIDE) {
        page[i] = seed ? page_mix(x) : 0;
    }
}

static inline bool page_is(const uint64_t *page, uint64_t seed, uint64_t number)
{
    uint64_t x = page_start(seed, number), differ = 0;

    for (int i = 0; i < TEST_PAGE_WORDS; i++, x += PAGE_STRIDE) {
        differ |= page[i] ^ (seed ? page_mix(x) : 0);
    }
    return differ == 0;
}

static inline uint64_t page_hash(const uint64_t *page)
{
    uint64_t hash = 0;

    for (int i = 0; i < TEST_PAGE_WORDS; i++) {
        hash = (hash ^ page[i]) * 0x100000001b3ull;
        hash ^= hash >> 29;
    }
    return hash;
}

/* The hash of a range is the sum of this over its pages: the order does not matter. */
static inline uint64_t page_hash_in_range(const uint64_t *page, uint64_t number)
{
    return page_mix(page_hash(page) ^ page_mix(number + 1));
}

#endif
