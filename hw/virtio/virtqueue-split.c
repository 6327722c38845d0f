/*
 * The split ring (virtio 1.2, 2.7): descriptor table, available ring, used ring.
 *
 * All numbers are little-endian, for legacy drivers too, whose order is that of the guest.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/virtio/virtqueue-internal.h"

#include "memory/guest-access.h"
#include "util/le.h"

#define DESC_RUN 8 /* descriptors read at once: those of a buffer usually lie in a row */
#define USED_RUN 32

enum {
    AVAIL_NO_INTERRUPT = 1, /* flags of the available ring, 2.7.7 */
    USED_NO_NOTIFY = 1,     /* flags of the used ring, 2.7.10 */
};

typedef struct SplitDesc {
    uint64_t addr;
    uint32_t len;
    uint16_t flags, next;
} SplitDesc;

/* Descriptors as they were read: entries from to from + n of a table of count. */
typedef struct SplitTable {
    uint64_t addr;
    unsigned count;
    const uint8_t *bytes;
    unsigned from, n;
    bool indirect;
} SplitTable;

static bool split_size_allowed(unsigned size)
{
    return (size & (size - 1)) == 0;
}

static uint64_t avail_entry(const VirtQueue *vq, uint16_t index)
{
    return vq->driver + 4 + 2 * (index & (vq->size - 1));
}

static uint64_t used_entry(const VirtQueue *vq, uint16_t index)
{
    return vq->device + 4 + 8 * (uint64_t)(index & (vq->size - 1));
}

/* Where the driver says at which used index it wants an interrupt, and the device at which available one a kick. */
static uint64_t used_event(const VirtQueue *vq)
{
    return vq->driver + 4 + 2 * (uint64_t)vq->size;
}

static uint64_t avail_event(const VirtQueue *vq)
{
    return vq->device + 4 + 8 * (uint64_t)vq->size;
}

static void split_areas(const VirtQueue *vq, VirtRingArea ret_areas[3])
{
    unsigned event = virtio_has_feature(vq->dev, VIRTIO_F_EVENT_IDX) ? 2 : 0;
    uint64_t size = vq->size;

    ret_areas[0] = (VirtRingArea){ "descriptor table", vq->desc, VIRT_DESC_SIZE * size, 16, false };
    ret_areas[1] = (VirtRingArea){ "available ring", vq->driver, 4 + 2 * size + event, 2, false };
    ret_areas[2] = (VirtRingArea){ "used ring", vq->device, 4 + 8 * size + event, 4, true };
}

static bool read_le16(VirtQueue *vq, uint64_t addr, uint16_t *ret_value)
{
    uint8_t bytes[2];

    if (!virtqueue_ring_read(vq, addr, bytes, sizeof(bytes))) {
        return false;
    }
    *ret_value = get_le16(bytes);
    return true;
}

static bool write_le16(VirtQueue *vq, uint64_t addr, uint16_t value)
{
    uint8_t bytes[2];

    put_le16(bytes, value);
    return virtqueue_ring_write(vq, addr, bytes, sizeof(bytes));
}

/* --- Taking --- */

/* The index is read again only when all up to the last one read is taken. */
static bool split_available(VirtQueue *vq)
{
    uint16_t idx;

    if (vq->last_avail != vq->avail_idx) {
        return true;
    }
    if (!read_le16(vq, vq->driver + 2, &idx)) {
        return false;
    }
    if ((uint16_t)(idx - vq->used) > vq->size) {
        virtqueue_error(vq, "the available index goes from %u to %u, with %u entries",
                        vq->avail_idx, idx, vq->size);
        return false;
    }
    vq->avail_idx = idx;
    /* What the index promises is read after the index. */
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return vq->last_avail != idx;
}

/* Entries of the available ring are read in runs. */
static bool next_head(VirtQueue *vq, uint16_t *ret_head)
{
    uint16_t at = (uint16_t)(vq->last_avail - vq->heads_from);

    if (at >= vq->n_heads) {
        unsigned left = (uint16_t)(vq->avail_idx - vq->last_avail);
        unsigned n = MIN(left, vq->size - (vq->last_avail & (vq->size - 1)));
        uint8_t bytes[2 * VIRT_HEADS];

        n = MIN(n, VIRT_HEADS);
        if (!virtqueue_ring_read(vq, avail_entry(vq, vq->last_avail), bytes, 2 * n)) {
            return false;
        }
        for (unsigned i = 0; i < n; i++) {
            vq->heads[i] = get_le16(bytes + 2 * i);
        }
        vq->heads_from = vq->last_avail;
        vq->n_heads = n;
        at = 0;
    }
    *ret_head = vq->heads[at];
    return true;
}

/* Entry @i of a table: an indirect one is in vq->table as a whole, of the other a run is read into it. */
static bool get_desc(VirtQueue *vq, SplitTable *t, unsigned i, SplitDesc *ret_desc)
{
    const uint8_t *p;

    if (i - t->from >= t->n) {
        t->from = i;
        t->n = MIN(t->count - i, DESC_RUN);
        if (!virtqueue_ring_read(vq, t->addr + (uint64_t)i * VIRT_DESC_SIZE, vq->table,
                                 t->n * VIRT_DESC_SIZE)) {
            return false;
        }
    }
    p = vq->table + (size_t)(i - t->from) * VIRT_DESC_SIZE;
    *ret_desc = (SplitDesc){ get_le64(p), get_le32(p + 8), get_le16(p + 12), get_le16(p + 14) };
    return true;
}

static bool enter_indirect(VirtQueue *vq, SplitTable *t, const SplitDesc *d)
{
    unsigned n;

    if (t->indirect) {
        virtqueue_error(vq, "an indirect table in an indirect table");
        return false;
    }
    n = virtqueue_read_table(vq, d->addr, d->len, d->flags);
    *t = (SplitTable){ .addr = d->addr, .count = n, .n = n, .indirect = true };
    return n > 0;
}

/* Follows the chain from @head. A chain has at most as many descriptors as its table: more are a loop. */
static bool walk(VirtQueue *vq, PoolElement *e, unsigned head)
{
    SplitTable t = { .addr = vq->desc, .count = vq->size };
    unsigned i = head, seen = 0;

    for (;;) {
        SplitDesc d;

        if (i >= t.count) {
            virtqueue_error(vq, "descriptor %u of a table of %u", i, t.count);
            return false;
        }
        if (seen++ == t.count) {
            virtqueue_error(vq, "the descriptors of a buffer form a loop");
            return false;
        }
        if (!get_desc(vq, &t, i, &d)) {
            return false;
        }
        if (d.flags & VIRT_DESC_INDIRECT) {
            if (!enter_indirect(vq, &t, &d)) {
                return false;
            }
            i = seen = 0;
            continue;
        }
        if (!virtqueue_add_segment(vq, e, d.addr, d.len, d.flags & VIRT_DESC_WRITE)) {
            return false;
        }
        if (!(d.flags & VIRT_DESC_NEXT)) {
            return true;
        }
        i = d.next;
    }
}

static bool split_take(VirtQueue *vq, PoolElement *e)
{
    if (!next_head(vq, &e->elem.head) || !walk(vq, e, e->elem.head)) {
        return false;
    }
    e->elem.n_descs = 1;
    vq->last_avail++;
    return true;
}

static void split_untake(VirtQueue *vq, const PoolElement *e)
{
    vq->last_avail--;
}

/* --- Giving back --- */

/* Entries are written in runs that end with the ring. */
static bool write_used(VirtQueue *vq)
{
    for (unsigned done = 0; done < vq->n_pending;) {
        uint16_t index = (uint16_t)(vq->used + done);
        unsigned n = MIN(vq->n_pending - done, vq->size - (index & (vq->size - 1)));
        uint8_t bytes[8 * USED_RUN];

        n = MIN(n, USED_RUN);
        for (unsigned i = 0; i < n; i++) {
            put_le32(bytes + 8 * i, vq->pending[done + i].id);
            put_le32(bytes + 8 * i + 4, vq->pending[done + i].written);
        }
        if (!virtqueue_ring_write(vq, used_entry(vq, index), bytes, 8 * n)) {
            return false;
        }
        done += n;
    }
    return true;
}

/* 2.7.10: the driver's index was passed by going from @before to vq->used. */
static bool event_passed(const VirtQueue *vq, uint16_t event, uint16_t before)
{
    return (uint16_t)(vq->used - event - 1) < (uint16_t)(vq->used - before);
}

static bool split_publish(VirtQueue *vq)
{
    uint16_t before = vq->used, value;

    if (!write_used(vq)) {
        return false;
    }
    /* The index is seen after the entries, and the driver's wish read after it sees the index. */
    __atomic_thread_fence(__ATOMIC_RELEASE);
    vq->used = (uint16_t)(vq->used + vq->n_pending);
    if (!write_le16(vq, vq->device + 2, vq->used)) {
        return false;
    }
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (virtio_has_feature(vq->dev, VIRTIO_F_EVENT_IDX)) {
        return read_le16(vq, used_event(vq), &value) && event_passed(vq, value, before);
    }
    return read_le16(vq, vq->driver, &value) && !(value & AVAIL_NO_INTERRUPT);
}

static void split_set_kicks(VirtQueue *vq, bool wanted)
{
    bool event_idx = virtio_has_feature(vq->dev, VIRTIO_F_EVENT_IDX);

    if (vq->kicks_told && vq->kicks_wanted == wanted &&
        (!event_idx || vq->kick_at == vq->last_avail)) {
        return;
    }
    if (event_idx) {
        /* Not wanted: the index stays where it is, and is passed at most once more in 2^16 buffers. */
        if (wanted && !write_le16(vq, avail_event(vq), vq->last_avail)) {
            return;
        }
    } else if (!write_le16(vq, vq->device, wanted ? 0 : USED_NO_NOTIFY)) {
        return;
    }
    vq->kicks_told = true;
    vq->kicks_wanted = wanted;
    vq->kick_at = vq->last_avail;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

const VirtRingOps virtqueue_split = {
    .areas = split_areas,
    .size_allowed = split_size_allowed,
    .available = split_available,
    .take = split_take,
    .untake = split_untake,
    .publish = split_publish,
    .set_kicks = split_set_kicks,
};
