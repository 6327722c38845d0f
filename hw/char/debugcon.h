/*
 * isa-debugcon: a port where each byte written goes to a chardev.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_CHAR_DEBUGCON_H
#define COWBIRD_HW_CHAR_DEBUGCON_H

#include "hw/i386/isa-bus.h"

#define TYPE_ISA_DEBUGCON (isa_debugcon_get_type())
QOM_DECLARE_FINAL_TYPE(IsaDebugcon, isa_debugcon, ISA_DEBUGCON, IsaDeviceClass)

#endif
