/*
 * PCI for tests: finding functions, configuration space, BARs, MSI-X.
 *
 * By configuration mechanism 1 of the host bridge (PCI Local Bus Specification 3.0, 3.2.2.3.2).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_TESTS_QTEST_QPCI_H
#define COWBIRD_TESTS_QTEST_QPCI_H

#include "tests/qtest/qtest.h"

/* A mapped BAR; copied by value. */
typedef struct QPciBar {
    QTest *q;
    bool io;
    uint64_t address;
    uint64_t size; /* 0: there is none */
} QPciBar;

typedef struct QPciDevice {
    QTest *q;
    unsigned devfn;
    uint8_t msix;       /* place of the MSI-X capability, 0: none; valid after qpci_msix_enable */
    unsigned vectors;   /* of MSI-X */
    QPciBar msix_table; /* from its first byte */
    QPciBar msix_pending;
} QPciDevice;

#define QPCI_DEVFN(slot, function) ((slot) << 3 | (function))

/* --- Configuration; devfn may have no device, which reads all ones --- */

uint32_t qpci_config(QTest *q, unsigned devfn, unsigned offset, unsigned size);
void qpci_set_config(QTest *q, unsigned devfn, unsigned offset, uint32_t value, unsigned size);

/* The first function with these ids, or the one at @devfn; NULL: none. Freed by qpci_free. */
QPciDevice *qpci_find(QTest *q, uint16_t vendor, uint16_t device);
QPciDevice *qpci_at(QTest *q, unsigned devfn);
void qpci_free(QPciDevice *dev);

uint8_t qpci_readb(QPciDevice *dev, unsigned offset);
uint16_t qpci_readw(QPciDevice *dev, unsigned offset);
uint32_t qpci_readl(QPciDevice *dev, unsigned offset);
void qpci_writeb(QPciDevice *dev, unsigned offset, uint8_t value);
void qpci_writew(QPciDevice *dev, unsigned offset, uint16_t value);
void qpci_writel(QPciDevice *dev, unsigned offset, uint32_t value);

/* Place of the next capability with this id behind @after (0: from the start); 0: none. */
uint8_t qpci_find_capability(QPciDevice *dev, uint8_t id, uint8_t after);
/* Switches I/O, memory and bus mastering on. */
void qpci_enable(QPciDevice *dev);

/* --- BARs --- */

/*
 * Where BAR @n is, with its size found by writing ones; size 0 when there is no such BAR. One that
 * has no address is given one from 0xe0000000 or port 0xd000 upwards.
 */
QPciBar qpci_map(QPciDevice *dev, unsigned n);
/* From @offset on. */
QPciBar qpci_bar_part(QPciBar bar, uint64_t offset, uint64_t size);
uint8_t qpci_bar_readb(QPciBar bar, uint64_t offset);
uint16_t qpci_bar_readw(QPciBar bar, uint64_t offset);
uint32_t qpci_bar_readl(QPciBar bar, uint64_t offset);
void qpci_bar_writeb(QPciBar bar, uint64_t offset, uint8_t value);
void qpci_bar_writew(QPciBar bar, uint64_t offset, uint16_t value);
void qpci_bar_writel(QPciBar bar, uint64_t offset, uint32_t value);

/* --- MSI-X (PCI Local Bus Specification 3.0, 6.8.2) --- */

/* Finds and maps the tables, enables MSI-X with every vector masked; the test fails without it. */
void qpci_msix_enable(QPciDevice *dev);
void qpci_msix_disable(QPciDevice *dev);
/* The function's mask bit. */
void qpci_msix_mask_all(QPciDevice *dev, bool mask);
/* Where vector @n writes what; unmasks it. Under qtest an address in RAM just receives the data. */
void qpci_msix_set(QPciDevice *dev, unsigned n, uint64_t address, uint32_t data);
void qpci_msix_mask(QPciDevice *dev, unsigned n, bool mask);
bool qpci_msix_is_pending(QPciDevice *dev, unsigned n);

#endif
