/*
 * How fast the guest writes its memory, by looking twice at pages picked at random.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_SYSTEM_DIRTY_RATE_H
#define COWBIRD_SYSTEM_DIRTY_RATE_H

/* The measurement that calc-dirty-rate begins and query-dirty-rate tells of. */
typedef struct DirtyRate DirtyRate;

/* Ends a measurement that is under way. NULL is fine. */
void dirty_rate_free(DirtyRate *dr);

#endif
