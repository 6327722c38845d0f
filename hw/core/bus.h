/*
 * Buses: what a device is plugged into.
 *
 * A bus is an object below the device that provides it ("/machine/i440fx/pci.0"). Devices on it are children of
 * other places of the tree (peripheral, unattached); the bus keeps a list of them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_CORE_BUS_H
#define COWBIRD_HW_CORE_BUS_H

#include "qom/object.h"

typedef struct _Device Device;

#define TYPE_BUS (bus_get_type())
QOM_DECLARE_TYPE(Bus, bus, BUS)

struct _Bus {
    Object parent_instance;
    Device *owner;      /* the device that provides the bus; NULL for a bus of the machine itself */
    GPtrArray *devices; /* of Device *, not references, in order of plugging */
};

struct _BusClass {
    ObjectClass parent_class;
    unsigned max_devices; /* 0: no limit */
    /* Checks and assigns the device's address; called before realize. May be NULL. */
    bool (*attach)(Bus *bus, Device *dev, GError **errp);
    /* Frees the address again. May be NULL. */
    void (*detach)(Bus *bus, Device *dev);
    /* Place of the device as it goes into names of saved state ("0000:00:03.0"), or NULL. g_free it. */
    char *(*device_path)(Bus *bus, Device *dev);
};

/*
 * Makes a bus of a type and puts it below parent (a Device, or the Machine) as child of that name. The tree
 * owns it. A name in use is a mistake of the program.
 */
Bus *bus_new(GType type, Object *parent, const char *name);
/* First bus below root that is of the named type (DeviceClass.bus_type) and not full; NULL: none. */
Bus *bus_find_for(Object *root, const char *bus_type);
/* Bus by name ("pci.0") anywhere below root, or NULL. */
Bus *bus_find(Object *root, const char *name);

/* Used by device.c only. */
bool bus_add_device(Bus *bus, Device *dev, GError **errp);
void bus_remove_device(Bus *bus, Device *dev);

#endif
