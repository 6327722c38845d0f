/*
 * Commands that take a virtio device's registers and rings in hand, with any values: for tests of how it bears that.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "tests/guest/commands.h"
#include "tests/guest/guest.h"
#include "tests/guest/virtio.h"

static Virtio *device_or_complaint(uint64_t number)
{
    Virtio *dev = virtio_device(number);

    if (dev == NULL || !virtio_find(dev)) {
        virtio_print_result(VIRTIO_ABSENT);
        return NULL;
    }
    return dev;
}

static Ring *ring_or_complaint(const uint64_t *arguments, Virtio **ret_dev)
{
    Virtio *dev = virtio_device(arguments[0]);

    if (dev == NULL || arguments[1] >= dev->max_rings || dev->rings[arguments[1]].size == 0) {
        virtio_print_result(VIRTIO_ABSENT);
        return NULL;
    }
    *ret_dev = dev;
    return &dev->rings[arguments[1]];
}

/* DEVICE */
static void run_info(const Command *command, const uint64_t *arguments, unsigned count)
{
    Virtio *dev = device_or_complaint(arguments[0]);

    if (dev == NULL) {
        return;
    }
    serial_put_hex_field("devfn", dev->devfn);
    serial_put_hex_field("offered", dev->offered);
    serial_put_hex_field("features", dev->features);
    serial_put_hex_field("status", dev->common->status);
    serial_put_field("generation", dev->common->config_generation);
    serial_put_field("queues", dev->common->queue_count);
    serial_put_field("interrupts", virtio_interrupts);
}

/* DEVICE MODE */
static void run_wait_mode(const Command *command, const uint64_t *arguments, unsigned count)
{
    Virtio *dev = device_or_complaint(arguments[0]);

    if (dev != NULL) {
        dev->wait = arguments[1] == 1 ? WAIT_MSIX : arguments[1] == 2 ? WAIT_INTX : WAIT_POLL;
    }
}

/* DEVICE [VALUE] */
static void run_status(const Command *command, const uint64_t *arguments, unsigned count)
{
    Virtio *dev = device_or_complaint(arguments[0]);

    if (dev == NULL) {
        return;
    }
    if (count == 2 && arguments[1] == 0) {
        virtio_reset(dev);
    } else if (count == 2) {
        dev->common->status = (uint8_t)arguments[1];
    }
    serial_put_hex_field("status", dev->common->status);
}

/* DEVICE OFFSET [VALUE], 32 bits of the device's own configuration */
static void run_config(const Command *command, const uint64_t *arguments, unsigned count)
{
    Virtio *dev = device_or_complaint(arguments[0]);
    volatile uint32_t *at;

    if (dev == NULL) {
        return;
    }
    at = (volatile uint32_t *)(dev->config + (arguments[1] & ~3ull));
    if (count == 3) {
        *at = (uint32_t)arguments[2];
    }
    serial_put_hex_field("value", *at);
}

/* DEVICE QUEUE SIZE DESC DRIVER DEVICE-AREA: the queue's registers, whatever that leads to */
static void run_setup(const Command *command, const uint64_t *arguments, unsigned count)
{
    Virtio *dev = device_or_complaint(arguments[0]);

    if (dev == NULL) {
        return;
    }
    dev->common->queue_select = (uint16_t)arguments[1];
    dev->common->queue_size = (uint16_t)arguments[2];
    for (unsigned i = 0; i < 2; i++) {
        dev->common->queue_desc[i] = (uint32_t)(arguments[3] >> (32 * i));
        dev->common->queue_driver[i] = (uint32_t)(arguments[4] >> (32 * i));
        dev->common->queue_device[i] = (uint32_t)(arguments[5] >> (32 * i));
    }
    dev->common->queue_enable = 1;
    serial_put_field("enabled", dev->common->queue_enable);
    serial_put_field("size", dev->common->queue_size);
}

/* DEVICE QUEUE INDEX ADDRESS LENGTH FLAGS NEXT */
static void run_desc(const Command *command, const uint64_t *arguments, unsigned count)
{
    Virtio *dev;
    Ring *ring = ring_or_complaint(arguments, &dev);
    RingDesc desc = { arguments[3], (uint32_t)arguments[4], (uint16_t)arguments[5],
                      (uint16_t)arguments[6] };

    if (ring != NULL) {
        ring_set_desc(ring, (unsigned)arguments[2], &desc);
    }
}

/* DEVICE QUEUE COUNT ADDRESS LENGTH FLAGS: descriptors 0 to COUNT - 1, linked, their pieces one after the other */
static void run_chain(const Command *command, const uint64_t *arguments, unsigned count)
{
    Virtio *dev;
    Ring *ring = ring_or_complaint(arguments, &dev);
    unsigned links = arguments[2] < RING_SIZE ? (unsigned)arguments[2] : RING_SIZE;

    for (unsigned i = 0; ring != NULL && i < links; i++) {
        uint16_t flags = (uint16_t)(arguments[5] | (i + 1 < links ? DESC_NEXT : 0));

        ring_set_desc(ring, i,
                      &(RingDesc){ arguments[3] + i * arguments[4], (uint32_t)arguments[4], flags,
                                   (uint16_t)(i + 1) });
    }
}

/* DEVICE QUEUE HEAD...: offers them all, then kicks once */
static void run_offer(const Command *command, const uint64_t *arguments, unsigned count)
{
    Virtio *dev;
    Ring *ring = ring_or_complaint(arguments, &dev);

    if (ring == NULL) {
        return;
    }
    for (unsigned i = 2; i < count; i++) {
        ring_offer(ring, (uint16_t)arguments[i]);
    }
    ring_kick(ring);
}

/* DEVICE QUEUE INDEX: the available index, out of order; kicks */
static void run_index(const Command *command, const uint64_t *arguments, unsigned count)
{
    Virtio *dev;
    Ring *ring = ring_or_complaint(arguments, &dev);

    if (ring != NULL) {
        ring->avail.index = (uint16_t)arguments[2];
        ring_kick(ring);
    }
}

/* DEVICE QUEUE [CYCLES]: one used buffer */
static void run_wait(const Command *command, const uint64_t *arguments, unsigned count)
{
    Virtio *dev;
    Ring *ring = ring_or_complaint(arguments, &dev);
    uint32_t id = 0, length = 0;
    VirtioResult result;

    if (ring == NULL) {
        return;
    }
    dev->wait_cycles = count > 2 ? arguments[2] : 0;
    result = ring_wait(dev, ring, &id, &length);
    dev->wait_cycles = 0;
    if (result == VIRTIO_DONE) {
        serial_put_field("id", id);
        serial_put_field("length", length);
    }
    virtio_print_result(result);
}

const Command virtio_commands[] = {
    { "virtio-info", 1, 1, run_info },
    { "virtio-wait", 2, 2, run_wait_mode },
    { "virtio-status", 1, 2, run_status },
    { "virtio-config", 2, 3, run_config },
    { "vq-setup", 6, 6, run_setup },
    { "vq-desc", 7, 7, run_desc },
    { "vq-chain", 6, 6, run_chain },
    { "vq-offer", 3, MAX_ARGUMENTS, run_offer },
    { "vq-index", 3, 3, run_index },
    { "vq-wait", 2, 3, run_wait },
    { 0 },
};
