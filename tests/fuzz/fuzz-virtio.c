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
#include <sys/random.h>
#include <time.h>

#include "chardev/backend.h"
#include "hw/core/reset.h"
#include "hw/timer/clock.h"
#include "hw/virtio/virtio-pci.h"
#include "hw/virtio/virtqueue-internal.h"
#include "memory/guest-access.h"
#include "system/startup.h"
#include "tests/fuzz/driver.h"
#include "tests/fuzz/guard.h"
#include "util/error.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define OPS_MAX 200                   /* so that no input takes long */
#define OP_NANOSECONDS_MAX 1000000000 /* of one operation: work is bounded, sanitizers or not */
#define INDIRECT_TABLES (BUFFERS + 0xe000)

static uint32_t random_state;

/* In place of the C library's, so that an input does the same each time. */
ssize_t getrandom(void *buf, size_t len, unsigned flags)
{
    for (size_t i = 0; i < len; i++) {
        random_state = random_state * 1664525 + 1013904223;
        ((uint8_t *)buf)[i] = random_state >> 24;
    }
    return (ssize_t)len;
}

/* --- Parts of operations --- */

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

/* --- Operations --- */

static uint64_t table_of(const Driver *d, unsigned queue)
{
    return d->queues[queue].table;
}

static void op_descriptor(Driver *d, Input *in)
{
    unsigned where = take(in, 1), i = take(in, 1) % (2 * QUEUE_SIZE);
    uint64_t table = where & 0x80 ? BUFFERS + 0x1000 * (where % 4) : table_of(d, where % QUEUES);

    put(table + 16 * i, take_address(in), 8);
    put(table + 16 * i + 8, take_length(in), 4);
    put(table + 16 * i + 12, take(in, 1) % 8, 2);
    put(table + 16 * i + 14, take(in, 1) % (QUEUE_SIZE + 1), 2);
}

static void op_available(Driver *d, Input *in)
{
    unsigned queue = take(in, 1) % QUEUES, head = take(in, 1) % (QUEUE_SIZE + 1);

    driver_make_available(&d->queues[queue], head);
}

static void next_place(DriverQueue *q)
{
    if (++q->place == q->size) {
        q->place = 0;
        q->wrap = !q->wrap;
    }
}

/* A packed descriptor at its place, available. */
static void op_packed(Driver *d, Input *in)
{
    DriverQueue *q = &d->queues[take(in, 1) % QUEUES];
    uint64_t at = q->table + 16 * q->place;

    put(at, take_address(in), 8);
    put(at + 8, take_length(in), 4);
    put(at + 12, take(in, 1), 2);
    put(at + 14, (take(in, 1) % 8) | (q->wrap ? 1 << 7 : 1 << 15), 2);
    next_place(q);
}

static void op_ring_index(Driver *d, Input *in)
{
    unsigned queue = take(in, 1) % QUEUES, offset = take(in, 1) % 0x20;

    put(table_of(d, queue) + (offset & 1 ? DRIVER_OFFSET : DEVICE_OFFSET) + (offset & 0x1e),
        take(in, 2), 2);
}

static void op_kick(Driver *d, Input *in)
{
    unsigned queue = take(in, 1) % (QUEUES + 1);

    driver_kick(d, queue);
}

static void op_common(Driver *d, Input *in)
{
    unsigned reg = take(in, 1) % 64, size = 1u << take(in, 1) % 3;

    bar_write(d, reg, take(in, size), size);
    driver_lend(d);
}

static void op_bar(Driver *d, Input *in)
{
    unsigned offset = take(in, 2) % (VIRTIO_PCI_MODERN_SIZE + 16), size = take(in, 1);

    if (size & 0x80) {
        bar_read(d, offset, 1u << size % 4);
    } else {
        bar_write(d, offset, take(in, 4), 1u << size % 4);
        driver_lend(d);
    }
}

static void op_config(Driver *d, Input *in)
{
    unsigned offset = take(in, 1), size = 1u << take(in, 1) % 3;

    offset &= ~(size - 1);
    if (take(in, 1) & 1) {
        pci_config_write(state.machine->pci, d->devfn, offset, (uint32_t)take(in, size), size);
        driver_lend(d);
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
        guard_lend(value * GUARD_PAGE_SIZE, LEGACY_AREA); /* of a queue that is used at once */
        address_map_write(state.io, d->port + offset, &value, size);
        driver_lend(d);
    }
}

/* MSI-X, its table and pending bits. */
static void op_msix(Driver *d, Input *in)
{
    const PciDevice *dev = driver_device(d);
    unsigned offset = take(in, 2) % 0x1000;
    uint64_t address, value = take(in, 4);

    if (pci_bar_address(dev, VIRTIO_PCI_BAR_MSIX, &address)) {
        address_map_write(state.memory, address + (offset & ~3u), &value, 4);
        driver_lend(d);
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

static void op_loop(Driver *d, Input *in)
{
    run_loop();
}

static void op_restart(Driver *d, Input *in)
{
    driver_find(d);
    driver_start(d, take(in, 8));
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
    driver_find(d);
}

static void op_restart_legacy(Driver *d, Input *in)
{
    driver_find(d);
    if (d->port) {
        driver_start_legacy(d, take(in, 4));
    }
}

/* --- Whole requests --- */

/* What may be in a buffer that the device reads. */
static void fill_buffer(uint64_t address, unsigned kind, Input *in)
{
    switch (kind % 4) {
    case 1: /* numbers of guard pages, and one that is anything */
        for (unsigned i = take(in, 1) % 16; i > 0; i--) {
            put(address + 4 * i, GUARD_BASE / GUARD_PAGE_SIZE + take(in, 1) % GUARD_PAGES, 4);
        }
        put(address, take(in, 4), 4);
        break;
    case 2: /* a control message of the serial device */
        put(address, take(in, 1) % 6, 4);
        put(address + 4, take(in, 1) % 10, 2);
        put(address + 6, take(in, 1) % 4, 2);
        break;
    case 3:
        put(address, take(in, 8), 8);
        break;
    default:
        break;
    }
}

/* One descriptor of a buffer: half of them end where guard pages begin. Returns its flags. */
static unsigned put_segment(uint64_t at, Input *in)
{
    unsigned kind = take(in, 1);
    uint64_t length = take_length(in), address = BUFFERS + take(in, 1) * 0x80;

    if (kind & 0x20) {
        address = GUARD_BASE - MIN(length, AREA_SIZE);
    }
    if (kind & 0x10) {
        address = take_address(in);
    }
    put(at, address, 8);
    put(at + 8, (uint32_t)length, 4);
    if (!(kind & 1)) {
        fill_buffer(address, kind >> 1, in);
    }
    return kind & 1 ? 2 : 0;
}

static void add_split(DriverQueue *q, unsigned n, bool indirect, uint64_t indirect_table, Input *in)
{
    uint64_t table = indirect ? indirect_table : q->table;
    unsigned size = indirect ? n : q->size, head = q->place;

    for (unsigned i = 0; i < n; i++) {
        unsigned here = indirect ? i : (head + i) % size, next = (here + 1) % size;
        unsigned flags = put_segment(table + 16 * here, in) | (i + 1 < n ? 1 : 0);

        put(table + 16 * here + 12, flags | next << 16, 4);
    }
    if (indirect) {
        put(q->table + 16 * head, table, 8);
        put(q->table + 16 * head + 8, 16 * n, 4);
        put(q->table + 16 * head + 12, 4, 4);
    }
    q->place = (head + (indirect ? 1 : n)) % q->size;
    driver_make_available(q, head);
}

static void add_packed(DriverQueue *q, unsigned n, bool indirect, uint64_t table, Input *in)
{
    unsigned id = q->place;

    for (unsigned i = 0; i < n && indirect; i++) {
        put(table + 16 * i + 12, put_segment(table + 16 * i, in) << 16, 4);
    }
    for (unsigned i = 0; i < (indirect ? 1 : n); i++) {
        uint64_t at = q->table + 16 * q->place;
        unsigned flags = q->wrap ? 1 << 7 : 1 << 15;

        if (indirect) {
            put(at, table, 8);
            put(at + 8, 16 * n, 4);
            flags |= 4;
        } else {
            flags |= put_segment(at, in) | (i + 1 < n ? 1 : 0);
        }
        put(at + 12, id | flags << 16, 4);
        next_place(q);
    }
}

/* A buffer of some descriptors, made available as a driver does, and perhaps a kick. */
static void op_request(Driver *d, Input *in)
{
    unsigned queue = take(in, 1) % QUEUES, how = take(in, 1), n = 1 + how % 4;
    bool indirect = how & 0x40;
    uint64_t table = INDIRECT_TABLES + queue * 0x100 + (how & 0x10 ? 0x80 : 0);

    if (d->packed) {
        add_packed(&d->queues[queue], n, indirect, table, in);
    } else {
        add_split(&d->queues[queue], n, indirect, table, in);
    }
    if (!(how & 0x80)) {
        driver_kick(d, queue);
    }
}

/* The other side of a serial port sends. */
static void op_port_input(Driver *d, Input *in)
{
    Chardev *chr = chardev_find(state.chardevs, take(in, 1) & 1 ? "c" : "n");
    size_t n = take(in, 1) * 8;

    if (chr->handlers.receive) {
        g_autofree uint8_t *bytes = g_malloc(MAX(n, 1));
        size_t room = chr->handlers.can_receive(chr->opaque);

        memset(bytes, (int)take(in, 1), n);
        if (room) {
            chr->handlers.receive(chr->opaque, bytes, MIN(n, room));
        }
    }
}

/* --- Saving and loading --- */

static const VMStateEntry *state_entry(const Driver *d)
{
    for (size_t i = 0; i < vmstate_registry_count(state.vmstate); i++) {
        const VMStateEntry *e = vmstate_registry_get(state.vmstate, i);

        if (e->opaque == driver_device(d)) {
            return e;
        }
    }
    finding("the device has no state");
}

static bool load_state(const VMStateEntry *e, const GByteArray *bytes, GError **errp)
{
    ByteReader reader = byte_reader_init(bytes->data, bytes->len);

    return vmstate_load(&reader, e->vmsd, e->opaque, e->vmsd->version_id, errp);
}

static void check_same(const GByteArray *a, const GByteArray *b)
{
    unsigned i = 0;

    while (i < a->len && i < b->len && a->data[i] == b->data[i]) {
        i++;
    }
    if (i < a->len || i < b->len) {
        finding("byte %u of a saved device's %u is another when it was loaded", i, a->len);
    }
}

/* Nothing that devices do in a stopped VM is seen in its memory, and no request is under way. */
static void check_rest(Driver *d)
{
    static uint8_t before[AREA_SIZE], after[AREA_SIZE];
    const VirtioDevice *dev = VIRTIO_PCI(driver_device(d))->vdev;

    for (unsigned i = 0; i < dev->n_queues; i++) {
        const VirtQueue *vq = dev->queues[i];

        if (!dev->broken && (vq->n_out || vq->n_pending)) {
            finding("queue %u of a stopped VM has requests under way", i);
        }
    }

    guest_read(state.memory, BUFFERS, before, AREA_SIZE);
    for (unsigned i = 0; i < QUEUES; i++) {
        driver_kick(d, i);
    }
    run_loop();
    guest_read(state.memory, BUFFERS, after, AREA_SIZE);
    if (memcmp(before, after, AREA_SIZE) != 0) {
        finding("a device of a stopped VM wrote guest memory");
    }
}

/* Saved and loaded again it is the same; with bytes changed it is refused or a state that a driver can have made. */
static void op_save_load(Driver *d, Input *in)
{
    const VMStateEntry *e = state_entry(d);
    g_autoptr(GByteArray) saved = g_byte_array_new(), again = g_byte_array_new();
    g_autoptr(GError) err = NULL;
    unsigned changes = take(in, 1) % 8;

    runstate_stop(state.runstate, RUN_STATE_PAUSED);
    check_rest(d);
    vmstate_save(saved, e->vmsd, e->opaque);
    for (unsigned i = 0; i < changes && in->left; i++) {
        unsigned at = take(in, 2) % saved->len;

        saved->data[at] = take(in, 1);
    }
    bool ok = load_state(e, saved, &err);

    if (changes == 0 && !ok) {
        finding("a saved device is refused: %s", err->message);
    } else if (changes == 0) {
        vmstate_save(again, e->vmsd, e->opaque);
        check_same(saved, again);
    }
    driver_lend(d);
    if (!ok) {
        reset_run(state.resets);
    }
    driver_find(d);
    runstate_start(state.runstate, NULL);
}

/* The first 20 stay in place, for the inputs that are kept. */
static void (*const operations[])(Driver *d, Input *in) = {
    op_descriptor, op_available, op_kick,       op_packed,         op_ring_index, op_common,
    op_bar,        op_config,    op_legacy,     op_msix,           op_data,       op_time,
    op_loop,       op_restart,   op_run_state,  op_reset,          op_request,    op_request,
    op_kick,       op_loop,      op_port_input, op_restart_legacy, op_save_load,  op_request,
};

/* --- Entry points --- */

/* GLib only complains where a function was called as it must not be. */
static void on_complaint(const char *domain, GLogLevelFlags level, const char *text, void *opaque)
{
    finding("%s", text);
}

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

    AddressRange range;

    g_log_set_handler(NULL, G_LOG_LEVEL_CRITICAL, on_complaint, NULL);
    g_log_set_handler("GLib", G_LOG_LEVEL_CRITICAL, on_complaint, NULL);
    g_log_set_handler("GLib-GObject", G_LOG_LEVEL_CRITICAL, on_complaint, NULL);
    state.options = system_options_parse(args, &err);
    if (!state.options || !startup_build(&state, &err)) {
        error_report("the machine cannot be built: %s", err->message);
        return 1;
    }
    if (!address_map_find(state.memory, 0, &range)) {
        finding("there is no RAM");
    }
    guard_init(range.block->host + range.block_offset, RAM_SIZE);
    return 0;
}

static int64_t cpu_time(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void run_operation(Driver *d, Input *in)
{
    unsigned op = take(in, 1) % G_N_ELEMENTS(operations);
    int64_t begin = cpu_time();

    operations[op](d, in);
    if (cpu_time() - begin > OP_NANOSECONDS_MAX) {
        finding("operation %u takes too long", op);
    }
}

static void begin_input(Driver *d)
{
    reset_run(state.resets);
    runstate_start(state.runstate, NULL);
    guest_fill(state.memory, BUFFERS, 0, AREA_SIZE);
    guard_begin();
    driver_find(d);
    driver_remember_bars(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Input in = { data, size };
    Driver d = { .slot = SLOT_BALLOON + take(&in, 1) % (SLOT_END - SLOT_BALLOON) };

    if (!state.machine) {
        finding("the machine is not there");
    }
    random_state = 1;
    d.devfn = PCI_DEVFN(d.slot, 0);
    begin_input(&d);
    driver_start(&d, take(&in, 8));
    for (unsigned i = 0; i < OPS_MAX && in.left; i++) {
        run_operation(&d, &in);
    }
    run_loop();
    guard_check();
    runstate_start(state.runstate, NULL);
    driver_check_recovery(&d);
    return 0;
}
