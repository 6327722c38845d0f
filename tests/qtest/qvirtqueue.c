/*
 * Queues of a virtio device for tests: their registers, split and packed rings.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "tests/qtest/qvirtio.h"

#include <string.h>

/* Common configuration, 4.1.4.3 */
enum {
    NUM_QUEUES = 18,
    QUEUE_SELECT = 22,
    QUEUE_SIZE = 24,
    QUEUE_VECTOR = 26,
    QUEUE_ENABLE = 28,
    QUEUE_NOTIFY_OFF = 30,
    QUEUE_DESC = 32,
    QUEUE_DRIVER = 40,
    QUEUE_DEVICE = 48,
};
/* Legacy registers, 4.1.4.10 */
enum {
    LEGACY_PFN = 8,
    LEGACY_SIZE = 12,
    LEGACY_SELECT = 14,
    LEGACY_NOTIFY = 16,
    LEGACY_VECTOR = 22,
};
#define LEGACY_PAGE 4096

enum { DESC_SIZE = 16, RING_INDEX = 2, RING_FIRST = 4, USED_ELEM = 8 };

/* --- Registers --- */

static void select_queue(QVirtio *dev, unsigned index)
{
    qpci_bar_writew(dev->common, dev->legacy ? LEGACY_SELECT : QUEUE_SELECT, index);
}

unsigned qvirtqueue_max_size(QVirtio *dev, unsigned index)
{
    if (!dev->legacy && index >= qpci_bar_readw(dev->common, NUM_QUEUES)) {
        return 0;
    }
    select_queue(dev, index);
    return qpci_bar_readw(dev->common, dev->legacy ? LEGACY_SIZE : QUEUE_SIZE);
}

static void write_address(QVirtio *dev, unsigned reg, uint64_t address)
{
    qpci_bar_writel(dev->common, reg, (uint32_t)address);
    qpci_bar_writel(dev->common, reg + 4, address >> 32);
}

static void enable_modern(QVirtQueue *vq, uint16_t vector)
{
    QVirtio *dev = vq->dev;

    select_queue(dev, vq->index);
    qpci_bar_writew(dev->common, QUEUE_SIZE, vq->size);
    if (dev->msi) {
        qpci_bar_writew(dev->common, QUEUE_VECTOR, vector);
        g_assert_cmphex(qpci_bar_readw(dev->common, QUEUE_VECTOR), ==, vector);
    }
    write_address(dev, QUEUE_DESC, vq->desc);
    write_address(dev, QUEUE_DRIVER, vq->driver);
    write_address(dev, QUEUE_DEVICE, vq->device);
    qpci_bar_writew(dev->common, QUEUE_ENABLE, 1);
    vq->doorbell = dev->notify.address +
                   (uint64_t)qpci_bar_readw(dev->common, QUEUE_NOTIFY_OFF) * dev->notify_multiplier;
}

static void enable_legacy(QVirtQueue *vq, uint16_t vector)
{
    QVirtio *dev = vq->dev;

    select_queue(dev, vq->index);
    if (dev->msi) {
        qpci_bar_writew(dev->common, LEGACY_VECTOR, vector);
        g_assert_cmphex(qpci_bar_readw(dev->common, LEGACY_VECTOR), ==, vector);
    }
    qpci_bar_writel(dev->common, LEGACY_PFN, vq->desc / LEGACY_PAGE);
    vq->doorbell = dev->common.address + LEGACY_NOTIFY;
}

/* --- Life --- */

static uint64_t round_up(uint64_t value, uint64_t align)
{
    return (value + align - 1) / align * align;
}

/* The three areas in one piece, as legacy drivers must have them (2.7.2). */
static void place_split(QVirtQueue *vq)
{
    uint64_t table = vq->size * DESC_SIZE, available = RING_FIRST + 2 * vq->size + 2;
    uint64_t used = RING_FIRST + USED_ELEM * vq->size + 2;
    uint64_t offset = round_up(table + available, LEGACY_PAGE);

    vq->desc = qtest_alloc(vq->dev->q, offset + used, LEGACY_PAGE);
    vq->driver = vq->desc + table;
    vq->device = vq->desc + offset;
}

static void place_packed(QVirtQueue *vq)
{
    vq->desc = qtest_alloc(vq->dev->q, vq->size * DESC_SIZE, DESC_SIZE);
    vq->driver = qtest_alloc(vq->dev->q, 4, 4);
    vq->device = qtest_alloc(vq->dev->q, 4, 4);
    vq->wrap = vq->used_wrap = true;
}

QVirtQueue *qvirtqueue_new_vector(QVirtio *dev, unsigned index, unsigned size, uint16_t vector)
{
    QVirtQueue *vq = g_new0(QVirtQueue, 1);
    unsigned max = qvirtqueue_max_size(dev, index);

    vq->dev = dev;
    vq->index = index;
    vq->size = size && !dev->legacy ? size : max;
    g_assert_cmpuint(vq->size, >, 0);
    g_assert_cmpuint(vq->size, <=, QVIRTQUEUE_MAX);
    vq->packed = dev->features & QVIRTIO_F_PACKED;
    vq->event_idx = dev->features & QVIRTIO_F_EVENT_IDX;
    vq->n_free = vq->size;
    for (unsigned i = 0; i < vq->size; i++) {
        vq->link[i] = i + 1;
    }
    if (vq->packed) {
        place_packed(vq);
    } else {
        place_split(vq);
    }
    if (dev->legacy) {
        enable_legacy(vq, vector);
    } else {
        enable_modern(vq, vector);
    }
    return vq;
}

QVirtQueue *qvirtqueue_new(QVirtio *dev, unsigned index, unsigned size)
{
    bool has_vector = dev->msi && index + 1 < dev->pci->vectors;

    return qvirtqueue_new_vector(dev, index, size, has_vector ? index + 1 : QVIRTIO_NO_VECTOR);
}

void qvirtqueue_free(QVirtQueue *vq)
{
    g_free(vq);
}

/* --- Descriptors --- */

static void write_packed_desc(QVirtio *dev, uint64_t at, uint64_t address, uint32_t len,
                              uint16_t id, uint16_t flags)
{
    /* The flags make it available: last. */
    qtest_writeq(dev->q, at, address);
    qtest_writel(dev->q, at + 8, len);
    qtest_writew(dev->q, at + 12, id);
    qtest_writew(dev->q, at + 14, flags);
}

void qvirtq_set_desc(QVirtio *dev, uint64_t table, unsigned i, uint64_t address, uint32_t len,
                     uint16_t flags, uint16_t next)
{
    uint64_t at = table + i * DESC_SIZE;

    qtest_writeq(dev->q, at, address);
    qtest_writel(dev->q, at + 8, len);
    qtest_writew(dev->q, at + 12, flags);
    qtest_writew(dev->q, at + 14, next);
}

void qvirtqueue_add_head(QVirtQueue *vq, uint16_t head)
{
    QTest *q = vq->dev->q;

    qtest_writew(q, vq->driver + RING_FIRST + 2 * (vq->avail_index % vq->size), head);
    vq->avail_index++;
    qtest_writew(q, vq->driver + RING_INDEX, vq->avail_index);
}

static uint16_t part_flags(const QVirtBuffer *part)
{
    return part->write ? QVIRTQ_WRITE : 0;
}

/* An indirect table of the parts, in new RAM. */
static uint64_t make_table(QVirtQueue *vq, const QVirtBuffer *parts, unsigned n)
{
    uint64_t table = qtest_alloc(vq->dev->q, n * DESC_SIZE, DESC_SIZE);

    for (unsigned i = 0; i < n; i++) {
        uint16_t flags = part_flags(&parts[i]);

        if (vq->packed) {
            write_packed_desc(vq->dev, table + i * DESC_SIZE, parts[i].address, parts[i].len, 0,
                              flags);
        } else {
            qvirtq_set_desc(vq->dev, table, i, parts[i].address, parts[i].len,
                            flags | (i + 1 < n ? QVIRTQ_NEXT : 0), i + 1);
        }
    }
    return table;
}

/* --- Split ring --- */

static uint16_t add_split(QVirtQueue *vq, const QVirtBuffer *parts, unsigned n, uint16_t extra)
{
    uint16_t head = vq->free_head, at = head;

    for (unsigned i = 0; i < n; i++) {
        bool last = i + 1 == n;

        qvirtq_set_desc(vq->dev, vq->desc, at, parts[i].address, parts[i].len,
                        part_flags(&parts[i]) | extra | (last ? 0 : QVIRTQ_NEXT),
                        last ? 0 : vq->link[at]);
        at = vq->link[at];
    }
    vq->free_head = at;
    vq->n_free -= n;
    vq->chain[head] = n;
    qvirtqueue_add_head(vq, head);
    return head;
}

static void free_chain(QVirtQueue *vq, uint16_t head)
{
    uint16_t tail = head;

    g_assert_cmpuint(head, <, vq->size);
    g_assert_cmpuint(vq->chain[head], >, 0);
    for (unsigned i = 1; i < vq->chain[head]; i++) {
        tail = vq->link[tail];
    }
    vq->link[tail] = vq->free_head;
    vq->free_head = head;
    vq->n_free += vq->chain[head];
    vq->chain[head] = 0;
}

static bool get_split(QVirtQueue *vq, QVirtUsed *ret)
{
    QTest *q = vq->dev->q;
    uint64_t elem = vq->device + RING_FIRST + USED_ELEM * (vq->used_seen % vq->size);

    if (qtest_readw(q, vq->device + RING_INDEX) == vq->used_seen) {
        return false;
    }
    ret->id = qtest_readl(q, elem);
    ret->len = qtest_readl(q, elem + 4);
    vq->used_seen++;
    if (vq->event_idx) {
        qtest_writew(q, vq->driver + RING_FIRST + 2 * vq->size, vq->used_seen);
    }
    free_chain(vq, ret->id);
    return true;
}

/* --- Packed ring --- */

static uint16_t packed_flags(const QVirtQueue *vq)
{
    return vq->wrap ? QVIRTQ_AVAIL : QVIRTQ_USED;
}

/* The place of the next descriptor, with its flags of availability. */
static uint64_t next_place(QVirtQueue *vq, uint16_t *ret_flags)
{
    uint64_t at = vq->desc + vq->next * DESC_SIZE;

    *ret_flags = packed_flags(vq);
    if (++vq->next == vq->size) {
        vq->next = 0;
        vq->wrap = !vq->wrap;
    }
    return at;
}

void qvirtqueue_add_packed(QVirtQueue *vq, uint64_t address, uint32_t len, uint16_t id,
                           uint16_t flags)
{
    uint16_t available;
    uint64_t at = next_place(vq, &available);

    write_packed_desc(vq->dev, at, address, len, id, flags | available);
}

static uint16_t add_packed(QVirtQueue *vq, const QVirtBuffer *parts, unsigned n, uint16_t extra)
{
    uint16_t id = vq->free_head, first_flags = 0;
    uint64_t first = 0;

    for (unsigned i = 0; i < n; i++) {
        uint16_t available, flags = part_flags(&parts[i]) | extra | (i + 1 < n ? QVIRTQ_NEXT : 0);
        uint64_t at = next_place(vq, &available);

        if (i == 0) {
            first = at;
            first_flags = flags | available;
        }
        /* The first one becomes available when all are written. */
        write_packed_desc(vq->dev, at, parts[i].address, parts[i].len, id,
                          i ? flags | available : qtest_readw(vq->dev->q, at + 14));
    }
    qtest_writew(vq->dev->q, first + 14, first_flags);
    vq->free_head = vq->link[id];
    vq->n_free -= n;
    vq->chain[id] = n;
    return id;
}

static bool get_packed(QVirtQueue *vq, QVirtUsed *ret)
{
    QTest *q = vq->dev->q;
    uint64_t at = vq->desc + vq->next_used * DESC_SIZE;
    uint16_t flags = qtest_readw(q, at + 14);

    if (!!(flags & QVIRTQ_AVAIL) != vq->used_wrap || !!(flags & QVIRTQ_USED) != vq->used_wrap) {
        return false;
    }
    ret->len = qtest_readl(q, at + 8);
    ret->id = qtest_readw(q, at + 12);
    g_assert_cmpuint(ret->id, <, vq->size);
    g_assert_cmpuint(vq->chain[ret->id], >, 0);
    vq->next_used += vq->chain[ret->id];
    if (vq->next_used >= vq->size) {
        vq->next_used -= vq->size;
        vq->used_wrap = !vq->used_wrap;
    }
    vq->n_free += vq->chain[ret->id];
    vq->chain[ret->id] = 0;
    vq->link[ret->id] = vq->free_head;
    vq->free_head = ret->id;
    return true;
}

/* --- Either --- */

static uint16_t add(QVirtQueue *vq, const QVirtBuffer *parts, unsigned n, uint16_t extra)
{
    g_assert_cmpuint(n, >, 0);
    g_assert_cmpuint(n, <=, vq->n_free);
    return vq->packed ? add_packed(vq, parts, n, extra) : add_split(vq, parts, n, extra);
}

uint16_t qvirtqueue_add(QVirtQueue *vq, const QVirtBuffer *parts, unsigned n)
{
    return add(vq, parts, n, 0);
}

uint16_t qvirtqueue_add_indirect(QVirtQueue *vq, const QVirtBuffer *parts, unsigned n)
{
    QVirtBuffer table = { make_table(vq, parts, n), n * DESC_SIZE, false };

    return add(vq, &table, 1, QVIRTQ_INDIRECT);
}

void qvirtqueue_kick(QVirtQueue *vq)
{
    if (vq->dev->legacy) {
        qtest_outw(vq->dev->q, vq->doorbell, vq->index);
    } else {
        qtest_writew(vq->dev->q, vq->doorbell, vq->index);
    }
}

bool qvirtqueue_get(QVirtQueue *vq, QVirtUsed *ret)
{
    return vq->packed ? get_packed(vq, ret) : get_split(vq, ret);
}

typedef struct UsedWait {
    QVirtQueue *vq;
    QVirtUsed used;
} UsedWait;

static bool got_used(void *opaque)
{
    UsedWait *wait = opaque;

    return qvirtqueue_get(wait->vq, &wait->used);
}

QVirtUsed qvirtqueue_wait(QVirtQueue *vq)
{
    UsedWait wait = { .vq = vq };

    qtest_wait_until(got_used, &wait, "a buffer to come back");
    return wait.used;
}

uint32_t qvirtqueue_do(QVirtQueue *vq, const QVirtBuffer *parts, unsigned n)
{
    uint16_t id = qvirtqueue_add(vq, parts, n);
    QVirtUsed used;

    qvirtqueue_kick(vq);
    used = qvirtqueue_wait(vq);
    g_assert_cmpuint(used.id, ==, id);
    return used.len;
}
