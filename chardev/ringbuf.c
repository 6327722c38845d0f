/*
 * The ringbuf chardev: the last bytes written, kept in memory until ringbuf-read takes them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "chardev/ringbuf.h"

#include <string.h>

#include "chardev/backend.h"
#include "util/error.h"
#include "util/units.h"

#define DEFAULT_SIZE (64 * KiB)
#define MAX_SIZE (256 * MiB)

typedef struct ChardevRingbuf {
    Chardev parent_instance;
    uint8_t *data;
    uint64_t size;           /* a power of two */
    uint64_t written, taken; /* totals; written - taken <= size */
} ChardevRingbuf;

typedef struct ChardevRingbufClass {
    ChardevClass parent_class;
} ChardevRingbufClass;

QOM_DEFINE_TYPE(ChardevRingbuf, chardev_ringbuf, "chardev-ringbuf", TYPE_CHARDEV)

static bool ringbuf_start(Chardev *chr, const ChardevOptions *options, FdStore *fds, GError **errp)
{
    ChardevRingbuf *ring = (ChardevRingbuf *)chr;
    const ChardevRingbufOptions *opts = &options->u.ringbuf;

    ring->size = opts->has_size ? opts->size : DEFAULT_SIZE;
    if (ring->size == 0 || ring->size > MAX_SIZE || (ring->size & (ring->size - 1))) {
        error_set(errp, "Chardev '%s': size=%" G_GUINT64_FORMAT " is not a power of two up to 256M",
                  options->id, ring->size);
        return false;
    }
    ring->data = g_malloc(ring->size);
    chardev_peer_came(chr, -1, -1);
    return true;
}

static ssize_t ringbuf_send(Chardev *chr, const void *data, size_t len)
{
    ChardevRingbuf *ring = (ChardevRingbuf *)chr;
    const uint8_t *bytes = data;

    for (size_t i = 0; i < len; i++) {
        ring->data[ring->written++ & (ring->size - 1)] = bytes[i];
    }
    if (ring->written - ring->taken > ring->size) {
        ring->taken = ring->written - ring->size;
    }
    return (ssize_t)len;
}

GByteArray *chardev_ringbuf_take(Chardev *chr, uint64_t max, GError **errp)
{
    ChardevRingbuf *ring = (ChardevRingbuf *)chr;
    GByteArray *out;

    if (G_OBJECT_TYPE(chr) != chardev_ringbuf_get_type()) {
        error_set(errp, "Chardev '%s' is a %s, not a ringbuf", chardev_id(chr),
                  object_type_name(OBJECT(chr)));
        return NULL;
    }
    out = g_byte_array_new();
    g_mutex_lock(&chr->lock);
    while (ring->taken < ring->written && out->len < max) {
        g_byte_array_append(out, &ring->data[ring->taken++ & (ring->size - 1)], 1);
    }
    g_mutex_unlock(&chr->lock);
    return out;
}

static char *ringbuf_filename(Chardev *chr)
{
    return g_strdup("ringbuf");
}

static void chardev_ringbuf_finalize(GObject *obj)
{
    g_free(((ChardevRingbuf *)obj)->data);
    G_OBJECT_CLASS(chardev_ringbuf_parent_class)->finalize(obj);
}

static void chardev_ringbuf_init(ChardevRingbuf *ring)
{
}

static void chardev_ringbuf_class_init(ChardevRingbufClass *klass)
{
    ChardevClass *chardev = CHARDEV_CLASS(klass);

    G_OBJECT_CLASS(klass)->finalize = chardev_ringbuf_finalize;
    chardev->start = ringbuf_start;
    chardev->send = ringbuf_send;
    chardev->filename = ringbuf_filename;
}
