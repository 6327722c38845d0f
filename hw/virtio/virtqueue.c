/*
 * Queues of virtio devices: registers, the pool of elements, taking and giving back buffers.
 *
 * What is common to both layouts is here. The layouts (virtqueue-split.c, virtqueue-packed.c) read and write the
 * ring. Elements are made when more of them are out than ever before, and then kept, so that requests
 * allocate nothing.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/virtio/virtqueue-internal.h"

#include "memory/guest-access.h"
#include "util/error.h"
#include "util/le.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define LEGACY_PAGE_SHIFT 12

void virtqueue_error(VirtQueue *vq, const char *fmt, ...)
{
    g_autofree char *text = NULL;
    va_list ap;

    va_start(ap, fmt);
    text = g_strdup_vprintf(fmt, ap);
    va_end(ap);
    virtio_error(vq->dev, "queue %u: %s", vq->index, text);
}

/* --- Life --- */

VirtQueue *virtqueue_add(VirtioDevice *dev, unsigned size, VirtQueueHandler *handler)
{
    VirtQueue *vq = g_new0(VirtQueue, 1);

    g_assert(dev->n_queues < VIRTIO_QUEUE_MAX && size > 0 && size <= VIRTIO_QUEUE_SIZE_MAX &&
             (size & (size - 1)) == 0);
    vq->dev = dev;
    vq->index = dev->n_queues;
    vq->handler = handler;
    vq->max_size = size;
    vq->pool = g_ptr_array_new_with_free_func(g_free);
    vq->pending = g_new(VirtUsed, size);
    vq->table = g_malloc_n(size, VIRT_DESC_SIZE);
    vq->notifier = -1;
    virtqueue_reset_locked(vq);
    dev->queues[dev->n_queues++] = vq;
    return vq;
}

void virtqueue_free(VirtQueue *vq)
{
    if (vq->notifier >= 0) {
        close(vq->notifier);
    }
    g_ptr_array_unref(vq->pool);
    g_free(vq->pending);
    g_free(vq->table);
    g_free(vq);
}

/* --- The pool --- */

static PoolElement *pool_take(VirtQueue *vq)
{
    PoolElement *e = vq->free;

    if (e) {
        vq->free = e->next_free;
    } else {
        e = g_malloc(sizeof(*e) + vq->max_size * sizeof(e->segments[0]));
        g_ptr_array_add(vq->pool, e);
    }
    e->elem = (VirtElement){ .out = e->segments, .in = e->segments };
    e->out = true;
    return e;
}

static void pool_give(VirtQueue *vq, PoolElement *e)
{
    e->out = false;
    e->next_free = vq->free;
    vq->free = e;
    if (vq->newest == e) {
        vq->newest = NULL;
    }
}

/* The element that the device gives back; NULL if a reset has taken it away meanwhile. */
static PoolElement *pool_returned(VirtQueue *vq, VirtElement *elem)
{
    PoolElement *e = (PoolElement *)elem;

    if (!e->out) {
        return NULL;
    }
    vq->n_out--;
    return e;
}

/* --- For layouts --- */

bool virtqueue_ring_read(VirtQueue *vq, uint64_t addr, void *buf, size_t len)
{
    if (!guest_read(vq->dev->memory, addr, buf, len)) {
        virtqueue_error(vq, "the ring is not in RAM at 0x%" G_GINT64_MODIFIER "x", addr);
        return false;
    }
    return true;
}

bool virtqueue_ring_write(VirtQueue *vq, uint64_t addr, const void *buf, size_t len)
{
    if (!guest_write(vq->dev->memory, addr, buf, len)) {
        virtqueue_error(vq, "the ring is not in writable RAM at 0x%" G_GINT64_MODIFIER "x", addr);
        return false;
    }
    return true;
}

bool virtqueue_add_segment(VirtQueue *vq, PoolElement *e, uint64_t addr, uint32_t len, bool in)
{
    VirtElement *elem = &e->elem;
    unsigned n = elem->n_out + elem->n_in;

    if (!in && elem->n_in > 0) {
        virtqueue_error(vq, "a descriptor to be read follows one to be written");
        return false;
    }
    if (len == 0) {
        return true;
    }
    if (addr + (len - 1) < addr) {
        virtqueue_error(vq, "0x%x bytes at 0x%" G_GINT64_MODIFIER "x go beyond 2^64", len, addr);
        return false;
    }
    if (n == vq->max_size) {
        virtqueue_error(vq, "a buffer of more than %u descriptors", vq->max_size);
        return false;
    }
    *(in ? &elem->in_len : &elem->out_len) += len;
    if (elem->in_len + elem->out_len > UINT64_C(1) << 32) {
        virtqueue_error(vq, "a buffer of more than 2^32 bytes");
        return false;
    }
    e->segments[n] = (VirtSegment){ addr, len };
    if (in) {
        elem->n_in++;
    } else {
        elem->n_out++;
        elem->in = e->segments + elem->n_out;
    }
    return true;
}

unsigned virtqueue_read_table(VirtQueue *vq, uint64_t addr, uint32_t len, uint16_t flags)
{
    unsigned count = len / VIRT_DESC_SIZE;

    if (!virtio_has_feature(vq->dev, VIRTIO_F_INDIRECT_DESC)) {
        virtqueue_error(vq, "an indirect table, which was not negotiated");
    } else if (flags & VIRT_DESC_NEXT) {
        virtqueue_error(vq, "a descriptor is both indirect and followed by another");
    } else if (count == 0 || len % VIRT_DESC_SIZE != 0 || count > vq->max_size) {
        virtqueue_error(vq, "an indirect table of %u bytes: 16 to %u in steps of 16 are possible",
                        len, vq->max_size * VIRT_DESC_SIZE);
    } else if (addr + (len - 1) < addr || !guest_read(vq->dev->memory, addr, vq->table, len)) {
        virtqueue_error(vq, "an indirect table at 0x%" G_GINT64_MODIFIER "x is not in RAM", addr);
    } else {
        return count;
    }
    return 0;
}

/* --- For devices --- */

unsigned virtqueue_index(const VirtQueue *vq)
{
    return vq->index;
}

bool virtqueue_ready(const VirtQueue *vq)
{
    const VirtioDevice *dev = vq->dev;

    return vq->enabled && !dev->broken && (dev->legacy || (dev->status & VIRTIO_STATUS_DRIVER_OK));
}

bool virtqueue_empty(VirtQueue *vq)
{
    if (!virtqueue_ready(vq) || !vq->dev->active) {
        return true;
    }
    if (vq->in_handler && vq->budget == 0) {
        vq->again = true;
        return true;
    }
    if (vq->ring->available(vq)) {
        return false;
    }
    if (!vq->notification || vq->dev->broken) {
        return true;
    }
    vq->ring->set_kicks(vq, true);
    return vq->dev->broken || !vq->ring->available(vq);
}

VirtElement *virtqueue_pop(VirtQueue *vq)
{
    PoolElement *e;

    if (virtqueue_empty(vq)) {
        return NULL;
    }
    if (vq->n_out + vq->n_pending >= vq->size) {
        virtqueue_error(vq, "more buffers are available than fit into the queue");
        return NULL;
    }
    e = pool_take(vq);
    if (!vq->ring->take(vq, e)) {
        pool_give(vq, e);
        return NULL;
    }
    vq->n_out++;
    vq->newest = e;
    if (vq->in_handler) {
        vq->budget--;
    }
    return &e->elem;
}

void virtqueue_push(VirtQueue *vq, VirtElement *elem, uint32_t written)
{
    PoolElement *e = pool_returned(vq, elem);

    if (!e) {
        return;
    }
    if (!vq->dev->broken) {
        vq->pending[vq->n_pending++] = (VirtUsed){ elem->head, elem->n_descs, written };
    }
    pool_give(vq, e);
}

void virtqueue_unpop(VirtQueue *vq, VirtElement *elem)
{
    PoolElement *e = (PoolElement *)elem;
    bool newest = vq->newest == e;

    g_return_if_fail(newest || !e->out);
    e = pool_returned(vq, elem);
    if (e) {
        vq->ring->untake(vq, e);
        pool_give(vq, e);
    }
}

void virtqueue_discard(VirtQueue *vq, VirtElement *elem)
{
    PoolElement *e = pool_returned(vq, elem);

    if (e) {
        pool_give(vq, e);
    }
}

void virtqueue_flush(VirtQueue *vq)
{
    VirtioDevice *dev = vq->dev;
    bool wanted;

    if (vq->n_pending == 0 || !virtqueue_ready(vq) || !dev->active) {
        return;
    }
    wanted = vq->ring->publish(vq);
    vq->n_pending = 0;
    if (dev->broken) {
        return;
    }
    /* 2.7.7.1, legacy: however notifications are suppressed, the end of the queue is told. */
    if (!wanted && virtio_has_feature(dev, VIRTIO_F_NOTIFY_ON_EMPTY) && vq->n_out == 0) {
        wanted = !vq->ring->available(vq);
    }
    if (wanted && !dev->broken && dev->transport.notify_queue) {
        dev->transport.notify_queue(dev->transport.opaque, vq->index);
    }
}

void virtqueue_set_notification(VirtQueue *vq, bool enable)
{
    vq->notification = enable;
    if (virtqueue_ready(vq) && vq->dev->active) {
        vq->ring->set_kicks(vq, enable);
    }
}

/* --- Registers --- */

const VirtRingOps *virtqueue_layout(const VirtioDevice *dev)
{
    return virtio_has_feature(dev, VIRTIO_F_RING_PACKED) ? &virtqueue_packed : &virtqueue_split;
}

void virtqueue_reset_locked(VirtQueue *vq)
{
    for (guint i = 0; i < vq->pool->len; i++) {
        PoolElement *e = g_ptr_array_index(vq->pool, i);

        if (e->out) {
            pool_give(vq, e);
        }
    }
    vq->n_out = 0;
    vq->n_pending = 0;
    vq->size = vq->max_size;
    vq->enabled = false;
    vq->desc = vq->driver = vq->device = 0;
    vq->pfn = 0;
    vq->vector = VIRTIO_NO_VECTOR;
    vq->ring = &virtqueue_split;
    vq->last_avail = vq->used = vq->avail_idx = vq->n_heads = 0;
    vq->avail_wrap = vq->used_wrap = true;
    vq->descs_out = 0;
    vq->notification = true;
    vq->kicks_told = false;
}

void virtqueue_reset(VirtQueue *vq)
{
    VirtioDevice *dev = vq->dev;
    VirtioDeviceClass *klass = VIRTIO_DEVICE_GET_CLASS(dev);

    virtio_lock(dev);
    if (klass->queue_reset) {
        klass->queue_reset(dev, vq->index);
    }
    virtqueue_reset_locked(vq);
    virtio_unlock(dev);
}

/* Nothing of what was out may come back into a ring that is enabled later. */
static void disable(VirtQueue *vq)
{
    uint16_t vector = vq->vector;

    virtqueue_reset(vq);
    vq->vector = vector;
}

/* Registers of an enabled queue do not change. */
static bool may_change(VirtQueue *vq, const char *what)
{
    if (vq->enabled) {
        virtqueue_error(vq, "%s is set while the queue is enabled", what);
    }
    return !vq->enabled && !vq->dev->broken;
}

void virtqueue_set_size(VirtQueue *vq, unsigned size)
{
    virtio_lock(vq->dev);
    if (may_change(vq, "the size")) {
        if (size == 0 || size > vq->max_size || !virtqueue_layout(vq->dev)->size_allowed(size)) {
            virtqueue_error(vq, "a size of %u: at most %u, and a power of two for split rings",
                            size, vq->max_size);
        } else {
            vq->size = size;
        }
    }
    virtio_unlock(vq->dev);
}

void virtqueue_set_addresses(VirtQueue *vq, uint64_t desc, uint64_t driver, uint64_t device)
{
    virtio_lock(vq->dev);
    if (may_change(vq, "an address")) {
        vq->desc = desc;
        vq->driver = driver;
        vq->device = device;
    }
    virtio_unlock(vq->dev);
}

const char *virtqueue_check_registers(const VirtQueue *vq)
{
    const VirtRingOps *ring = virtqueue_layout(vq->dev);
    VirtRingArea areas[3];

    if (vq->size == 0 || vq->size > vq->max_size || !ring->size_allowed(vq->size)) {
        return "its size is impossible";
    }
    ring->areas(vq, areas);
    for (unsigned i = 0; i < G_N_ELEMENTS(areas); i++) {
        if (areas[i].addr % areas[i].align) {
            return "a part of the ring is not aligned";
        }
        if (areas[i].addr + (areas[i].len - 1) < areas[i].addr) {
            return "a part of the ring goes beyond 2^64";
        }
    }
    return NULL;
}

/* Each access is checked again: what is RAM now may not be later. */
static bool ring_is_in_ram(VirtQueue *vq)
{
    VirtRingArea areas[3];

    virtqueue_layout(vq->dev)->areas(vq, areas);
    for (unsigned i = 0; i < G_N_ELEMENTS(areas); i++) {
        struct iovec iov[8];
        unsigned n;

        if (!guest_map_iov(vq->dev->memory, areas[i].addr, areas[i].len, areas[i].device_writes,
                           iov, G_N_ELEMENTS(iov), &n)) {
            virtqueue_error(vq, "the %s at 0x%" G_GINT64_MODIFIER "x is not in RAM", areas[i].name,
                            areas[i].addr);
            return false;
        }
        guest_unmap_iov(vq->dev->memory, iov, n);
    }
    return true;
}

static void enable(VirtQueue *vq)
{
    const char *wrong = virtqueue_check_registers(vq);

    if (wrong) {
        virtqueue_error(vq, "%s", wrong);
    } else if (ring_is_in_ram(vq)) {
        vq->ring = virtqueue_layout(vq->dev);
        vq->enabled = true;
    }
}

void virtqueue_set_enabled(VirtQueue *vq, bool enabled)
{
    if (!enabled) {
        disable(vq);
        return;
    }
    virtio_lock(vq->dev);
    if (may_change(vq, "'enable'")) {
        enable(vq);
    }
    virtio_unlock(vq->dev);
}

/* 2.7.2: descriptors, available ring, and from the next page on the used ring. */
static void set_pfn(VirtQueue *vq, uint32_t pfn)
{
    uint64_t base = (uint64_t)pfn << LEGACY_PAGE_SHIFT;
    uint64_t page = UINT64_C(1) << LEGACY_PAGE_SHIFT;

    vq->pfn = pfn;
    vq->desc = base;
    vq->driver = base + (uint64_t)vq->size * VIRT_DESC_SIZE;
    vq->device = (vq->driver + 4 + 2 * vq->size + 2 + page - 1) & ~(page - 1);
    enable(vq);
}

void virtqueue_set_pfn(VirtQueue *vq, uint32_t pfn)
{
    if (pfn == 0) {
        disable(vq);
        return;
    }
    virtio_lock(vq->dev);
    if (may_change(vq, "the page frame")) {
        set_pfn(vq, pfn);
    }
    virtio_unlock(vq->dev);
}

unsigned virtqueue_size(const VirtQueue *vq)
{
    return vq->size;
}

unsigned virtqueue_max_size(const VirtQueue *vq)
{
    return vq->max_size;
}

bool virtqueue_enabled(const VirtQueue *vq)
{
    return vq->enabled;
}

void virtqueue_get_addresses(const VirtQueue *vq, uint64_t *desc, uint64_t *driver,
                             uint64_t *device)
{
    *desc = vq->desc;
    *driver = vq->driver;
    *device = vq->device;
}

uint32_t virtqueue_pfn(const VirtQueue *vq)
{
    return vq->pfn;
}

uint16_t virtqueue_vector(const VirtQueue *vq)
{
    return __atomic_load_n(&vq->vector, __ATOMIC_RELAXED);
}

void virtqueue_set_vector(VirtQueue *vq, uint16_t vector)
{
    __atomic_store_n(&vq->vector, vector, __ATOMIC_RELAXED);
}

int virtqueue_host_notifier(VirtQueue *vq, GError **errp)
{
    if (vq->notifier < 0) {
        vq->notifier = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        if (vq->notifier < 0) {
            error_set_errno(errp, errno, "%s: no eventfd for queue %u", virtio_name(vq->dev),
                            vq->index);
            return -1;
        }
        __atomic_store_n(&vq->notifier_tag, virtio_watch_notifier(vq->dev, vq->notifier),
                         __ATOMIC_RELEASE);
    }
    return vq->notifier;
}

/* --- Copies --- */

typedef bool CopyFn(VirtioDevice *dev, uint64_t addr, uint8_t *buf, size_t len);

static bool copy_out(VirtioDevice *dev, uint64_t addr, uint8_t *buf, size_t len)
{
    return guest_read(dev->memory, addr, buf, len);
}

static bool copy_in(VirtioDevice *dev, uint64_t addr, uint8_t *buf, size_t len)
{
    return guest_write(dev->memory, addr, buf, len);
}

static size_t copy_segments(VirtioDevice *dev, const VirtSegment *s, unsigned n, size_t offset,
                            uint8_t *buf, size_t len, CopyFn *copy)
{
    size_t done = 0;

    for (; n > 0 && done < len; s++, n--) {
        size_t now;

        if (offset >= s->len) {
            offset -= s->len;
            continue;
        }
        now = MIN(len - done, s->len - offset);
        if (!copy(dev, s->addr + offset, buf + done, now)) {
            virtio_error(dev, "a buffer at 0x%" G_GINT64_MODIFIER "x is not in RAM", s->addr);
            return 0;
        }
        done += now;
        offset = 0;
    }
    return done;
}

size_t virtelement_read(VirtioDevice *dev, const VirtElement *elem, size_t offset, void *buf,
                        size_t len)
{
    return copy_segments(dev, elem->out, elem->n_out, offset, buf, len, copy_out);
}

size_t virtelement_write(VirtioDevice *dev, const VirtElement *elem, size_t offset, const void *buf,
                         size_t len)
{
    /* A stopped VM's RAM may be being saved. */
    g_return_val_if_fail(dev->active, 0);
    return copy_segments(dev, elem->in, elem->n_in, offset, (uint8_t *)buf, len, copy_in);
}
