/*
 * COM1 of the test guest: output by polling, input by interrupt while idle.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "tests/guest/guest.h"

#define COM1 0x3f8
#define COM1_IER (COM1 + 1)
#define COM1_FCR (COM1 + 2)
#define COM1_LCR (COM1 + 3)
#define COM1_MCR (COM1 + 4)
#define COM1_LSR (COM1 + 5)
#define LSR_DATA_READY 0x01
#define LSR_FIFO_EMPTY 0x20
#define FIFO_SIZE 16

static uint64_t interrupts_seen;
static unsigned fifo_room;

void serial_init(void)
{
    port_out8(COM1_IER, 0);
    port_out8(COM1_LCR, 0x03);
    port_out8(COM1_FCR, 0x07);
    port_out8(COM1_MCR, 0x0b);
    port_out8(COM1_IER, 0x01);
}

static void put_char(char c)
{
    while (fifo_room == 0) {
        if (port_in8(COM1_LSR) & LSR_FIFO_EMPTY) {
            fifo_room = FIFO_SIZE;
        }
    }
    port_out8(COM1, (uint8_t)c);
    fifo_room--;
}

void serial_put(const char *text)
{
    for (; *text != '\0'; text++) {
        put_char(*text);
    }
}

static void put_number(uint64_t value, unsigned base)
{
    char digits[24];
    unsigned at = sizeof(digits) - 1;

    digits[at] = '\0';
    do {
        digits[--at] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value != 0);
    serial_put(digits + at);
}

void serial_put_unsigned(uint64_t value)
{
    put_number(value, 10);
}

void serial_put_hex(uint64_t value)
{
    serial_put("0x");
    put_number(value, 16);
}

void serial_put_field(const char *name, uint64_t value)
{
    serial_put(" ");
    serial_put(name);
    serial_put("=");
    serial_put_unsigned(value);
}

void serial_put_hex_field(const char *name, uint64_t value)
{
    serial_put(" ");
    serial_put(name);
    serial_put("=");
    serial_put_hex(value);
}

static char get_char(void)
{
    for (;;) {
        uint64_t seen = serial_interrupts;

        if (port_in8(COM1_LSR) & LSR_DATA_READY) {
            return (char)port_in8(COM1);
        }
        interrupts_seen = seen;
        power_poll();
        ring0_call(RING0_WAIT, (uintptr_t)&serial_interrupts, seen, 0);
    }
}

char *serial_get_line(char *line, size_t size)
{
    size_t used = 0;

    for (;;) {
        char c = get_char();

        if (c == '\n') {
            line[used] = '\0';
            interrupts_seen = serial_interrupts;
            return line;
        }
        if (c != '\r' && used < size - 1) {
            line[used++] = c;
        }
    }
}

bool serial_has_news(void)
{
    return serial_interrupts != interrupts_seen;
}
