/*
 * The machine "none".
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_CORE_NULL_MACHINE_H
#define COWBIRD_HW_CORE_NULL_MACHINE_H

#include "hw/core/machine.h"

GType null_machine_get_type(void);

#endif
