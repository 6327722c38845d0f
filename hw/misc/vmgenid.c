/*
 * The VM Generation ID device.
 *
 * Sources: Microsoft, "Virtual Machine Generation ID"; QEMU's published specification, docs/specs/vmgenid.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/misc/vmgenid.h"

#include <string.h>

#include "hw/core/machine.h"
#include "memory/guest-access.h"
#include "util/error.h"
#include "util/le.h"
#include "vmstate/vmstate.h"

struct _VmGenId {
    Device parent_instance;
    char *guid_text; /* property: "auto" or a UUID */
    Uuid guid;
    uint64_t address; /* in guest RAM, 0: nowhere yet */
};

QOM_DEFINE_TYPE(VmGenId, vmgenid, "vmgenid", TYPE_DEVICE)

static bool is_auto(const VmGenId *v)
{
    return g_strcmp0(v->guid_text, "auto") == 0;
}

VmGenId *vmgenid_find(Machine *m)
{
    Object *places[] = { machine_peripheral(m), machine_peripheral_anon(m), machine_unattached(m) };

    for (unsigned i = 0; i < G_N_ELEMENTS(places); i++) {
        for (guint n = 0; places[i]->children && n < places[i]->children->len; n++) {
            Object *child = g_ptr_array_index(places[i]->children, n);

            if (G_TYPE_CHECK_INSTANCE_TYPE(child, TYPE_VMGENID)) {
                return VMGENID(child);
            }
        }
    }
    return NULL;
}

void vmgenid_bytes(const VmGenId *v, uint8_t out[16])
{
    const uint8_t *d = v->guid.data;

    put_le32(out, (uint32_t)d[0] << 24 | (uint32_t)d[1] << 16 | (uint32_t)d[2] << 8 | d[3]);
    put_le16(out + 4, (uint16_t)(d[4] << 8 | d[5]));
    put_le16(out + 6, (uint16_t)(d[6] << 8 | d[7]));
    memcpy(out + 8, d + 8, 8);
}

/* Puts the GUID into guest RAM; false: there is no RAM. *ret_changed: another one was there. */
static bool store_guid(VmGenId *v, bool *ret_changed)
{
    AddressMap *memory = DEVICE(v)->machine->memory;
    uint8_t now[16], before[16];

    vmgenid_bytes(v, now);
    if (!guest_read(memory, v->address, before, sizeof(before))) {
        return false;
    }
    *ret_changed = memcmp(now, before, sizeof(now)) != 0;
    return !*ret_changed || guest_write(memory, v->address, now, sizeof(now));
}

void vmgenid_set_address(VmGenId *v, uint64_t gpa)
{
    bool changed;

    v->address = gpa;
    if (gpa && !store_guid(v, &changed)) {
        v->address = 0; /* a guest that gives a place without RAM has none */
    }
}

bool vmgenid_after_load(Machine *m, GError **errp)
{
    VmGenId *v = vmgenid_find(m);
    bool changed;

    if (!v || v->address == 0) {
        return true;
    }
    if (is_auto(v)) {
        v->guid = uuid_generate();
    }
    if (!store_guid(v, &changed)) {
        error_set(errp,
                  "vmgenid: the saved state places the generation id at 0x%" G_GINT64_MODIFIER
                  "x, where there is no RAM",
                  v->address);
        return false;
    }
    if (changed) {
        irq_pulse(&m->generation_changed);
    }
    return true;
}

static bool vmgenid_realize(Device *dev, GError **errp)
{
    VmGenId *v = VMGENID(dev);

    if (vmgenid_find(dev->machine) != v) {
        error_set(errp, "a machine has at most one");
        return false;
    }
    if (is_auto(v)) {
        v->guid = uuid_generate();
    } else if (!uuid_parse(v->guid_text, &v->guid)) {
        error_set(errp,
                  "guid=%s is no UUID: use 'auto' or the form "
                  "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx",
                  v->guid_text);
        return false;
    }
    return true;
}

static json_object *get_guid(Object *obj, GError **errp)
{
    VmGenId *v = VMGENID(obj);
    g_autofree char *text = uuid_to_string(&v->guid);

    return json_object_new_string(DEVICE(v)->realized ? text : v->guid_text);
}

static bool set_guid(Object *obj, json_object *value, GError **errp)
{
    VmGenId *v = VMGENID(obj);

    g_free(v->guid_text);
    v->guid_text = g_strdup(json_object_get_string(value));
    return true;
}

static const VMStateDescription vmstate_vmgenid = {
    .name = "vmgenid",
    .version_id = 1,
    .minimum_version_id = 1,
    .fields = (const VMStateField[]){ VMSTATE_UINT64(address, VmGenId), VMSTATE_END_OF_LIST() },
};

static const QomProperty vmgenid_properties[] = {
    { .name = "guid",
      .kind = QOM_CUSTOM,
      .type_name = "str",
      .get = get_guid,
      .set = set_guid,
      .description = "UUID, or auto (default): a new one at each start and restore" },
    QOM_PROPERTY_END,
};

static void vmgenid_finalize(GObject *obj)
{
    g_free(VMGENID(obj)->guid_text);
    G_OBJECT_CLASS(vmgenid_parent_class)->finalize(obj);
}

static void vmgenid_init(VmGenId *v)
{
    v->guid_text = g_strdup("auto");
}

static void vmgenid_class_init(VmGenIdClass *klass)
{
    DeviceClass *dc = DEVICE_CLASS(klass);

    G_OBJECT_CLASS(klass)->finalize = vmgenid_finalize;
    qom_class_install(klass, vmgenid_properties);
    dc->realize = vmgenid_realize;
    dc->vmsd = &vmstate_vmgenid;
    dc->desc = "VM Generation ID";
    dc->user_creatable = true;
}
