/*
 * virtio over PCI: doorbells that signal eventfds inside of the accelerator.
 *
 * A doorbell is bound from DRIVER_OK on, where the BAR that it is in lies now, and only for the interface that the driver
 * uses. What is not bound arrives as a register write and does the same, more slowly.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/virtio/virtio-pci.h"

#include "hw/core/machine.h"
#include "util/log.h"

static Accel *accel_of(VirtioPci *proxy)
{
    return DEVICE(proxy)->machine->accel;
}

/* Where the doorbell of queue n should be bound; false: nowhere. eventfd is left alone. */
static bool wanted_place(VirtioPci *proxy, unsigned n, AccelIoEvent *ret)
{
    PciDevice *pci = &proxy->parent_instance;
    VirtioDevice *vdev = proxy->vdev;
    uint64_t base;

    if (!proxy->ioeventfd || n >= vdev->n_queues || vdev->broken ||
        !(vdev->status & VIRTIO_STATUS_DRIVER_OK) || !virtqueue_enabled(vdev->queues[n]) ||
        !accel_has_ioevents(accel_of(proxy))) {
        return false;
    }
    if (vdev->legacy) {
        ret->pio = ret->match = true;
        ret->size = 2;
        ret->value = n;
        ret->addr = VIRTIO_PCI_LEGACY_NOTIFY;
    } else {
        /* Any size: only that spares KVM from decoding the instruction. */
        ret->pio = ret->match = false;
        ret->size = 0;
        ret->addr = VIRTIO_PCI_NOTIFY + n * VIRTIO_PCI_NOTIFY_MULTIPLIER;
    }
    if (!pci_bar_address(pci, vdev->legacy ? VIRTIO_PCI_BAR_LEGACY : VIRTIO_PCI_BAR_MODERN,
                         &base)) {
        return false;
    }
    ret->addr += base;
    return true;
}

static void unbind(VirtioPci *proxy, unsigned n)
{
    if (proxy->doorbell_bound[n]) {
        accel_remove_ioevent(accel_of(proxy), &proxy->doorbells[n]);
        proxy->doorbell_bound[n] = false;
    }
}

static void bind(VirtioPci *proxy, unsigned n, const AccelIoEvent *place)
{
    g_autoptr(GError) err = NULL;
    AccelIoEvent e = *place;

    e.eventfd = virtqueue_host_notifier(proxy->vdev->queues[n], &err);
    if (e.eventfd >= 0 && accel_add_ioevent(accel_of(proxy), &e, &err)) {
        proxy->doorbells[n] = e;
        proxy->doorbell_bound[n] = true;
        return;
    }
    log_printf(LOG_DEVICE, "virtio_pci_doorbell: device=%s queue=%u by register write: %s",
               virtio_name(proxy->vdev), n, err->message);
}

static void update(VirtioPci *proxy, unsigned n)
{
    AccelIoEvent place = { 0 };
    bool wanted = wanted_place(proxy, n, &place);
    const AccelIoEvent *now = &proxy->doorbells[n];

    if (proxy->doorbell_bound[n] && wanted && now->pio == place.pio && now->addr == place.addr) {
        return;
    }
    unbind(proxy, n);
    if (wanted) {
        bind(proxy, n, &place);
    }
}

void virtio_pci_update_doorbells(VirtioPci *proxy)
{
    for (unsigned i = 0; i < proxy->vdev->n_queues; i++) {
        update(proxy, i);
    }
}

void virtio_pci_unbind_doorbells(VirtioPci *proxy)
{
    for (unsigned i = 0; i < VIRTIO_QUEUE_MAX; i++) {
        unbind(proxy, i);
    }
}
