/*
 * The programmable attribute map: registers to ranges of the memory map.
 *
 * Source: Intel 82441FX data sheet, "PAM[6:0] - Programmable Attribute Map Registers".
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/pci/pam.h"

#include <string.h>

/* Sixteen pieces of 16 KiB; the last segment has four of them. */
#define PIECE 0x4000
#define PIECES (PAM_SIZE / PIECE)

static unsigned segment_of(unsigned piece)
{
    return MIN(piece, PAM_SEGMENTS - 1u);
}

/* Register 0 holds the last segment in its high half, the others two segments each. */
static void decode(const uint8_t registers[PAM_REGISTERS], uint8_t modes[PAM_SEGMENTS])
{
    for (unsigned i = 0; i < PAM_SEGMENTS - 1; i++) {
        modes[i] = (uint8_t)(registers[1 + i / 2] >> (i % 2 * 4)) & 3;
    }
    modes[PAM_SEGMENTS - 1] = (registers[0] >> 4) & 3;
    for (unsigned i = 0; i < PAM_SEGMENTS; i++) {
        if (modes[i] == PAM_WRITE) {
            modes[i] = PAM_READ | PAM_WRITE;
        }
    }
}

/* Calls fn for each run of pieces of the same mode that is not empty. */
static bool for_each_run(Pam *pam,
                         bool (*fn)(Pam *pam, uint64_t base, uint64_t size, uint8_t mode,
                                    GError **errp),
                         GError **errp)
{
    for (unsigned i = 0, next; i < PIECES; i = next) {
        uint8_t mode = pam->modes[segment_of(i)];

        for (next = i + 1; next < PIECES && pam->modes[segment_of(next)] == mode; next++) {
        }
        if (mode && !fn(pam, PAM_BASE + i * PIECE, (next - i) * PIECE, mode, errp)) {
            return false;
        }
    }
    return true;
}

static bool add_run(Pam *pam, uint64_t base, uint64_t size, uint8_t mode, GError **errp)
{
    return address_map_add_ram(pam->memory, base, pam->ram, base, size, !(mode & PAM_WRITE), errp);
}

static bool remove_run(Pam *pam, uint64_t base, uint64_t size, uint8_t mode, GError **errp)
{
    address_map_remove(pam->memory, base);
    return true;
}

void pam_init(Pam *pam, AddressMap *memory, RamBlock *ram)
{
    pam->memory = memory;
    pam->ram = ram;
    memset(pam->modes, PAM_READ | PAM_WRITE, PAM_SEGMENTS);
}

bool pam_apply(Pam *pam, const uint8_t registers[PAM_REGISTERS], GError **errp)
{
    uint8_t modes[PAM_SEGMENTS];
    bool ok;

    decode(registers, modes);
    if (memcmp(modes, pam->modes, PAM_SEGMENTS) == 0) {
        return true;
    }
    address_map_begin(pam->memory);
    for_each_run(pam, remove_run, NULL);
    memcpy(pam->modes, modes, PAM_SEGMENTS);
    ok = for_each_run(pam, add_run, errp);
    address_map_commit(pam->memory);
    return ok;
}
