/*
 * virtio over PCI: the modern interface, register structures behind vendor capabilities (virtio 1.2, 4.1.4).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/virtio/virtio-pci.h"

#include <string.h>

#include "util/le.h"
#include "util/log.h"

/* Common configuration structure (4.1.4.3). */
enum {
    REG_DEVICE_FEATURE_SELECT = 0,
    REG_DEVICE_FEATURE = 4,
    REG_DRIVER_FEATURE_SELECT = 8,
    REG_DRIVER_FEATURE = 12,
    REG_CONFIG_VECTOR = 16,
    REG_NUM_QUEUES = 18,
    REG_STATUS = 20,
    REG_CONFIG_GENERATION = 21,
    REG_QUEUE_SELECT = 22,
    REG_QUEUE_SIZE = 24,
    REG_QUEUE_VECTOR = 26,
    REG_QUEUE_ENABLE = 28,
    REG_QUEUE_NOTIFY_OFF = 30,
    REG_QUEUE_DESC = 32, /* three addresses of 64 bits, written in halves */
    REG_QUEUE_DRIVER = 40,
    REG_QUEUE_DEVICE = 48,
    REG_QUEUE_END = 56,
    REG_QUEUE_NOTIFY_DATA = 56,
    REG_QUEUE_RESET = 58,
    COMMON_SIZE = 60,
};

/* Vendor capability (4.1.4). */
enum {
    CAP_LEN = 2,
    CAP_TYPE = 3,
    CAP_BAR = 4,
    CAP_OFFSET = 8,
    CAP_LENGTH = 12,
    CAP_SIZE = 16,
    CAP_NOTIFY_MULTIPLIER = 16,
    CAP_CFG_DATA = 16,
    CAP_SIZE_LONG = 20, /* with either of the two */
};
enum { CFG_COMMON = 1, CFG_NOTIFY = 2, CFG_ISR = 3, CFG_DEVICE = 4, CFG_PCI = 5 };

/* ---- common configuration ---- */

static uint32_t feature_window(uint64_t features, uint32_t select)
{
    return select < 2 ? (uint32_t)(features >> 32 * select) : 0;
}

static void fill_queue(VirtioPci *proxy, uint8_t *regs)
{
    const VirtQueue *vq = virtio_pci_queue(proxy);
    uint64_t desc, driver, device;

    put_le16(regs + REG_QUEUE_SELECT, proxy->queue_select);
    put_le16(regs + REG_QUEUE_VECTOR, VIRTIO_NO_VECTOR);
    if (!vq) {
        return;
    }
    virtqueue_get_addresses(vq, &desc, &driver, &device);
    put_le16(regs + REG_QUEUE_SIZE, (uint16_t)virtqueue_size(vq));
    put_le16(regs + REG_QUEUE_VECTOR, virtqueue_vector(vq));
    put_le16(regs + REG_QUEUE_ENABLE, virtqueue_enabled(vq));
    put_le16(regs + REG_QUEUE_NOTIFY_OFF, proxy->queue_select);
    put_le64(regs + REG_QUEUE_DESC, desc);
    put_le64(regs + REG_QUEUE_DRIVER, driver);
    put_le64(regs + REG_QUEUE_DEVICE, device);
    put_le16(regs + REG_QUEUE_NOTIFY_DATA, proxy->queue_select);
}

static uint32_t common_read(VirtioPci *proxy, unsigned offset, unsigned size)
{
    VirtioDevice *vdev = proxy->vdev;
    uint8_t regs[COMMON_SIZE + 4] = { 0 };

    put_le32(regs + REG_DEVICE_FEATURE_SELECT, proxy->device_feature_select);
    put_le32(regs + REG_DEVICE_FEATURE,
             feature_window(virtio_offered_features(vdev, false), proxy->device_feature_select));
    put_le32(regs + REG_DRIVER_FEATURE_SELECT, proxy->driver_feature_select);
    put_le32(regs + REG_DRIVER_FEATURE,
             feature_window(proxy->driver_features, proxy->driver_feature_select));
    put_le16(regs + REG_CONFIG_VECTOR, proxy->config_vector);
    put_le16(regs + REG_NUM_QUEUES, (uint16_t)vdev->n_queues);
    regs[REG_STATUS] = vdev->status;
    regs[REG_CONFIG_GENERATION] = (uint8_t)vdev->config_generation;
    fill_queue(proxy, regs);
    return offset < COMMON_SIZE ? get_le32(regs + offset) : 0;
}

static void write_driver_feature(VirtioPci *proxy, uint32_t value)
{
    unsigned shift = 32 * proxy->driver_feature_select;

    if (proxy->driver_feature_select > 1) {
        return;
    }
    proxy->driver_features &= ~(UINT64_C(0xffffffff) << shift);
    proxy->driver_features |= (uint64_t)value << shift;
    virtio_set_features(proxy->vdev, proxy->driver_features);
}

static void write_address(VirtQueue *vq, unsigned reg, uint32_t value)
{
    uint64_t areas[3];
    uint64_t *area = &areas[(reg - REG_QUEUE_DESC) / 8];
    unsigned shift = reg % 8 * 8;

    virtqueue_get_addresses(vq, &areas[0], &areas[1], &areas[2]);
    *area &= ~(UINT64_C(0xffffffff) << shift);
    *area |= (uint64_t)value << shift;
    virtqueue_set_addresses(vq, areas[0], areas[1], areas[2]);
}

/* A reset of one queue is done by the time that the write ends: the register never reads 1 (4.1.4.3.1). */
static void reset_queue(VirtioPci *proxy, VirtQueue *vq)
{
    if (virtio_has_feature(proxy->vdev, VIRTIO_F_RING_RESET)) {
        virtio_pci_set_queue_vector(proxy, vq, VIRTIO_NO_VECTOR);
        virtqueue_reset(vq);
        virtio_pci_update_doorbells(proxy);
    }
}

static void write_queue_register(VirtioPci *proxy, VirtQueue *vq, unsigned reg, uint32_t value)
{
    switch (reg) {
    case REG_QUEUE_SIZE:
        virtqueue_set_size(vq, value);
        break;
    case REG_QUEUE_VECTOR:
        virtio_pci_set_queue_vector(proxy, vq, (uint16_t)value);
        break;
    case REG_QUEUE_ENABLE:
        if (value == 1) {
            virtqueue_set_enabled(vq, true);
            virtio_pci_update_doorbells(proxy);
        }
        break;
    case REG_QUEUE_RESET:
        if (value == 1) {
            reset_queue(proxy, vq);
        }
        break;
    default:
        if (reg >= REG_QUEUE_DESC && reg < REG_QUEUE_END) {
            write_address(vq, reg, value);
        }
    }
}

static void write_device_register(VirtioPci *proxy, unsigned reg, uint32_t value)
{
    VirtQueue *vq = virtio_pci_queue(proxy);

    switch (reg) {
    case REG_DEVICE_FEATURE_SELECT:
        proxy->device_feature_select = value;
        break;
    case REG_DRIVER_FEATURE_SELECT:
        proxy->driver_feature_select = value;
        break;
    case REG_DRIVER_FEATURE:
        write_driver_feature(proxy, value);
        break;
    case REG_CONFIG_VECTOR:
        virtio_pci_set_config_vector(proxy, (uint16_t)value);
        break;
    case REG_STATUS:
        virtio_pci_set_status(proxy, (uint8_t)value);
        break;
    case REG_QUEUE_SELECT:
        proxy->queue_select = (uint16_t)value;
        break;
    default:
        if (vq) {
            write_queue_register(proxy, vq, reg, value);
        }
    }
}

/* Width of the register that starts there, halves of addresses each for itself; 0: none does. */
static unsigned register_width(unsigned offset)
{
    if (offset == REG_STATUS || offset == REG_CONFIG_GENERATION) {
        return 1;
    }
    if (offset < REG_CONFIG_VECTOR || (offset >= REG_QUEUE_DESC && offset < REG_QUEUE_END)) {
        return offset % 4 ? 0 : 4;
    }
    return offset % 2 || offset >= COMMON_SIZE ? 0 : 2;
}

static void common_write(VirtioPci *proxy, unsigned offset, uint32_t value, unsigned size)
{
    if (register_width(offset) != size) {
        log_printf(LOG_GUEST_ERROR, "%s: write of %u bytes at 0x%x of the common configuration",
                   virtio_name(proxy->vdev), size, offset);
        return;
    }
    write_device_register(proxy, offset, value);
}

/* ---- the BAR ---- */

static uint64_t modern_read(void *opaque, uint64_t offset, unsigned size)
{
    VirtioPci *proxy = opaque;
    unsigned at = (unsigned)offset % VIRTIO_PCI_PART_SIZE;
    uint8_t bytes[4] = { 0 };

    switch (offset - at) {
    case VIRTIO_PCI_COMMON:
        return common_read(proxy, at, size);
    case VIRTIO_PCI_ISR:
        return at == 0 ? virtio_pci_take_isr(proxy) : 0;
    case VIRTIO_PCI_CONFIG:
        virtio_config_read(proxy->vdev, at, bytes, size);
        return get_le32(bytes);
    default:
        return 0;
    }
}

static void modern_write(void *opaque, uint64_t offset, uint64_t value, unsigned size)
{
    VirtioPci *proxy = opaque;
    unsigned at = (unsigned)offset % VIRTIO_PCI_PART_SIZE;
    uint8_t bytes[4];

    switch (offset - at) {
    case VIRTIO_PCI_COMMON:
        common_write(proxy, at, (uint32_t)value, size);
        break;
    case VIRTIO_PCI_CONFIG:
        put_le32(bytes, (uint32_t)value);
        virtio_config_write(proxy->vdev, at, bytes, size);
        break;
    case VIRTIO_PCI_NOTIFY:
        virtio_pci_doorbell(proxy, at / VIRTIO_PCI_NOTIFY_MULTIPLIER);
        break;
    default:
        break;
    }
}

/* ---- capabilities ---- */

typedef struct Structure {
    uint8_t type;
    uint32_t offset, length;
} Structure;

static uint8_t add_structure(VirtioPci *proxy, const Structure *s, GError **errp)
{
    bool extra = s->type == CFG_NOTIFY || s->type == CFG_PCI;
    uint8_t size = extra ? CAP_SIZE_LONG : CAP_SIZE;
    PciDevice *pci = &proxy->parent_instance;
    uint8_t cap = pci_add_capability(pci, PCI_CAP_VENDOR, size, errp);
    uint8_t *p = pci->config + cap;

    if (!cap) {
        return 0;
    }
    p[CAP_LEN] = size;
    p[CAP_TYPE] = s->type;
    p[CAP_BAR] = s->type == CFG_PCI ? 0 : VIRTIO_PCI_BAR_MODERN;
    put_le32(p + CAP_OFFSET, s->offset);
    put_le32(p + CAP_LENGTH, s->length);
    if (s->type == CFG_NOTIFY) {
        put_le32(p + CAP_NOTIFY_MULTIPLIER, VIRTIO_PCI_NOTIFY_MULTIPLIER);
    }
    return cap;
}

static void make_writable(VirtioPci *proxy, uint8_t cap)
{
    uint8_t *mask = proxy->parent_instance.writable + cap;

    mask[CAP_BAR] = 0xff;
    memset(mask + CAP_OFFSET, 0xff, CAP_SIZE_LONG - CAP_OFFSET);
    proxy->cfg_cap = cap;
}

bool virtio_pci_modern_init(VirtioPci *proxy, GError **errp)
{
    static const IoOps ops = {
        .read = modern_read, .write = modern_write, .min_size = 1, .max_size = 4
    };
    const Structure structures[] = {
        { CFG_PCI, 0, 0 }, /* the last in the list, as each goes in front */
        { CFG_NOTIFY, VIRTIO_PCI_NOTIFY, VIRTIO_QUEUE_MAX * VIRTIO_PCI_NOTIFY_MULTIPLIER },
        { CFG_DEVICE, VIRTIO_PCI_CONFIG, VIRTIO_PCI_PART_SIZE },
        { CFG_ISR, VIRTIO_PCI_ISR, VIRTIO_PCI_PART_SIZE },
        { CFG_COMMON, VIRTIO_PCI_COMMON, VIRTIO_PCI_PART_SIZE },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(structures); i++) {
        uint8_t cap = add_structure(proxy, &structures[i], errp);

        if (!cap) {
            return false;
        }
        if (structures[i].type == CFG_PCI) {
            make_writable(proxy, cap);
        }
    }
    pci_add_bar(&proxy->parent_instance, VIRTIO_PCI_BAR_MODERN, PCI_BAR_MEM64, true,
                VIRTIO_PCI_MODERN_SIZE, "virtio-modern", &ops, proxy);
    return true;
}

/* ---- accesses through the configuration space (4.1.4.9) ---- */

/* The access that the capability describes now, if bytes from offset on touch its data; false: no or an impossible one. */
static bool cfg_access(const VirtioPci *proxy, unsigned offset, unsigned len, uint32_t *ret_offset,
                       uint32_t *ret_length)
{
    const uint8_t *p = proxy->parent_instance.config + proxy->cfg_cap;
    unsigned data = proxy->cfg_cap + CAP_CFG_DATA;

    *ret_offset = get_le32(p + CAP_OFFSET);
    *ret_length = get_le32(p + CAP_LENGTH);
    return proxy->cfg_cap && offset < data + 4 && offset + len > data &&
           p[CAP_BAR] == VIRTIO_PCI_BAR_MODERN &&
           (*ret_length == 1 || *ret_length == 2 || *ret_length == 4) &&
           *ret_offset % *ret_length == 0 && *ret_offset < VIRTIO_PCI_MODERN_SIZE;
}

void virtio_pci_cfg_read(VirtioPci *proxy, unsigned offset, unsigned len)
{
    uint8_t *data = proxy->parent_instance.config + proxy->cfg_cap + CAP_CFG_DATA;
    uint32_t at, length;

    if (cfg_access(proxy, offset, len, &at, &length)) {
        uint8_t bytes[4];

        put_le32(bytes, (uint32_t)modern_read(proxy, at, length));
        memcpy(data, bytes, length);
    }
}

void virtio_pci_cfg_written(VirtioPci *proxy, unsigned offset, unsigned len)
{
    const uint8_t *data = proxy->parent_instance.config + proxy->cfg_cap + CAP_CFG_DATA;
    uint32_t at, length;

    if (cfg_access(proxy, offset, len, &at, &length)) {
        uint8_t bytes[4] = { 0 };

        memcpy(bytes, data, length);
        modern_write(proxy, at, get_le32(bytes), length);
    }
}
