/*
 * Tests of the serial port: registers, FIFOs, interrupts, saved state.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/char/serial.h"

#include "hw-fixture.h"

#define COM1 0x3f8
#define IRQ 4

static Board *start(void)
{
    return board_new(16 * MiB, NULL);
}

static SerialState *uart(Board *b)
{
    const VMStateEntry *e = vmstate_registry_find(b->m->vmstate, "serial", 0);
    uint8_t *base = e->opaque;

    /* The table of isa-serial has one field: the registers. */
    return (SerialState *)(base + e->vmsd->fields[0].offset);
}

static void receive(Board *b, const char *text)
{
    g_assert_cmpuint(serial_can_receive(uart(b)), >=, strlen(text));
    serial_receive(uart(b), (const uint8_t *)text, strlen(text));
}

static void test_transmit(void)
{
    Board *b = start();
    g_autofree char *text = NULL;

    for (const char *p = "hello"; *p; p++) {
        g_assert_cmphex(board_in(b, COM1 + 5, 1) & 0x60, ==, 0x60);
        board_out(b, COM1, (uint8_t)*p, 1);
    }
    text = board_serial_text(b);
    g_assert_cmpstr(text, ==, "hello");
    board_free(b);
}

static void test_divider(void)
{
    Board *b = start();

    g_assert_cmphex(board_in(b, COM1 + 1, 1), ==, 0);
    board_out(b, COM1 + 3, 0x83, 1);
    board_out(b, COM1, 0x34, 1);
    board_out(b, COM1 + 1, 0x12, 1);
    g_assert_cmphex(board_in(b, COM1, 1), ==, 0x34);
    g_assert_cmphex(board_in(b, COM1 + 1, 1), ==, 0x12);
    board_out(b, COM1 + 3, 0x03, 1);
    g_assert_cmphex(board_in(b, COM1 + 1, 1), ==, 0);
    board_out(b, COM1 + 7, 0xa5, 1);
    g_assert_cmphex(board_in(b, COM1 + 7, 1), ==, 0xa5);
    board_free(b);
}

static void test_transmit_interrupt(void)
{
    Board *b = start();

    g_assert_cmphex(board_in(b, COM1 + 2, 1), ==, 1);
    board_out(b, COM1 + 1, 2, 1);
    g_assert_cmpint(b->levels[IRQ], ==, 1);
    g_assert_cmphex(board_in(b, COM1 + 2, 1), ==, 2);
    g_assert_cmpint(b->levels[IRQ], ==, 0); /* reading IIR took it back */
    board_out(b, COM1, 'x', 1);
    g_assert_cmpint(b->levels[IRQ], ==, 1);
    board_out(b, COM1 + 1, 0, 1);
    g_assert_cmpint(b->levels[IRQ], ==, 0);
    board_free(b);
}

static void test_receive_fifo(void)
{
    Board *b = start();

    board_out(b, COM1 + 2, 0x41, 1); /* FIFO, trigger at 4 */
    board_out(b, COM1 + 1, 1, 1);
    receive(b, "abc");
    g_assert_cmphex(board_in(b, COM1 + 2, 1), ==, 0xcc); /* timeout: below the trigger */
    receive(b, "d");
    g_assert_cmphex(board_in(b, COM1 + 2, 1), ==, 0xc4);
    g_assert_cmpint(b->levels[IRQ], ==, 1);
    for (const char *p = "abcd"; *p; p++) {
        g_assert_cmphex(board_in(b, COM1 + 5, 1) & 1, ==, 1);
        g_assert_cmpuint(board_in(b, COM1, 1), ==, (unsigned char)*p);
    }
    g_assert_cmphex(board_in(b, COM1 + 5, 1) & 1, ==, 0);
    g_assert_cmpint(b->levels[IRQ], ==, 0);
    receive(b, "0123456789abcdef");
    g_assert_cmpuint(serial_can_receive(uart(b)), ==, 0);
    board_out(b, COM1 + 2, 0x43, 1);
    g_assert_cmpuint(serial_can_receive(uart(b)), ==, 16);
    board_free(b);
}

static void test_loopback(void)
{
    Board *b = start();

    board_out(b, COM1 + 4, 0x1f, 1);
    g_assert_cmphex(board_in(b, COM1 + 6, 1) & 0xf0, ==, 0xf0);
    board_out(b, COM1 + 4, 0x1a, 1);
    g_assert_cmphex(board_in(b, COM1 + 6, 1) & 0xf0, ==, 0x90);
    board_out(b, COM1, 0x42, 1);
    board_out(b, COM1, 0x43, 1); /* nobody took the first: overrun */
    g_assert_cmphex(board_in(b, COM1 + 5, 1) & 3, ==, 3);
    g_assert_cmphex(board_in(b, COM1 + 5, 1) & 2, ==, 0);
    g_assert_cmphex(board_in(b, COM1, 1), ==, 0x42);
    g_assert_cmpuint(serial_can_receive(uart(b)), ==, 0);
    board_free(b);
}

static void test_modem_deltas(void)
{
    Board *b = start();

    board_in(b, COM1 + 6, 1);
    g_assert_cmphex(board_in(b, COM1 + 6, 1), ==, 0xb0);
    board_out(b, COM1 + 1, 8, 1);
    board_out(b, COM1 + 4, 0x10, 1); /* loopback with all outputs low */
    g_assert_cmphex(board_in(b, COM1 + 2, 1), ==, 0);
    g_assert_cmphex(board_in(b, COM1 + 6, 1), ==, 0x0b);
    g_assert_cmphex(board_in(b, COM1 + 2, 1), ==, 1);
    board_free(b);
}

static void test_state(void)
{
    Board *a = start(), *b = start();
    g_autoptr(GError) err = NULL;

    board_out(a, COM1 + 2, 0x81, 1);
    board_out(a, COM1 + 1, 1, 1);
    board_out(a, COM1 + 7, 0x77, 1);
    receive(a, "in flight");
    board_copy_state(a, b, &err);
    g_assert_no_error(err);
    g_assert_cmpint(b->levels[IRQ], ==, 1);
    g_assert_cmphex(board_in(b, COM1 + 7, 1), ==, 0x77);
    for (const char *p = "in flight"; *p; p++) {
        g_assert_cmpuint(board_in(b, COM1, 1), ==, (unsigned char)*p);
    }
    board_free(a);
    board_free(b);
}

/* A count beyond the FIFO in saved state must not be believed. */
static void test_hostile_state(void)
{
    Board *a = start(), *b = start();
    g_autoptr(GError) err = NULL;

    uart(a)->rx.count = UINT32_MAX;
    uart(a)->tx.count = 1000000;
    board_copy_state(a, b, &err);
    g_assert_no_error(err);
    g_assert_cmpuint(uart(b)->rx.count, <=, SERIAL_FIFO_SIZE);
    g_assert_cmpuint(uart(b)->tx.count, <=, SERIAL_FIFO_SIZE);
    uart(a)->rx.count = uart(a)->tx.count = 0;
    board_free(a);
    board_free(b);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/serial/transmit", test_transmit);
    g_test_add_func("/serial/divider", test_divider);
    g_test_add_func("/serial/transmit-interrupt", test_transmit_interrupt);
    g_test_add_func("/serial/receive-fifo", test_receive_fifo);
    g_test_add_func("/serial/loopback", test_loopback);
    g_test_add_func("/serial/modem-deltas", test_modem_deltas);
    g_test_add_func("/serial/state", test_state);
    g_test_add_func("/serial/hostile-state", test_hostile_state);
    return g_test_run();
}
