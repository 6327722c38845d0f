/*
 * Queues of virtio devices, the device's side: split and packed rings (virtio 1.2, 2.7 and 2.8).
 *
 * Everything that comes from the driver is checked: addresses by memory/guest-access, lengths, indices, loops and the
 * number of descriptors. What is wrong ends in virtio_error() and a NULL, never in anything worse.
 * The functions for devices need the device's lock held and run in the device's thread or with the big lock held.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_VIRTIO_VIRTQUEUE_H
#define COWBIRD_HW_VIRTIO_VIRTQUEUE_H

#include "hw/virtio/virtio.h"

/* Piece of a buffer in guest memory, not yet looked up: neither empty nor beyond 2^64. */
typedef struct VirtSegment {
    uint64_t addr;
    uint32_t len;
} VirtSegment;

/*
 * One buffer that the driver has made available. Kept by its queue and used again: no allocation per request. Pieces of
 * length 0 are left out; the lengths together are at most 2^32.
 */
typedef struct VirtElement {
    unsigned n_out, n_in;     /* segments that the device reads, then those that it writes */
    VirtSegment *out;         /* n_out */
    VirtSegment *in;          /* n_in */
    uint64_t out_len, in_len; /* sums */
    uint16_t head;            /* id to give back */
    uint16_t n_descs;         /* ring entries taken (packed) */
} VirtElement;

typedef void VirtQueueHandler(VirtioDevice *dev, VirtQueue *vq);

/*
 * In realize: the next queue, of at most size entries (a power of two). The handler is called when the driver kicks, when the
 * driver is ready (DRIVER_OK), and when the VM runs again: also with nothing new. One call of it may take
 * VIRTQUEUE_BUDGET buffers; then the queue looks empty, and the handler is called again later, so that no guest
 * keeps the main loop busy by refilling.
 */
#define VIRTQUEUE_BUDGET 256
VirtQueue *virtqueue_add(VirtioDevice *dev, unsigned size, VirtQueueHandler *handler);
unsigned virtqueue_index(const VirtQueue *vq);

/* Enabled by the driver, which is ready (DRIVER_OK; legacy ones need not say so), device not broken. */
bool virtqueue_ready(const VirtQueue *vq);
/*
 * Nothing to be taken now. Where that is so the driver is asked for a kick (unless notification is off), and the
 * ring is looked at once more.
 */
bool virtqueue_empty(VirtQueue *vq);
/*
 * Takes the next available buffer; NULL = none or broken. Indirect tables are followed. Owned by the queue's pool: hand it back
 * with virtqueue_push or virtqueue_discard. Several may be out at once, completed in any order.
 */
VirtElement *virtqueue_pop(VirtQueue *vq);
/*
 * Used, with written bytes written to its in segments. Visible to the driver after virtqueue_flush. The element is not
 * to be used any more.
 */
void virtqueue_push(VirtQueue *vq, VirtElement *elem, uint32_t written);
/* Not used after all: only for the element popped last; it is available again. */
void virtqueue_unpop(VirtQueue *vq, VirtElement *elem);
/* Frees an element without giving it back (in reset; what is still out after a reset is freed anyway). */
void virtqueue_discard(VirtQueue *vq, VirtElement *elem);
/* Publishes what was pushed and notifies the driver if it wants that; in a stopped VM, later. */
void virtqueue_flush(VirtQueue *vq);
/* Whether the driver should kick at all (a device that polls or is full); restored to on at reset. */
void virtqueue_set_notification(VirtQueue *vq, bool enable);
/* Its handler is called soon, from the loop of the device's thread, as after a kick. */
void virtio_queue_schedule(VirtQueue *vq);

/* Copies between the element's segments, taken as one string of bytes from offset on, and buf; returns bytes copied: fewer only
 * when the segments end. An address that is no RAM is virtio_error() and returns 0. */
size_t virtelement_read(VirtioDevice *dev, const VirtElement *elem, size_t offset, void *buf,
                        size_t len);
size_t virtelement_write(VirtioDevice *dev, const VirtElement *elem, size_t offset, const void *buf,
                         size_t len);

/* --- For transports --- */

/*
 * Registers of a queue (big lock held, device's lock not). Addresses and size take effect when enabled; a bad one, and any change
 * of an enabled queue, is virtio_error(). Enabling checks alignment and that the ring lies in RAM. Disabling is only for
 * transports whose drivers may do it.
 */
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
/* As after power-on, for VIRTIO_F_RING_RESET; a reset of the device does it for all queues. */
void virtqueue_reset(VirtQueue *vq);
/* MSI-X vector, kept and saved here for the transport, which checks it (a saved one too). */
uint16_t virtqueue_vector(const VirtQueue *vq);
void virtqueue_set_vector(VirtQueue *vq, uint16_t vector);
/* Eventfd that a doorbell without exit may signal (made on first use; -1 with an error). Watched in the device's context. */
int virtqueue_host_notifier(VirtQueue *vq, GError **errp);

#endif
