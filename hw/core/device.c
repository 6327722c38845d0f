/*
 * Devices: made, realized, reset, unplugged.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/core/device.h"

#include "hw/core/machine.h"
#include "util/error.h"
#include "util/log.h"
#include "vmstate/registry.h"

#include <stdarg.h>

QOM_DEFINE_ABSTRACT_TYPE(Device, device, "device", TYPE_OBJECT)

static void device_finalize(GObject *gobj)
{
    g_free(DEVICE(gobj)->id);
    G_OBJECT_CLASS(device_parent_class)->finalize(gobj);
}

static void device_init(Device *dev)
{
}

static void device_class_init(DeviceClass *klass)
{
    G_OBJECT_CLASS(klass)->finalize = device_finalize;
}

char *device_describe(Device *dev)
{
    const char *type = object_type_name(OBJECT(dev));

    return dev->id ? g_strdup_printf("%s '%s'", type, dev->id) : g_strdup(type);
}

/* Devices that a device is made of belong to the same machine; its globals may be meant for them. */
static bool prepare_device(Machine *machine, Device *dev, GError **errp)
{
    GPtrArray *children = OBJECT(dev)->children;

    dev->machine = machine;
    dev->hotplugged = machine->started;
    for (guint i = 0; children && i < children->len; i++) {
        Object *child = g_ptr_array_index(children, i);

        if (g_type_is_a(G_OBJECT_TYPE(child), TYPE_DEVICE) &&
            !prepare_device(machine, DEVICE(child), errp)) {
            return false;
        }
    }
    return machine_apply_globals(machine, OBJECT(dev), errp);
}

Device *device_new(Machine *machine, GType type, GError **errp)
{
    Device *dev = DEVICE(object_new(type, machine->root));

    if (!prepare_device(machine, dev, errp)) {
        g_object_unref(dev);
        return NULL;
    }
    return dev;
}

static void device_reset(void *opaque)
{
    Device *dev = opaque;

    DEVICE_GET_CLASS(dev)->reset(dev);
}

static bool device_attach(Device *dev, Bus *bus, GError **errp)
{
    DeviceClass *klass = DEVICE_GET_CLASS(dev);

    if (!klass->bus_type) {
        if (bus) {
            error_set(errp, "it sits on no bus, but 'bus' names '%s'", OBJECT(bus)->name);
        }
        return !bus;
    }
    if (!bus) {
        bus = bus_find_for(OBJECT(dev->machine), klass->bus_type);
        if (!bus) {
            error_set(errp, "no bus of type '%s' with a free place on this machine",
                      klass->bus_type);
            return false;
        }
    }
    if (!object_is_a(OBJECT(bus), klass->bus_type)) {
        error_set(errp, "it needs a bus of type '%s', and '%s' is a '%s'", klass->bus_type,
                  OBJECT(bus)->name, object_type_name(OBJECT(bus)));
        return false;
    }
    return bus_add_device(bus, dev, errp);
}

static bool device_add_to_tree(Device *dev, GError **errp)
{
    Machine *m = dev->machine;

    if (dev->id) {
        return object_add_child(machine_peripheral(m), dev->id, OBJECT(dev), errp);
    }
    object_add_child_numbered(dev->from_user ? machine_peripheral_anon(m) : machine_unattached(m),
                              "device", OBJECT(dev));
    return true;
}

static bool device_register_vmstate(Device *dev, GError **errp)
{
    DeviceClass *klass = DEVICE_GET_CLASS(dev);
    g_autofree char *place = NULL;
    g_autofree char *idstr = NULL;

    if (!klass->vmsd) {
        return true;
    }
    if (dev->bus && BUS_GET_CLASS(dev->bus)->device_path) {
        place = BUS_GET_CLASS(dev->bus)->device_path(dev->bus, dev);
    }
    idstr = g_strconcat(place ? place : "", place ? "/" : "", klass->vmsd->name, NULL);
    return vmstate_register(dev->machine->vmstate, idstr, VMSTATE_INSTANCE_ID_ANY,
                            klass->vmstate_priority, klass->vmsd, dev, errp);
}

/* The steps of realize; each failure undoes the steps before it. */
static bool device_realize_steps(Device *dev, Bus *bus, GError **errp)
{
    DeviceClass *klass = DEVICE_GET_CLASS(dev);

    if (!device_attach(dev, bus, errp)) {
        return false;
    }
    if (device_add_to_tree(dev, errp)) {
        if (!klass->realize || klass->realize(dev, errp)) {
            if (device_register_vmstate(dev, errp)) {
                return true;
            }
            if (klass->unrealize) {
                klass->unrealize(dev);
            }
        }
        object_unparent(OBJECT(dev));
    }
    if (dev->bus) {
        bus_remove_device(dev->bus, dev);
    }
    return false;
}

bool device_realize(Device *dev, Bus *bus, GError **errp)
{
    DeviceClass *klass = DEVICE_GET_CLASS(dev);

    if (!device_realize_steps(dev, bus, errp)) {
        g_autofree char *what = device_describe(dev);

        g_prefix_error(errp, "%s: ", what);
        return false;
    }
    if (klass->reset) {
        reset_register(dev->machine->resets, RESET_DEVICES, device_reset, dev);
        if (dev->hotplugged) {
            klass->reset(dev);
        }
    }
    dev->realized = true;
    OBJECT(dev)->completed = true;
    log_printf(LOG_DEVICE, "device_realize: type=%s id=%s", object_type_name(OBJECT(dev)),
               dev->id ? dev->id : "-");
    g_object_unref(dev);
    return true;
}

Device *device_create(Machine *machine, GType type, Bus *bus, GError **errp, ...)
{
    Device *dev = device_new(machine, type, errp);
    bool ok = dev != NULL;
    const char *name;
    va_list ap;

    va_start(ap, errp);
    while (ok && (name = va_arg(ap, const char *))) {
        ok = object_set_property_str(OBJECT(dev), name, va_arg(ap, const char *), errp);
    }
    va_end(ap);
    if (ok && device_realize(dev, bus, errp)) {
        return dev;
    }
    g_clear_object(&dev);
    return NULL;
}

/* Devices on the buses that obj provides go before it. */
static void unplug_below(Object *obj)
{
    for (guint i = 0; obj->children && i < obj->children->len; i++) {
        Object *child = g_ptr_array_index(obj->children, i);

        if (g_type_is_a(G_OBJECT_TYPE(child), TYPE_BUS)) {
            while (BUS(child)->devices->len > 0) {
                device_unplug(g_ptr_array_index(BUS(child)->devices, 0));
            }
        }
        unplug_below(child);
    }
}

void device_unplug(Device *dev)
{
    DeviceClass *klass = DEVICE_GET_CLASS(dev);

    unplug_below(OBJECT(dev));
    reset_unregister(dev->machine->resets, device_reset, dev);
    if (klass->vmsd) {
        vmstate_unregister(dev->machine->vmstate, klass->vmsd, dev);
    }
    if (klass->unrealize) {
        klass->unrealize(dev);
    }
    dev->realized = false;
    if (dev->bus) {
        bus_remove_device(dev->bus, dev);
    }
    object_unparent(OBJECT(dev));
}
