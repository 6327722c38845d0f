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
#include "hw/i386/acpi-pm.h"
#include "hw/i386/piix3.h"
#include "hw/firmware/fw-cfg.h"
#include "hw/misc/debug-exit.h"
#include "hw/misc/i8042.h"
#include "hw/misc/pvpanic.h"
#include "hw/misc/vmgenid.h"
#include "hw/pci/i440fx.h"
#include "hw/timer/mc146818rtc.h"
#include "hw/virtio/balloon.h"
#include "hw/virtio/virtio.h"
#include "hw/virtio/rng-backend.h"
#include "hw/virtio/rng.h"
#include "hw/virtio/serial.h"

const QomType hw_types[] = {
    { "bus", bus_get_type },
    { "device", device_get_type },
    { "machine", machine_get_type },
    { "none-machine", null_machine_get_type },
    { "generic-pc-machine", pc_machine_get_type },
    { "pc-i440fx-8.2-machine", pc_i440fx_machine_get_type, "pc-machine" },
    { "PCI", pci_bus_get_type },
    { "pci-device", pci_device_get_type },
    { "i440FX-pcihost", i440fx_host_get_type },
    { "i440FX", i440fx_get_type },
    { "PIIX3", piix3_get_type },
    { "PIIX4_PM", piix4_pm_get_type },
    { "mc146818rtc", rtc_get_type },
    { "i8042", i8042_get_type },
    { "port92", port92_get_type },
    { "fw_cfg_io", fw_cfg_get_type },
    { "pvpanic", pvpanic_get_type },
    { "vmgenid", vmgenid_get_type },
    { "isa-bus", isa_bus_get_type },
    { "isa-device", isa_device_get_type },
    { "isa-serial", isa_serial_get_type },
    { "isa-debugcon", isa_debugcon_get_type },
    { "isa-debug-exit", isa_debug_exit_get_type },
    { "virtio-rng-device", virtio_rng_get_type },
    { "virtio-serial-device", virtio_serial_get_type },
    { "virtio-serial-bus", virtio_serial_bus_get_type },
    { "virtserialport", virt_serial_port_get_type },
    { "virtconsole", virt_console_get_type },
    { "rng-backend", rng_backend_get_type },
    { "rng-random", rng_random_get_type },
    { "rng-builtin", rng_builtin_get_type },
    { "virtio-device", virtio_device_get_type },
    { "virtio-balloon-device", virtio_balloon_get_type },
    { .name = NULL },
};
