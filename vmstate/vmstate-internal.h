/*
 * What saving and describing a table both need to know of a field.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_VMSTATE_INTERNAL_H
#define COWBIRD_VMSTATE_INTERNAL_H

#include "vmstate/vmstate.h"

/* Is the field on the wire in that version? */
bool vmstate_field_present(const VMStateField *f, void *opaque, int version);
/* How many elements it has now. */
uint32_t vmstate_field_count(const VMStateField *f, const void *opaque);
/* The first element. */
void *vmstate_field_data(const VMStateField *f, void *opaque);
/* The table of an element of a structure field. */
const VMStateDescription *vmstate_field_table(const VMStateField *f, void *element);

#endif
