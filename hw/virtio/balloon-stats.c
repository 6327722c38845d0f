/*
 * Statistics of virtio-balloon's guest (virtio 1.2, 5.5.6.3).
 *
 * The driver hands over a buffer of statistics at once. It is read and kept until a timer gives it back, which
 * asks the driver for the next one. The timer runs in the VM's time: a stopped guest is not asked, and what it said before it stopped
 * stays, with the time at which it said it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/virtio/balloon-internal.h"

#include <inttypes.h>

#include "hw/core/machine.h"
#include "util/error.h"
#include "util/le.h"

#define STAT_SIZE 10 /* le16 tag, le64 value */
/* Read at most of one buffer; there is one of each tag. */
#define STATS_PER_BUFFER 64

/* Names that users see, by tag. Those from 10 on are sent by Linux 6.11 and later. */
static const char *const stat_names[BALLOON_STATS] = {
    "stat-swap-in",      "stat-swap-out",     "stat-major-faults",     "stat-minor-faults",
    "stat-free-memory",  "stat-total-memory", "stat-available-memory", "stat-disk-caches",
    "stat-htlb-pgalloc", "stat-htlb-pgfail",  "stat-oom-kills",        "stat-alloc-stalls",
    "stat-async-scans",  "stat-direct-scans", "stat-async-reclaims",   "stat-direct-reclaims",
};

void balloon_stats_clear(VirtioBalloon *b)
{
    for (unsigned i = 0; i < BALLOON_STATS; i++) {
        b->stats[i] = BALLOON_STAT_UNKNOWN;
    }
}

static void ask_in(VirtioBalloon *b, uint32_t seconds)
{
    if (b->stats_timer) {
        vm_timer_set(b->stats_timer,
                     vm_clock_now(DEVICE(b)->machine->clock) + seconds * CLOCK_NS_PER_SECOND);
    }
}

static void read_stats(VirtioBalloon *b, const VirtElement *elem)
{
    VirtioDevice *dev = VIRTIO_DEVICE(b);

    balloon_stats_clear(b);
    for (unsigned i = 0; i < STATS_PER_BUFFER; i++) {
        uint8_t stat[STAT_SIZE];
        uint16_t tag;

        if (virtelement_read(dev, elem, i * STAT_SIZE, stat, STAT_SIZE) < STAT_SIZE) {
            break;
        }
        tag = get_le16(stat);
        if (tag < BALLOON_STATS) {
            b->stats[tag] = get_le64(stat + 2);
        }
    }
    b->stats_updated = g_get_real_time() / G_USEC_PER_SEC;
    if (b->stats_interval) {
        ask_in(b, b->stats_interval);
    }
}

void balloon_receive_stats(VirtioDevice *dev, VirtQueue *vq)
{
    VirtioBalloon *b = VIRTIO_BALLOON(dev);
    BalloonQueue *q = &b->queues[virtqueue_index(vq)];
    VirtElement *elem;
    bool used = false;

    while ((elem = virtqueue_pop(vq))) {
        /* A driver has one buffer here; if there are two, the older one has served. */
        if (q->elem) {
            virtqueue_push(vq, q->elem, 0);
            used = true;
        }
        q->elem = elem;
        if (!b->stats_known) {
            read_stats(b, elem);
        }
        b->stats_known = false;
    }
    if (dev->broken && q->elem) {
        virtqueue_discard(vq, g_steal_pointer(&q->elem));
    }
    if (used) {
        virtqueue_flush(vq);
    }
}

static void on_timer(void *opaque)
{
    VirtioBalloon *b = opaque;
    VirtioDevice *dev = VIRTIO_DEVICE(b);
    BalloonQueue *q = &b->queues[BALLOON_QUEUE_STATS];

    virtio_lock(dev);
    if (q->elem && virtio_has_feature(dev, BALLOON_F_STATS_VQ) && virtio_is_active(dev) &&
        virtqueue_ready(q->vq)) {
        virtqueue_push(q->vq, g_steal_pointer(&q->elem), 0);
        virtqueue_flush(q->vq);
    } else if (b->stats_interval) {
        ask_in(b, b->stats_interval);
    }
    virtio_unlock(dev);
}

void balloon_stats_start(VirtioBalloon *b)
{
    b->stats_timer = vm_timer_new(DEVICE(b)->machine->clock, on_timer, b);
    if (b->stats_interval) {
        ask_in(b, 0);
    }
}

void balloon_stats_end(VirtioBalloon *b)
{
    g_clear_pointer(&b->stats_timer, vm_timer_free);
}

json_object *balloon_get_stats(Object *obj, GError **errp)
{
    VirtioBalloon *b = VIRTIO_BALLOON(obj);
    json_object *ret = json_object_new_object();
    json_object *stats = json_object_new_object();

    virtio_lock(VIRTIO_DEVICE(b));
    for (unsigned i = 0; i < BALLOON_STATS; i++) {
        json_object_object_add(stats, stat_names[i], json_object_new_uint64(b->stats[i]));
    }
    json_object_object_add(ret, "stats", stats);
    json_object_object_add(ret, "last-update", json_object_new_int64(b->stats_updated));
    virtio_unlock(VIRTIO_DEVICE(b));
    return ret;
}

json_object *balloon_get_interval(Object *obj, GError **errp)
{
    return json_object_new_int64(VIRTIO_BALLOON(obj)->stats_interval);
}

/* A number, or text as on a command line. */
static bool parse_interval(json_object *value, int64_t *ret)
{
    const char *text;
    char *end;

    if (json_object_is_type(value, json_type_int)) {
        *ret = json_object_get_int64(value);
        return true;
    }
    if (!json_object_is_type(value, json_type_string)) {
        return false;
    }
    text = json_object_get_string(value);
    *ret = g_ascii_strtoll(text, &end, 10);
    return end != text && *end == '\0';
}

bool balloon_set_interval(Object *obj, json_object *value, GError **errp)
{
    VirtioBalloon *b = VIRTIO_BALLOON(obj);
    int64_t seconds;
    uint32_t before;

    if (!parse_interval(value, &seconds) || seconds < 0 || seconds > UINT32_MAX) {
        error_set(errp,
                  "guest-stats-polling-interval=%s: use a number of seconds from 0 (never) to "
                  "%" PRIu32,
                  json_object_to_json_string(value), UINT32_MAX);
        return false;
    }
    virtio_lock(VIRTIO_DEVICE(b));
    before = b->stats_interval;
    b->stats_interval = seconds;
    if (b->stats_timer && before != seconds) {
        if (seconds == 0) {
            vm_timer_cancel(b->stats_timer);
        } else {
            /* The first one is asked for at once. */
            ask_in(b, before == 0 ? 0 : seconds);
        }
    }
    virtio_unlock(VIRTIO_DEVICE(b));
    return true;
}
