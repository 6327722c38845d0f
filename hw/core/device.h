/*
 * Devices: the life of what the guest sees.
 *
 * A device is made, given properties, and realized: from then on it is in the guest's address space, takes part
 * in reset, and its state is saved. A device file defines its state structure, its callbacks, its vmstate table, one
 * property table and, last, class_init, where every entry point is named.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_CORE_DEVICE_H
#define COWBIRD_HW_CORE_DEVICE_H

#include "hw/core/bus.h"
#include "hw/core/irq.h"
#include "qom/object.h"

typedef struct Machine Machine;
typedef struct VMStateDescription VMStateDescription;

#define TYPE_DEVICE (device_get_type())
QOM_DECLARE_TYPE(Device, device, DEVICE)

struct _Device {
    Object parent_instance;
    Machine *machine; /* set by device_new, not a reference */
    char *id;         /* given by the user, or NULL */
    Bus *bus;         /* NULL for a device that sits on no bus; not a reference */
    bool realized;
    bool from_user;  /* made by -device or device_add, not by the board */
    bool hotplugged; /* made after the machine was started */
};

struct _DeviceClass {
    ObjectClass parent_class;
    /* Takes the device into use: check properties, map registers. On failure undo what was done. */
    bool (*realize)(Device *dev, GError **errp);
    /* Undoes realize; NULL for a device that cannot be unplugged. */
    void (*unrealize)(Device *dev);
    /* Power-on state; all vCPUs are paused. May be NULL. */
    void (*reset)(Device *dev);
    /* State saved and restored, opaque = the instance; NULL: none. */
    const VMStateDescription *vmsd;
    int vmstate_priority; /* higher is restored earlier; 0 is usual */
    const char *bus_type; /* name of the kind of bus it needs ("isa-bus"), NULL: none */
    const char *desc;     /* one line for users */
    bool user_creatable;  /* by -device and device_add */
    bool hotpluggable;    /* by device_add and device_del while the guest runs */
};

/*
 * Makes a device and applies the -global settings of its type and parent types. Caller owns the reference
 * until device_realize puts it into the tree.
 */
Device *device_new(Machine *machine, GType type, GError **errp);
/*
 * Puts the device on the bus (NULL: the first fitting one if the class needs a bus), into the tree (below peripheral if
 * it has an id, else below peripheral-anon for one of the user and below unattached for a device of the board), realizes it, registers its saved state and its reset.
 * On failure nothing of it remains but the caller's reference. On success the tree holds the device and the
 * caller's reference is dropped: the pointer stays valid until the device is unplugged.
 */
bool device_realize(Device *dev, Bus *bus, GError **errp);
/* device_new + set the "name", value pairs by text (NULL ends) + device_realize; for boards. */
Device *device_create(Machine *machine, GType type, Bus *bus, GError **errp,
                      ...) G_GNUC_NULL_TERMINATED;
/* Unrealizes and removes a device from bus and tree. */
void device_unplug(Device *dev);
/*
 * -device and device_add: options with "driver", optional "id" and "bus", and properties. Values may be text as on
 * the command line. Not a reference.
 */
Device *device_new_from_json(Machine *machine, json_object *opts, GError **errp);

/* How errors call the device: "isa-serial 'serial0'" or "isa-serial". g_free it. */
char *device_describe(Device *dev);

#endif
