/*
 * A board with an entropy device on PCI, and a driver for it: modern and legacy.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_TESTS_UNIT_VIRTIO_PCI_FIXTURE_H
#define COWBIRD_TESTS_UNIT_VIRTIO_PCI_FIXTURE_H

#include "hw/virtio/virtio-pci.h"

#include "fake-accel.h"
#include "hw-fixture.h"

#include "util/le.h"

#define DEV PCI_DEVFN(6, 0)
#define MODERN UINT64_C(0xfe000000)
#define NOTIFY (MODERN + VIRTIO_PCI_NOTIFY)
#define VECTORS UINT64_C(0xfe010000)
#define PORT 0xc100
#define RING UINT64_C(0x100000) /* of a queue of 8: table, then a page each */
#define BUFFER UINT64_C(0x200000)
#define SIZE 8
#define INTX_IRQ 11
#define VERSION_1 32

/* Common configuration (4.1.4.3). */
enum { DFSELECT = 0, DF = 4, GFSELECT = 8, GF = 12, MSIX = 16, NUMQ = 18, STATUS = 20 };
enum { QSELECT = 22, QSIZE = 24, QVECTOR = 26, QENABLE = 28, QNOFF = 30, QDESC = 32, QRESET = 58 };

typedef struct World {
    Board *b;
    FakeAccel *accel;
    VirtioPci *proxy;
    uint16_t used; /* seen */
} World;

static inline Device *plug(Board *b, const char *type, GError **errp, const char *name,
                           const char *value)
{
    GType gtype = qom_type_find(board_types, type);

    g_assert_cmpuint(gtype, !=, 0);
    return device_create(b->m, gtype, BUS(b->m->pci), errp, "addr", "6", name, value, NULL);
}

static inline void run(World *w)
{
    g_autoptr(GError) err = NULL;

    g_assert_true(runstate_start(w->b->m->runstate, &err));
    g_assert_no_error(err);
}

static inline void place_bars(World *w)
{
    board_config_out(w->b, DEV, 0x10, PORT, 4);
    board_config_out(w->b, DEV, 0x14, (uint32_t)VECTORS, 4);
    board_config_out(w->b, DEV, 0x20, (uint32_t)MODERN, 4);
    board_config_out(w->b, DEV, 4, 7, 2);
    board_config_out(w->b, PCI_DEVFN(1, 0), 0x61, INTX_IRQ, 1); /* slot 6, pin A: PIRQB */
}

static inline World world_new(const char *type, const char *name, const char *value)
{
    World w = { .b = board_new(16 * MiB, NULL) };
    AccelEnv env = { .runstate = w.b->m->runstate, .ram = w.b->m->ram };
    g_autoptr(GError) err = NULL;

    w.accel = fake_accel_new(&env);
    w.b->m->accel = &w.accel->parent;
    w.proxy = VIRTIO_PCI(plug(w.b, type, &err, name, value));
    g_assert_no_error(err);
    reset_run(w.b->m->resets);
    place_bars(&w);
    return w;
}

static inline void world_free(World *w)
{
    device_unplug(DEVICE(w->proxy));
    g_assert_cmpuint(w->accel->n_ioevents, ==, 0);
    g_assert_cmpuint(fake_count_routes(w->accel), ==, 0);
    board_free(w->b);
    fake_accel_free(w->accel);
}

/* ---- the driver ---- */

static inline uint32_t in(World *w, uint64_t addr, unsigned size)
{
    uint32_t value = 0;

    g_assert_true(address_map_read(w->b->m->memory, addr, &value, size));
    return value;
}

static inline void out(World *w, uint64_t addr, uint32_t value, unsigned size)
{
    g_assert_true(address_map_write(w->b->m->memory, addr, &value, size));
}

static inline void set_features(World *w, uint64_t features)
{
    for (unsigned i = 0; i < 2; i++) {
        out(w, MODERN + GFSELECT, i, 4);
        out(w, MODERN + GF, (uint32_t)(features >> 32 * i), 4);
    }
}

static inline uint64_t offered(World *w)
{
    uint64_t features = 0;

    for (unsigned i = 0; i < 3; i++) {
        out(w, MODERN + DFSELECT, i, 4);
        features |= i < 2 ? (uint64_t)in(w, MODERN + DF, 4) << 32 * i : 0;
        g_assert_true(i < 2 || in(w, MODERN + DF, 4) == 0);
    }
    return features;
}

static inline void set_address(World *w, unsigned reg, uint64_t addr)
{
    out(w, MODERN + reg, (uint32_t)addr, 4);
    out(w, MODERN + reg + 4, (uint32_t)(addr >> 32), 4);
}

static inline void set_up_queue(World *w, uint16_t vector)
{
    out(w, MODERN + QSELECT, 0, 2);
    out(w, MODERN + QSIZE, SIZE, 2);
    out(w, MODERN + QVECTOR, vector, 2);
    set_address(w, QDESC, RING);
    set_address(w, QDESC + 8, RING + 4096);
    set_address(w, QDESC + 16, RING + 8192);
    out(w, MODERN + QENABLE, 1, 2);
    w->used = 0;
}

static inline void begin(World *w, uint64_t features)
{
    out(w, MODERN + STATUS, 0, 1);
    out(w, MODERN + STATUS, 1, 1);
    out(w, MODERN + STATUS, 3, 1);
    set_features(w, features);
    out(w, MODERN + STATUS, 11, 1);
    g_assert_cmphex(in(w, MODERN + STATUS, 1), ==, 11);
    g_assert_true(guest_fill(w->b->m->memory, RING, 0, 3 * 4096));
}

static inline void start(World *w, uint16_t vector)
{
    begin(w, VIRTIO_FEATURE(VERSION_1));
    set_up_queue(w, vector);
    out(w, MODERN + STATUS, 15, 1);
}

/* One buffer of 64 bytes into the ring whose parts lie there. */
static inline void offer(World *w, uint64_t avail)
{
    AddressMap *map = w->b->m->memory;
    uint16_t idx;

    guest_write_le64(map, RING, BUFFER);
    guest_write_le32(map, RING + 8, 64);
    guest_write_le32(map, RING + 12, VIRTIO_FEATURE(1)); /* the device writes */
    guest_read_le16(map, avail + 2, &idx);
    guest_write_le16(map, avail + 4 + 2 * (idx % SIZE), 0);
    guest_write_le16(map, avail + 2, idx + 1);
}

/* Another buffer has been used. */
static inline bool take(World *w, uint64_t used)
{
    uint16_t idx = 0;

    board_settle(w->b);
    guest_read_le16(w->b->m->memory, used + 2, &idx);
    if (idx == w->used) {
        return false;
    }
    g_assert_cmpuint(idx, ==, (uint16_t)(w->used + 1));
    w->used = idx;
    return true;
}

static inline void ring_doorbell(World *w)
{
    if (!fake_ring(w->accel, false, NOTIFY, 0)) {
        out(w, NOTIFY, 0, 2);
    }
}

static inline bool request(World *w)
{
    offer(w, RING + 4096);
    ring_doorbell(w);
    return take(w, RING + 8192);
}

static inline void set_vector(World *w, unsigned n, uint32_t data)
{
    const uint32_t words[] = { 0xfee00000, 0, data, 0 };

    for (unsigned i = 0; i < 4; i++) {
        out(w, VECTORS + 16 * n + 4 * i, words[i], 4);
    }
}

static inline unsigned find_capability(World *w, unsigned id, unsigned type)
{
    unsigned at = board_config_in(w->b, DEV, 0x34, 1);

    while (at && (board_config_in(w->b, DEV, at, 1) != id ||
                  (id == 9 && board_config_in(w->b, DEV, at + 3, 1) != type))) {
        at = board_config_in(w->b, DEV, at + 1, 1);
    }
    return at;
}

static inline void enable_msix(World *w, bool on)
{
    board_config_out(w->b, DEV, find_capability(w, 0x11, 0) + 2, on ? 0x8000 : 0, 2);
}

/* ---- a legacy driver ---- */

static inline void legacy_start(World *w)
{
    board_out(w->b, PORT + 18, 0, 1);
    board_out(w->b, PORT + 18, 1, 1);
    board_out(w->b, PORT + 18, 3, 1);
    g_assert_cmphex(board_in(w->b, PORT, 4), !=, 0);
    board_out(w->b, PORT + 4, 0, 4);
    g_assert_true(guest_fill(w->b->m->memory, RING, 0, 3 * 4096));
    board_out(w->b, PORT + 14, 0, 2);
    g_assert_cmpuint(board_in(w->b, PORT + 12, 2), ==, SIZE);
    board_out(w->b, PORT + 8, (uint32_t)(RING >> 12), 4);
    w->used = 0;
    board_out(w->b, PORT + 18, 7, 1);
}

/* 2.7.2: the available ring follows the table, the used ring starts the next page. */
static inline bool legacy_request(World *w)
{
    offer(w, RING + 16 * SIZE);
    if (!fake_ring(w->accel, true, PORT + 16, 0)) {
        board_out(w->b, PORT + 16, 0, 2);
    }
    return take(w, RING + 4096);
}

#endif
