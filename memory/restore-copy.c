/*
 * Guest RAM read from a file before the guest runs.
 *
 * Short runs are read first, into small pages. Then huge pages are asked for and the long runs are read: so
 * dense memory gets huge pages, which make the copy twice as fast, and sparse memory is not blown up.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/restore-internal.h"

#include "memory/host-memory.h"
#include "memory/ram-base.h"
#include "util/error.h"
#include "util/io.h"
#include "util/units.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE UINT64_C(4096)
/* What a thread reads at a time. */
#define SEGMENT (4 * MiB)
/* A run from this length on is dense. */
#define LONG_RUN MiB
#define THREADS_MAX 8
/* Not worth asking the host for less. */
#define MEMORY_CHECK_MIN (16 * MiB)

typedef struct CopySegment {
    RamBase *base;
    uint8_t *to;
    uint64_t length;
    uint64_t file_offset;
} CopySegment;

struct CopyPlan {
    unsigned threads;
    bool direct_io;
    GArray *short_runs; /* of CopySegment */
    GArray *long_runs;
    GPtrArray *blocks;  /* of RamBlock with long runs */
    uint64_t new_bytes; /* of memory that the host has yet to give */
};

/* What the threads of one run share. */
typedef struct CopyRun {
    GArray *segments;
    bool direct_io;
    gint next; /* atomic */
    gint failed;
    GMutex lock;
    GError *error;
} CopyRun;

CopyPlan *copy_plan_new(unsigned threads, bool direct_io)
{
    CopyPlan *plan = g_new0(CopyPlan, 1);

    plan->threads = threads ? threads : MIN(g_get_num_processors(), THREADS_MAX);
    plan->direct_io = direct_io;
    plan->short_runs = g_array_new(FALSE, FALSE, sizeof(CopySegment));
    plan->long_runs = g_array_new(FALSE, FALSE, sizeof(CopySegment));
    plan->blocks = g_ptr_array_new();
    return plan;
}

void copy_plan_free(CopyPlan *plan)
{
    if (plan) {
        g_array_unref(plan->short_runs);
        g_array_unref(plan->long_runs);
        g_ptr_array_unref(plan->blocks);
        g_free(plan);
    }
}

void copy_plan_add(CopyPlan *plan, RamBase *base, RamBlock *block, const RestoreExtent *extent)
{
    bool is_long = extent->length >= LONG_RUN;
    uint64_t at = extent->offset, end = at + extent->length;

    if (!block->prealloc && !block->mem_lock && !block->hugetlb) {
        plan->new_bytes += extent->length;
    }
    if (is_long && !g_ptr_array_find(plan->blocks, block, NULL)) {
        g_ptr_array_add(plan->blocks, block);
    }
    while (at < end) {
        /* At multiples of the segment, so that no two threads share a huge page. */
        uint64_t stop = MIN(end, ROUND_DOWN(at, SEGMENT) + SEGMENT);
        CopySegment segment = {
            .base = base,
            .to = block->host + at,
            .length = stop - at,
            .file_offset = extent->file_offset + (at - extent->offset),
        };

        g_array_append_val(is_long ? plan->long_runs : plan->short_runs, segment);
        at = stop;
    }
}

/* --- Reading --- */

/* The base opened past the page cache; -1 = not possible here. One is kept open a thread. */
typedef struct DirectFd {
    const RamBase *base;
    int fd;
} DirectFd;

static int direct_fd(DirectFd *direct, const CopySegment *segment)
{
    g_autofree char *self = NULL;

    if (((uintptr_t)segment->to | segment->length | segment->file_offset) % PAGE) {
        return -1;
    }
    if (direct->base != segment->base) {
        close_fd(&direct->fd);
        self = g_strdup_printf("/proc/self/fd/%d", ram_base_fd(segment->base));
        direct->fd = open(self, O_RDONLY | O_DIRECT | O_CLOEXEC);
        direct->base = segment->base;
    }
    return direct->fd;
}

static bool copy_segment(const CopySegment *segment, DirectFd *direct, GError **errp)
{
    int fd = direct ? direct_fd(direct, segment) : -1;

    if (fd < 0) {
        fd = ram_base_fd(segment->base);
    }
    if (!pread_full(fd, segment->to, segment->length, segment->file_offset, errp)) {
        g_prefix_error(errp, "Cannot restore guest RAM from %s: ", ram_base_path(segment->base));
        return false;
    }
    return true;
}

static gpointer copy_thread(gpointer opaque)
{
    CopyRun *run = opaque;
    DirectFd direct = { .fd = -1 };

    while (!g_atomic_int_get(&run->failed)) {
        guint i = g_atomic_int_add(&run->next, 1);
        GError *err = NULL;

        if (i >= run->segments->len) {
            break;
        }
        if (!copy_segment(&g_array_index(run->segments, CopySegment, i),
                          run->direct_io ? &direct : NULL, &err)) {
            g_atomic_int_set(&run->failed, 1);
            g_mutex_lock(&run->lock);
            if (run->error) {
                g_error_free(err);
            } else {
                run->error = err;
            }
            g_mutex_unlock(&run->lock);
        }
    }
    close_fd(&direct.fd);
    return NULL;
}

static bool copy_segments(CopyPlan *plan, GArray *segments, GError **errp)
{
    CopyRun run = { .segments = segments, .direct_io = plan->direct_io };
    g_autofree GThread **threads = g_new0(GThread *, plan->threads);
    unsigned n = MIN(plan->threads, segments->len);

    g_mutex_init(&run.lock);
    for (unsigned i = 1; i < n; i++) {
        threads[i] = g_thread_new("ram-copy", copy_thread, &run);
    }
    copy_thread(&run);
    for (unsigned i = 1; i < n; i++) {
        g_thread_join(threads[i]);
    }
    g_mutex_clear(&run.lock);
    g_array_set_size(segments, 0);
    if (run.error) {
        g_propagate_error(errp, run.error);
        return false;
    }
    return true;
}

/* Better an error now than the OOM killer half-way. */
static bool check_memory(const CopyPlan *plan, GError **errp)
{
    uint64_t available;
    const char *limit;

    if (plan->new_bytes < MEMORY_CHECK_MIN) {
        return true;
    }
    if (!host_memory_available(&available, &limit, errp)) {
        return false;
    }
    available += host_swap_free();
    if (plan->new_bytes > available) {
        error_set(errp,
                  "Restoring guest RAM by copying takes %" G_GUINT64_FORMAT
                  " MiB and %s leaves %" G_GUINT64_FORMAT
                  " MiB; give it more memory or use ram-restore-mode=copy-on-write",
                  plan->new_bytes / MiB, limit, available / MiB);
        return false;
    }
    return true;
}

bool copy_plan_run(CopyPlan *plan, GError **errp)
{
    if (!check_memory(plan, errp)) {
        return false;
    }
    plan->new_bytes = 0;
    if (!copy_segments(plan, plan->short_runs, errp)) {
        return false;
    }
    for (guint i = 0; i < plan->blocks->len; i++) {
        ram_block_hint_hugepages(plan->blocks->pdata[i]);
    }
    g_ptr_array_set_size(plan->blocks, 0);
    return copy_segments(plan, plan->long_runs, errp);
}

/* --- Blocks --- */

void restore_write_zeros(RamBlock *block, uint64_t offset, uint64_t length)
{
    static const uint8_t zeros[4096];

    for (uint64_t at = offset; at < offset + length; at += PAGE) {
        if (memcmp(block->host + at, zeros, PAGE) != 0) {
            memset(block->host + at, 0, PAGE);
        }
    }
}

bool restore_drop_contents(RamBlock *block)
{
    if (block->prealloc || block->mem_lock || block->hugetlb) {
        return false;
    }
    switch (block->kind) {
    case RAM_ANONYMOUS:
        return madvise(block->host, block->size, MADV_DONTNEED) == 0;
    case RAM_SHARED:
        return fallocate(block->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, block->fd_offset,
                         block->size) == 0;
    case RAM_FILE_PRIVATE:
    case RAM_BACKEND_FILE:
        break;
    }
    return false;
}

typedef struct CopyBase {
    CopyPlan *plan;
    const RestoreLayer *layer;
    const RestoreBlock *rb;
    bool dropped;
} CopyBase;

static bool copy_run(uint64_t offset, uint64_t length, bool data, void *opaque, GError **errp)
{
    CopyBase *copy = opaque;
    RestoreExtent extent = {
        .offset = offset,
        .length = length,
        .file_offset = copy->rb->pages_offset + offset,
    };

    if (data) {
        copy_plan_add(copy->plan, copy->layer->base, copy->rb->block, &extent);
    } else if (!copy->dropped) {
        restore_write_zeros(copy->rb->block, offset, length);
    }
    return true;
}

bool restore_copy_base(CopyPlan *plan, const RestoreLayer *layer, const RestoreBlock *rb,
                       GError **errp)
{
    CopyBase copy = { .plan = plan, .layer = layer, .rb = rb };

    copy.dropped = restore_drop_contents(rb->block);
    return source_walk(layer, rb, copy_run, &copy, errp);
}

void restore_copy_delta(CopyPlan *plan, const RestoreLayer *layer, const RestoreBlock *rb)
{
    for (size_t i = 0; i < rb->n_zeros; i++) {
        restore_write_zeros(rb->block, rb->zeros[i].offset, rb->zeros[i].length);
    }
    for (size_t i = 0; i < rb->n_extents; i++) {
        copy_plan_add(plan, layer->base, rb->block, &rb->extents[i]);
    }
}
