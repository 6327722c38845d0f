/*
 * isa-debug-exit: a port that ends the process.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_MISC_DEBUG_EXIT_H
#define COWBIRD_HW_MISC_DEBUG_EXIT_H

#include "hw/i386/isa-bus.h"

#define TYPE_ISA_DEBUG_EXIT (isa_debug_exit_get_type())
QOM_DECLARE_FINAL_TYPE(IsaDebugExit, isa_debug_exit, ISA_DEBUG_EXIT, IsaDeviceClass)

#endif
