/*
 * The null chardev: swallows everything.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "chardev/backend.h"

typedef struct ChardevNull {
    Chardev parent_instance;
} ChardevNull;

typedef struct ChardevNullClass {
    ChardevClass parent_class;
} ChardevNullClass;

QOM_DEFINE_TYPE(ChardevNull, chardev_null, "chardev-null", TYPE_CHARDEV)

static bool null_start(Chardev *chr, const ChardevOptions *options, FdStore *fds, GError **errp)
{
    chardev_peer_came(chr, -1, -1);
    return true;
}

static char *null_filename(Chardev *chr)
{
    return g_strdup("null");
}

static void chardev_null_init(ChardevNull *null)
{
}

static void chardev_null_class_init(ChardevNullClass *klass)
{
    ChardevClass *chardev = CHARDEV_CLASS(klass);

    chardev->start = null_start;
    chardev->filename = null_filename;
}
