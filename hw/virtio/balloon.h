/*
 * virtio-balloon: memory that the guest does without, and free pages that it reports (virtio 1.2, 5.5).
 *
 *   balloon.c         features, configuration, properties, life cycle
 *   balloon-pages.c   the queues of pages: inflate, deflate, reporting
 *   balloon-stats.c   the guest's statistics
 *   balloon-qmp.c     balloon, query-balloon
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_VIRTIO_BALLOON_H
#define COWBIRD_HW_VIRTIO_BALLOON_H

#include "hw/virtio/virtio.h"

#define TYPE_VIRTIO_BALLOON (virtio_balloon_get_type())
QOM_DECLARE_FINAL_TYPE(VirtioBalloon, virtio_balloon, VIRTIO_BALLOON, VirtioDeviceClass)

/* The one balloon of a machine, realized; NULL = it has none. */
VirtioBalloon *virtio_balloon_find(Machine *m);

/*
 * Ask the guest to keep @bytes of its memory: rounded up to 4 KiB, and all of it if that is more. Big lock held, not
 * the device's lock.
 */
void virtio_balloon_set_target(VirtioBalloon *b, uint64_t bytes);
/* Bytes that the guest keeps, as its driver tells. */
uint64_t virtio_balloon_actual(VirtioBalloon *b);

#endif
