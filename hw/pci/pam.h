/*
 * The programmable attribute map of host bridges: which parts of 768 KiB to 1 MiB are RAM.
 *
 * Thirteen segments, each readable and writable on its own. Readable only: RAM that drops writes. Neither: nothing is
 * there, since this machine has no ROM and no card behind. Writable only is how firmware copies ROM into the RAM below it;
 * without ROM the segment is then plain RAM: reads give what was written, not what a card would answer.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_PCI_PAM_H
#define COWBIRD_HW_PCI_PAM_H

#include "memory/address-map.h"

#define PAM_BASE 0xc0000
#define PAM_SIZE 0x40000
#define PAM_SEGMENTS 13
#define PAM_REGISTERS 7

enum { PAM_READ = 1, PAM_WRITE = 2 };

typedef struct Pam {
    AddressMap *memory;
    RamBlock *ram;               /* guest RAM, at equal offsets */
    uint8_t modes[PAM_SEGMENTS]; /* as laid out now */
} Pam;

/* Takes over the area, which is one RAM range now. */
void pam_init(Pam *pam, AddressMap *memory, RamBlock *ram);
/* Lays the area out as the seven registers (0x59 to 0x5f on the i440FX) say. Nothing is done if that is no change. */
bool pam_apply(Pam *pam, const uint8_t registers[PAM_REGISTERS], GError **errp);

#endif
