/*
 * Saved state of virtio devices: what the driver has set up, each queue's place in its ring, then the device's own.
 *
 * A device that is saved is at rest: no element is out and nothing is pushed and not shown, so one place in a ring is
 * the next to be taken and the next to be given back. What comes from a file is checked as what comes from a driver is.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/virtio/virtqueue-internal.h"

#include "util/error.h"

typedef struct SavedQueue {
    uint32_t size, pfn;
    uint64_t desc, driver, device;
    uint16_t place, vector;
    bool enabled, wrap, notification;
} SavedQueue;

/* Loading fills this in first, and the device only when all of it was found right. */
struct VirtioSaved {
    uint64_t guest_features;
    uint32_t config_generation, n_queues;
    uint8_t status;
    bool features_set, legacy, broken;
    SavedQueue queues[VIRTIO_QUEUE_MAX];
};

VirtioSaved *virtio_saved_new(void)
{
    return g_new0(VirtioSaved, 1);
}

/* --- Saving --- */

static SavedQueue save_queue(const VirtQueue *vq)
{
    /* What a broken device had in hand is lost until its driver resets it. */
    if (!vq->dev->broken && (vq->n_out || vq->n_pending)) {
        warn_report(
            "%s: queue %u is saved with %u requests that are not finished: a restored guest "
            "waits for them",
            virtio_name(vq->dev), vq->index, vq->n_out + vq->n_pending);
    }
    return (SavedQueue){
        .size = vq->size,
        .pfn = vq->pfn,
        .desc = vq->desc,
        .driver = vq->driver,
        .device = vq->device,
        .place = vq->last_avail,
        .vector = virtqueue_vector(vq),
        .enabled = vq->enabled,
        .wrap = vq->avail_wrap,
        .notification = vq->notification,
    };
}

static void common_pre_save(void *opaque)
{
    VirtioDevice *dev = opaque;
    VirtioSaved *s = dev->saved;

    virtio_lock(dev);
    *s = (VirtioSaved){
        .guest_features = dev->guest_features,
        .config_generation = dev->config_generation,
        .n_queues = dev->n_queues,
        .status = dev->status,
        .features_set = dev->features_set,
        .legacy = dev->legacy,
        .broken = dev->broken,
    };
    for (unsigned i = 0; i < dev->n_queues; i++) {
        s->queues[i] = save_queue(dev->queues[i]);
    }
    virtio_unlock(dev);
}

/* --- Loading --- */

static bool check_device(const VirtioDevice *dev, const VirtioSaved *s, GError **errp)
{
    uint64_t offered = virtio_offered_features(dev, s->legacy);

    if (s->guest_features & ~offered) {
        error_set(errp,
                  "the saved driver uses the features 0x%" G_GINT64_MODIFIER
                  "x, which this device does not offer: start it with the properties it had",
                  s->guest_features & ~offered);
        return false;
    }
    if (s->n_queues != dev->n_queues) {
        error_set(errp, "it had %u queues and has %u now: start it with the properties it had",
                  s->n_queues, dev->n_queues);
        return false;
    }
    if (!s->legacy && s->features_set != !!(s->status & VIRTIO_STATUS_FEATURES_OK)) {
        error_set(errp, "status 0x%x does not fit its features", s->status);
        return false;
    }
    if (!s->legacy && s->features_set &&
        !(s->guest_features & VIRTIO_FEATURE(VIRTIO_F_VERSION_1))) {
        error_set(errp, "its features 0x%" G_GINT64_MODIFIER "x lack VIRTIO_F_VERSION_1",
                  s->guest_features);
        return false;
    }
    if (!s->legacy && (s->status & VIRTIO_STATUS_DRIVER_OK) && !s->features_set) {
        error_set(errp, "status 0x%x has DRIVER_OK without FEATURES_OK", s->status);
        return false;
    }
    return true;
}

static void load_device(VirtioDevice *dev, const VirtioSaved *s)
{
    dev->guest_features = s->guest_features;
    dev->config_generation = s->config_generation;
    dev->status = s->status;
    dev->features_set = s->features_set;
    dev->legacy = s->legacy;
    dev->broken = s->broken;
}

/* The features are in place already: they decide on the layout. */
static bool load_queue(VirtQueue *vq, const SavedQueue *s, GError **errp)
{
    const char *wrong = NULL;

    virtqueue_reset_locked(vq);
    vq->size = s->size;
    vq->pfn = s->pfn;
    vq->desc = s->desc;
    vq->driver = s->driver;
    vq->device = s->device;
    vq->vector = s->vector;
    vq->notification = s->notification;
    if (s->size == 0 || s->size > vq->max_size) {
        wrong = "its size is impossible";
    } else if (s->enabled) {
        vq->ring = virtqueue_layout(vq->dev);
        wrong = virtqueue_check_registers(vq);
        if (!wrong && vq->ring == &virtqueue_packed && s->place >= s->size) {
            wrong = "its place is outside of the ring";
        }
    }
    if (wrong) {
        virtqueue_reset_locked(vq);
        error_set(errp, "queue %u: %s", vq->index, wrong);
        return false;
    }
    vq->enabled = s->enabled;
    vq->last_avail = vq->used = vq->avail_idx = s->place;
    vq->avail_wrap = vq->used_wrap = s->wrap;
    return true;
}

static bool common_post_load(void *opaque, int version, GError **errp)
{
    VirtioDevice *dev = opaque;
    VirtioDeviceClass *klass = VIRTIO_DEVICE_GET_CLASS(dev);
    bool ok = true;

    if (!check_device(dev, dev->saved, errp)) {
        return false;
    }
    virtio_lock(dev);
    if (klass->reset) {
        klass->reset(dev);
    }
    load_device(dev, dev->saved);
    for (unsigned i = 0; i < dev->n_queues && ok; i++) {
        ok = load_queue(dev->queues[i], &dev->saved->queues[i], errp);
    }
    if (ok && klass->set_features && (dev->features_set || dev->legacy)) {
        klass->set_features(dev, dev->guest_features);
    }
    virtio_unlock(dev);
    return ok;
}

/* --- Tables --- */

static const VMStateDescription vmstate_queue = {
    .name = "virtio/queue",
    .version_id = 1,
    .minimum_version_id = 1,
    .fields =
        (const VMStateField[]){
            VMSTATE_UINT32(size, SavedQueue), VMSTATE_UINT32(pfn, SavedQueue),
            VMSTATE_UINT64(desc, SavedQueue), VMSTATE_UINT64(driver, SavedQueue),
            VMSTATE_UINT64(device, SavedQueue), VMSTATE_UINT16(place, SavedQueue),
            VMSTATE_UINT16(vector, SavedQueue), VMSTATE_BOOL(enabled, SavedQueue),
            VMSTATE_BOOL(wrap, SavedQueue), VMSTATE_BOOL(notification, SavedQueue),
            VMSTATE_END_OF_LIST() },
};

static const VMStateDescription vmstate_saved = {
    .name = "virtio/saved",
    .version_id = 1,
    .minimum_version_id = 1,
    .fields =
        (const VMStateField[]){
            VMSTATE_UINT64(guest_features, VirtioSaved),
            VMSTATE_UINT32(config_generation, VirtioSaved), VMSTATE_UINT8(status, VirtioSaved),
            VMSTATE_BOOL(features_set, VirtioSaved), VMSTATE_BOOL(legacy, VirtioSaved),
            VMSTATE_BOOL(broken, VirtioSaved), VMSTATE_UINT32(n_queues, VirtioSaved),
            VMSTATE_STRUCT_VARRAY_UINT32(queues, VirtioSaved, n_queues, 0, vmstate_queue,
                                         SavedQueue),
            VMSTATE_END_OF_LIST() },
};

/* Its end makes the device what was saved, so that the class's own state is loaded into that. */
static const VMStateDescription vmstate_common = {
    .name = "virtio/common",
    .version_id = 1,
    .minimum_version_id = 1,
    .pre_save = common_pre_save,
    .post_load = common_post_load,
    .fields = (const VMStateField[]){ VMSTATE_STRUCT_POINTER(saved, VirtioDevice, vmstate_saved,
                                                             VirtioSaved),
                                      VMSTATE_END_OF_LIST() },
};

static const VMStateDescription *class_state(void *element)
{
    return VIRTIO_DEVICE_GET_CLASS(element)->state;
}

static bool has_class_state(void *opaque, int version)
{
    return class_state(opaque) != NULL;
}

/* Both parts are seen from the beginning of the device. */
const VMStateDescription vmstate_virtio_device = {
    .name = "virtio",
    .version_id = 1,
    .minimum_version_id = 1,
    .fields = (const VMStateField[]){ { .name = "common",
                                        .size = sizeof(VirtioDevice),
                                        .num = 1,
                                        .vmsd = &vmstate_common,
                                        .flags = VMS_STRUCT },
                                      { .name = "device",
                                        .size = sizeof(VirtioDevice),
                                        .num = 1,
                                        .choose = class_state,
                                        .flags = VMS_STRUCT,
                                        .field_exists = has_class_state },
                                      VMSTATE_END_OF_LIST() },
};
