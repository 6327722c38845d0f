/*
 * PCI for tests: configuration mechanism 1, BARs, MSI-X.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "tests/qtest/qpci.h"

#include <inttypes.h>

enum { PORT_ADDRESS = 0xcf8, PORT_DATA = 0xcfc };
enum {
    REG_VENDOR = 0,
    REG_DEVICE = 2,
    REG_COMMAND = 4,
    REG_STATUS = 6,
    REG_BAR0 = 0x10,
    REG_CAPABILITIES = 0x34
};
enum { COMMAND_IO = 1, COMMAND_MEMORY = 2, COMMAND_MASTER = 4 };
enum { CAPABILITY_MSIX = 0x11, MSIX_CONTROL = 2, MSIX_TABLE = 4, MSIX_PENDING = 8 };
enum { MSIX_ENABLE = 0x8000, MSIX_MASK_ALL = 0x4000, MSIX_ENTRY = 16 };

/* Where BARs go that nobody has placed; firmware-less machines have placed them already. */
#define FREE_MEMORY 0xe0000000u
#define FREE_PORTS 0xd000u

/* --- Configuration --- */

static uint16_t select_register(QTest *q, unsigned devfn, unsigned offset)
{
    qtest_outl(q, PORT_ADDRESS, 1u << 31 | devfn << 8 | (offset & 0xfc));
    return PORT_DATA + (offset & 3);
}

uint32_t qpci_config(QTest *q, unsigned devfn, unsigned offset, unsigned size)
{
    uint16_t port = select_register(q, devfn, offset);

    return size == 1 ? qtest_inb(q, port) : size == 2 ? qtest_inw(q, port) : qtest_inl(q, port);
}

void qpci_set_config(QTest *q, unsigned devfn, unsigned offset, uint32_t value, unsigned size)
{
    uint16_t port = select_register(q, devfn, offset);

    if (size == 1) {
        qtest_outb(q, port, value);
    } else if (size == 2) {
        qtest_outw(q, port, value);
    } else {
        qtest_outl(q, port, value);
    }
}

QPciDevice *qpci_at(QTest *q, unsigned devfn)
{
    QPciDevice *dev;

    if (qpci_config(q, devfn, REG_VENDOR, 2) == 0xffff) {
        return NULL;
    }
    dev = g_new0(QPciDevice, 1);
    dev->q = q;
    dev->devfn = devfn;
    return dev;
}

QPciDevice *qpci_find(QTest *q, uint16_t vendor, uint16_t device)
{
    for (unsigned devfn = 0; devfn < 256; devfn++) {
        if (qpci_config(q, devfn, REG_VENDOR, 4) == (vendor | (uint32_t)device << 16)) {
            return qpci_at(q, devfn);
        }
    }
    return NULL;
}

void qpci_free(QPciDevice *dev)
{
    g_free(dev);
}

uint8_t qpci_readb(QPciDevice *dev, unsigned offset)
{
    return qpci_config(dev->q, dev->devfn, offset, 1);
}

uint16_t qpci_readw(QPciDevice *dev, unsigned offset)
{
    return qpci_config(dev->q, dev->devfn, offset, 2);
}

uint32_t qpci_readl(QPciDevice *dev, unsigned offset)
{
    return qpci_config(dev->q, dev->devfn, offset, 4);
}

void qpci_writeb(QPciDevice *dev, unsigned offset, uint8_t value)
{
    qpci_set_config(dev->q, dev->devfn, offset, value, 1);
}

void qpci_writew(QPciDevice *dev, unsigned offset, uint16_t value)
{
    qpci_set_config(dev->q, dev->devfn, offset, value, 2);
}

void qpci_writel(QPciDevice *dev, unsigned offset, uint32_t value)
{
    qpci_set_config(dev->q, dev->devfn, offset, value, 4);
}

uint8_t qpci_find_capability(QPciDevice *dev, uint8_t id, uint8_t after)
{
    unsigned at = after ? after + 1 : REG_CAPABILITIES;

    if (!(qpci_readw(dev, REG_STATUS) & 0x10)) {
        return 0;
    }
    /* No list is longer than the space it is in. */
    for (unsigned i = 0; i < 64; i++) {
        uint8_t next = qpci_readb(dev, at) & 0xfc;

        if (!next || qpci_readb(dev, next) == id) {
            return next;
        }
        at = next + 1;
    }
    g_error("the capabilities of function %x are in a circle", dev->devfn);
}

void qpci_enable(QPciDevice *dev)
{
    qpci_writew(dev, REG_COMMAND,
                qpci_readw(dev, REG_COMMAND) | COMMAND_IO | COMMAND_MEMORY | COMMAND_MASTER);
}

/* --- BARs --- */

static void set_bar(QPciDevice *dev, unsigned n, bool wide, uint64_t value)
{
    qpci_writel(dev, REG_BAR0 + 4 * n, (uint32_t)value);
    if (wide) {
        qpci_writel(dev, REG_BAR0 + 4 * n + 4, value >> 32);
    }
}

static uint64_t get_bar(QPciDevice *dev, unsigned n, bool wide)
{
    uint64_t value = qpci_readl(dev, REG_BAR0 + 4 * n);

    return wide ? value | (uint64_t)qpci_readl(dev, REG_BAR0 + 4 * n + 4) << 32 : value;
}

/* The size that the bits which stay 0 tell, with decoding off meanwhile. */
static uint64_t measure_bar(QPciDevice *dev, unsigned n, bool wide, uint64_t flags)
{
    uint64_t old = get_bar(dev, n, wide), mask;
    uint16_t command = qpci_readw(dev, REG_COMMAND);

    qpci_writew(dev, REG_COMMAND, command & ~(COMMAND_IO | COMMAND_MEMORY));
    set_bar(dev, n, wide, UINT64_MAX);
    mask = get_bar(dev, n, wide) & ~flags;
    set_bar(dev, n, wide, old);
    qpci_writew(dev, REG_COMMAND, command);
    if (!mask) {
        return 0;
    }
    return wide ? ~mask + 1 : (uint32_t)~mask + 1;
}

/* One place for every function and BAR; 64 KiB or 256 ports apart. */
static uint64_t free_place(QPciDevice *dev, unsigned n, bool io, uint64_t size)
{
    unsigned number = (dev->devfn >> 3) * 6 + n;

    g_assert_cmpuint(size, <=, io ? 0x40 : 0x10000);
    return io ? FREE_PORTS + number * 0x40 : FREE_MEMORY + number * 0x10000;
}

QPciBar qpci_map(QPciDevice *dev, unsigned n)
{
    uint32_t low = qpci_readl(dev, REG_BAR0 + 4 * n);
    bool io = low & 1, wide = !io && (low & 6) == 4;
    uint64_t flags = io ? 3 : 15;
    QPciBar bar = { .q = dev->q, .io = io };

    bar.size = measure_bar(dev, n, wide, flags);
    bar.address = get_bar(dev, n, wide) & ~flags;
    if (bar.size && !bar.address) {
        bar.address = free_place(dev, n, io, bar.size);
        set_bar(dev, n, wide, bar.address);
    }
    return bar;
}

QPciBar qpci_bar_part(QPciBar bar, uint64_t offset, uint64_t size)
{
    g_assert_cmpuint(offset + size, <=, bar.size);
    return (QPciBar){ bar.q, bar.io, bar.address + offset, size };
}

uint8_t qpci_bar_readb(QPciBar bar, uint64_t offset)
{
    uint64_t at = bar.address + offset;

    return bar.io ? qtest_inb(bar.q, at) : qtest_readb(bar.q, at);
}

uint16_t qpci_bar_readw(QPciBar bar, uint64_t offset)
{
    uint64_t at = bar.address + offset;

    return bar.io ? qtest_inw(bar.q, at) : qtest_readw(bar.q, at);
}

uint32_t qpci_bar_readl(QPciBar bar, uint64_t offset)
{
    uint64_t at = bar.address + offset;

    return bar.io ? qtest_inl(bar.q, at) : qtest_readl(bar.q, at);
}

void qpci_bar_writeb(QPciBar bar, uint64_t offset, uint8_t value)
{
    if (bar.io) {
        qtest_outb(bar.q, bar.address + offset, value);
    } else {
        qtest_writeb(bar.q, bar.address + offset, value);
    }
}

void qpci_bar_writew(QPciBar bar, uint64_t offset, uint16_t value)
{
    if (bar.io) {
        qtest_outw(bar.q, bar.address + offset, value);
    } else {
        qtest_writew(bar.q, bar.address + offset, value);
    }
}

void qpci_bar_writel(QPciBar bar, uint64_t offset, uint32_t value)
{
    if (bar.io) {
        qtest_outl(bar.q, bar.address + offset, value);
    } else {
        qtest_writel(bar.q, bar.address + offset, value);
    }
}

/* --- MSI-X --- */

/* A table whose place is told by the register at @reg: number of the BAR, offset in it. */
static QPciBar map_msix(QPciDevice *dev, unsigned reg, uint64_t size)
{
    uint32_t value = qpci_readl(dev, dev->msix + reg);

    return qpci_bar_part(qpci_map(dev, value & 7), value & ~7u, size);
}

void qpci_msix_enable(QPciDevice *dev)
{
    uint16_t control;

    dev->msix = qpci_find_capability(dev, CAPABILITY_MSIX, 0);
    g_assert_cmpuint(dev->msix, !=, 0);
    control = qpci_readw(dev, dev->msix + MSIX_CONTROL);
    dev->vectors = (control & 0x7ff) + 1;
    dev->msix_table = map_msix(dev, MSIX_TABLE, dev->vectors * MSIX_ENTRY);
    dev->msix_pending = map_msix(dev, MSIX_PENDING, (dev->vectors + 63) / 64 * 8);
    for (unsigned i = 0; i < dev->vectors; i++) {
        qpci_msix_mask(dev, i, true);
    }
    qpci_writew(dev, dev->msix + MSIX_CONTROL, (control & ~MSIX_MASK_ALL) | MSIX_ENABLE);
}

static void change_control(QPciDevice *dev, uint16_t bit, bool set)
{
    uint16_t control = qpci_readw(dev, dev->msix + MSIX_CONTROL);

    qpci_writew(dev, dev->msix + MSIX_CONTROL, set ? control | bit : control & ~bit);
}

void qpci_msix_disable(QPciDevice *dev)
{
    change_control(dev, MSIX_ENABLE, false);
}

void qpci_msix_mask_all(QPciDevice *dev, bool mask)
{
    change_control(dev, MSIX_MASK_ALL, mask);
}

void qpci_msix_set(QPciDevice *dev, unsigned n, uint64_t address, uint32_t data)
{
    g_assert_cmpuint(n, <, dev->vectors);
    qpci_msix_mask(dev, n, true);
    qpci_bar_writel(dev->msix_table, n * MSIX_ENTRY, (uint32_t)address);
    qpci_bar_writel(dev->msix_table, n * MSIX_ENTRY + 4, address >> 32);
    qpci_bar_writel(dev->msix_table, n * MSIX_ENTRY + 8, data);
    qpci_msix_mask(dev, n, false);
}

void qpci_msix_mask(QPciDevice *dev, unsigned n, bool mask)
{
    g_assert_cmpuint(n, <, dev->vectors);
    qpci_bar_writel(dev->msix_table, n * MSIX_ENTRY + 12, mask);
}

bool qpci_msix_is_pending(QPciDevice *dev, unsigned n)
{
    g_assert_cmpuint(n, <, dev->vectors);
    return qpci_bar_readl(dev->msix_pending, n / 32 * 4) >> (n % 32) & 1;
}
