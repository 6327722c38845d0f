/*
 * What virtio-balloon is made of. Internal to hw/virtio/balloon*.c.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_VIRTIO_BALLOON_INTERNAL_H
#define COWBIRD_HW_VIRTIO_BALLOON_INTERNAL_H

#include "hw/timer/clock.h"
#include "hw/virtio/balloon.h"
#include "hw/virtio/virtqueue.h"
#include "memory/inflate-map.h"

/* Feature bits (5.5.3). */
enum {
    BALLOON_F_MUST_TELL_HOST = 0,
    BALLOON_F_STATS_VQ = 1,
    BALLOON_F_DEFLATE_ON_OOM = 2,
    BALLOON_F_FREE_PAGE_HINT = 3,
    BALLOON_F_PAGE_POISON = 4,
    BALLOON_F_PAGE_REPORTING = 5,
};

/* Configuration (5.5.4): offsets of its four le32, and its sizes without and with all of them. */
enum {
    BALLOON_CONFIG_NUM_PAGES = 0,
    BALLOON_CONFIG_ACTUAL = 4,
    BALLOON_CONFIG_HINT_ID = 8,
    BALLOON_CONFIG_POISON = 12,
    BALLOON_CONFIG_SIZE = 16,
};

/*
 * Queues by index. The specification gives reporting number 4. Linux counts only the queues whose features were
 * negotiated, so there it is 3, or 2 without statistics; QEMU has it at 3. Free page hints, the
 * specification's number 3, are never offered, so all three can be told apart by what was negotiated.
 */
enum {
    BALLOON_QUEUE_INFLATE,
    BALLOON_QUEUE_DEFLATE,
    BALLOON_QUEUE_STATS, /* or reporting */
    BALLOON_QUEUE_REPORTING_3,
    BALLOON_QUEUE_REPORTING_4,
    BALLOON_QUEUES,
};

/* The statistics there are tags for (5.5.6.3, and those of Linux 6.11). */
#define BALLOON_STATS 16
#define BALLOON_STAT_UNKNOWN UINT64_MAX

typedef struct BalloonQueue {
    VirtQueue *vq;
    VirtElement *elem; /* begun but not finished, or statistics waiting to be asked for again */
    uint64_t done;     /* of elem: bytes of page numbers, or segments */
} BalloonQueue;

struct _VirtioBalloon {
    VirtioDevice parent_instance;

    /* Properties. */
    bool deflate_on_oom, free_page_reporting, page_poison, qemu_4_0_config_size;
    int discard_policy; /* BalloonDiscardPolicy */

    /* Configuration. */
    uint32_t num_pages; /* that we want in the balloon */
    uint32_t actual;    /* that the driver says are */
    uint32_t poison_value;

    BalloonQueue queues[BALLOON_QUEUES];
    InflateMap *inflated;   /* pages in the balloon whose chunks are not given back yet */
    uint64_t ignored_pages; /* page numbers that are no RAM of the guest */

    /* Statistics. */
    uint64_t stats[BALLOON_STATS];
    int64_t stats_updated;   /* seconds since 1970; 0 = never */
    uint32_t stats_interval; /* seconds; 0 = not asked for */
    VmTimer *stats_timer;    /* NULL unless realized */
    bool
        stats_known; /* the buffer that is available has been read before: the VM was stopped meanwhile */
};

/* --- balloon-pages.c: handlers of queues --- */

void balloon_inflate(VirtioDevice *dev, VirtQueue *vq);
void balloon_deflate(VirtioDevice *dev, VirtQueue *vq);
void balloon_report(VirtioDevice *dev, VirtQueue *vq);

/* --- balloon-stats.c --- */

void balloon_receive_stats(VirtioDevice *dev, VirtQueue *vq);
/* In realize; in unrealize, or when the device goes without it. */
void balloon_stats_start(VirtioBalloon *b);
void balloon_stats_end(VirtioBalloon *b);
/* All values are unknown. */
void balloon_stats_clear(VirtioBalloon *b);
/* Properties guest-stats and guest-stats-polling-interval. */
json_object *balloon_get_stats(Object *obj, GError **errp);
json_object *balloon_get_interval(Object *obj, GError **errp);
bool balloon_set_interval(Object *obj, json_object *value, GError **errp);

#endif
