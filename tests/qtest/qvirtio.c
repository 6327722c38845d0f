/*
 * A virtio device for tests: the registers of its PCI transport, modern and legacy.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "tests/qtest/qvirtio.h"

enum { VENDOR = 0x1af4, MODERN_BASE = 0x1040 };

/* Vendor capability, 4.1.4 */
enum {
    CAPABILITY_VENDOR = 9,
    CAP_TYPE = 3,
    CAP_BAR = 4,
    CAP_OFFSET = 8,
    CAP_LENGTH = 12,
    CAP_MULTIPLIER = 16
};
enum { CFG_COMMON = 1, CFG_NOTIFY = 2, CFG_ISR = 3, CFG_DEVICE = 4 };

/* Common configuration, 4.1.4.3 */
enum {
    DEVICE_FEATURE_SELECT = 0,
    DEVICE_FEATURE = 4,
    DRIVER_FEATURE_SELECT = 8,
    DRIVER_FEATURE = 12,
    CONFIG_VECTOR = 16,
    DEVICE_STATUS = 20,
    CONFIG_GENERATION = 21,
};

/* Legacy registers, 4.1.4.10; the configuration moves by 4 when MSI-X is on. */
enum {
    LEGACY_DEVICE_FEATURES = 0,
    LEGACY_DRIVER_FEATURES = 4,
    LEGACY_STATUS = 18,
    LEGACY_ISR = 19,
    LEGACY_CONFIG_VECTOR = 20,
    LEGACY_CONFIG = 20,
    LEGACY_CONFIG_MSIX = 24,
};

/* --- Finding it --- */

/* 4.1.2.1; 0: a device of that type has no transitional id. */
static uint16_t transitional_id(unsigned type)
{
    static const uint16_t ids[] = {
        [1] = 0x1000, [2] = 0x1001, [3] = 0x1003, [4] = 0x1005, [5] = 0x1002, [8] = 0x1004
    };

    return type < G_N_ELEMENTS(ids) ? ids[type] : 0;
}

static QPciBar map_part(QVirtio *dev, unsigned type)
{
    for (uint8_t cap = 0; (cap = qpci_find_capability(dev->pci, CAPABILITY_VENDOR, cap));) {
        if (qpci_readb(dev->pci, cap + CAP_TYPE) != type) {
            continue;
        }
        if (type == CFG_NOTIFY) {
            dev->notify_multiplier = qpci_readl(dev->pci, cap + CAP_MULTIPLIER);
        }
        return qpci_bar_part(qpci_map(dev->pci, qpci_readb(dev->pci, cap + CAP_BAR)),
                             qpci_readl(dev->pci, cap + CAP_OFFSET),
                             qpci_readl(dev->pci, cap + CAP_LENGTH));
    }
    return (QPciBar){ .q = dev->q };
}

static void map_modern(QVirtio *dev)
{
    dev->common = map_part(dev, CFG_COMMON);
    dev->notify = map_part(dev, CFG_NOTIFY);
    dev->isr = map_part(dev, CFG_ISR);
    dev->config = map_part(dev, CFG_DEVICE);
    g_assert_cmpuint(dev->common.size, !=, 0);
    g_assert_cmpuint(dev->notify.size, !=, 0);
    g_assert_cmpuint(dev->isr.size, !=, 0);
}

static void map_legacy(QVirtio *dev)
{
    dev->common = qpci_map(dev->pci, 0);
    g_assert_true(dev->common.io);
    dev->isr = qpci_bar_part(dev->common, LEGACY_ISR, 1);
    dev->config = qpci_bar_part(dev->common, LEGACY_CONFIG, dev->common.size - LEGACY_CONFIG);
}

QVirtio *qvirtio_new(QTest *q, unsigned type, bool legacy)
{
    QVirtio *dev = g_new0(QVirtio, 1);

    dev->q = q;
    dev->legacy = legacy;
    dev->pci = qpci_find(q, VENDOR, MODERN_BASE + type);
    if (!dev->pci && transitional_id(type)) {
        dev->pci = qpci_find(q, VENDOR, transitional_id(type));
    }
    if (!dev->pci) {
        g_error("there is no virtio device of type %u", type);
    }
    qpci_enable(dev->pci);
    if (legacy) {
        map_legacy(dev);
    } else {
        map_modern(dev);
    }
    qvirtio_reset(dev);
    return dev;
}

void qvirtio_free(QVirtio *dev)
{
    qpci_free(dev->pci);
    g_free(dev);
}

/* --- Status and features --- */

static unsigned status_register(QVirtio *dev)
{
    return dev->legacy ? LEGACY_STATUS : DEVICE_STATUS;
}

uint8_t qvirtio_status(QVirtio *dev)
{
    return qpci_bar_readb(dev->common, status_register(dev));
}

void qvirtio_set_status(QVirtio *dev, uint8_t status)
{
    qpci_bar_writeb(dev->common, status_register(dev), status);
}

static bool status_is_0(void *opaque)
{
    return qvirtio_status(opaque) == 0;
}

void qvirtio_reset(QVirtio *dev)
{
    qvirtio_set_status(dev, 0);
    qtest_wait_until(status_is_0, dev, "the reset of a device");
    dev->features = 0;
}

uint64_t qvirtio_offered(QVirtio *dev)
{
    uint64_t features;

    if (dev->legacy) {
        return qpci_bar_readl(dev->common, LEGACY_DEVICE_FEATURES);
    }
    qpci_bar_writel(dev->common, DEVICE_FEATURE_SELECT, 0);
    features = qpci_bar_readl(dev->common, DEVICE_FEATURE);
    qpci_bar_writel(dev->common, DEVICE_FEATURE_SELECT, 1);
    return features | (uint64_t)qpci_bar_readl(dev->common, DEVICE_FEATURE) << 32;
}

void qvirtio_set_features(QVirtio *dev, uint64_t features)
{
    dev->features = features;
    if (dev->legacy) {
        qpci_bar_writel(dev->common, LEGACY_DRIVER_FEATURES, (uint32_t)features);
        return;
    }
    for (unsigned i = 0; i < 2; i++) {
        qpci_bar_writel(dev->common, DRIVER_FEATURE_SELECT, i);
        qpci_bar_writel(dev->common, DRIVER_FEATURE, (uint32_t)(features >> (32 * i)));
    }
}

void qvirtio_begin(QVirtio *dev, uint64_t wanted)
{
    uint64_t features;

    qvirtio_reset(dev);
    qvirtio_set_status(dev, QVIRTIO_ACKNOWLEDGE);
    qvirtio_set_status(dev, QVIRTIO_ACKNOWLEDGE | QVIRTIO_DRIVER);
    features = qvirtio_offered(dev) & (wanted | (dev->legacy ? 0 : QVIRTIO_F_VERSION_1));
    qvirtio_set_features(dev, features);
    if (!dev->legacy) {
        uint8_t status = QVIRTIO_ACKNOWLEDGE | QVIRTIO_DRIVER | QVIRTIO_FEATURES_OK;

        qvirtio_set_status(dev, status);
        g_assert_cmphex(qvirtio_status(dev), ==, status);
    }
}

void qvirtio_ready(QVirtio *dev)
{
    qvirtio_set_status(dev, qvirtio_status(dev) | QVIRTIO_DRIVER_OK);
}

bool qvirtio_needs_reset(QVirtio *dev)
{
    return qvirtio_status(dev) & QVIRTIO_NEEDS_RESET;
}

uint8_t qvirtio_isr(QVirtio *dev)
{
    return qpci_bar_readb(dev->isr, 0);
}

/* --- Configuration of the device --- */

static unsigned config_offset(QVirtio *dev, unsigned offset)
{
    bool moved = dev->legacy && dev->msi;

    return offset + (moved ? LEGACY_CONFIG_MSIX - LEGACY_CONFIG : 0);
}

uint8_t qvirtio_config_generation(QVirtio *dev)
{
    return qpci_bar_readb(dev->common, CONFIG_GENERATION);
}

uint8_t qvirtio_config8(QVirtio *dev, unsigned offset)
{
    return qpci_bar_readb(dev->config, config_offset(dev, offset));
}

uint16_t qvirtio_config16(QVirtio *dev, unsigned offset)
{
    return qpci_bar_readw(dev->config, config_offset(dev, offset));
}

uint32_t qvirtio_config32(QVirtio *dev, unsigned offset)
{
    return qpci_bar_readl(dev->config, config_offset(dev, offset));
}

void qvirtio_set_config8(QVirtio *dev, unsigned offset, uint8_t value)
{
    qpci_bar_writeb(dev->config, config_offset(dev, offset), value);
}

void qvirtio_set_config32(QVirtio *dev, unsigned offset, uint32_t value)
{
    qpci_bar_writel(dev->config, config_offset(dev, offset), value);
}

/* --- MSI-X --- */

void qvirtio_msix_enable(QVirtio *dev)
{
    qpci_msix_enable(dev->pci);
    dev->msi = qtest_alloc(dev->q, 4 * dev->pci->vectors, 4);
    for (unsigned i = 0; i < dev->pci->vectors; i++) {
        qpci_msix_set(dev->pci, i, dev->msi + 4 * i, i + 1);
    }
}

uint16_t qvirtio_set_config_vector(QVirtio *dev, uint16_t vector)
{
    unsigned reg = dev->legacy ? LEGACY_CONFIG_VECTOR : CONFIG_VECTOR;

    qpci_bar_writew(dev->common, reg, vector);
    return qpci_bar_readw(dev->common, reg);
}

bool qvirtio_msi_arrived(QVirtio *dev, unsigned vector)
{
    uint64_t place = dev->msi + 4 * vector;
    uint32_t value = qtest_readl(dev->q, place);

    if (value) {
        g_assert_cmpuint(value, ==, vector + 1);
        qtest_writel(dev->q, place, 0);
    }
    return value != 0;
}
