/*
 * virtio-balloon: features, configuration, properties, life cycle (virtio 1.2, 5.5).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/virtio/balloon-internal.h"

#include "accel/runstate.h"
#include "hw/core/machine.h"
#include "qapi/qapi-events.h"
#include "util/error.h"
#include "util/le.h"

#define QUEUE_SIZE 128
#define REPORTING_QUEUE_SIZE 32

QOM_DEFINE_TYPE(VirtioBalloon, virtio_balloon, "virtio-balloon-device", TYPE_VIRTIO_DEVICE)

/* --- Size --- */

static uint64_t guest_pages(const VirtioBalloon *b)
{
    return DEVICE((gpointer)b)->machine->ram_size >> INFLATE_PAGE_SHIFT;
}

static uint64_t actual_bytes(const VirtioBalloon *b)
{
    uint64_t pages = guest_pages(b);

    return (pages - MIN(pages, b->actual)) << INFLATE_PAGE_SHIFT;
}

static void set_actual(VirtioBalloon *b, uint32_t actual)
{
    if (actual != b->actual) {
        b->actual = actual;
        qapi_event_send_balloon_change(DEVICE(b)->machine->events, actual_bytes(b));
    }
}

void virtio_balloon_set_target(VirtioBalloon *b, uint64_t bytes)
{
    VirtioDevice *dev = VIRTIO_DEVICE(b);
    uint64_t pages = guest_pages(b);
    uint64_t keep = bytes / (1 << INFLATE_PAGE_SHIFT) + (bytes % (1 << INFLATE_PAGE_SHIFT) != 0);

    virtio_lock(dev);
    b->num_pages = MIN(pages - MIN(pages, keep), UINT32_MAX);
    /* While a state is awaited, the target and the registers are those that come with it. */
    if (runstate_get(DEVICE(b)->machine->runstate) != RUN_STATE_INMIGRATE) {
        virtio_config_changed(dev);
    }
    virtio_unlock(dev);
}

uint64_t virtio_balloon_actual(VirtioBalloon *b)
{
    uint64_t bytes;

    virtio_lock(VIRTIO_DEVICE(b));
    bytes = actual_bytes(b);
    virtio_unlock(VIRTIO_DEVICE(b));
    return bytes;
}

/* --- Configuration: little-endian for legacy drivers, too --- */

static size_t balloon_config_size(VirtioDevice *dev)
{
    VirtioBalloon *b = VIRTIO_BALLOON(dev);

    return b->qemu_4_0_config_size || b->page_poison ? BALLOON_CONFIG_SIZE : BALLOON_CONFIG_HINT_ID;
}

static void balloon_get_config(VirtioDevice *dev, uint8_t *config)
{
    VirtioBalloon *b = VIRTIO_BALLOON(dev);

    put_le32(config + BALLOON_CONFIG_NUM_PAGES, b->num_pages);
    put_le32(config + BALLOON_CONFIG_ACTUAL, b->actual);
    put_le32(config + BALLOON_CONFIG_HINT_ID, 0);
    put_le32(config + BALLOON_CONFIG_POISON, b->poison_value);
}

static void balloon_set_config(VirtioDevice *dev, const uint8_t *config)
{
    VirtioBalloon *b = VIRTIO_BALLOON(dev);

    set_actual(b, get_le32(config + BALLOON_CONFIG_ACTUAL));
    if (b->page_poison) {
        b->poison_value = get_le32(config + BALLOON_CONFIG_POISON);
    }
}

/* --- Queues --- */

/* What index 2 is depends on the driver: see BALLOON_QUEUE_STATS. */
static void stats_or_report(VirtioDevice *dev, VirtQueue *vq)
{
    if (virtio_has_feature(dev, BALLOON_F_STATS_VQ)) {
        balloon_receive_stats(dev, vq);
    } else if (virtio_has_feature(dev, BALLOON_F_PAGE_REPORTING)) {
        balloon_report(dev, vq);
    }
}

static void report_if_negotiated(VirtioDevice *dev, VirtQueue *vq)
{
    if (virtio_has_feature(dev, BALLOON_F_PAGE_REPORTING)) {
        balloon_report(dev, vq);
    }
}

static VirtQueueHandler *const handlers[BALLOON_QUEUES] = {
    [BALLOON_QUEUE_INFLATE] = balloon_inflate,
    [BALLOON_QUEUE_DEFLATE] = balloon_deflate,
    [BALLOON_QUEUE_STATS] = stats_or_report,
    [BALLOON_QUEUE_REPORTING_3] = report_if_negotiated,
    [BALLOON_QUEUE_REPORTING_4] = report_if_negotiated,
};

static void add_queues(VirtioBalloon *b)
{
    unsigned n = b->free_page_reporting ? BALLOON_QUEUES : BALLOON_QUEUE_REPORTING_3;

    for (unsigned i = 0; i < n; i++) {
        unsigned size = i < BALLOON_QUEUE_REPORTING_3 ? QUEUE_SIZE : REPORTING_QUEUE_SIZE;

        b->queues[i].vq = virtqueue_add(VIRTIO_DEVICE(b), size, handlers[i]);
    }
}

/* --- Life --- */

static bool balloon_realize(VirtioDevice *dev, GError **errp)
{
    VirtioBalloon *b = VIRTIO_BALLOON(dev);

    if (virtio_balloon_find(DEVICE(dev)->machine)) {
        error_set(errp, "a machine has at most one balloon");
        return false;
    }
    dev->host_features |=
        VIRTIO_FEATURE(BALLOON_F_MUST_TELL_HOST) | VIRTIO_FEATURE(BALLOON_F_STATS_VQ);
    if (b->deflate_on_oom) {
        dev->host_features |= VIRTIO_FEATURE(BALLOON_F_DEFLATE_ON_OOM);
    }
    if (b->page_poison) {
        dev->host_features |= VIRTIO_FEATURE(BALLOON_F_PAGE_POISON);
    }
    if (b->free_page_reporting) {
        dev->host_features |= VIRTIO_FEATURE(BALLOON_F_PAGE_REPORTING);
    }
    add_queues(b);
    balloon_stats_start(b);
    return true;
}

static void balloon_unrealize(VirtioDevice *dev)
{
    balloon_stats_end(VIRTIO_BALLOON(dev));
}

/* Another driver, or the same with other features: what it gave up before is unknown now. */
static void balloon_set_features(VirtioDevice *dev, uint64_t features)
{
    inflate_map_reset(VIRTIO_BALLOON(dev)->inflated);
}

static void balloon_queue_reset(VirtioDevice *dev, unsigned n)
{
    BalloonQueue *q = &VIRTIO_BALLOON(dev)->queues[n];

    if (q->elem) {
        virtqueue_discard(q->vq, g_steal_pointer(&q->elem));
    }
}

static void balloon_reset(VirtioDevice *dev)
{
    VirtioBalloon *b = VIRTIO_BALLOON(dev);

    for (unsigned i = 0; i < dev->n_queues; i++) {
        balloon_queue_reset(dev, i);
    }
    inflate_map_reset(b->inflated);
    b->stats_known = false;
    b->poison_value = 0;
    /* A guest that has forgotten its balloon uses all its memory. */
    set_actual(b, 0);
}

/* Buffers that are out are taken back: pages given back twice do no harm, statistics are not read twice. */
static void balloon_drain(VirtioDevice *dev)
{
    VirtioBalloon *b = VIRTIO_BALLOON(dev);

    for (unsigned i = 0; i < BALLOON_QUEUES; i++) {
        BalloonQueue *q = &b->queues[i];

        if (q->elem) {
            b->stats_known |=
                i == BALLOON_QUEUE_STATS && virtio_has_feature(dev, BALLOON_F_STATS_VQ);
            virtqueue_unpop(q->vq, g_steal_pointer(&q->elem));
        }
    }
}

/* --- State --- */

static bool balloon_post_load(void *opaque, int version, GError **errp)
{
    VirtioBalloon *b = opaque;

    /* What of its balloon was given back is in the chunks of memory; the rest is unknown. */
    inflate_map_reset(b->inflated);
    if (b->stats_interval && b->stats_timer) {
        vm_timer_set(b->stats_timer, vm_clock_now(DEVICE(b)->machine->clock));
    }
    return true;
}

static const VMStateDescription vmstate_balloon = {
    .name = "virtio-balloon-device",
    .version_id = 1,
    .minimum_version_id = 1,
    .post_load = balloon_post_load,
    .fields =
        (const VMStateField[]){ VMSTATE_UINT32(num_pages, VirtioBalloon),
                                VMSTATE_UINT32(actual, VirtioBalloon),
                                VMSTATE_UINT32(poison_value, VirtioBalloon),
                                VMSTATE_UINT64_ARRAY(stats, VirtioBalloon, BALLOON_STATS),
                                VMSTATE_INT64(stats_updated, VirtioBalloon),
                                VMSTATE_BOOL(stats_known, VirtioBalloon), VMSTATE_END_OF_LIST() },
};

/* --- Properties --- */

static const QomProperty balloon_properties[] = {
    { .name = "deflate-on-oom",
      .kind = QOM_BOOL,
      .offset = offsetof(VirtioBalloon, deflate_on_oom),
      .description = "a guest short of memory may take it from the balloon" },
    { .name = "free-page-reporting",
      .kind = QOM_BOOL,
      .offset = offsetof(VirtioBalloon, free_page_reporting),
      .description = "the guest reports its free pages, which go back to the host" },
    { .name = "page-poison",
      .kind = QOM_BOOL,
      .offset = offsetof(VirtioBalloon, page_poison),
      .def = true,
      .description = "the guest tells what it expects in pages that it gets back" },
    { .name = "qemu-4-0-config-size",
      .kind = QOM_BOOL,
      .offset = offsetof(VirtioBalloon, qemu_4_0_config_size),
      .description = "the configuration has all its fields even without page-poison" },
    { .name = "x-discard-policy",
      .kind = QOM_ENUM,
      .offset = offsetof(VirtioBalloon, discard_policy),
      .enum_type = &qapi_type_BalloonDiscardPolicy,
      .def = BALLOON_DISCARD_POLICY_REMAP,
      .description = "how copy-on-write memory is given back; dontneed is for measurements" },
    { .name = "guest-stats",
      .kind = QOM_CUSTOM,
      .type_name = "guest statistics",
      .get = balloon_get_stats,
      .description = "what the guest told last of its memory; 2^64-1: unknown" },
    { .name = "guest-stats-polling-interval",
      .kind = QOM_CUSTOM,
      .type_name = "int",
      .flags = QOM_PROP_LATE,
      .get = balloon_get_interval,
      .set = balloon_set_interval,
      .description = "seconds between questions for statistics; 0: never" },
    { .name = "ignored-pages",
      .kind = QOM_UINT64,
      .offset = offsetof(VirtioBalloon, ignored_pages),
      .flags = QOM_PROP_READ_ONLY,
      .description = "pages that the guest gave up though they are no RAM of it" },
    QOM_PROPERTY_END,
};

static void virtio_balloon_finalize(GObject *obj)
{
    balloon_stats_end(VIRTIO_BALLOON(obj));
    inflate_map_free(VIRTIO_BALLOON(obj)->inflated);
    G_OBJECT_CLASS(virtio_balloon_parent_class)->finalize(obj);
}

static void virtio_balloon_init(VirtioBalloon *b)
{
    b->inflated = inflate_map_new();
    balloon_stats_clear(b);
}

static void virtio_balloon_class_init(VirtioBalloonClass *klass)
{
    VirtioDeviceClass *vdc = VIRTIO_DEVICE_CLASS(klass);
    DeviceClass *dc = DEVICE_CLASS(klass);

    G_OBJECT_CLASS(klass)->finalize = virtio_balloon_finalize;
    qom_class_install(klass, balloon_properties);
    dc->desc = "balloon: memory goes from the guest to the host and back";
    vdc->device_id = VIRTIO_ID_BALLOON;
    vdc->config_size = BALLOON_CONFIG_SIZE;
    vdc->realize = balloon_realize;
    vdc->unrealize = balloon_unrealize;
    vdc->get_config_size = balloon_config_size;
    vdc->get_config = balloon_get_config;
    vdc->set_config = balloon_set_config;
    vdc->set_features = balloon_set_features;
    vdc->reset = balloon_reset;
    vdc->queue_reset = balloon_queue_reset;
    vdc->drain = balloon_drain;
    vdc->state = &vmstate_balloon;
}
