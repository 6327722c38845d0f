/*
 * Random accesses to all ports and registers, random saved state: nothing ends the process or reaches beyond its memory
 * (run it with the sanitizers as well).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/char/serial.h"
#include "hw/misc/debug-exit.h"
#include "hw/misc/pvpanic.h"
#include "hw/misc/vmgenid.h"

#include "hw-fixture.h"

static Board *start(void)
{
    Board *b = board_new(8 * MiB, NULL);

    g_assert_nonnull(device_create(b->m, TYPE_PVPANIC, NULL, NULL, NULL));
    g_assert_nonnull(device_create(b->m, TYPE_ISA_DEBUG_EXIT, NULL, NULL, NULL));
    g_assert_nonnull(device_create(b->m, TYPE_VMGENID, NULL, NULL, NULL));
    return b;
}

/* Mostly ports where something is. */
static uint16_t random_port(void)
{
    static const uint16_t bases[] = { 0x3f8, 0x60,  0x64,  0x70,  0x92,  0xb2,   0x501, 0x505,
                                      0x510, 0x514, 0x518, 0xcf8, 0xcfc, 0xafe0, 0x600, 0 };
    uint16_t base = bases[g_test_rand_int_range(0, G_N_ELEMENTS(bases))];

    return base ? (uint16_t)(base + g_test_rand_int_range(0, 16)) : (uint16_t)g_test_rand_int();
}

static uint32_t random_value(void)
{
    switch (g_test_rand_int_range(0, 4)) {
    case 0:
        return (uint32_t)g_test_rand_int();
    case 1:
        return 0x80000000u | (uint32_t)g_test_rand_int_range(0, 0x2000); /* configuration address */
    case 2:
        return 1u << g_test_rand_int_range(0, 32);
    default:
        return (uint32_t)g_test_rand_int_range(0, 256);
    }
}

/* A byte from outside, if the serial port has room. */
static void receive_byte(Board *b)
{
    const VMStateEntry *e = vmstate_registry_find(b->m->vmstate, "serial", 0);
    SerialState *s = (SerialState *)((uint8_t *)e->opaque + e->vmsd->fields[0].offset);
    uint8_t byte = (uint8_t)g_test_rand_int();

    if (serial_can_receive(s)) {
        serial_receive(s, &byte, 1);
    }
}

static void random_step(Board *b)
{
    static const unsigned sizes[] = { 1, 2, 4 };
    unsigned size = sizes[g_test_rand_int_range(0, 3)];
    uint64_t value = random_value();
    uint64_t gpa = g_test_rand_int_range(0, 2) ? (uint64_t)g_test_rand_int() & 0xffffff
                                               : (uint64_t)g_test_rand_int() << 20;

    switch (g_test_rand_int_range(0, 8)) {
    case 0:
        address_map_read(b->m->memory, gpa, &value, size);
        break;
    case 1:
        address_map_write(b->m->memory, gpa, &value, size);
        break;
    case 2:
        receive_byte(b);
        break;
    case 3:
    case 4:
        board_in(b, random_port(), size);
        break;
    default:
        board_out(b, random_port(), (uint32_t)value, size);
        break;
    }
}

static void test_accesses(void)
{
    Board *b = start();

    for (unsigned i = 0; i < 200000; i++) {
        random_step(b);
        if (i % 100 == 0) {
            vm_clock_advance(b->m->clock, g_test_rand_int_range(0, 100000000));
            board_settle(b);
            g_ptr_array_set_size(b->events, 0);
        }
        if (i % 5000 == 0) {
            reset_run(b->m->resets);
        }
    }
    reset_run(b->m->resets);
    g_assert_cmphex(board_in(b, 0x3fd, 1), ==, 0x60); /* and everything is where it was */
    board_free(b);
}

/* Bytes of saved state changed at random: loaded or refused, then used. */
static void test_saved_state(void)
{
    Board *a = start();

    for (unsigned i = 0; i < 300; i++) {
        Board *b = start();

        for (unsigned n = 0; n < 200; n++) {
            random_step(a);
        }
        for (size_t e = 0; e < vmstate_registry_count(a->m->vmstate); e++) {
            const VMStateEntry *from = vmstate_registry_get(a->m->vmstate, e);
            const VMStateEntry *to =
                vmstate_registry_find(b->m->vmstate, from->idstr, from->instance_id);
            g_autoptr(GByteArray) bytes = g_byte_array_new();
            g_autoptr(GError) err = NULL;
            ByteReader reader;

            vmstate_save(bytes, from->vmsd, from->opaque);
            for (unsigned n = 0; n < 3 && bytes->len; n++) {
                bytes->data[g_test_rand_int_range(0, (gint32)bytes->len)] =
                    (uint8_t)g_test_rand_int();
            }
            reader = byte_reader_init(bytes->data,
                                      i % 10 ? bytes->len : bytes->len - MIN(bytes->len, 3));
            vmstate_load(&reader, to->vmsd, to->opaque, from->vmsd->version_id, &err);
        }
        vmgenid_after_load(b->m, NULL);
        for (unsigned n = 0; n < 200; n++) {
            random_step(b);
        }
        board_free(b);
    }
    board_free(a);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/random/accesses", test_accesses);
    g_test_add_func("/random/saved-state", test_saved_state);
    return g_test_run();
}
