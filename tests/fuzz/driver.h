/*
 * The fuzzer's driver: the machine, an input, and a virtio device over PCI that is set up with valid queues.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_TESTS_FUZZ_DRIVER_H
#define COWBIRD_TESTS_FUZZ_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hw/pci/pci.h"
#include "system/state.h"

#define RAM_SIZE (16u << 20)
#define QUEUES 6
#define QUEUE_SIZE 8
#define QUEUE_AREA 0x1000 /* bytes of RAM for each queue */
#define QUEUE_BASE 0x200000u
#define LEGACY_BASE 0x220000u /* queues of a legacy driver, whose size the device chooses */
#define LEGACY_AREA 0x8000
#define BUFFERS 0x300000u /* data and indirect tables */
#define AREA_SIZE 0x10000u

enum { DRIVER_OFFSET = 0x400, DEVICE_OFFSET = 0x800 };
enum { SLOT_BALLOON = 4, SLOT_RNG, SLOT_SERIAL, SLOT_END };

extern SystemState state;

/* --- The input --- */

typedef struct Input {
    const uint8_t *data;
    size_t left;
} Input;

/* @n bytes, little endian; zeros behind the end. */
uint64_t take(Input *in, unsigned n);

/* --- The device --- */

/* One queue as the driver sees it; @table is its descriptors, @avail its available ring (split). */
typedef struct DriverQueue {
    uint64_t table, avail;
    unsigned size;
    uint16_t avail_index;
    unsigned place; /* next descriptor */
    bool wrap;      /* packed */
} DriverQueue;

typedef struct Driver {
    unsigned slot, devfn;
    uint32_t bars[6]; /* as the machine's reset placed them */
    bool packed;
    uint64_t bar;  /* modern */
    uint64_t port; /* legacy, 0: none */
    DriverQueue queues[QUEUES];
} Driver;

PciDevice *driver_device(const Driver *d);

/* Guest RAM; the guard is told. */
void put(uint64_t address, uint64_t value, unsigned size);

void bar_write(const Driver *d, unsigned offset, uint64_t value, unsigned size);
uint64_t bar_read(const Driver *d, unsigned offset, unsigned size);

/* After a reset: lets the device decode and master, and finds out where it is. */
void driver_find(Driver *d);
/* Valid queues, those of @features that are offered, DRIVER_OK. */
void driver_start(Driver *d, uint64_t features);
void driver_start_legacy(Driver *d, uint32_t features);
/* What registers and MSI-X table say now may be written by the device. */
void driver_lend(const Driver *d);
/* Makes descriptor @head of a split ring available. */
void driver_make_available(DriverQueue *q, uint16_t head);
void driver_kick(const Driver *d, unsigned queue);
void run_loop(void);
void driver_remember_bars(Driver *d);
/* Ends the process unless the device, once reset, does one good request. */
void driver_check_recovery(Driver *d);

#endif
