/*
 * A virtio driver for the test guest: modern devices over PCI, split rings, waiting by polling or by interrupt.
 *
 * From the virtio 1.2 specification: 4.1 (PCI), 2.7 (split rings), 3.1 (starting a device). Every step can also be
 * taken alone and with any values, for tests of how the device bears a broken driver.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef TESTS_GUEST_VIRTIO_H
#define TESTS_GUEST_VIRTIO_H

#include <stdbool.h>
#include <stdint.h>

#define RING_SIZE 256 /* entries at most; fewer if the device wants that */

#define DESC_NEXT 1
#define DESC_WRITE 2
#define DESC_INDIRECT 4

#define STATUS_ACKNOWLEDGE 1
#define STATUS_DRIVER 2
#define STATUS_DRIVER_OK 4
#define STATUS_FEATURES_OK 8
#define STATUS_NEEDS_RESET 64

#define FEATURE(bit) (1ull << (bit))
#define F_INDIRECT_DESC 28
#define F_VERSION_1 32
/* Transport features that this driver can do. */
#define FEATURES_TRANSPORT (FEATURE(F_INDIRECT_DESC) | FEATURE(F_VERSION_1))

/* Common configuration (4.1.4.3). */
typedef struct VirtioCommon {
    uint32_t device_feature_select, device_feature, driver_feature_select, driver_feature;
    uint16_t config_vector, queue_count;
    uint8_t status, config_generation;
    uint16_t queue_select, queue_size, queue_vector, queue_enable, queue_notify_off;
    uint32_t queue_desc[2], queue_driver[2], queue_device[2];
} VirtioCommon;

typedef struct RingDesc {
    uint64_t address;
    uint32_t length;
    uint16_t flags, next;
} RingDesc;

/* One queue and its ring. */
typedef struct Ring {
    RingDesc desc[RING_SIZE];
    struct {
        uint16_t flags, index, ring[RING_SIZE], used_event;
    } avail __attribute__((aligned(64)));
    struct {
        uint16_t flags, index;
        struct {
            uint32_t id, length;
        } ring[RING_SIZE];
        uint16_t avail_event;
    } used __attribute__((aligned(64)));
    uint16_t number, size, seen; /* seen: used entries taken */
    volatile uint16_t *doorbell;
} Ring;

typedef enum { WAIT_POLL, WAIT_MSIX, WAIT_INTX } WaitMode;

typedef struct Virtio {
    uint16_t type; /* device id of the specification: 5 is the balloon */
    unsigned max_rings;
    Ring *rings;
    bool found, started;
    unsigned devfn;
    volatile VirtioCommon *common;
    volatile uint8_t *isr, *config, *notify;
    uint32_t notify_multiplier;
    uint64_t offered, features;
    WaitMode wait;
    uint64_t wait_cycles; /* how long to wait for a buffer at most; 0: some seconds */
} Virtio;

/* How waiting ended; 0 is well. */
typedef enum {
    VIRTIO_DONE,
    VIRTIO_TIMEOUT,
    VIRTIO_NEEDS_RESET,
    VIRTIO_ABSENT, /* no such device, not started, or no such queue */
    VIRTIO_REFUSED /* FEATURES_OK did not stay set */
} VirtioResult;

/* Finds the device and its registers, resets it, negotiates `wanted` of what is offered. Then rings, then virtio_go(). */
VirtioResult virtio_begin(Virtio *dev, uint64_t wanted);
VirtioResult virtio_go(Virtio *dev);
/* Looks the device up unless that has been done. */
bool virtio_find(Virtio *dev);
void virtio_reset(Virtio *dev);
VirtioResult ring_start(Virtio *dev, unsigned number);

/* Entry i of the descriptor table, as it is given. */
void ring_set_desc(Ring *ring, unsigned i, const RingDesc *desc);
void ring_offer(Ring *ring, uint16_t head);
void ring_kick(Ring *ring);
bool ring_take(Ring *ring, uint32_t *ret_id, uint32_t *ret_length);
VirtioResult ring_wait(Virtio *dev, Ring *ring, uint32_t *ret_id, uint32_t *ret_length);
/* One buffer from descriptor 0 on: offers, kicks, waits. */
VirtioResult ring_do(Virtio *dev, unsigned number, uint32_t *ret_length);

/* " failed=N" unless it went well. */
void virtio_print_result(VirtioResult result);

/* The devices by number, as commands name them: 0 balloon, 1 rng, 2 serial. NULL if there is no such number. */
Virtio *virtio_device(uint64_t i);
extern Virtio balloon_device, rng_device, vserial_device;

/* vserial.c, once the device is started: data and control messages of a port */
VirtioResult vserial_send(unsigned port, const void *data, uint64_t length);
VirtioResult vserial_send_control(uint32_t port, uint16_t event, uint16_t value);
/* The next byte if one has come. */
bool vserial_take_byte(unsigned port, char *ret_byte);

#endif
