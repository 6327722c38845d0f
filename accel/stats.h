/*
 * Statistics that the accelerator keeps of the VM and of each vCPU.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_ACCEL_STATS_H
#define COWBIRD_ACCEL_STATS_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "qapi/qapi-types.h"

typedef struct Accel Accel;

/* What a statistic is called and what its numbers mean: number * base ^ exponent, in units. */
typedef struct AccelStat {
    const char *name;
    StatsType type;
    bool has_unit; /* false: a mere number */
    StatsUnit unit;
    unsigned base; /* 2 or 10 */
    int exponent;
    uint32_t bucket_size; /* of a linear histogram */
    unsigned count;       /* of numbers: 1, or the classes of a histogram */
} AccelStat;

/* @values: stat->count numbers, valid during the call; NULL when nothing is read. */
typedef void (*AccelStatFn)(const AccelStat *stat, const uint64_t *values, void *opaque);

/*
 * Calls @fn for each statistic kept of @target, without values. None at all: the accelerator keeps
 * none, which is no error. The first use holds the vCPUs for a moment (big lock held).
 */
bool accel_describe_stats(Accel *accel, StatsTarget target, AccelStatFn fn, void *opaque,
                          GError **errp);

/* The same with the values of the VM, or of vCPU @i, as they are now. */
bool accel_read_stats(Accel *accel, StatsTarget target, unsigned i, AccelStatFn fn, void *opaque,
                      GError **errp);

#endif
