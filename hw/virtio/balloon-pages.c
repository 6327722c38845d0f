/*
 * Pages of virtio-balloon: inflate, deflate, and free pages reported (virtio 1.2, 5.5.6).
 *
 * Buffers are acknowledged whatever becomes of their pages; what is no RAM of the guest is counted and left
 * alone. Adjacent pages are given back together. One call of a handler does a bounded amount of work and leaves the
 * rest to the main loop, in the middle of a buffer if need be, since a buffer may be as long as the driver likes.
 *
 * Memory that is given back by whole chunks only (a copy-on-write block, a block of huge pages) waits in the inflate map
 * until its chunk is full. By then pages of buffers acknowledged before go too, which is allowed only if the driver
 * tells before it takes pages back: MUST_TELL_HOST.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/virtio/balloon-internal.h"

#include "memory/address-map.h"
#include "memory/discard.h"
#include "qapi/qapi-types.h"
#include "util/error.h"
#include "util/log.h"

#define PAGE_SIZE (UINT64_C(1) << INFLATE_PAGE_SHIFT)

/* Work of one call, and what things count: a page number is 1. */
#define WORK_PER_CALL 4096
#define WORK_PER_BUFFER 16
#define WORK_PER_SEGMENT 64
#define PAGES_AT_ONCE 256

/* One pass over buffers of one queue: pages collected, not given back yet, and the range looked up last. */
typedef struct Pass {
    VirtioBalloon *b;
    BalloonQueue *queue;
    DiscardRequest request;
    bool whole_chunks; /* pages may wait for their chunk to be full */
    RamBlock *block;   /* of the pages collected; NULL = none */
    uint64_t start, end;
    AddressRange range; /* size 0: none */
    unsigned work;      /* left in this call */
    uint64_t ignored;
    bool failed; /* nothing more is given back */
} Pass;

static Pass begin_pass(VirtioBalloon *b, VirtQueue *vq, DiscardWhy why)
{
    VirtioDevice *dev = VIRTIO_DEVICE(b);
    bool poison = virtio_has_feature(dev, BALLOON_F_PAGE_POISON);
    bool keeps = poison && b->poison_value != 0;

    return (Pass){
        .b = b,
        .queue = &b->queues[virtqueue_index(vq)],
        .request = { .why = why,
                     .policy = b->discard_policy == BALLOON_DISCARD_POLICY_DONTNEED
                                   ? DISCARD_POLICY_DONTNEED
                                   : DISCARD_POLICY_REMAP,
                     .page_poison = poison,
                     .poison_value = b->poison_value },
        .whole_chunks = !keeps && virtio_has_feature(dev, BALLOON_F_MUST_TELL_HOST),
        .work = WORK_PER_CALL,
    };
}

static void spend(Pass *p, uint64_t work)
{
    p->work -= MIN(p->work, work);
}

/* --- Giving back --- */

/* Gives back what was collected. */
static void flush_pages(Pass *p)
{
    g_autoptr(GError) err = NULL;
    DiscardResult result;

    if (!p->block) {
        return;
    }
    if (!p->failed &&
        !discard_range(p->block, p->start, p->end - p->start, &p->request, &result, &err)) {
        /* Guest memory is broken: the VM is being stopped. */
        error_report("%s: %s", virtio_name(VIRTIO_DEVICE(p->b)), err->message);
        p->failed = true;
    }
    p->block = NULL;
}

static void collect(Pass *p, RamBlock *block, uint64_t start, uint64_t length)
{
    if (p->block == block && start <= p->end && start + length >= p->start) {
        p->start = MIN(p->start, start);
        p->end = MAX(p->end, start + length);
        return;
    }
    flush_pages(p);
    p->block = block;
    p->start = start;
    p->end = start + length;
}

/* The RAM at an address, and how much of it follows; false = there is none. */
static bool find_ram(Pass *p, uint64_t gpa, RamBlock **ret_block, uint64_t *ret_offset,
                     uint64_t *ret_left)
{
    AddressRange *r = &p->range;

    if (gpa < r->base || gpa - r->base >= r->size) {
        if (!address_map_find(VIRTIO_DEVICE(p->b)->memory, gpa, r) || r->kind != ADDRESS_RAM ||
            r->readonly) {
            r->size = 0;
            return false;
        }
    }
    *ret_block = r->block;
    *ret_offset = r->block_offset + (gpa - r->base);
    *ret_left = r->size - (gpa - r->base);
    return true;
}

/* --- Inflate and deflate --- */

/* Single pages of this chunk stay where they are until all of it can go. */
static bool waits_for_chunk(Pass *p, const RamBlock *block, uint64_t offset)
{
    if (!p->whole_chunks) {
        return false;
    }
    if (block->page_size > PAGE_SIZE) {
        return true;
    }
    if (block->kind == RAM_FILE_PRIVATE) {
        return !chunk_map_test(block->released, offset >> RAM_CHUNK_SHIFT);
    }
    /* Begun before the block was detached from its file. */
    return inflate_map_has_chunk(p->b->inflated, block, offset >> INFLATE_PAGE_SHIFT);
}

static void inflate_page(Pass *p, RamBlock *block, uint64_t offset)
{
    uint64_t chunk = offset & ~(RAM_CHUNK_SIZE - 1);

    if (waits_for_chunk(p, block, offset) &&
        inflate_map_set(p->b->inflated, block, offset >> INFLATE_PAGE_SHIFT)) {
        collect(p, block, chunk, MIN(RAM_CHUNK_SIZE, block->size - chunk));
    } else {
        collect(p, block, offset, PAGE_SIZE);
    }
}

static void deflate_page(Pass *p, RamBlock *block, uint64_t offset)
{
    inflate_map_clear(p->b->inflated, block, offset >> INFLATE_PAGE_SHIFT);
}

/* Page numbers of the buffer, until it or the work of this call ends; true = all done. */
static bool take_pages(Pass *p, void (*take)(Pass *p, RamBlock *block, uint64_t offset))
{
    VirtioDevice *dev = VIRTIO_DEVICE(p->b);
    BalloonQueue *q = p->queue;
    uint32_t numbers[PAGES_AT_ONCE];
    size_t n = PAGES_AT_ONCE;

    while (p->work > 0 && n == PAGES_AT_ONCE) {
        n = virtelement_read(dev, q->elem, q->done, numbers, sizeof(numbers)) / sizeof(*numbers);
        for (size_t i = 0; i < n; i++) {
            uint64_t offset, left;
            RamBlock *block;

            if (find_ram(p, (uint64_t)GUINT32_FROM_LE(numbers[i]) << INFLATE_PAGE_SHIFT, &block,
                         &offset, &left)) {
                take(p, block, offset);
            } else {
                p->ignored++;
            }
        }
        q->done += n * sizeof(*numbers);
        spend(p, n);
    }
    return n < PAGES_AT_ONCE;
}

static bool inflate_buffer(Pass *p)
{
    return take_pages(p, inflate_page);
}

static bool deflate_buffer(Pass *p)
{
    return take_pages(p, deflate_page);
}

/* --- Reporting --- */

/* A free piece of memory: as far as it is RAM. */
static void report_segment(Pass *p, const VirtSegment *seg)
{
    uint64_t at = seg->addr;
    uint64_t end = at + MIN(seg->len, UINT64_MAX - at);
    uint64_t offset, left;
    RamBlock *block;

    while (at < end && find_ram(p, at, &block, &offset, &left)) {
        left = MIN(left, end - at);
        collect(p, block, offset, left);
        at += left;
        spend(p, left >> RAM_CHUNK_SHIFT);
    }
    p->ignored += (end - at) >> INFLATE_PAGE_SHIFT;
    spend(p, WORK_PER_SEGMENT);
}

static bool report_buffer(Pass *p)
{
    BalloonQueue *q = p->queue;

    for (; q->done < q->elem->n_in && p->work > 0; q->done++) {
        report_segment(p, &q->elem->in[q->done]);
    }
    return q->done == q->elem->n_in;
}

/* --- Queues --- */

/* The buffer begun before, or the next one. */
static bool have_buffer(Pass *p)
{
    BalloonQueue *q = p->queue;

    if (!q->elem) {
        q->elem = virtqueue_pop(q->vq);
        q->done = 0;
        spend(p, WORK_PER_BUFFER);
    }
    return q->elem != NULL;
}

static void end_pass(Pass *p)
{
    flush_pages(p);
    if (p->ignored > 0) {
        p->b->ignored_pages += p->ignored;
        log_printf(LOG_GUEST_ERROR,
                   "%s: %" G_GUINT64_FORMAT " pages given up by the guest are no RAM of it",
                   virtio_name(VIRTIO_DEVICE(p->b)), p->ignored);
    }
}

static void serve(Pass *p, bool (*buffer)(Pass *p))
{
    VirtioDevice *dev = VIRTIO_DEVICE(p->b);
    BalloonQueue *q = p->queue;
    bool used = false;

    while (p->work > 0 && have_buffer(p)) {
        bool done = buffer(p);

        if (dev->broken) {
            virtqueue_discard(q->vq, g_steal_pointer(&q->elem));
            break;
        }
        if (done) {
            /* Pages are given back before their buffer is: then they are the driver's again. */
            flush_pages(p);
            virtqueue_push(q->vq, g_steal_pointer(&q->elem), 0);
            used = true;
        }
    }
    end_pass(p);
    if (used) {
        virtqueue_flush(q->vq);
    }
    if (p->work == 0) {
        virtio_queue_schedule(q->vq);
    }
}

void balloon_inflate(VirtioDevice *dev, VirtQueue *vq)
{
    Pass pass = begin_pass(VIRTIO_BALLOON(dev), vq, DISCARD_INFLATED);

    serve(&pass, inflate_buffer);
}

void balloon_deflate(VirtioDevice *dev, VirtQueue *vq)
{
    Pass pass = begin_pass(VIRTIO_BALLOON(dev), vq, DISCARD_INFLATED);

    serve(&pass, deflate_buffer);
}

void balloon_report(VirtioDevice *dev, VirtQueue *vq)
{
    Pass pass = begin_pass(VIRTIO_BALLOON(dev), vq, DISCARD_REPORTED);

    serve(&pass, report_buffer);
}
