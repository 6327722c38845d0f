/*
 * The boards with an i440FX: pc-i440fx-8.2.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_I386_PC_H
#define COWBIRD_HW_I386_PC_H

#include <glib-object.h>

GType pc_i440fx_machine_get_type(void);

#endif
