/*
 * A virtio driver for the test guest: modern devices over PCI, split rings, waiting by polling or by interrupt.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "tests/guest/guest.h"
#include "tests/guest/pci.h"
#include "tests/guest/virtio.h"

#define VENDOR 0x1af4
#define MODERN_IDS 0x1040
#define CAP_COMMON 1
#define CAP_NOTIFY 2
#define CAP_ISR 3
#define CAP_DEVICE 4
#define MSIX_ENABLE 0x8000
#define MSIX_MASK_ALL 0x4000
#define NO_VECTOR 0xffff
#define AVAIL_NO_INTERRUPT 1
/* Long enough for any host under load; and how often the device is asked meanwhile whether it has given up. */
#define WAIT_CYCLES 80000000000ull
#define SPINS_PER_STATUS 200000u

Virtio *virtio_device(uint64_t i)
{
    static Virtio *const devices[] = { &balloon_device, &rng_device, &vserial_device };

    return i < sizeof(devices) / sizeof(devices[0]) ? devices[i] : NULL;
}

static uint16_t transitional_id(uint16_t type)
{
    static const uint16_t ids[] = { 0, 0x1000, 0x1001, 0x1003, 0x1005, 0x1002 };

    return ids[type];
}

/* Where the structure of that kind lies; NULL if there is none in memory space. */
static volatile uint8_t *find_structure(unsigned devfn, uint8_t kind, unsigned *ret_cap)
{
    unsigned cap = 0;

    while ((cap = pci_capability(devfn, PCI_CAP_VENDOR, cap)) != 0) {
        unsigned bar = pci_read8(devfn, cap + 4);
        uint64_t address;
        bool io;

        if (pci_read8(devfn, cap + 3) != kind || bar >= PCI_BARS) {
            continue;
        }
        address = pci_bar(devfn, bar, &io);
        if (address != 0 && !io) {
            *ret_cap = cap;
            return (volatile uint8_t *)(address + pci_read32(devfn, cap + 8));
        }
    }
    return NULL;
}

bool virtio_find(Virtio *dev)
{
    int devfn;
    unsigned cap;

    if (dev->found) {
        return true;
    }
    devfn = pci_find(VENDOR, (uint16_t)(MODERN_IDS + dev->type), transitional_id(dev->type));
    if (devfn < 0) {
        return false;
    }
    dev->devfn = (unsigned)devfn;
    dev->common = (volatile VirtioCommon *)find_structure(dev->devfn, CAP_COMMON, &cap);
    dev->isr = find_structure(dev->devfn, CAP_ISR, &cap);
    dev->config = find_structure(dev->devfn, CAP_DEVICE, &cap);
    dev->notify = find_structure(dev->devfn, CAP_NOTIFY, &cap);
    if (dev->common == NULL || dev->isr == NULL || dev->notify == NULL) {
        return false;
    }
    dev->notify_multiplier = pci_read32(dev->devfn, cap + 16);
    pci_enable(dev->devfn);
    dev->found = true;
    return true;
}

void virtio_reset(Virtio *dev)
{
    uint64_t limit = read_tsc() + WAIT_CYCLES;

    dev->common->status = 0;
    while (dev->common->status != 0 && read_tsc() < limit) {
    }
    dev->started = false;
}

/* Entry 0 of the MSI-X table is the only one used: it raises VECTOR_VIRTIO on the boot processor. */
static void set_msix(Virtio *dev, bool on)
{
    unsigned cap = pci_capability(dev->devfn, PCI_CAP_MSIX, 0);
    uint16_t control;
    uint32_t table;
    volatile uint32_t *entry;

    if (cap == 0) {
        return;
    }
    control = pci_read16(dev->devfn, cap + 2) & (uint16_t) ~(MSIX_ENABLE | MSIX_MASK_ALL);
    pci_write16(dev->devfn, cap + 2, on ? control | MSIX_ENABLE : control);
    if (on) {
        table = pci_read32(dev->devfn, cap + 4);
        entry = (volatile uint32_t *)(pci_bar(dev->devfn, table & 7, NULL) + (table & ~7u));
        entry[0] = APIC_BASE;
        entry[1] = 0;
        entry[2] = VECTOR_VIRTIO;
        entry[3] = 0;
    }
}

static void set_interrupts(Virtio *dev)
{
    uint16_t command = pci_read16(dev->devfn, PCI_COMMAND) & (uint16_t)~PCI_COMMAND_INTX_DISABLE;

    set_msix(dev, dev->wait == WAIT_MSIX);
    virtio_isr = 0;
    if (dev->wait == WAIT_INTX) {
        virtio_isr = (uintptr_t)dev->isr;
        cpus_route_pin(pci_read8(dev->devfn, PCI_INTERRUPT_LINE), VECTOR_VIRTIO);
    } else {
        command |= PCI_COMMAND_INTX_DISABLE;
    }
    pci_write16(dev->devfn, PCI_COMMAND, command);
    dev->common->config_vector = NO_VECTOR;
}

static void negotiate(Virtio *dev, uint64_t wanted)
{
    dev->offered = 0;
    for (uint32_t i = 0; i < 2; i++) {
        dev->common->device_feature_select = i;
        dev->offered |= (uint64_t)dev->common->device_feature << (32 * i);
    }
    dev->features = dev->offered & wanted;
    for (uint32_t i = 0; i < 2; i++) {
        dev->common->driver_feature_select = i;
        dev->common->driver_feature = (uint32_t)(dev->features >> (32 * i));
    }
}

VirtioResult virtio_begin(Virtio *dev, uint64_t wanted)
{
    if (!virtio_find(dev)) {
        return VIRTIO_ABSENT;
    }
    virtio_reset(dev);
    dev->common->status = STATUS_ACKNOWLEDGE;
    dev->common->status = STATUS_ACKNOWLEDGE | STATUS_DRIVER;
    negotiate(dev, wanted);
    dev->common->status = STATUS_ACKNOWLEDGE | STATUS_DRIVER | STATUS_FEATURES_OK;
    if ((dev->common->status & STATUS_FEATURES_OK) == 0) {
        return VIRTIO_REFUSED;
    }
    set_interrupts(dev);
    return VIRTIO_DONE;
}

VirtioResult virtio_go(Virtio *dev)
{
    dev->common->status =
        STATUS_ACKNOWLEDGE | STATUS_DRIVER | STATUS_FEATURES_OK | STATUS_DRIVER_OK;
    dev->started = true;
    return (dev->common->status & STATUS_NEEDS_RESET) != 0 ? VIRTIO_NEEDS_RESET : VIRTIO_DONE;
}

static void set_address(volatile uint32_t *at, const void *address)
{
    at[0] = (uint32_t)(uintptr_t)address;
    at[1] = (uint32_t)((uintptr_t)address >> 32);
}

VirtioResult ring_start(Virtio *dev, unsigned number)
{
    Ring *ring = &dev->rings[number];
    volatile VirtioCommon *common = dev->common;

    if (number >= dev->max_rings || number >= common->queue_count) {
        return VIRTIO_ABSENT;
    }
    common->queue_select = (uint16_t)number;
    ring->size = common->queue_size < RING_SIZE ? common->queue_size : RING_SIZE;
    if (ring->size == 0) {
        return VIRTIO_ABSENT;
    }
    ring->number = (uint16_t)number;
    ring->seen = ring->avail.index = ring->used.index = ring->used.flags = 0;
    ring->avail.flags = dev->wait == WAIT_POLL ? AVAIL_NO_INTERRUPT : 0;
    ring->doorbell =
        (volatile uint16_t *)(dev->notify + common->queue_notify_off * dev->notify_multiplier);
    common->queue_size = ring->size;
    common->queue_vector = dev->wait == WAIT_MSIX ? 0 : NO_VECTOR;
    set_address(common->queue_desc, ring->desc);
    set_address(common->queue_driver, &ring->avail);
    set_address(common->queue_device, &ring->used);
    common->queue_enable = 1;
    return VIRTIO_DONE;
}

void ring_set_desc(Ring *ring, unsigned i, const RingDesc *desc)
{
    ring->desc[i % RING_SIZE] = *desc;
}

void ring_offer(Ring *ring, uint16_t head)
{
    uint16_t index = ring->avail.index;

    ring->avail.ring[index % ring->size] = head;
    __atomic_store_n(&ring->avail.index, (uint16_t)(index + 1), __ATOMIC_RELEASE);
}

void ring_kick(Ring *ring)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    *ring->doorbell = ring->number;
}

bool ring_take(Ring *ring, uint32_t *ret_id, uint32_t *ret_length)
{
    if (__atomic_load_n(&ring->used.index, __ATOMIC_ACQUIRE) == ring->seen) {
        return false;
    }
    *ret_id = ring->used.ring[ring->seen % ring->size].id;
    *ret_length = ring->used.ring[ring->seen % ring->size].length;
    ring->seen++;
    return true;
}

VirtioResult ring_wait(Virtio *dev, Ring *ring, uint32_t *ret_id, uint32_t *ret_length)
{
    uint64_t limit = read_tsc() + (dev->wait_cycles > 0 ? dev->wait_cycles : WAIT_CYCLES);
    uint64_t seen = virtio_interrupts;

    for (unsigned spins = 1; !ring_take(ring, ret_id, ret_length); spins++) {
        if (dev->wait != WAIT_POLL) {
            ring0_call(RING0_WAIT, (uintptr_t)&virtio_interrupts, seen, 0);
            seen = virtio_interrupts;
        }
        if (spins % SPINS_PER_STATUS == 0 || dev->wait != WAIT_POLL) {
            if ((dev->common->status & STATUS_NEEDS_RESET) != 0) {
                return VIRTIO_NEEDS_RESET;
            }
        }
        if (read_tsc() > limit) {
            return VIRTIO_TIMEOUT;
        }
        __asm__ volatile("pause");
    }
    return VIRTIO_DONE;
}

VirtioResult ring_do(Virtio *dev, unsigned number, uint32_t *ret_length)
{
    Ring *ring = &dev->rings[number];
    uint32_t id;

    if (!dev->started) {
        return VIRTIO_ABSENT;
    }
    ring_offer(ring, 0);
    ring_kick(ring);
    return ring_wait(dev, ring, &id, ret_length);
}

void virtio_print_result(VirtioResult result)
{
    if (result != VIRTIO_DONE) {
        serial_put_field("failed", result);
    }
}
