/*
 * Pages of guest RAM that no driver gave to a device keep what is in them.
 *
 * Guard pages hold a pattern. Whatever could be a descriptor (address and length) in what the driver writes lends
 * the guard pages it covers to the device, and whatever could be a page number offers a page to the balloon: such
 * a page may become zero. All others stay as they are.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_TESTS_FUZZ_GUARD_H
#define COWBIRD_TESTS_FUZZ_GUARD_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* Guard pages: from GUARD_BASE on, right behind the buffers of the driver. */
#define GUARD_BASE 0x310000u
#define GUARD_PAGES 48u
#define GUARD_PAGE_SIZE 4096u

/* Ends the process by a signal that libFuzzer knows: what was expected is not so. */
void finding(const char *fmt, ...) G_GNUC_PRINTF(1, 2) G_GNUC_NORETURN;

/* @ram: where guest address 0 is in this process, @size bytes of it. */
void guard_init(uint8_t *ram, uint64_t size);
/* A new input: the pattern is in all pages, and none is lent. */
void guard_begin(void);
/* The device may write [address, address + length). */
void guard_lend(uint64_t address, uint64_t length);
/* The driver wrote [address, address + length) of RAM. */
void guard_written(uint64_t address, uint64_t length);
/* Ends the process if a page was changed that should not be. */
void guard_check(void);

#endif
