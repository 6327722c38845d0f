/*
 * The balloon driver of the test guest: what its commands and the churn share.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef TESTS_GUEST_BALLOON_H
#define TESTS_GUEST_BALLOON_H

#include "tests/guest/virtio.h"

#define BALLOON_INFLATE 0
#define BALLOON_DEFLATE 1
#define BALLOON_STATS 2
#define BALLOON_RINGS 5
#define BALLOON_BATCH 256 /* page numbers in a buffer, as many as Linux sends */
#define REPORT_PIECES 32  /* pieces in a chain, likewise */

#define F_MUST_TELL_HOST 0
#define F_STATS_VQ 1
#define F_DEFLATE_ON_OOM 2
#define F_FREE_PAGE_HINT 3
#define F_PAGE_POISON 4
#define F_REPORTING 5

/* Usable pages from start on, every step-th, to the inflate or deflate queue, `batch` in a buffer. */
typedef struct BalloonJob {
    unsigned queue;
    uint64_t start, length, step;
    unsigned batch;
    uint64_t ret_pages, ret_buffers;
} BalloonJob;

VirtioResult balloon_start(uint64_t wanted, uint32_t poison);
VirtioResult balloon_pages(BalloonJob *job);
/* Reports `piece` bytes as free every `stride` bytes from start on, cut off at start + length. */
VirtioResult balloon_report(uint64_t start, uint64_t length, uint64_t piece, uint64_t stride,
                            uint64_t *ret_pieces);

/* balloon-churn.c */
void balloon_run_churn(char *text);
void balloon_run_race(char *text);

#endif
