/*
 * The balloon of a machine by QMP: balloon, query-balloon.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/virtio/balloon-internal.h"

#include "hw/core/machine.h"
#include "qapi/qapi-commands.h"
#include "util/error.h"

static VirtioBalloon *find_below(Object *obj)
{
    for (guint i = 0; obj->children && i < obj->children->len; i++) {
        Object *child = obj->children->pdata[i];
        VirtioBalloon *found = find_below(child);

        if (found) {
            return found;
        }
        if (G_TYPE_CHECK_INSTANCE_TYPE(child, TYPE_VIRTIO_BALLOON) &&
            VIRTIO_BALLOON(child)->stats_timer) {
            return VIRTIO_BALLOON(child);
        }
    }
    return NULL;
}

VirtioBalloon *virtio_balloon_find(Machine *m)
{
    return find_below(OBJECT(m));
}

static VirtioBalloon *require_balloon(Machine *m, GError **errp)
{
    VirtioBalloon *b = virtio_balloon_find(m);

    if (!b) {
        error_set_class(errp, COWBIRD_ERROR_DEVICE_NOT_ACTIVE,
                        "the machine has no balloon: add one with -device virtio-balloon-pci");
    }
    return b;
}

bool qmp_balloon(Machine *m, const BalloonArg *arg, GError **errp)
{
    VirtioBalloon *b = require_balloon(m, errp);

    if (!b) {
        return false;
    }
    if (arg->value <= 0) {
        error_set(errp,
                  "balloon: value=%" G_GINT64_FORMAT " is no size that a guest can have: "
                  "use a number of bytes from 1",
                  arg->value);
        return false;
    }
    virtio_balloon_set_target(b, arg->value);
    return true;
}

BalloonInfo *qmp_query_balloon(Machine *m, GError **errp)
{
    VirtioBalloon *b = require_balloon(m, errp);
    BalloonInfo *info;

    if (!b) {
        return NULL;
    }
    info = g_new0(BalloonInfo, 1);
    info->actual = virtio_balloon_actual(b);
    return info;
}
