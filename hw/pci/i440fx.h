/*
 * The i440FX: PCI host bridge with its configuration ports and the PAM registers.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_PCI_I440FX_H
#define COWBIRD_HW_PCI_I440FX_H

#include "hw/pci/pci.h"

/* The ports 0xcf8 to 0xcff and the bus "pci.0" below. */
#define TYPE_I440FX_HOST (i440fx_host_get_type())
QOM_DECLARE_FINAL_TYPE(I440fxHost, i440fx_host, I440FX_HOST, DeviceClass)

/* The bridge as function 0.0 of its own bus. */
#define TYPE_I440FX (i440fx_get_type())
QOM_DECLARE_FINAL_TYPE(I440fx, i440fx, I440FX, PciDeviceClass)

PciBus *i440fx_host_bus(I440fxHost *host);

#endif
