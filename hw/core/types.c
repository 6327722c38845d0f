/*
 * The one table of device, bus and machine types.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/core/types.h"

#include "hw/core/bus.h"
#include "hw/core/device.h"
#include "hw/core/machine.h"
#include "hw/core/null-machine.h"
#include "hw/char/debugcon.h"
#include "hw/char/serial.h"
#include "hw/i386/isa-bus.h"
#include "hw/i386/machine.h"
#include "hw/i386/pc.h"
#include "hw/misc/debug-exit.h"

const QomType hw_types[] = {
    { "bus", bus_get_type },
    { "device", device_get_type },
    { "machine", machine_get_type },
    { "none-machine", null_machine_get_type },
    { "generic-pc-machine", pc_machine_get_type },
    { "pc-i440fx-8.2-machine", pc_i440fx_machine_get_type, "pc-machine" },
    { "isa-bus", isa_bus_get_type },
    { "isa-device", isa_device_get_type },
    { "isa-serial", isa_serial_get_type },
    { "isa-debugcon", isa_debugcon_get_type },
    { "isa-debug-exit", isa_debug_exit_get_type },
    { .name = NULL },
};
