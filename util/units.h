/*
 * Binary units and rounding.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_UTIL_UNITS_H
#define COWBIRD_UTIL_UNITS_H

#include <stdbool.h>
#include <stdint.h>

#define KiB (UINT64_C(1) << 10)
#define MiB (UINT64_C(1) << 20)
#define GiB (UINT64_C(1) << 30)
#define TiB (UINT64_C(1) << 40)

/* To a multiple of n, which is a power of two. ROUND_UP wraps near the end of the type. */
#define ROUND_DOWN(x, n) ((x) & ~((__typeof__(x))(n)-1))
#define ROUND_UP(x, n) ROUND_DOWN((x) + ((__typeof__(x))(n)-1), n)
#define DIV_ROUND_UP(x, n) (((x) + (n)-1) / (n))
#define IS_ALIGNED(x, n) (((x) & ((__typeof__(x))(n)-1)) == 0)

/*
 * "2G", "512M", "64k", "0x1000", "1.5G", bytes without a suffix (or default_suffix, e.g. 'M', when
 * not 0). False when text is not a size or does not fit.
 */
bool size_parse(const char *text, char default_suffix, uint64_t *ret_size);

#endif
