/*
 * The entropy driver of the test guest (virtio 1.2, 5.4).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "tests/guest/commands.h"
#include "tests/guest/guest.h"
#include "tests/guest/pages.h"
#include "tests/guest/virtio.h"

static Ring rings[1] __attribute__((aligned(4096)));
Virtio rng_device = { .type = 4, .max_rings = 1, .rings = rings };

static uint64_t page[TEST_PAGE_WORDS] __attribute__((aligned(4096)));

/* [FEATURES] */
static void run_start(const Command *command, const uint64_t *arguments, unsigned count)
{
    uint64_t wanted = count > 0 ? arguments[0] : UINT64_MAX;
    VirtioResult result = virtio_begin(&rng_device, wanted & FEATURES_TRANSPORT);

    if (result == VIRTIO_DONE) {
        result = ring_start(&rng_device, 0);
    }
    if (result == VIRTIO_DONE) {
        result = virtio_go(&rng_device);
    }
    serial_put_hex_field("offered", rng_device.offered);
    serial_put_hex_field("features", rng_device.features);
    virtio_print_result(result);
}

/* LENGTH [ADDRESS]: so many bytes to that place; without one, at most a page, which is hashed */
static void run_read(const Command *command, const uint64_t *arguments, unsigned count)
{
    uint64_t address = count > 1 ? arguments[1] : (uintptr_t)page, got = 0, requests = 0;
    uint64_t length = count > 1 || arguments[0] < sizeof(page) ? arguments[0] : sizeof(page);
    VirtioResult result = VIRTIO_DONE;
    uint64_t before = read_tsc();

    for (unsigned i = 0; count < 2 && i < TEST_PAGE_WORDS; i++) {
        page[i] = 0;
    }
    while (got < length && result == VIRTIO_DONE) {
        uint64_t left = length - got < 0x10000 ? length - got : 0x10000;
        uint32_t written = 0;

        ring_set_desc(&rings[0], 0, &(RingDesc){ address + got, (uint32_t)left, DESC_WRITE, 0 });
        result = ring_do(&rng_device, 0, &written);
        got += written;
        requests++;
    }
    serial_put_field("bytes", got);
    serial_put_field("requests", requests);
    serial_put_field("cycles", read_tsc() - before);
    if (count < 2) {
        serial_put_hex_field("hash", page_hash(page));
    }
    virtio_print_result(result);
}

const Command rng_commands[] = {
    { "rng-start", 0, 1, run_start },
    { "rng-read", 1, 2, run_read },
    { 0 },
};
