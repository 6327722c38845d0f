/*
 * A piece of work that is divided among threads, with a limit on bytes per second and a flag to
 * give it up.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MIGRATION_WORKERS_H
#define COWBIRD_MIGRATION_WORKERS_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Progress and brakes of one transfer; any thread may read the counters with atomic loads. */
typedef struct TransferControl {
    int cancelled;             /* atomic; set by migrate_cancel */
    uint64_t total_bytes;      /* of RAM to be looked at */
    uint64_t done_bytes;       /* atomic; of RAM looked at */
    uint64_t written_bytes;    /* atomic; of page data and stream written */
    uint64_t normal_pages;     /* atomic; stored */
    uint64_t zero_pages;       /* atomic; data pages that were found to be all zero */
    GMutex lock;               /* protects what follows */
    uint64_t bytes_per_second; /* 0: no limit */
    int64_t next_us;           /* monotonic time before which nothing more may be written */
} TransferControl;

void transfer_control_init(TransferControl *c, uint64_t bytes_per_second);
void transfer_control_clear(TransferControl *c);

/* May be called while the transfer runs. */
void transfer_control_set_limit(TransferControl *c, uint64_t bytes_per_second);

/*
 * Before n bytes are written: waits until the limit allows them. False with an error when the
 * transfer has been cancelled.
 */
bool transfer_control_wait(TransferControl *c, uint64_t n, GError **errp);
bool transfer_control_check(const TransferControl *c, GError **errp);
void transfer_control_cancel(TransferControl *c);

static inline void transfer_count(uint64_t *counter, uint64_t n)
{
    __atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

static inline uint64_t transfer_read(const uint64_t *counter)
{
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

/* Does item number i; several at once in different threads. */
typedef bool (*WorkerFunc)(size_t i, void *opaque, GError **errp);

/*
 * Do items 0 to n_items - 1 in ascending order of start with n_threads threads, the caller's among
 * them. The first error ends the work; it is returned once all threads have stopped.
 */
bool workers_run(unsigned n_threads, size_t n_items, WorkerFunc fn, void *opaque, GError **errp);

#endif
