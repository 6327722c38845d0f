/*
 * device_add and device_del, and the network back ends that there are none of.
 *
 * Only devices whose class says so come and go while the guest runs (ports of virtio-serial); none needs the guest's consent, so that
 * DEVICE_DELETED comes before the reply.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/core/device.h"
#include "qapi/qapi-commands.h"
#include "qapi/qapi-events.h"
#include "system/state.h"
#include "util/error.h"
#include "util/json.h"

/* A state that is being written names the devices that there are. */
static bool may_change(SystemState *state, const char *command, GError **errp)
{
    if (migration_is_saving(state->migration)) {
        error_set(errp, "%s: the guest's state is being saved: try again when that is done",
                  command);
        return false;
    }
    if (runstate_get(state->runstate) == RUN_STATE_INMIGRATE) {
        error_set(errp, "%s: the guest's state is being loaded: try again when that is done",
                  command);
        return false;
    }
    return true;
}

bool qmp_device_add(SystemState *state, json_object *args, GError **errp)
{
    g_autoptr(json_object) none = json_object_new_object();

    return may_change(state, "device_add", errp) &&
           device_new_from_json(state->machine, args ? args : none, errp) != NULL;
}

static Device *find_device(SystemState *state, const char *id, GError **errp)
{
    Object *obj = *id == '/' ? object_resolve(state->tree.root, id)
                             : object_get_child(machine_peripheral(state->machine), id);

    if (!obj || !g_type_is_a(G_OBJECT_TYPE(obj), TYPE_DEVICE) || !DEVICE(obj)->from_user) {
        error_set_class(errp, COWBIRD_ERROR_DEVICE_NOT_FOUND,
                        "there is no device '%s' that -device or device_add has made", id);
        return NULL;
    }
    return DEVICE(obj);
}

bool qmp_device_del(SystemState *state, const DeviceDelArg *arg, GError **errp)
{
    Device *dev = find_device(state, arg->id, errp);
    g_autofree char *id = NULL;
    g_autofree char *path = NULL;

    if (!dev || !may_change(state, "device_del", errp)) {
        return false;
    }
    if (!DEVICE_GET_CLASS(dev)->hotpluggable) {
        error_set(errp, "'%s' is a %s, which stays as long as the machine does", arg->id,
                  object_type_name(OBJECT(dev)));
        return false;
    }
    id = g_strdup(dev->id);
    path = object_path(OBJECT(dev));
    device_unplug(dev);
    qapi_event_send_device_deleted(state->events, id, path);
    return true;
}

static bool no_network(const char *command, GError **errp)
{
    error_set(errp, "%s: there are no network back ends and no network devices in this version",
              command);
    return false;
}

bool qmp_netdev_add(SystemState *state, json_object *args, GError **errp)
{
    return no_network("netdev_add", errp);
}

bool qmp_netdev_del(SystemState *state, const NetdevDelArg *arg, GError **errp)
{
    return no_network("netdev_del", errp);
}
