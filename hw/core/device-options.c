/*
 * Devices from the options of -device and device_add.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/core/device.h"

#include "hw/core/machine.h"
#include "util/error.h"
#include "util/json.h"

/* An id: a letter, then letters, digits and "-._", as everywhere on the command line. */
static bool id_is_valid(const char *id)
{
    if (!g_ascii_isalpha(*id)) {
        return false;
    }
    while (*++id) {
        if (!g_ascii_isalnum(*id) && *id != '-' && *id != '.' && *id != '_') {
            return false;
        }
    }
    return true;
}

/* Text member of opts; *ret stays NULL if it is absent, another kind of value is an error. */
static bool get_text(json_object *opts, const char *key, const char **ret, GError **errp)
{
    json_object *value;

    if (!json_object_object_get_ex(opts, key, &value)) {
        return true;
    }
    if (!json_is_text(value)) {
        error_set(errp, "'%s' must be a string without NUL, not %s", key,
                  json_object_to_json_string(value));
        return false;
    }
    *ret = json_object_get_string(value);
    return true;
}

static Device *make_device(Machine *machine, const char *driver, GError **errp)
{
    GType type = qom_type_require(machine->types, driver, TYPE_DEVICE, errp);
    DeviceClass *klass;
    Device *dev = NULL;

    if (!type) {
        return NULL;
    }
    klass = g_type_class_ref(type);
    if (G_TYPE_IS_ABSTRACT(type) || !klass->user_creatable) {
        error_set(errp, "'%s' is part of a board and cannot be added", driver);
    } else if (machine->started && !klass->hotpluggable) {
        error_set(errp, "'%s' cannot be added to a running machine: give it to -device at start",
                  driver);
    } else {
        dev = device_new(machine, type, errp);
    }
    g_type_class_unref(klass);
    return dev;
}

static bool find_bus(Machine *machine, const char *name, Bus **ret_bus, GError **errp)
{
    if (name) {
        *ret_bus = bus_find(OBJECT(machine), name);
        if (!*ret_bus) {
            error_set(errp, "there is no bus '%s' on this machine", name);
            return false;
        }
    }
    return true;
}

Device *device_new_from_json(Machine *machine, json_object *opts, GError **errp)
{
    static const char *const skip[] = { "driver", "id", "bus", NULL };
    const char *driver = NULL, *id = NULL, *bus_name = NULL;
    Bus *bus = NULL;
    Device *dev;

    if (!get_text(opts, "driver", &driver, errp) || !get_text(opts, "id", &id, errp) ||
        !get_text(opts, "bus", &bus_name, errp)) {
        return NULL;
    }
    if (!driver) {
        error_set(errp, "'driver' (the type of the device) is missing");
        return NULL;
    }
    if (id && !id_is_valid(id)) {
        error_set(errp,
                  "%s: '%s' is no id: it begins with a letter and has letters, digits "
                  "and '-', '.', '_' only",
                  driver, id);
        return NULL;
    }
    if (!find_bus(machine, bus_name, &bus, errp)) {
        return NULL;
    }
    dev = make_device(machine, driver, errp);
    if (!dev) {
        return NULL;
    }
    dev->id = g_strdup(id);
    dev->from_user = true;
    if (!object_set_properties_json(OBJECT(dev), opts, skip, errp) ||
        !device_realize(dev, bus, errp)) {
        g_object_unref(dev);
        return NULL;
    }
    return dev;
}
