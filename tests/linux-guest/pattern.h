/*
 * What memory of a test guest is filled with.
 *
 * A word is made of seed and place, so that a page of another clone, an old page or a zero page is
 * noticed.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LINUX_GUEST_PATTERN_H
#define LINUX_GUEST_PATTERN_H

#include <stdint.h>

static inline uint64_t word(uint64_t seed, uint64_t i)
{
    uint64_t x = (seed << 40) + i;

    x ^= x >> 31;
    x *= 0x9e3779b97f4a7c15ull;
    return x ^ x >> 29;
}

#endif
