/*
 * QMP commands about chardevs.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "chardev/chardev.h"
#include "chardev/ringbuf.h"
#include "qapi/qapi-commands.h"
#include "util/error.h"

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

char *qmp_ringbuf_read(ChardevRegistry *registry, const RingbufReadArg *arg, GError **errp)
{
    Chardev *chr = chardev_get(registry, arg->device, errp);
    g_autoptr(GByteArray) bytes = NULL;

    if (!chr) {
        return NULL;
    }
    if (arg->size <= 0) {
        error_set(errp, "size must be greater than zero");
        return NULL;
    }
    bytes = chardev_ringbuf_take(chr, arg->size, errp);
    if (!bytes) {
        return NULL;
    }
    if (arg->has_format && arg->format == DATA_FORMAT_BASE64) {
        return g_base64_encode(bytes->data, bytes->len);
    }
    /* An empty array has no data. */
    return g_utf8_make_valid(bytes->data ? (const char *)bytes->data : "", bytes->len);
}
