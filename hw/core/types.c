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

const QomType hw_types[] = {
    { "bus", bus_get_type },
    { "device", device_get_type },
    { "machine", machine_get_type },
    { "none-machine", null_machine_get_type },
    { .name = NULL },
};
