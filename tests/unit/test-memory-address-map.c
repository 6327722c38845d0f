/*
 * The address map: ranges, dispatch, listeners.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/address-map.h"
#include "util/units.h"

#include <string.h>

typedef struct Registers {
    uint8_t bytes[64];
    char calls[512]; /* "r0:4 w4:2 " */
} Registers;

static uint64_t registers_read(void *opaque, uint64_t offset, unsigned size)
{
    Registers *r = opaque;
    uint64_t value = 0;
    g_autofree char *call = g_strdup_printf("r%d:%u ", (int)offset, size);

    g_strlcat(r->calls, call, sizeof(r->calls));
    memcpy(&value, r->bytes + offset, size);
    return value;
}

static void registers_write(void *opaque, uint64_t offset, uint64_t value, unsigned size)
{
    Registers *r = opaque;
    g_autofree char *call =
        g_strdup_printf("w%d:%u=%" G_GINT64_MODIFIER "x ", (int)offset, size, value);

    g_strlcat(r->calls, call, sizeof(r->calls));
    memcpy(r->bytes + offset, &value, size);
}

static const IoOps any_size = { .read = registers_read, .write = registers_write };
static const IoOps byte_only = {
    .read = registers_read, .write = registers_write, .min_size = 1, .max_size = 1
};
static const IoOps long_only = {
    .read = registers_read, .write = registers_write, .min_size = 4, .max_size = 4
};

static RamBlock *new_block(void)
{
    RamBlock *block = ram_block_new_anonymous("pc.ram", 4 * MiB, NULL);

    g_assert_nonnull(block);
    g_assert_cmpuint((uintptr_t)block->host % RAM_CHUNK_SIZE, ==, 0);
    return block;
}

static void test_overlap_is_refused(void)
{
    g_autoptr(AddressMap) map = address_map_new("memory", 36);
    g_autoptr(RamBlock) block = new_block();
    Registers r = { 0 };
    g_autoptr(GError) err = NULL;

    g_assert_true(address_map_add_ram(map, 0, block, 0, MiB, false, &err));
    g_assert_true(address_map_add_io(map, 2 * MiB, 64, "regs", &any_size, &r, &err));
    g_assert_false(address_map_add_io(map, MiB - 1, 2, "bad", &any_size, &r, &err));
    g_assert_nonnull(strstr(err->message, "bad"));
    g_assert_nonnull(strstr(err->message, "pc.ram"));
    g_clear_error(&err);
    g_assert_false(address_map_add_ram(map, MiB, block, MiB, 2 * MiB, false, NULL));
    g_assert_false(address_map_add_io(map, 0, 16 * MiB, "bad", &any_size, &r, NULL));
    g_assert_false(address_map_add_io(map, UINT64_C(1) << 36, 1, "bad", &any_size, &r, NULL));
    g_assert_false(address_map_add_io(map, 8 * MiB, 0, "bad", &any_size, &r, NULL));
    g_assert_false(address_map_add_io(map, UINT64_MAX, 2, "bad", &any_size, &r, NULL));
    g_assert_false(address_map_add_ram(map, 8 * MiB, block, 3 * MiB, 2 * MiB, false, NULL));
    g_assert_false(address_map_add_ram(map, 8 * MiB, block, 100, 4096, false, NULL));
    g_assert_true(address_map_add_ram(map, MiB, block, MiB, MiB, false, &err));
    g_assert_cmpuint(address_map_count(map), ==, 3);
}

static void test_full_width(void)
{
    g_autoptr(AddressMap) map = address_map_new("memory", 64);
    Registers r = { 0 };
    uint8_t byte;

    g_assert_true(address_map_add_io(map, UINT64_MAX - 63, 64, "top", &any_size, &r, NULL));
    g_assert_true(address_map_read(map, UINT64_MAX, &byte, 1));
    g_assert_false(address_map_read(map, UINT64_MAX - 64, &byte, 1));
}

static void test_dispatch_ram(void)
{
    g_autoptr(AddressMap) map = address_map_new("memory", 36);
    g_autoptr(RamBlock) block = new_block();
    uint64_t value = UINT64_C(0x1122334455667788);

    address_map_add_ram(map, 0, block, MiB, MiB, false, NULL);
    address_map_add_ram(map, MiB, block, 0, MiB, true, NULL);
    g_assert_true(address_map_write(map, 16, &value, 8));
    g_assert_cmpmem(block->host + MiB + 16, 8, &value, 8);
    /* Across both ranges: the part in ROM is dropped. */
    g_assert_true(address_map_write(map, MiB - 4, &value, 8));
    g_assert_cmpmem(block->host + 2 * MiB - 4, 4, &value, 4);
    g_assert_cmpuint(block->host[0], ==, 0);
    block->host[0] = 0xab;
    value = 0;
    g_assert_true(address_map_read(map, MiB - 4, &value, 8));
    g_assert_cmphex(value, ==, UINT64_C(0xab55667788));
    g_assert_true(address_map_is_ram(map, MiB));
    g_assert_false(address_map_is_ram(map, 2 * MiB));
}

static void test_unassigned(void)
{
    g_autoptr(AddressMap) map = address_map_new("io", 16);
    Registers r = { .bytes = { 1, 2 } };
    uint32_t value = 0;

    address_map_add_io(map, 0x10, 2, "two", &any_size, &r, NULL);
    g_assert_false(address_map_read(map, 0x100, &value, 4));
    g_assert_cmphex(value, ==, 0xffffffff);
    g_assert_false(address_map_read(map, 0xf, &value, 4));
    g_assert_cmphex(value, ==, 0xff0201ff);
    g_assert_false(address_map_write(map, 0x100, &value, 4));
}

static void expect_calls(const IoOps *ops, uint64_t addr, unsigned len, const char *reads,
                         const char *writes)
{
    g_autoptr(AddressMap) map = address_map_new("io", 16);
    Registers r = { 0 };
    uint8_t data[8] = { 1, 2, 3, 4, 5, 6, 7, 8 }, got[8] = { 0 };

    for (unsigned i = 0; i < sizeof(r.bytes); i++) {
        r.bytes[i] = 0x40 + i;
    }
    address_map_add_io(map, 0, 64, "regs", ops, &r, NULL);
    g_assert_true(address_map_read(map, addr, got, len));
    g_assert_cmpstr(r.calls, ==, reads);
    g_assert_cmpmem(got, len, r.bytes + addr, len);
    r.calls[0] = '\0';
    g_assert_true(address_map_write(map, addr, data, len));
    g_assert_cmpstr(r.calls, ==, writes);
}

static void test_access_sizes(void)
{
    expect_calls(&any_size, 8, 8, "r8:8 ", "w8:8=807060504030201 ");
    expect_calls(&any_size, 4, 4, "r4:4 ", "w4:4=4030201 ");
    expect_calls(&any_size, 1, 4, "r1:1 r2:2 r4:1 ", "w1:1=1 w2:2=302 w4:1=4 ");
    expect_calls(&byte_only, 2, 4, "r2:1 r3:1 r4:1 r5:1 ", "w2:1=1 w3:1=2 w4:1=3 w5:1=4 ");
    expect_calls(&long_only, 4, 1, "r4:4 ", "w4:4=1 ");
    expect_calls(&long_only, 6, 1, "r4:4 ", "w4:4=10000 ");
    expect_calls(&long_only, 0, 8, "r0:4 r4:4 ", "w0:4=4030201 w4:4=8070605 ");
}

/* --- Listeners --- */

typedef struct Heard {
    unsigned commits;
    size_t removed, added;
    uint64_t first_added;
} Heard;

static void hear(void *opaque, const AddressRange *removed, size_t n_removed,
                 const AddressRange *added, size_t n_added)
{
    Heard *heard = opaque;

    heard->commits++;
    heard->removed += n_removed;
    heard->added += n_added;
    heard->first_added = n_added ? added[0].base : 0;
}

static void test_listener_hears_one_change(void)
{
    g_autoptr(AddressMap) map = address_map_new("memory", 36);
    g_autoptr(RamBlock) block = new_block();
    Heard heard = { 0 };
    AddressMapListener listener = { .commit = hear, .opaque = &heard };

    address_map_add_ram(map, 0, block, 0, MiB, false, NULL);
    address_map_add_listener(map, &listener);
    g_assert_cmpuint(heard.commits, ==, 1);
    g_assert_cmpuint(heard.added, ==, 1);

    address_map_begin(map);
    address_map_begin(map);
    address_map_remove(map, 0);
    address_map_add_ram(map, 0, block, 0, 512 * KiB, false, NULL);
    address_map_add_ram(map, 512 * KiB, block, 512 * KiB, 512 * KiB, true, NULL);
    address_map_commit(map);
    g_assert_cmpuint(heard.commits, ==, 1);
    g_assert_true(address_map_is_ram(map, 600 * KiB));
    address_map_commit(map);
    g_assert_cmpuint(heard.commits, ==, 2);
    g_assert_cmpuint(heard.removed, ==, 1);
    g_assert_cmpuint(heard.added, ==, 3);

    /* Taken away and put back: nothing has changed. */
    address_map_begin(map);
    address_map_remove(map, 0);
    address_map_add_ram(map, 0, block, 0, 512 * KiB, false, NULL);
    address_map_commit(map);
    g_assert_cmpuint(heard.commits, ==, 2);

    address_map_remove_listener(map, &heard);
    address_map_remove(map, 0);
    g_assert_cmpuint(heard.commits, ==, 2);
    g_assert_cmpuint(address_map_count(map), ==, 1);
}

/* A register of a device that moves its own range, as a PCI BAR does. */
typedef struct Mover {
    AddressMap *map;
    uint64_t base;
} Mover;

static uint64_t mover_read(void *opaque, uint64_t offset, unsigned size)
{
    return 7;
}

static void mover_write(void *opaque, uint64_t offset, uint64_t value, unsigned size);
static const IoOps mover_ops = { .read = mover_read, .write = mover_write };

static void mover_write(void *opaque, uint64_t offset, uint64_t value, unsigned size)
{
    Mover *m = opaque;

    address_map_remove(m->map, m->base);
    m->base = value;
    g_assert_true(address_map_add_io(m->map, m->base, 8, "mover", &mover_ops, m, NULL));
}

static void test_register_changes_the_map(void)
{
    g_autoptr(AddressMap) map = address_map_new("io", 16);
    Mover m = { .map = map, .base = 0x100 };
    uint32_t to = 0x200;
    uint8_t byte = 0;

    address_map_add_io(map, 0x100, 8, "mover", &mover_ops, &m, NULL);
    g_assert_true(address_map_write(map, 0x100, &to, 4));
    g_assert_false(address_map_read(map, 0x100, &byte, 1));
    g_assert_true(address_map_read(map, 0x200, &byte, 1));
    g_assert_cmpuint(byte, ==, 7);
}

static void test_many_ranges(void)
{
    g_autoptr(AddressMap) map = address_map_new("io", 16);
    Registers r[64] = { 0 };

    for (unsigned i = 0; i < 64; i++) {
        unsigned at = (i * 37) % 64;

        r[at].bytes[0] = at;
        g_assert_true(address_map_add_io(map, at * 128, 64, "r", &any_size, &r[at], NULL));
    }
    for (unsigned i = 0; i < 64; i++) {
        uint8_t byte;

        g_assert_true(address_map_read(map, i * 128, &byte, 1));
        g_assert_cmpuint(byte, ==, i);
        g_assert_false(address_map_read(map, i * 128 + 64, &byte, 1));
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/memory/address-map/overlap", test_overlap_is_refused);
    g_test_add_func("/memory/address-map/full-width", test_full_width);
    g_test_add_func("/memory/address-map/ram", test_dispatch_ram);
    g_test_add_func("/memory/address-map/unassigned", test_unassigned);
    g_test_add_func("/memory/address-map/access-sizes", test_access_sizes);
    g_test_add_func("/memory/address-map/listener", test_listener_hears_one_change);
    g_test_add_func("/memory/address-map/register-changes-map", test_register_changes_the_map);
    g_test_add_func("/memory/address-map/many-ranges", test_many_ranges);
    return g_test_run();
}
