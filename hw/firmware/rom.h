/*
 * Putting what firmware or a boot loader would have put into guest RAM.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_FIRMWARE_ROM_H
#define COWBIRD_HW_FIRMWARE_ROM_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "memory/address-map.h"

/* All of them: false with an error naming what, if the range is not RAM or the file cannot be read. */

/* len bytes to guest-physical address gpa. */
bool rom_load(AddressMap *memory, uint64_t gpa, const void *data, size_t len, const char *what,
              GError **errp);
/* Zeros. */
bool rom_clear(AddressMap *memory, uint64_t gpa, uint64_t len, const char *what, GError **errp);
/* len bytes of the file behind fd, from offset on, without a copy in between. */
bool rom_load_file(AddressMap *memory, uint64_t gpa, int fd, uint64_t offset, uint64_t len,
                   const char *what, GError **errp);

#endif
