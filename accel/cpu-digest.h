/*
 * The digest of what CPUID shows a guest, as a snapshot carries it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_ACCEL_CPU_DIGEST_H
#define COWBIRD_ACCEL_CPU_DIGEST_H

#include <stdint.h>

/* SHA-256. */
typedef struct CpuDigest {
    uint8_t data[32];
} CpuDigest;

#endif
