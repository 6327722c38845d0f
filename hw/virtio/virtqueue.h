/*
 * Queues of virtio devices, the device's side: split and packed rings (virtio 1.2, 2.7 and 2.8).
 *
 * Everything that comes from the driver is checked: addresses by memory/guest-access, lengths, indices, loops and the
 * number of descriptors. What is wrong ends in virtio_error() and a NULL, never in anything worse.
 * All functions need the device's lock held and run in the device's thread.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_VIRTIO_VIRTQUEUE_H
#define COWBIRD_HW_VIRTIO_VIRTQUEUE_H

#include "hw/virtio/virtio.h"

/* Piece of a buffer in guest memory, not yet looked up: address and length as the driver gave them, below 2^64. */
typedef struct VirtSegment {
    uint64_t addr;
    uint32_t len;
} VirtSegment;

/* One buffer that the driver has made available. Allocated once per queue and reused: no allocation per request. */
typedef struct VirtElement {
    unsigned n_out, n_in;     /* segments that the device reads, then those that it writes */
    VirtSegment *out;         /* n_out */
    VirtSegment *in;          /* n_in */
    uint64_t out_len, in_len; /* sums */
    uint16_t head;            /* id to give back */
    uint16_t n_descs;         /* ring entries taken (packed) */
} VirtElement;

typedef void VirtQueueHandler(VirtioDevice *dev, VirtQueue *vq);

/* In realize: the next queue, of at most size entries (a power of two). The handler is called when the driver kicks. */
VirtQueue *virtqueue_add(VirtioDevice *dev, unsigned size, VirtQueueHandler *handler);
unsigned virtqueue_index(const VirtQueue *vq);

/* Enabled by the driver, device not broken. */
bool virtqueue_ready(const VirtQueue *vq);
/* Nothing available (does not look at indices twice within one call). */
bool virtqueue_empty(VirtQueue *vq);
/*
 * Takes the next available buffer; NULL = none or broken. Indirect tables are followed. Owned by the queue's pool: hand it back
 * with virtqueue_push or virtqueue_discard. Several may be out at once, completed in any order.
 */
VirtElement *virtqueue_pop(VirtQueue *vq);
/* Used, with written bytes written to its in segments. Visible to the driver after virtqueue_flush. */
void virtqueue_push(VirtQueue *vq, VirtElement *elem, uint32_t written);
/* Not used after all: only for the element popped last; it is available again. */
void virtqueue_unpop(VirtQueue *vq, VirtElement *elem);
/* Frees an element without giving it back (in reset). */
void virtqueue_discard(VirtQueue *vq, VirtElement *elem);
/* Publishes what was pushed and notifies the driver if it wants that. */
void virtqueue_flush(VirtQueue *vq);
/* Whether the driver should kick at all (a device that polls or is full); restored to on at reset. */
void virtqueue_set_notification(VirtQueue *vq, bool enable);

/* Copies between the element's segments, taken as one string of bytes from offset on, and buf; returns bytes copied: fewer only
 * when the segments end. An address that is no RAM is virtio_error() and returns 0. */
size_t virtelement_read(VirtioDevice *dev, const VirtElement *elem, size_t offset, void *buf,
                        size_t len);
size_t virtelement_write(VirtioDevice *dev, const VirtElement *elem, size_t offset, const void *buf,
                         size_t len);

/* --- For transports --- */

/* Registers of a queue. Addresses and size take effect when enabled; setting a bad one is virtio_error(). */
void virtqueue_set_size(VirtQueue *vq, unsigned size);
void virtqueue_set_addresses(VirtQueue *vq, uint64_t desc, uint64_t driver, uint64_t device);
void virtqueue_set_enabled(VirtQueue *vq, bool enabled);
/* Legacy: one page frame of 4 KiB holds it all (2.7.2), 0 disables. */
void virtqueue_set_pfn(VirtQueue *vq, uint32_t pfn);
unsigned virtqueue_size(const VirtQueue *vq);
unsigned virtqueue_max_size(const VirtQueue *vq);
bool virtqueue_enabled(const VirtQueue *vq);
void virtqueue_get_addresses(const VirtQueue *vq, uint64_t *desc, uint64_t *driver,
                             uint64_t *device);
uint32_t virtqueue_pfn(const VirtQueue *vq);
void virtqueue_reset(VirtQueue *vq);
uint16_t virtqueue_vector(const VirtQueue *vq);
void virtqueue_set_vector(VirtQueue *vq, uint16_t vector);
/* Eventfd that a doorbell without exit may signal (made on first use; -1 with an error). Watched in the device's context. */
int virtqueue_host_notifier(VirtQueue *vq, GError **errp);

#endif
