/*
 * The pattern in guard pages, and which of them a device may change.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "tests/fuzz/guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/le.h"

#define PATTERN 0xa5
#define GUARD_SIZE ((uint64_t)GUARD_PAGES * GUARD_PAGE_SIZE)
/* Bytes of a descriptor that say where and how much: the longest thing looked for. */
#define WINDOW 12u
#define LOW_MEMORY 0x100000u

static uint8_t *guest_ram;
static uint64_t guest_ram_size;
static bool lent[GUARD_PAGES], offered[GUARD_PAGES];
static uint8_t pattern[GUARD_PAGE_SIZE], zeros[GUARD_PAGE_SIZE];

void finding(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    abort();
}

static uint8_t *page_at(unsigned i)
{
    return guest_ram + GUARD_BASE + (uint64_t)i * GUARD_PAGE_SIZE;
}

void guard_init(uint8_t *ram, uint64_t size)
{
    guest_ram = ram;
    guest_ram_size = size;
    memset(pattern, PATTERN, sizeof(pattern));
}

void guard_begin(void)
{
    memset(lent, 0, sizeof(lent));
    memset(offered, 0, sizeof(offered));
    for (unsigned i = 0; i < GUARD_PAGES; i++) {
        if (memcmp(page_at(i), pattern, GUARD_PAGE_SIZE) != 0) {
            memcpy(page_at(i), pattern, GUARD_PAGE_SIZE);
        }
    }
}

void guard_lend(uint64_t address, uint64_t length)
{
    uint64_t end = address > UINT64_MAX - length ? UINT64_MAX : address + length;

    if (address >= GUARD_BASE + GUARD_SIZE || end <= GUARD_BASE) {
        return;
    }
    uint64_t first = (MAX(address, GUARD_BASE) - GUARD_BASE) / GUARD_PAGE_SIZE;
    uint64_t last = (MIN(end, GUARD_BASE + GUARD_SIZE) - 1 - GUARD_BASE) / GUARD_PAGE_SIZE;

    for (uint64_t i = first; i <= last; i++) {
        lent[i] = true;
    }
}

/*
 * Descriptors are aligned but in indirect tables; elsewhere only what could hardly be anything else is one, since parts of
 * two neighbours would lend nearly everything.
 */
static void look_at(uint64_t at)
{
    const uint8_t *p = guest_ram + at;
    uint32_t page = get_le32(p) - GUARD_BASE / GUARD_PAGE_SIZE;
    uint64_t address = get_le64(p);

    if (page < GUARD_PAGES) {
        offered[page] = true;
    }
    if (at % 16 == 0 || address >= LOW_MEMORY) {
        guard_lend(address, get_le32(p + 8));
    }
}

void guard_written(uint64_t address, uint64_t length)
{
    if (address >= guest_ram_size || length > guest_ram_size - address) {
        return;
    }
    uint64_t from = address < WINDOW ? 0 : address - (WINDOW - 1);

    for (uint64_t at = from; at < address + length && at + WINDOW <= guest_ram_size; at++) {
        look_at(at);
    }
}

/* Indirect tables may lie anywhere, and their descriptors then have any address: VIRTQ_DESC_F_INDIRECT is 4. */
static void look_at_table(uint64_t table, uint64_t length)
{
    for (uint64_t at = table; length >= 16 && at < guest_ram_size && guest_ram_size - at >= 16;
         at += 16, length -= 16) {
        guard_lend(get_le64(guest_ram + at), get_le32(guest_ram + at + 8));
    }
}

static void look_at_tables(void)
{
    for (uint64_t at = 0; at + 16 <= guest_ram_size; at += 16) {
        const uint8_t *p = guest_ram + at;

        /* Flags stand here in a split ring, there in a packed one. */
        if ((p[12] & 4) || (p[14] & 4)) {
            look_at_table(get_le64(p), MIN(get_le32(p + 8), 16 * 1024));
        }
    }
}

static bool page_is_right(unsigned i)
{
    return lent[i] || memcmp(page_at(i), pattern, GUARD_PAGE_SIZE) == 0 ||
           (offered[i] && memcmp(page_at(i), zeros, GUARD_PAGE_SIZE) == 0);
}

void guard_check(void)
{
    bool all_looked_at = false;

    for (unsigned i = 0; i < GUARD_PAGES; i++) {
        if (!page_is_right(i) && !all_looked_at) {
            /* What devices wrote may be descriptors, too: rare, and slow to look for. */
            guard_written(0, guest_ram_size);
            look_at_tables();
            all_looked_at = true;
        }
        if (!page_is_right(i)) {
            finding("the page at 0x%x was changed, which no driver gave to a device",
                    GUARD_BASE + i * GUARD_PAGE_SIZE);
        }
    }
}
