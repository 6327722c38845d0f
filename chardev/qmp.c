/*
 * QMP commands about chardevs.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "chardev/chardev.h"
#include "qapi/qapi-commands.h"

static void add_info(void *user, Chardev *chr)
{
    GPtrArray *list = user;
    ChardevInfo *info = g_new0(ChardevInfo, 1);

    info->label = g_strdup(chardev_id(chr));
    info->filename = chardev_filename(chr);
    info->frontend_open = chardev_frontend_open(chr);
    g_ptr_array_add(list, info);
}

GPtrArray *qmp_query_chardev(ChardevRegistry *registry, GError **errp)
{
    GPtrArray *list = g_ptr_array_new();

    chardev_foreach(registry, add_info, list);
    return list;
}
