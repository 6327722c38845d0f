/*
 * virtio over PCI: the legacy interface, one I/O BAR (virtio 1.2, 4.1.4.10).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/virtio/virtio-pci.h"

#include <string.h>

#include "util/le.h"

enum {
    REG_DEVICE_FEATURES = 0,
    REG_DRIVER_FEATURES = 4,
    REG_QUEUE_ADDRESS = 8,
    REG_QUEUE_SIZE = 12,
    REG_QUEUE_SELECT = 14,
    REG_QUEUE_NOTIFY = VIRTIO_PCI_LEGACY_NOTIFY,
    REG_STATUS = 18,
    REG_ISR = 19,
    REG_CONFIG_VECTOR = 20, /* this and the next only while MSI-X is enabled */
    REG_QUEUE_VECTOR = 22,
    HEADER_SIZE = 20,
    HEADER_SIZE_MSIX = 24,
};

/* The device's configuration follows, wherever that is at this moment. */
static unsigned header_size(const VirtioPci *proxy)
{
    return msix_enabled(&proxy->parent_instance) ? HEADER_SIZE_MSIX : HEADER_SIZE;
}

/* The registers as they read now, except for the one that reading changes. */
static void fill_header(VirtioPci *proxy, uint8_t header[HEADER_SIZE_MSIX])
{
    VirtioDevice *vdev = proxy->vdev;
    const VirtQueue *vq = virtio_pci_queue(proxy);

    memset(header, 0, HEADER_SIZE_MSIX);
    put_le32(header + REG_DEVICE_FEATURES, (uint32_t)virtio_offered_features(vdev, true));
    put_le32(header + REG_DRIVER_FEATURES, (uint32_t)vdev->guest_features);
    put_le32(header + REG_QUEUE_ADDRESS, vq ? virtqueue_pfn(vq) : 0);
    put_le16(header + REG_QUEUE_SIZE, (uint16_t)(vq ? virtqueue_size(vq) : 0));
    put_le16(header + REG_QUEUE_SELECT, proxy->queue_select);
    header[REG_STATUS] = vdev->status;
    put_le16(header + REG_CONFIG_VECTOR, proxy->config_vector);
    put_le16(header + REG_QUEUE_VECTOR, vq ? virtqueue_vector(vq) : VIRTIO_NO_VECTOR);
}

static uint64_t legacy_read(void *opaque, uint64_t offset, unsigned size)
{
    VirtioPci *proxy = opaque;
    uint8_t header[HEADER_SIZE_MSIX];
    uint8_t bytes[4] = { 0 };
    unsigned end = header_size(proxy);

    if (offset >= end) {
        virtio_config_read(proxy->vdev, (unsigned)offset - end, bytes, size);
        return get_le32(bytes);
    }
    fill_header(proxy, header);
    if (offset <= REG_ISR && offset + size > REG_ISR) {
        header[REG_ISR] = virtio_pci_take_isr(proxy);
    }
    memcpy(bytes, header + offset, MIN(size, end - (unsigned)offset));
    return get_le32(bytes);
}

static void write_queue_register(VirtioPci *proxy, unsigned reg, uint32_t value)
{
    VirtQueue *vq = virtio_pci_queue(proxy);

    if (vq && reg == REG_QUEUE_ADDRESS) {
        virtqueue_set_pfn(vq, value);
        virtio_pci_update_doorbells(proxy);
    } else if (vq && reg == REG_QUEUE_VECTOR) {
        virtio_pci_set_queue_vector(proxy, vq, (uint16_t)value);
    }
}

static void write_header(VirtioPci *proxy, unsigned reg, uint32_t value)
{
    VirtioDevice *vdev = proxy->vdev;

    switch (reg) {
    case REG_DRIVER_FEATURES:
        virtio_use_legacy(vdev);
        virtio_set_features(vdev, value);
        break;
    case REG_QUEUE_SELECT:
        proxy->queue_select = (uint16_t)value;
        break;
    case REG_QUEUE_NOTIFY:
        virtio_pci_doorbell(proxy, value & 0xffff);
        break;
    case REG_STATUS:
        if (value & 0xff) {
            virtio_use_legacy(vdev);
        }
        virtio_pci_set_status(proxy, (uint8_t)value);
        break;
    case REG_CONFIG_VECTOR:
        virtio_pci_set_config_vector(proxy, (uint16_t)value);
        break;
    default:
        write_queue_register(proxy, reg, value);
    }
}

static void legacy_write(void *opaque, uint64_t offset, uint64_t value, unsigned size)
{
    VirtioPci *proxy = opaque;
    unsigned end = header_size(proxy);
    uint8_t bytes[4];

    if (offset < end) {
        write_header(proxy, (unsigned)offset, (uint32_t)value);
        return;
    }
    put_le32(bytes, (uint32_t)value);
    virtio_config_write(proxy->vdev, (unsigned)offset - end, bytes, size);
}

void virtio_pci_legacy_init(VirtioPci *proxy)
{
    static const IoOps ops = {
        .read = legacy_read, .write = legacy_write, .min_size = 1, .max_size = 4
    };
    uint64_t size = 32;

    while (size < HEADER_SIZE_MSIX + virtio_config_size(proxy->vdev)) {
        size *= 2;
    }
    pci_add_bar(&proxy->parent_instance, VIRTIO_PCI_BAR_LEGACY, PCI_BAR_IO, false, size,
                "virtio-legacy", &ops, proxy);
}
