/*
 * CRC-32C (Castagnoli polynomial 0x1EDC6F41, reflected), as in iSCSI, RFC 3720 appendix B.4.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_UTIL_CRC32C_H
#define COWBIRD_UTIL_CRC32C_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Start with crc = 0 and feed the result back in to go on with the next bytes. */
uint32_t crc32c(uint32_t crc, const void *data, size_t len);

/* The two ways it is computed, for tests; the first needs SSE 4.2. */
uint32_t crc32c_sse42(uint32_t crc, const void *data, size_t len);
uint32_t crc32c_table(uint32_t crc, const void *data, size_t len);
bool crc32c_have_sse42(void);

#endif
