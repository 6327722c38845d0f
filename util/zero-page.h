/*
 * Is a page of memory all zero?
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_UTIL_ZERO_PAGE_H
#define COWBIRD_UTIL_ZERO_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#define ZERO_PAGE_BYTES 4096u

/* page: ZERO_PAGE_BYTES, aligned to 8. Most pages that are not zero show it at once. */
static inline bool page_is_zero(const uint8_t *page)
{
    const uint64_t *p = (const uint64_t *)page;

    if (p[0] | p[1] | p[2] | p[3]) {
        return false;
    }
    for (unsigned i = 0; i < ZERO_PAGE_BYTES / 8; i += 8) {
        if (p[i] | p[i + 1] | p[i + 2] | p[i + 3] | p[i + 4] | p[i + 5] | p[i + 6] | p[i + 7]) {
            return false;
        }
    }
    return true;
}

#endif
