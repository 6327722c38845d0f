/*
 * The keyboard controller without keyboard, and the system control port 0x92.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_MISC_I8042_H
#define COWBIRD_HW_MISC_I8042_H

#include "hw/i386/isa-bus.h"

#define TYPE_KBC (i8042_get_type())
QOM_DECLARE_FINAL_TYPE(Kbc, i8042, KBC, IsaDeviceClass)

#define TYPE_PORT92 (port92_get_type())
QOM_DECLARE_FINAL_TYPE(Port92, port92, PORT92, IsaDeviceClass)

#endif
