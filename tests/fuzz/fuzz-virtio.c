/*
 * A malicious driver for libFuzzer: virtio-balloon, virtio-rng and virtio-serial over their PCI
 * transport, in one process with the machine (-accel qtest).
 *
 * The first bytes of an input choose a device and features. It is set up with valid queues, and what
 * follows are operations: descriptors, heads, indices, doorbells, registers, configuration space, time,
 * resets, stop and cont. Every input that ends is a success; sanitizers find what is none.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <string.h>

#include "hw/core/reset.h"
#include "hw/pci/pci.h"
#include "hw/timer/clock.h"
#include "hw/virtio/virtio-pci.h"
#include "memory/guest-access.h"
#include "system/startup.h"
#include "system/state.h"
#include "util/error.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define RAM_SIZE (16u << 20)
#define QUEUES 6
#define QUEUE_SIZE 8
#define QUEUE_AREA 0x1000 /* bytes of RAM for each queue */
#define QUEUE_BASE 0x200000u
#define BUFFERS 0x300000u /* data and indirect tables */
#define AREA_SIZE 0x10000u
#define OPS_MAX 200 /* so that no input takes long */

enum { DRIVER_OFFSET = 0x400, DEVICE_OFFSET = 0x800 };
enum { FIRST_SLOT = 4, DEVICES = 3 };

static SystemState state;

/* --- The input --- */

typedef struct Input {
    const uint8_t *data;
    size_t left;
} Input;

/* @n bytes, little endian; zeros behind the end. */
static uint64_t take(Input *in, unsigned n)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < n && in->left; i++, in->left--) {
        value |= (uint64_t)*in->data++ << (8 * i);
    }
    return value;
}

/* Addresses at which something may go wrong are as likely as good ones. */
static uint64_t take_address(Input *in)
{
    uint8_t kind = take(in, 1);
    uint64_t offset = take(in, 2);

    switch (kind % 8) {
    case 0:
        return RAM_SIZE - offset % 64;
    case 1:
        return UINT64_MAX - offset % 64;
    case 2:
        return 0xc0000000u + offset * 16; /* registers and nothing */
    case 3:
        return take(in, 8);
    case 4:
        return QUEUE_BASE + offset % AREA_SIZE;
    default:
        return BUFFERS + offset;
    }
}

static uint32_t take_length(Input *in)
{
    uint8_t kind = take(in, 1);

    return kind < 200 ? kind : kind < 240 ? kind * 16 : (uint32_t)take(in, 4);
}

/* --- The machine --- */

static void put(uint64_t address, uint64_t value, unsigned size)
{
    value = GUINT64_TO_LE(value);
    guest_write(state.memory, address, &value, size);
}

typedef struct Driver {
    unsigned devfn;
    bool packed;
    uint64_t bar;  /* modern */
    uint64_t port; /* legacy, 0: none */
    uint16_t avail[QUEUES];
    unsigned place[QUEUES]; /* packed */
    bool wrap[QUEUES];
} Driver;

static void bar_write(const Driver *d, unsigned offset, uint64_t value, unsigned size)
{
    value = GUINT64_TO_LE(value);
    address_map_write(state.memory, d->bar + offset, &value, size);
}

static uint64_t bar_read(const Driver *d, unsigned offset, unsigned size)
{
    uint64_t value = 0;

    address_map_read(state.memory, d->bar + offset, &value, size);
    return value;
}

static void find_bars(Driver *d)
{
    const PciDevice *dev = state.machine->pci->functions[d->devfn];

    pci_config_write(state.machine->pci, d->devfn, PCI_REG_COMMAND,
                     PCI_COMMAND_IO | PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER, 2);
    if (!pci_bar_address(dev, VIRTIO_PCI_BAR_MODERN, &d->bar)) {
        d->bar = 0;
    }
    if (!pci_bar_address(dev, VIRTIO_PCI_BAR_LEGACY, &d->port)) {
        d->port = 0;
    }
}

static uint64_t queue_area(unsigned queue)
{
    return QUEUE_BASE + queue * QUEUE_AREA;
}

static void set_up_queue(Driver *d, unsigned queue)
{
    uint64_t area = queue_area(queue);

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
    d->avail[queue] = 0;
    d->place[queue] = 0;
    d->wrap[queue] = true;
}

static void start_device(Driver *d, uint64_t features)
{
    d->packed = features >> 34 & 1;
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

/* --- Operations --- */

static void op_descriptor(Driver *d, Input *in)
{
    unsigned where = take(in, 1), i = take(in, 1) % (2 * QUEUE_SIZE);
    uint64_t table = where & 0x80 ? BUFFERS + 0x1000 * (where % 4) : queue_area(where % QUEUES);

    put(table + 16 * i, take_address(in), 8);
    put(table + 16 * i + 8, take_length(in), 4);
    put(table + 16 * i + 12, take(in, 1) % 8, 2);
    put(table + 16 * i + 14, take(in, 1) % (QUEUE_SIZE + 1), 2);
}

static void op_available(Driver *d, Input *in)
{
    unsigned queue = take(in, 1) % QUEUES, head = take(in, 1) % (QUEUE_SIZE + 1);
    uint64_t ring = queue_area(queue) + DRIVER_OFFSET;

    put(ring + 4 + 2 * (d->avail[queue] % QUEUE_SIZE), head, 2);
    put(ring + 2, ++d->avail[queue], 2);
}

/* A packed descriptor at its place, available. */
static void op_packed(Driver *d, Input *in)
{
    unsigned queue = take(in, 1) % QUEUES;
    uint64_t at = queue_area(queue) + 16 * d->place[queue];

    put(at, take_address(in), 8);
    put(at + 8, take_length(in), 4);
    put(at + 12, take(in, 1), 2);
    put(at + 14, (take(in, 1) % 8) | (d->wrap[queue] ? 1 << 7 : 1 << 15), 2);
    if (++d->place[queue] == QUEUE_SIZE) {
        d->place[queue] = 0;
        d->wrap[queue] = !d->wrap[queue];
    }
}

static void op_ring_index(Driver *d, Input *in)
{
    unsigned queue = take(in, 1) % QUEUES, offset = take(in, 1) % 0x20;

    put(queue_area(queue) + (offset & 1 ? DRIVER_OFFSET : DEVICE_OFFSET) + (offset & 0x1e),
        take(in, 2), 2);
}

static void op_kick(Driver *d, Input *in)
{
    unsigned queue = take(in, 1) % (QUEUES + 1);

    bar_write(d, VIRTIO_PCI_NOTIFY + VIRTIO_PCI_NOTIFY_MULTIPLIER * queue, queue, 2);
}

static void op_common(Driver *d, Input *in)
{
    unsigned reg = take(in, 1) % 64, size = 1u << take(in, 1) % 3;

    bar_write(d, reg, take(in, size), size);
}

static void op_bar(Driver *d, Input *in)
{
    unsigned offset = take(in, 2) % (VIRTIO_PCI_MODERN_SIZE + 16), size = take(in, 1);

    if (size & 0x80) {
        bar_read(d, offset, 1u << size % 4);
    } else {
        bar_write(d, offset, take(in, 4), 1u << size % 4);
    }
}

static void op_config(Driver *d, Input *in)
{
    unsigned offset = take(in, 1), size = 1u << take(in, 1) % 3;

    offset &= ~(size - 1);
    if (take(in, 1) & 1) {
        pci_config_write(state.machine->pci, d->devfn, offset, (uint32_t)take(in, size), size);
    } else {
        pci_config_read(state.machine->pci, d->devfn, offset, size);
    }
}

static void op_legacy(Driver *d, Input *in)
{
    unsigned offset = take(in, 1) % 32, size = 1u << take(in, 1) % 3;
    uint64_t value = take(in, size);

    if (d->port && value & 1) {
        address_map_read(state.io, d->port + offset, &value, size);
    } else if (d->port) {
        address_map_write(state.io, d->port + offset, &value, size);
    }
}

/* MSI-X, its table and pending bits. */
static void op_msix(Driver *d, Input *in)
{
    const PciDevice *dev = state.machine->pci->functions[d->devfn];
    unsigned offset = take(in, 2) % 0x1000;
    uint64_t address, value = take(in, 4);

    if (pci_bar_address(dev, VIRTIO_PCI_BAR_MSIX, &address)) {
        address_map_write(state.memory, address + (offset & ~3u), &value, 4);
    }
}

static void op_data(Driver *d, Input *in)
{
    uint64_t at = take_address(in);
    unsigned n = take(in, 1) % 32;

    for (unsigned i = 0; i < n; i++) {
        put(at + i, take(in, 1), 1);
    }
}

static void op_time(Driver *d, Input *in)
{
    if (runstate_is_running(state.runstate)) {
        vm_clock_advance(state.machine->clock, (int64_t)take(in, 2) * 100000);
    }
}

static void run_loop(void)
{
    for (unsigned i = 0; i < 20 && g_main_context_iteration(NULL, FALSE); i++) {
    }
}

static void op_loop(Driver *d, Input *in)
{
    run_loop();
}

static void op_restart(Driver *d, Input *in)
{
    find_bars(d);
    start_device(d, take(in, 8));
}

static void op_run_state(Driver *d, Input *in)
{
    if (take(in, 1) & 1) {
        runstate_stop(state.runstate, RUN_STATE_PAUSED);
    } else {
        runstate_start(state.runstate, NULL);
    }
}

static void op_reset(Driver *d, Input *in)
{
    reset_run(state.resets);
    find_bars(d);
}

static void (*const operations[])(Driver *d, Input *in) = {
    op_descriptor, op_available, op_kick,       op_packed,    op_ring_index, op_common, op_bar,
    op_config,     op_legacy,    op_msix,       op_data,      op_time,       op_loop,   op_restart,
    op_run_state,  op_reset,     op_descriptor, op_available, op_kick,       op_packed,
};

/* --- Entry points --- */

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static char *args[] = {
        "fuzz",
        "-machine",
        "pc,pit=off",
        "-m",
        "16",
        "-accel",
        "qtest",
        "-nodefaults",
        "-display",
        "none",
        "-object",
        "rng-builtin,id=r",
        "-chardev",
        "ringbuf,id=c,size=4096",
        "-chardev",
        "null,id=n",
        "-device",
        "virtio-balloon-pci,addr=4,free-page-reporting=on,deflate-on-oom=on,packed=on",
        "-device",
        "virtio-rng-pci,addr=5,rng=r,packed=on",
        "-device",
        "virtio-serial-pci,id=s,addr=6,max_ports=4,packed=on",
        "-device",
        "virtserialport,bus=s.0,chardev=c,name=a",
        "-device",
        "virtconsole,bus=s.0,chardev=n",
        NULL
    };
    g_autoptr(GError) err = NULL;

    state.options = system_options_parse(args, &err);
    if (!state.options || !startup_build(&state, &err)) {
        error_report("the machine cannot be built: %s", err->message);
        return 1;
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Input in = { data, size };
    Driver d = { .devfn = PCI_DEVFN(FIRST_SLOT + take(&in, 1) % DEVICES, 0) };

    if (!state.machine) {
        g_error("the machine is not there");
    }
    reset_run(state.resets);
    runstate_start(state.runstate, NULL);
    guest_fill(state.memory, BUFFERS, 0, AREA_SIZE);
    find_bars(&d);
    start_device(&d, take(&in, 8));
    for (unsigned i = 0; i < OPS_MAX && in.left; i++) {
        operations[take(&in, 1) % G_N_ELEMENTS(operations)](&d, &in);
    }
    run_loop();
    return 0;
}
