/*
 * The packed ring (virtio 1.2, 2.8): one ring of descriptors that both sides write, and an event structure for each side.
 *
 * vq->last_avail and vq->used are places in the ring, each with the wrap counter of its side (2.8.1).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/virtio/virtqueue-internal.h"

#include "util/le.h"

/* Fields of a descriptor, as offsets (2.8.13). */
enum { DESC_ADDR = 0, DESC_LEN = 8, DESC_ID = 12, DESC_FLAGS = 14 };

/* Flags of an event structure, and its size (2.8.14). */
enum { EVENT_ENABLE = 0, EVENT_DISABLE = 1, EVENT_DESC = 2 };
#define EVENT_SIZE 4
#define EVENT_WRAP 0x8000

static bool packed_size_allowed(unsigned size)
{
    return size > 0;
}

static void packed_areas(const VirtQueue *vq, VirtRingArea ret_areas[3])
{
    uint64_t ring = (uint64_t)vq->size * VIRT_DESC_SIZE;

    ret_areas[0] = (VirtRingArea){ "descriptor ring", vq->desc, ring, 16, true };
    ret_areas[1] = (VirtRingArea){ "driver event structure", vq->driver, EVENT_SIZE, 4, false };
    ret_areas[2] = (VirtRingArea){ "device event structure", vq->device, EVENT_SIZE, 4, true };
}

static uint64_t desc_at(const VirtQueue *vq, unsigned place)
{
    return vq->desc + (uint64_t)place * VIRT_DESC_SIZE;
}

/* A place @by entries on, or back, and the wrap counter there. */
static void move(const VirtQueue *vq, uint16_t *place, bool *wrap, int by)
{
    int to = *place + by;

    if (to >= (int)vq->size) {
        to -= vq->size;
        *wrap = !*wrap;
    } else if (to < 0) {
        to += vq->size;
        *wrap = !*wrap;
    }
    *place = (uint16_t)to;
}

/* --- Taking --- */

static bool packed_available(VirtQueue *vq)
{
    uint8_t bytes[2];
    uint16_t flags;

    if (!virtqueue_ring_read(vq, desc_at(vq, vq->last_avail) + DESC_FLAGS, bytes, sizeof(bytes))) {
        return false;
    }
    flags = get_le16(bytes);
    /* The rest of the descriptor is read after its flags. */
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return !!(flags & VIRT_DESC_AVAIL) == vq->avail_wrap &&
           !!(flags & VIRT_DESC_USED) != vq->avail_wrap;
}

/* 2.8.7: the entries of an indirect table are used from first to last; of their flags only WRITE has a meaning. */
static bool take_indirect(VirtQueue *vq, PoolElement *e, uint64_t addr, uint32_t len,
                          uint16_t flags)
{
    unsigned n = virtqueue_read_table(vq, addr, len, flags);

    for (unsigned i = 0; i < n; i++) {
        const uint8_t *p = vq->table + (size_t)i * VIRT_DESC_SIZE;
        uint16_t f = get_le16(p + DESC_FLAGS);

        if (f & (VIRT_DESC_INDIRECT | VIRT_DESC_NEXT)) {
            virtqueue_error(vq, "an entry of an indirect table has the flags 0x%x", f);
            return false;
        }
        if (!virtqueue_add_segment(vq, e, get_le64(p + DESC_ADDR), get_le32(p + DESC_LEN),
                                   f & VIRT_DESC_WRITE)) {
            return false;
        }
    }
    return n > 0;
}

/* The descriptors of a chain follow one another in the ring; the last one has the id. */
static bool packed_take(VirtQueue *vq, PoolElement *e)
{
    uint16_t place = vq->last_avail, flags;
    bool wrap = vq->avail_wrap;
    unsigned n = 0;

    do {
        uint8_t d[VIRT_DESC_SIZE];

        if (vq->descs_out + n == vq->size) {
            virtqueue_error(vq, "a buffer of more descriptors than the ring has left");
            return false;
        }
        if (!virtqueue_ring_read(vq, desc_at(vq, place), d, sizeof(d))) {
            return false;
        }
        flags = get_le16(d + DESC_FLAGS);
        if (!(flags & VIRT_DESC_INDIRECT
                  ? take_indirect(vq, e, get_le64(d + DESC_ADDR), get_le32(d + DESC_LEN), flags)
                  : virtqueue_add_segment(vq, e, get_le64(d + DESC_ADDR), get_le32(d + DESC_LEN),
                                          flags & VIRT_DESC_WRITE))) {
            return false;
        }
        e->elem.head = get_le16(d + DESC_ID);
        move(vq, &place, &wrap, 1);
        n++;
    } while (flags & VIRT_DESC_NEXT);
    e->elem.n_descs = (uint16_t)n;
    vq->descs_out += n;
    vq->last_avail = place;
    vq->avail_wrap = wrap;
    return true;
}

static void packed_untake(VirtQueue *vq, const PoolElement *e)
{
    vq->descs_out -= e->elem.n_descs;
    move(vq, &vq->last_avail, &vq->avail_wrap, -(int)e->elem.n_descs);
}

/* --- Giving back --- */

static bool write_flags(VirtQueue *vq, unsigned place, uint16_t flags)
{
    uint8_t bytes[2];

    put_le16(bytes, flags);
    return virtqueue_ring_write(vq, desc_at(vq, place) + DESC_FLAGS, bytes, sizeof(bytes));
}

/*
 * Entries behind the first get their flags at once: the driver does not look at them before the first's, which are
 * written last of all.
 */
static bool write_used(VirtQueue *vq, unsigned *ret_descs)
{
    uint16_t first = vq->used, first_flags = 0;
    unsigned descs = 0;

    for (unsigned i = 0; i < vq->n_pending; i++) {
        const VirtUsed *u = &vq->pending[i];
        uint16_t flags = vq->used_wrap ? VIRT_DESC_AVAIL | VIRT_DESC_USED : 0;
        uint8_t d[DESC_FLAGS - DESC_LEN];

        if (u->written) {
            flags |= VIRT_DESC_WRITE;
        }
        put_le32(d, u->written);
        put_le16(&d[DESC_ID - DESC_LEN], u->id);
        if (!virtqueue_ring_write(vq, desc_at(vq, vq->used) + DESC_LEN, d, sizeof(d))) {
            return false;
        }
        if (i == 0) {
            first_flags = flags;
        } else {
            __atomic_thread_fence(__ATOMIC_RELEASE);
            if (!write_flags(vq, vq->used, flags)) {
                return false;
            }
        }
        descs += u->n_descs;
        move(vq, &vq->used, &vq->used_wrap, u->n_descs);
    }
    *ret_descs = descs;
    __atomic_thread_fence(__ATOMIC_RELEASE);
    return write_flags(vq, first, first_flags);
}

/*
 * 2.8.10: the driver's place was passed by the @descs entries before vq->used. Places of the last round count from
 * -size to -1.
 */
static bool event_passed(const VirtQueue *vq, uint16_t off_wrap, unsigned descs)
{
    int event = off_wrap & ~EVENT_WRAP;

    if (!!(off_wrap & EVENT_WRAP) != vq->used_wrap) {
        event -= (int)vq->size;
    }
    return event < vq->used && event >= vq->used - (int)descs;
}

static bool packed_publish(VirtQueue *vq)
{
    uint8_t event[EVENT_SIZE];
    unsigned descs;
    uint16_t flags;

    if (!write_used(vq, &descs)) {
        return false;
    }
    vq->descs_out -= descs;
    /* The driver's wish is read after it sees the entries. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!virtqueue_ring_read(vq, vq->driver, event, sizeof(event))) {
        return false;
    }
    flags = get_le16(event + 2) & 3;
    if (flags == EVENT_DESC && virtio_has_feature(vq->dev, VIRTIO_F_EVENT_IDX)) {
        return event_passed(vq, get_le16(event), descs);
    }
    return flags != EVENT_DISABLE;
}

static void packed_set_kicks(VirtQueue *vq, bool wanted)
{
    bool event_idx = virtio_has_feature(vq->dev, VIRTIO_F_EVENT_IDX);
    uint16_t at = vq->last_avail | (vq->avail_wrap ? EVENT_WRAP : 0);
    uint8_t bytes[2];

    if (vq->kicks_told && vq->kicks_wanted == wanted && (!event_idx || vq->kick_at == at)) {
        return;
    }
    if (wanted && event_idx) {
        put_le16(bytes, at);
        if (!virtqueue_ring_write(vq, vq->device, bytes, sizeof(bytes))) {
            return;
        }
        __atomic_thread_fence(__ATOMIC_RELEASE);
    }
    if (!vq->kicks_told || vq->kicks_wanted != wanted) {
        put_le16(bytes, !wanted ? EVENT_DISABLE : event_idx ? EVENT_DESC : EVENT_ENABLE);
        if (!virtqueue_ring_write(vq, vq->device + 2, bytes, sizeof(bytes))) {
            return;
        }
    }
    vq->kicks_told = true;
    vq->kicks_wanted = wanted;
    vq->kick_at = at;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

const VirtRingOps virtqueue_packed = {
    .areas = packed_areas,
    .size_allowed = packed_size_allowed,
    .available = packed_available,
    .take = packed_take,
    .untake = packed_untake,
    .publish = packed_publish,
    .set_kicks = packed_set_kicks,
};
