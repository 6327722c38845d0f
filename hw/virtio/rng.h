/*
 * virtio-rng: an entropy source (virtio 1.2, 5.4).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_VIRTIO_RNG_H
#define COWBIRD_HW_VIRTIO_RNG_H

#include "hw/virtio/virtio.h"

/* "virtio-rng-device", the part behind the transport. */
#define TYPE_VIRTIO_RNG (virtio_rng_get_type())
QOM_DECLARE_FINAL_TYPE(VirtioRng, virtio_rng, VIRTIO_RNG, VirtioDeviceClass)

#endif
