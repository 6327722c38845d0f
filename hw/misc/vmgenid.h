/*
 * The VM Generation ID: a GUID in guest RAM by which a guest sees that it runs from an older state again.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_MISC_VMGENID_H
#define COWBIRD_HW_MISC_VMGENID_H

#include "hw/core/device.h"
#include "util/uuid.h"

#define TYPE_VMGENID (vmgenid_get_type())
QOM_DECLARE_FINAL_TYPE(VmGenId, vmgenid, VMGENID, DeviceClass)

/* The machine's, or NULL. */
VmGenId *vmgenid_find(Machine *m);
/* As the guest sees it: the first three fields are little-endian. */
void vmgenid_bytes(const VmGenId *v, uint8_t out[16]);
/* Where the GUID lies in guest RAM; the device puts it there at once. 0: nowhere. */
void vmgenid_set_address(VmGenId *v, uint64_t gpa);
/*
 * To be called when saved state was loaded, after interrupt controllers, before the first vCPU runs: with guid=auto a new
 * GUID is made; it goes to guest RAM and, if it differs from what was there, the guest is told.
 * Nothing happens without the device.
 */
bool vmgenid_after_load(Machine *m, GError **errp);

#endif
