/*
 * Checked copies of guest RAM, iovecs, and the counts of accesses under way.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/guest-access.h"
#include "tests/unit/memory-fixture.h"

typedef struct Guest {
    AddressMap *map;
    RamBlock *block;
} Guest;

static uint64_t no_read(void *opaque, uint64_t offset, unsigned size)
{
    g_assert_not_reached();
}

static const IoOps no_ops = { .read = no_read };

/* RAM 0-4 MiB in two ranges of swapped order, ROM at 4 MiB, registers at 8 MiB. */
static void guest_init(Guest *g)
{
    g->map = address_map_new("memory", 36);
    g->block = ram_block_new_anonymous("pc.ram", 8 * MiB, NULL);
    address_map_add_ram(g->map, 0, g->block, 2 * MiB, 2 * MiB, false, NULL);
    address_map_add_ram(g->map, 2 * MiB, g->block, 0, 2 * MiB, false, NULL);
    address_map_add_ram(g->map, 4 * MiB, g->block, 4 * MiB, MiB, true, NULL);
    address_map_add_io(g->map, 8 * MiB, 4096, "regs", &no_ops, NULL, NULL);
}

static void guest_clear(Guest *g)
{
    for (uint64_t chunk = 0; chunk < ram_block_chunks(g->block); chunk++) {
        g_assert_true(ram_chunk_is_idle(g->block, chunk));
    }
    address_map_free(g->map);
    ram_block_free(g->block);
}

static void test_copies(void)
{
    Guest g;
    uint8_t data[4096], got[4096];

    guest_init(&g);
    memset(data, 0x5a, sizeof(data));
    g_assert_true(guest_write(g.map, 2 * MiB - 100, data, sizeof(data)));
    g_assert_cmpmem(g.block->host + 4 * MiB - 100, 100, data, 100);
    g_assert_cmpmem(g.block->host, sizeof(data) - 100, data, sizeof(data) - 100);
    g_assert_true(guest_read(g.map, 2 * MiB - 100, got, sizeof(got)));
    g_assert_cmpmem(got, sizeof(got), data, sizeof(data));
    g_assert_true(guest_fill(g.map, 2 * MiB - 8, 0x11, 16));
    g_assert_true(guest_read(g.map, 2 * MiB - 9, got, 18));
    g_assert_cmphex(got[0], ==, 0x5a);
    g_assert_cmphex(got[1], ==, 0x11);
    g_assert_cmphex(got[16], ==, 0x11);
    g_assert_cmphex(got[17], ==, 0x5a);
    guest_clear(&g);
}

static void test_refusals(void)
{
    Guest g;
    uint8_t data[16] = { 0 };

    guest_init(&g);
    g_assert_false(guest_read(g.map, 6 * MiB, data, 1));
    g_assert_false(guest_read(g.map, 5 * MiB - 8, data, 16));
    g_assert_false(guest_read(g.map, 8 * MiB, data, 4));
    g_assert_false(guest_write(g.map, 8 * MiB, data, 4));
    g_assert_true(guest_read(g.map, 4 * MiB, data, 16));
    g_assert_false(guest_write(g.map, 4 * MiB, data, 16));
    g_assert_false(guest_write(g.map, 4 * MiB - 8, data, 16));
    g_assert_false(guest_read(g.map, UINT64_MAX - 4, data, 16));
    g_assert_true(guest_read(g.map, UINT64_MAX, data, 0));
    guest_clear(&g);
}

static void test_numbers(void)
{
    Guest g;
    uint16_t v16;
    uint32_t v32;
    uint64_t v64;

    guest_init(&g);
    g_assert_true(guest_write_le64(g.map, 8, UINT64_C(0x1122334455667788)));
    g_assert_true(guest_read_le16(g.map, 8, &v16));
    g_assert_true(guest_read_le32(g.map, 8, &v32));
    g_assert_true(guest_read_le64(g.map, 8, &v64));
    g_assert_cmphex(v16, ==, 0x7788);
    g_assert_cmphex(v32, ==, 0x55667788);
    g_assert_cmphex(v64, ==, UINT64_C(0x1122334455667788));
    g_assert_true(guest_write_le16(g.map, 8, 1));
    g_assert_true(guest_write_le32(g.map, 12, 2));
    g_assert_true(guest_read_le64(g.map, 8, &v64));
    g_assert_cmphex(v64, ==, UINT64_C(0x0000000255660001));
    g_assert_false(guest_read_le32(g.map, 6 * MiB, &v32));
    guest_clear(&g);
}

static void test_iovecs(void)
{
    Guest g;
    struct iovec iov[4];
    unsigned n = 0;

    guest_init(&g);
    g_assert_true(guest_map_iov(g.map, 2 * MiB - 4096, 8192, true, iov, 4, &n));
    g_assert_cmpuint(n, ==, 2);
    g_assert_true(iov[0].iov_base == g.block->host + 4 * MiB - 4096);
    g_assert_true(iov[1].iov_base == g.block->host);
    g_assert_cmpuint(iov[0].iov_len, ==, 4096);
    g_assert_cmpuint(iov[1].iov_len, ==, 4096);
    /* The two chunks that the I/O is in, and no others. */
    g_assert_false(ram_chunk_try_claim(g.block, 0));
    g_assert_false(ram_chunk_try_claim(g.block, 1));
    g_assert_true(ram_chunk_try_claim(g.block, 2));
    ram_chunk_unclaim(g.block, 2);
    guest_unmap_iov(g.map, iov, n);
    g_assert_true(ram_chunk_try_claim(g.block, 0));
    ram_chunk_unclaim(g.block, 0);

    /* What fails counts nothing. */
    g_assert_false(guest_map_iov(g.map, 2 * MiB - 4096, 8192, true, iov, 1, &n));
    g_assert_false(guest_map_iov(g.map, 4 * MiB - 4096, 8192, true, iov, 4, &n));
    g_assert_false(guest_map_iov(g.map, 5 * MiB - 4096, 8192, false, iov, 4, &n));
    g_assert_true(guest_map_iov(g.map, 4 * MiB - 4096, 8192, false, iov, 4, &n));
    guest_unmap_iov(g.map, iov, n);
    guest_clear(&g);
}

/* T48: an access to a chunk that is being moved waits until it is in its new place. */
typedef struct Writer {
    Guest *g;
    gint started, ended;
} Writer;

static gpointer writer_thread(gpointer opaque)
{
    Writer *w = opaque;

    g_atomic_int_set(&w->started, 1);
    g_assert_true(guest_fill(w->g->map, 0, 1, 1));
    g_atomic_int_set(&w->ended, 1);
    return NULL;
}

static void t48_access_waits_for_a_moved_chunk(void)
{
    Guest g;
    Writer w = { .g = &g };
    GThread *thread;

    guest_init(&g);
    g_assert_true(ram_chunk_try_claim(g.block, 1));
    thread = g_thread_new("writer", writer_thread, &w);
    while (!g_atomic_int_get(&w.started)) {
        g_thread_yield();
    }
    g_usleep(20000);
    g_assert_cmpint(g_atomic_int_get(&w.ended), ==, 0);
    ram_chunk_unclaim(g.block, 1);
    g_thread_join(thread);
    g_assert_cmpint(w.ended, ==, 1);
    guest_clear(&g);
}

/* Many accesses against many claims: no claim while an access is inside, nobody waits for ever. */
typedef struct Crowd {
    Guest *g;
    gint stop;
    gint inside; /* accesses that believe to be alone with no claim */
} Crowd;

static gpointer crowd_thread(gpointer opaque)
{
    Crowd *c = opaque;

    while (!g_atomic_int_get(&c->stop)) {
        ram_access_begin(c->g->block, 2 * MiB, 4096);
        g_atomic_int_inc(&c->inside);
        g_atomic_int_add(&c->inside, -1);
        ram_access_end(c->g->block, 2 * MiB, 4096);
    }
    return NULL;
}

static void test_claims_exclude_accesses(void)
{
    Guest g;
    Crowd c = { .g = &g };
    GThread *threads[3];
    unsigned claims = 0;

    guest_init(&g);
    for (unsigned i = 0; i < G_N_ELEMENTS(threads); i++) {
        threads[i] = g_thread_new("crowd", crowd_thread, &c);
    }
    while (claims < 2000) {
        if (ram_chunk_try_claim(g.block, 1)) {
            g_assert_cmpint(g_atomic_int_get(&c.inside), ==, 0);
            ram_chunk_unclaim(g.block, 1);
            claims++;
        } else {
            g_thread_yield();
        }
    }
    g_atomic_int_set(&c.stop, 1);
    for (unsigned i = 0; i < G_N_ELEMENTS(threads); i++) {
        g_thread_join(threads[i]);
    }
    guest_clear(&g);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/memory/guest-access/copies", test_copies);
    g_test_add_func("/memory/guest-access/refusals", test_refusals);
    g_test_add_func("/memory/guest-access/numbers", test_numbers);
    g_test_add_func("/memory/guest-access/iovecs", test_iovecs);
    g_test_add_func("/memory/guest-access/t48_access_waits_for_a_moved_chunk",
                    t48_access_waits_for_a_moved_chunk);
    g_test_add_func("/memory/guest-access/claims", test_claims_exclude_accesses);
    return g_test_run();
}
