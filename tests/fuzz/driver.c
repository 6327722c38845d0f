/*
 * Setting a device up, lending it memory, and finding out whether it still works.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "tests/fuzz/driver.h"

#include "hw/pci/msix.h"
#include "hw/virtio/virtio-pci.h"
#include "memory/guest-access.h"
#include "tests/fuzz/guard.h"

SystemState state;

uint64_t take(Input *in, unsigned n)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < n && in->left; i++, in->left--) {
        value |= (uint64_t)*in->data++ << (8 * i);
    }
    return value;
}

PciDevice *driver_device(const Driver *d)
{
    return state.machine->pci->functions[d->devfn];
}

void put(uint64_t address, uint64_t value, unsigned size)
{
    value = GUINT64_TO_LE(value);
    guest_write(state.memory, address, &value, size);
    guard_lend(address, size); /* the driver may write where it likes */
    guard_written(address, size);
}

void bar_write(const Driver *d, unsigned offset, uint64_t value, unsigned size)
{
    value = GUINT64_TO_LE(value);
    address_map_write(state.memory, d->bar + offset, &value, size);
}

uint64_t bar_read(const Driver *d, unsigned offset, unsigned size)
{
    uint64_t value = 0;

    address_map_read(state.memory, d->bar + offset, &value, size);
    return GUINT64_FROM_LE(value);
}

static uint64_t port_read(const Driver *d, unsigned offset, unsigned size)
{
    uint64_t value = 0;

    address_map_read(state.io, d->port + offset, &value, size);
    return GUINT64_FROM_LE(value);
}

static void port_write(const Driver *d, unsigned offset, uint64_t value, unsigned size)
{
    value = GUINT64_TO_LE(value);
    address_map_write(state.io, d->port + offset, &value, size);
}

/* --- Setting up --- */

void driver_find(Driver *d)
{
    const PciDevice *dev = driver_device(d);

    pci_config_write(state.machine->pci, d->devfn, PCI_REG_COMMAND,
                     PCI_COMMAND_IO | PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER, 2);
    if (!pci_bar_address(dev, VIRTIO_PCI_BAR_MODERN, &d->bar)) {
        d->bar = 0;
    }
    if (!pci_bar_address(dev, VIRTIO_PCI_BAR_LEGACY, &d->port)) {
        d->port = 0;
    }
}

static void set_up_queue(Driver *d, unsigned queue)
{
    uint64_t area = QUEUE_BASE + queue * QUEUE_AREA;

    bar_write(d, 22, queue, 2);
    bar_write(d, 24, QUEUE_SIZE, 2);
    bar_write(d, 26, queue % 2, 2);
    bar_write(d, 32, area, 4);
    bar_write(d, 36, 0, 4);
    bar_write(d, 40, area + DRIVER_OFFSET, 4);
    bar_write(d, 44, 0, 4);
    bar_write(d, 48, area + DEVICE_OFFSET, 4);
    bar_write(d, 52, 0, 4);
    bar_write(d, 28, 1, 2);
    d->queues[queue] = (DriverQueue){
        .table = area, .avail = area + DRIVER_OFFSET, .size = QUEUE_SIZE, .wrap = true
    };
}

void driver_start(Driver *d, uint64_t features)
{
    d->packed = features >> VIRTIO_F_RING_PACKED & 1;
    bar_write(d, 20, 0, 1);
    guest_fill(state.memory, QUEUE_BASE, 0, QUEUES * QUEUE_AREA);
    bar_write(d, 20, 3, 1);
    for (unsigned i = 0; i < 2; i++) {
        bar_write(d, 0, i, 4);
        uint64_t offered = bar_read(d, 4, 4);

        bar_write(d, 8, i, 4);
        bar_write(d, 12, i ? (offered & (features >> 32)) | 1 : offered & features, 4);
    }
    bar_write(d, 20, 11, 1);
    for (unsigned i = 0; i < QUEUES; i++) {
        set_up_queue(d, i);
    }
    bar_write(d, 20, 15, 1);
}

void driver_start_legacy(Driver *d, uint32_t features)
{
    d->packed = false;
    port_write(d, 18, 0, 1);
    guest_fill(state.memory, LEGACY_BASE, 0, QUEUES * LEGACY_AREA);
    port_write(d, 18, 3, 1);
    port_write(d, 4, features & port_read(d, 0, 4), 4);
    for (unsigned i = 0; i < QUEUES; i++) {
        uint64_t area = LEGACY_BASE + i * LEGACY_AREA;

        port_write(d, 14, i, 2);
        unsigned size = port_read(d, 12, 2);

        if (size == 0 || size > VIRTIO_QUEUE_SIZE_MAX) {
            size = QUEUE_SIZE;
        }
        port_write(d, 8, area / GUARD_PAGE_SIZE, 4);
        d->queues[i] = (DriverQueue){ .table = area, .avail = area + 16 * size, .size = size };
    }
    port_write(d, 18, 7, 1);
}

void driver_lend(const Driver *d)
{
    const PciDevice *dev = driver_device(d);
    const VirtioDevice *vdev = VIRTIO_PCI((gpointer)dev)->vdev;
    uint64_t table, area[3];

    for (unsigned i = 0; i < vdev->n_queues; i++) {
        virtqueue_get_addresses(vdev->queues[i], &area[0], &area[1], &area[2]);
        for (unsigned j = 0; j < G_N_ELEMENTS(area); j++) {
            guard_lend(area[j], VIRTIO_QUEUE_SIZE_MAX * 16 + 6);
        }
        guard_lend((uint64_t)virtqueue_pfn(vdev->queues[i]) * GUARD_PAGE_SIZE,
                   VIRTIO_QUEUE_SIZE_MAX * 32);
    }
    if (!pci_bar_address(dev, VIRTIO_PCI_BAR_MSIX, &table)) {
        return;
    }
    for (unsigned i = 0; i < msix_vectors(dev); i++) {
        uint64_t address = 0;

        address_map_read(state.memory, table + i * MSIX_ENTRY_SIZE, &address, 8);
        guard_lend(GUINT64_FROM_LE(address), 4);
    }
}

/* --- Requests --- */

void driver_make_available(DriverQueue *q, uint16_t head)
{
    put(q->avail + 4 + 2 * (q->avail_index % q->size), head, 2);
    put(q->avail + 2, ++q->avail_index, 2);
}

void driver_kick(const Driver *d, unsigned queue)
{
    bar_write(d, VIRTIO_PCI_NOTIFY + VIRTIO_PCI_NOTIFY_MULTIPLIER * queue, queue, 2);
}

void run_loop(void)
{
    for (unsigned i = 0; i < 20 && g_main_context_iteration(NULL, FALSE); i++) {
    }
}

/* --- Recovery --- */

void driver_remember_bars(Driver *d)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(d->bars); i++) {
        d->bars[i] = pci_config_read(state.machine->pci, d->devfn, PCI_REG_BAR0 + 4 * i, 4);
    }
}

/* A buffer that each device must use: a page number, room for random bytes, DEVICE_READY. */
static unsigned make_good_request(Driver *d)
{
    unsigned slot = d->slot;
    unsigned queue = slot == SLOT_SERIAL ? 3 : 0;
    DriverQueue *q = &d->queues[queue];

    put(BUFFERS, slot == SLOT_BALLOON ? BUFFERS / GUARD_PAGE_SIZE + 8 : 0, 4);
    put(BUFFERS + 4, slot == SLOT_SERIAL ? 1 << 16 : 0, 4);
    put(q->table, BUFFERS, 8);
    put(q->table + 8, slot == SLOT_BALLOON ? 4 : 8, 4);
    put(q->table + 12, slot == SLOT_RNG ? 2 : 0, 4);
    driver_make_available(q, 0);
    return queue;
}

static bool request_is_done(const Driver *d, unsigned queue)
{
    uint16_t used = 0;

    guest_read_le16(state.memory, QUEUE_BASE + queue * QUEUE_AREA + DEVICE_OFFSET + 2, &used);
    return used == 1;
}

void driver_check_recovery(Driver *d)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(d->bars); i++) {
        pci_config_write(state.machine->pci, d->devfn, PCI_REG_BAR0 + 4 * i, d->bars[i], 4);
    }
    driver_find(d);
    /* VERSION_1 only, or with the serial device's control queues. */
    driver_start(d, d->slot == SLOT_SERIAL ? 2 : 0);
    unsigned queue = make_good_request(d);

    driver_kick(d, queue);
    for (unsigned i = 0; i < 10 && !request_is_done(d, queue); i++) {
        run_loop();
    }
    if (!request_is_done(d, queue)) {
        finding("device %u: no answer to a good request after a reset, status 0x%x", d->slot,
                (unsigned)bar_read(d, 20, 1));
    }
}
