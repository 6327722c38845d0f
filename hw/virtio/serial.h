/*
 * virtio-serial: a console device with many ports (virtio 1.2, 5.3), and the ports that are plugged into it.
 *
 * serial.c has the device, serial-control.c the messages about ports, serial-port.c the port devices and their data.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_VIRTIO_SERIAL_H
#define COWBIRD_HW_VIRTIO_SERIAL_H

#include "hw/virtio/virtio.h"

/* "virtio-serial-device", the part behind the transport. Provides the bus "ID.0", ID being that of the transport's device. */
#define TYPE_VIRTIO_SERIAL (virtio_serial_get_type())
QOM_DECLARE_FINAL_TYPE(VirtioSerial, virtio_serial, VIRTIO_SERIAL, VirtioDeviceClass)

/* "virtio-serial-bus" */
#define TYPE_VIRTIO_SERIAL_BUS (virtio_serial_bus_get_type())
QOM_DECLARE_FINAL_TYPE(VirtioSerialBus, virtio_serial_bus, VIRTIO_SERIAL_BUS, BusClass)

/* "virtserialport": a named stream of bytes; "virtconsole", derived from it: a console. */
#define TYPE_VIRT_SERIAL_PORT (virt_serial_port_get_type())
QOM_DECLARE_TYPE(VirtSerialPort, virt_serial_port, VIRT_SERIAL_PORT)

struct _VirtSerialPortClass {
    DeviceClass parent_class;
    bool is_console;
};

#define TYPE_VIRT_CONSOLE (virt_console_get_type())
QOM_DECLARE_FINAL_TYPE(VirtConsole, virt_console, VIRT_CONSOLE, VirtSerialPortClass)

#endif
