/*
 * pvpanic: a port through which a guest tells that it has panicked.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_MISC_PVPANIC_H
#define COWBIRD_HW_MISC_PVPANIC_H

#include "hw/i386/isa-bus.h"

#define TYPE_PVPANIC (pvpanic_get_type())
QOM_DECLARE_FINAL_TYPE(Pvpanic, pvpanic, PVPANIC, IsaDeviceClass)

uint16_t pvpanic_port(const Pvpanic *s);

#endif
