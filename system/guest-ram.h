/*
 * The main RAM of the guest: how much, and from which memory backend.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_SYSTEM_GUEST_RAM_H
#define COWBIRD_SYSTEM_GUEST_RAM_H

#include <glib.h>
#include <stdbool.h>

typedef struct SystemState SystemState;

/*
 * Makes state->machine->main from -m and -machine memory-backend=, and adds it to the list of RAM
 * blocks. -machine none gets none.
 */
bool guest_ram_create(SystemState *state, GError **errp);

#endif
