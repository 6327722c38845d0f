/*
 * Buses: what a device is plugged into.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/core/bus.h"

#include "hw/core/device.h"
#include "util/error.h"

QOM_DEFINE_ABSTRACT_TYPE(Bus, bus, "bus", TYPE_OBJECT)

static void bus_finalize(GObject *gobj)
{
    g_ptr_array_unref(BUS(gobj)->devices);
    G_OBJECT_CLASS(bus_parent_class)->finalize(gobj);
}

static void bus_init(Bus *bus)
{
    bus->devices = g_ptr_array_new();
}

static void bus_class_init(BusClass *klass)
{
    G_OBJECT_CLASS(klass)->finalize = bus_finalize;
}

Bus *bus_new(GType type, Object *parent, const char *name)
{
    Bus *bus = BUS(object_new(type, parent->root));
    g_autoptr(GError) err = NULL;

    if (g_type_is_a(G_OBJECT_TYPE(parent), TYPE_DEVICE)) {
        bus->owner = DEVICE(parent);
    }
    if (!object_add_child(parent, name, OBJECT(bus), &err)) {
        g_error("bus_new: %s", err->message);
    }
    g_object_unref(bus);
    return bus;
}

static bool bus_is_full(Bus *bus)
{
    unsigned max = BUS_GET_CLASS(bus)->max_devices;

    return max && bus->devices->len >= max;
}

Bus *bus_find_for(Object *root, const char *bus_type)
{
    for (guint i = 0; root->children && i < root->children->len; i++) {
        Object *child = g_ptr_array_index(root->children, i);
        Bus *bus;

        if (g_type_is_a(G_OBJECT_TYPE(child), TYPE_BUS) && object_is_a(child, bus_type) &&
            !bus_is_full(BUS(child))) {
            return BUS(child);
        }
        bus = bus_find_for(child, bus_type);
        if (bus) {
            return bus;
        }
    }
    return NULL;
}

Bus *bus_find(Object *root, const char *name)
{
    Object *obj = object_find(root, name, TYPE_BUS);

    return obj ? BUS(obj) : NULL;
}

bool bus_add_device(Bus *bus, Device *dev, GError **errp)
{
    BusClass *klass = BUS_GET_CLASS(bus);

    if (bus_is_full(bus)) {
        error_set(errp, "Bus '%s' is full: it takes %u devices", OBJECT(bus)->name,
                  klass->max_devices);
        return false;
    }
    dev->bus = bus;
    if (klass->attach && !klass->attach(bus, dev, errp)) {
        dev->bus = NULL;
        return false;
    }
    g_ptr_array_add(bus->devices, dev);
    return true;
}

void bus_remove_device(Bus *bus, Device *dev)
{
    BusClass *klass = BUS_GET_CLASS(bus);

    if (klass->detach) {
        klass->detach(bus, dev);
    }
    g_ptr_array_remove(bus->devices, dev);
    dev->bus = NULL;
}
