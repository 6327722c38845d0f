/*
 * virtio devices: life, status, features, configuration, doorbells, and rest while the VM is stopped.
 *
 * Each device has one event source in the context of its thread. Its file descriptors are the eventfds of doorbells that
 * make no exit; a doorbell that does, and a queue that used up its budget, are a bit in `kicked` and the source's ready
 * time.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/virtio/virtio.h"

#include "accel/runstate.h"
#include "hw/core/iothread.h"
#include "hw/core/machine.h"
#include "hw/virtio/virtqueue-internal.h"
#include "util/error.h"
#include "util/log.h"

#include <string.h>
#include <unistd.h>

/* Devices rest before the clocks (0) stop, as their last interrupts belong to the time before. */
#define RUN_PRIORITY 100

/* Bits of only one of the two interfaces (6.3). */
#define LEGACY_FEATURES \
    (VIRTIO_FEATURE(VIRTIO_F_NOTIFY_ON_EMPTY) | VIRTIO_FEATURE(VIRTIO_F_ANY_LAYOUT))
#define MODERN_FEATURES                                                              \
    (VIRTIO_FEATURE(VIRTIO_F_VERSION_1) | VIRTIO_FEATURE(VIRTIO_F_ACCESS_PLATFORM) | \
     VIRTIO_FEATURE(VIRTIO_F_RING_PACKED) | VIRTIO_FEATURE(VIRTIO_F_RING_RESET))

QOM_DEFINE_ABSTRACT_TYPE(VirtioDevice, virtio_device, "virtio-device", TYPE_DEVICE)

void virtio_lock(VirtioDevice *dev)
{
    g_mutex_lock(&dev->lock);
}

void virtio_unlock(VirtioDevice *dev)
{
    g_mutex_unlock(&dev->lock);
}

bool virtio_has_feature(const VirtioDevice *dev, unsigned bit)
{
    return dev->guest_features & VIRTIO_FEATURE(bit);
}

bool virtio_is_active(const VirtioDevice *dev)
{
    return dev->active;
}

GMainContext *virtio_context(VirtioDevice *dev)
{
    return dev->iothread ? iothread_context(dev->iothread) : NULL;
}

const char *virtio_name(VirtioDevice *dev)
{
    return dev->label ? dev->label : object_type_name(OBJECT(dev));
}

/* --- What the driver is told --- */

/* Big lock held. */
static void notify_config(VirtioDevice *dev)
{
    if ((dev->legacy || (dev->status & VIRTIO_STATUS_DRIVER_OK)) && dev->transport.notify_config) {
        dev->transport.notify_config(dev->transport.opaque);
    }
}

void virtio_config_changed(VirtioDevice *dev)
{
    __atomic_fetch_add(&dev->config_generation, 1, __ATOMIC_RELEASE);
    notify_config(dev);
}

static gboolean notify_config_later(gpointer opaque)
{
    VirtioDevice *dev = opaque;

    if (dev->source) {
        notify_config(dev);
    }
    return G_SOURCE_REMOVE;
}

/* An iothread does not hold the big lock, which the transport wants: the main loop does. */
static void tell_broken(VirtioDevice *dev)
{
    g_autoptr(GSource) source = NULL;

    if (!dev->iothread || !iothread_is_current(dev->iothread)) {
        notify_config(dev);
        return;
    }
    source = g_idle_source_new();
    g_source_set_priority(source, G_PRIORITY_DEFAULT);
    g_source_set_callback(source, notify_config_later, g_object_ref(dev), g_object_unref);
    g_source_attach(source, NULL);
}

void virtio_error(VirtioDevice *dev, const char *fmt, ...)
{
    g_autofree char *text = NULL;
    va_list ap;

    if (dev->broken) {
        return;
    }
    va_start(ap, fmt);
    text = g_strdup_vprintf(fmt, ap);
    va_end(ap);
    log_printf(LOG_GUEST_ERROR, "%s: %s; the device stands still until the driver resets it",
               virtio_name(dev), text);
    dev->broken = true;
    /* 2.1.2: legacy drivers know no such bit. */
    if (virtio_has_feature(dev, VIRTIO_F_VERSION_1)) {
        dev->status |= VIRTIO_STATUS_NEEDS_RESET;
        tell_broken(dev);
    }
}

/* --- Queues at work --- */

static void run_queue(VirtioDevice *dev, VirtQueue *vq)
{
    if (!dev->active || !virtqueue_ready(vq)) {
        return;
    }
    vq->budget = VIRTQUEUE_BUDGET;
    vq->again = false;
    vq->in_handler = true;
    vq->handler(dev, vq);
    vq->in_handler = false;
    if (vq->again) {
        virtio_queue_schedule(vq);
    }
}

void virtio_queue_schedule(VirtQueue *vq)
{
    VirtioDevice *dev = vq->dev;

    __atomic_fetch_or(&dev->kicked, UINT64_C(1) << vq->index, __ATOMIC_SEQ_CST);
    g_source_set_ready_time(dev->source, 0);
}

void virtio_kick(VirtioDevice *dev, unsigned n)
{
    if (n >= dev->n_queues) {
        return;
    }
    virtio_lock(dev);
    if (dev->iothread) {
        virtio_queue_schedule(dev->queues[n]);
    } else {
        run_queue(dev, dev->queues[n]);
    }
    virtio_unlock(dev);
}

/* Every queue, as the driver's doorbells until now may have been passed over. Lock held. */
static void run_all_queues(VirtioDevice *dev)
{
    for (unsigned i = 0; i < dev->n_queues; i++) {
        if (dev->iothread) {
            virtio_queue_schedule(dev->queues[i]);
        } else {
            run_queue(dev, dev->queues[i]);
        }
    }
}

typedef struct KickSource {
    GSource source;
    VirtioDevice *dev; /* not a reference: the device waits for the last dispatch before it goes */
} KickSource;

/* Queues whose eventfds were signalled, as bits. */
static uint64_t take_signals(GSource *source, VirtioDevice *dev)
{
    uint64_t bits = 0;

    for (unsigned i = 0; i < dev->n_queues; i++) {
        VirtQueue *vq = dev->queues[i];
        gpointer tag = __atomic_load_n(&vq->notifier_tag, __ATOMIC_ACQUIRE);
        uint64_t count;

        if (tag && (g_source_query_unix_fd(source, tag) & G_IO_IN) &&
            read(vq->notifier, &count, sizeof(count)) == sizeof(count)) {
            bits |= UINT64_C(1) << i;
        }
    }
    return bits;
}

static gboolean kick_dispatch(GSource *source, GSourceFunc callback, gpointer user_data)
{
    VirtioDevice *dev = ((KickSource *)source)->dev;
    uint64_t bits;

    g_source_set_ready_time(source, -1);
    bits = take_signals(source, dev) | __atomic_exchange_n(&dev->kicked, 0, __ATOMIC_SEQ_CST);
    virtio_lock(dev);
    for (unsigned i = 0; i < dev->n_queues; i++) {
        if (bits >> i & 1) {
            run_queue(dev, dev->queues[i]);
        }
    }
    virtio_unlock(dev);
    return G_SOURCE_CONTINUE;
}

static GSourceFuncs kick_source_funcs = { .dispatch = kick_dispatch };

static void make_source(VirtioDevice *dev)
{
    dev->source = g_source_new(&kick_source_funcs, sizeof(KickSource));
    ((KickSource *)dev->source)->dev = dev;
    g_source_set_name(dev->source, "virtio doorbells");
    g_source_attach(dev->source, virtio_context(dev));
}

gpointer virtio_watch_notifier(VirtioDevice *dev, int fd)
{
    return g_source_add_unix_fd(dev->source, fd, G_IO_IN);
}

/* --- Rest --- */

static void begin_rest(VirtioDevice *dev)
{
    VirtioDeviceClass *klass = VIRTIO_DEVICE_GET_CLASS(dev);

    if (klass->drain) {
        klass->drain(dev);
    }
    for (unsigned i = 0; i < dev->n_queues; i++) {
        virtqueue_flush(dev->queues[i]);
    }
    dev->active = false;
}

static void end_rest(VirtioDevice *dev)
{
    VirtioDeviceClass *klass = VIRTIO_DEVICE_GET_CLASS(dev);

    dev->active = true;
    if (klass->resume) {
        klass->resume(dev);
    }
    for (unsigned i = 0; i < dev->n_queues; i++) {
        virtqueue_flush(dev->queues[i]);
    }
    run_all_queues(dev);
}

/*
 * The lock is held while a handler runs, on whatever thread; so once it is had here none runs, and none
 * will, as active is looked at under it.
 */
static void update_active(VirtioDevice *dev)
{
    bool active = dev->running && dev->dma_allowed;

    virtio_lock(dev);
    if (active && !dev->active) {
        end_rest(dev);
    } else if (!active && dev->active) {
        begin_rest(dev);
    }
    virtio_unlock(dev);
}

static void follow_run_state(void *opaque, bool running, RunState state)
{
    VirtioDevice *dev = opaque;

    dev->running = running;
    update_active(dev);
}

void virtio_set_dma_allowed(VirtioDevice *dev, bool allowed)
{
    dev->dma_allowed = allowed;
    update_active(dev);
}

/* --- Configuration --- */

size_t virtio_config_size(VirtioDevice *dev)
{
    VirtioDeviceClass *klass = VIRTIO_DEVICE_GET_CLASS(dev);

    return klass->get_config_size ? klass->get_config_size(dev) : klass->config_size;
}

/* Bytes of an access that lie in the configuration. */
static size_t config_part(VirtioDevice *dev, unsigned offset, unsigned len)
{
    size_t size = virtio_config_size(dev);

    return offset < size ? MIN(len, size - offset) : 0;
}

static void get_config(VirtioDevice *dev)
{
    VirtioDeviceClass *klass = VIRTIO_DEVICE_GET_CLASS(dev);

    memset(dev->config, 0, klass->config_size);
    if (klass->get_config) {
        klass->get_config(dev, dev->config);
    }
}

void virtio_config_read(VirtioDevice *dev, unsigned offset, void *buf, unsigned len)
{
    size_t n = config_part(dev, offset, len);

    memset(buf, 0, len);
    if (n > 0) {
        virtio_lock(dev);
        get_config(dev);
        memcpy(buf, dev->config + offset, n);
        virtio_unlock(dev);
    }
}

void virtio_config_write(VirtioDevice *dev, unsigned offset, const void *buf, unsigned len)
{
    VirtioDeviceClass *klass = VIRTIO_DEVICE_GET_CLASS(dev);
    size_t n = config_part(dev, offset, len);

    if (n > 0 && klass->set_config) {
        virtio_lock(dev);
        get_config(dev);
        memcpy(dev->config + offset, buf, n);
        klass->set_config(dev, dev->config);
        virtio_unlock(dev);
    }
}

/* --- Features and status --- */

uint64_t virtio_offered_features(const VirtioDevice *dev, bool legacy)
{
    return dev->host_features & ~(legacy ? MODERN_FEATURES : LEGACY_FEATURES);
}

static bool any_queue_enabled(const VirtioDevice *dev)
{
    for (unsigned i = 0; i < dev->n_queues; i++) {
        if (dev->queues[i]->enabled) {
            return true;
        }
    }
    return false;
}

static void take_features(VirtioDevice *dev)
{
    VirtioDeviceClass *klass = VIRTIO_DEVICE_GET_CLASS(dev);

    if (klass->set_features) {
        klass->set_features(dev, dev->guest_features);
    }
}

/* Features and queues of the modern interface have no meaning in the legacy one, and a saved device must not have both. */
void virtio_use_legacy(VirtioDevice *dev)
{
    virtio_lock(dev);
    if (dev->features_set || any_queue_enabled(dev)) {
        if (!dev->legacy) {
            log_printf(LOG_GUEST_ERROR,
                       "%s: the driver goes on with the legacy interface without a reset",
                       virtio_name(dev));
        }
    } else if (!dev->legacy) {
        dev->guest_features = 0;
        dev->legacy = true;
    }
    virtio_unlock(dev);
}

void virtio_set_features(VirtioDevice *dev, uint64_t features)
{
    uint64_t offered = virtio_offered_features(dev, dev->legacy);

    virtio_lock(dev);
    if (features & ~offered) {
        log_printf(LOG_GUEST_ERROR,
                   "%s: the driver accepts the features 0x%" G_GINT64_MODIFIER
                   "x, which are not offered",
                   virtio_name(dev), features & ~offered);
    }
    if (dev->features_set || any_queue_enabled(dev)) {
        log_printf(LOG_GUEST_ERROR, "%s: the driver changes features when it is too late",
                   virtio_name(dev));
    } else {
        dev->guest_features = features & offered;
        if (dev->legacy) {
            take_features(dev);
        }
    }
    virtio_unlock(dev);
}

/* Features are final from FEATURES_OK on, if we can serve them (3.1.1): outside of the legacy interface VERSION_1 is needed. */
static bool accept_features(VirtioDevice *dev)
{
    if (dev->features_set) {
        return true;
    }
    if (!dev->legacy && !virtio_has_feature(dev, VIRTIO_F_VERSION_1)) {
        log_printf(LOG_GUEST_ERROR, "%s: the driver does not accept VIRTIO_F_VERSION_1",
                   virtio_name(dev));
        return false;
    }
    dev->features_set = true;
    take_features(dev);
    return true;
}

static void change_status(VirtioDevice *dev, uint8_t status)
{
    VirtioDeviceClass *klass = VIRTIO_DEVICE_GET_CLASS(dev);
    uint8_t before = dev->status;

    /* NEEDS_RESET is ours; outside of the legacy interface bits are only ever added (2.1.1). */
    status = (uint8_t)(status & ~VIRTIO_STATUS_NEEDS_RESET) | (before & VIRTIO_STATUS_NEEDS_RESET);
    if (!dev->legacy) {
        status |= before;
    }
    if ((status & VIRTIO_STATUS_FEATURES_OK) && !accept_features(dev)) {
        status &= ~VIRTIO_STATUS_FEATURES_OK;
    }
    if ((status & VIRTIO_STATUS_DRIVER_OK) && !dev->legacy && !dev->features_set) {
        log_printf(LOG_GUEST_ERROR, "%s: DRIVER_OK without FEATURES_OK", virtio_name(dev));
        status &= ~VIRTIO_STATUS_DRIVER_OK;
    }
    dev->status = status;
    if (klass->set_status) {
        klass->set_status(dev, status);
    }
    if (dev->active && (status & ~before & VIRTIO_STATUS_DRIVER_OK)) {
        run_all_queues(dev);
    }
}

void virtio_set_status(VirtioDevice *dev, uint8_t status)
{
    if (status == 0) {
        virtio_reset(dev);
        return;
    }
    virtio_lock(dev);
    change_status(dev, status);
    virtio_unlock(dev);
}

void virtio_reset(VirtioDevice *dev)
{
    VirtioDeviceClass *klass = VIRTIO_DEVICE_GET_CLASS(dev);

    virtio_lock(dev);
    if (klass->reset) {
        klass->reset(dev);
    }
    for (unsigned i = 0; i < dev->n_queues; i++) {
        virtqueue_reset_locked(dev->queues[i]);
    }
    __atomic_store_n(&dev->kicked, 0, __ATOMIC_SEQ_CST);
    dev->status = 0;
    dev->guest_features = 0;
    dev->features_set = false;
    dev->legacy = false;
    dev->broken = false;
    virtio_unlock(dev);
}

/* --- Life --- */

void virtio_set_transport(VirtioDevice *dev, const VirtioTransport *transport)
{
    dev->transport = *transport;
}

static void offer_common_features(VirtioDevice *dev)
{
    const struct {
        bool on;
        unsigned bit;
    } features[] = {
        { dev->indirect_desc, VIRTIO_F_INDIRECT_DESC },
        { dev->event_idx, VIRTIO_F_EVENT_IDX },
        { dev->notify_on_empty, VIRTIO_F_NOTIFY_ON_EMPTY },
        { dev->any_layout, VIRTIO_F_ANY_LAYOUT },
        { dev->packed, VIRTIO_F_RING_PACKED },
        { dev->queue_reset, VIRTIO_F_RING_RESET },
        { true, VIRTIO_F_VERSION_1 },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(features); i++) {
        if (features[i].on) {
            dev->host_features |= VIRTIO_FEATURE(features[i].bit);
        }
    }
}

/* The user knows the device by its transport. */
static char *make_label(VirtioDevice *dev)
{
    Object *parent = OBJECT(dev)->parent;
    bool has_transport = parent && G_TYPE_CHECK_INSTANCE_TYPE(parent, TYPE_DEVICE);

    return device_describe(has_transport ? DEVICE(parent) : DEVICE(dev));
}

/* No handler runs when it returns, and none will. */
static void drop_source(VirtioDevice *dev)
{
    if (!dev->source) {
        return;
    }
    g_source_destroy(dev->source);
    if (dev->iothread) {
        iothread_wait_idle(dev->iothread);
        iothread_unuse(dev->iothread);
    }
    g_clear_pointer(&dev->source, g_source_unref);
}

static void free_queues(VirtioDevice *dev)
{
    while (dev->n_queues > 0) {
        virtqueue_free(dev->queues[--dev->n_queues]);
    }
}

static bool virtio_device_realize(Device *device, GError **errp)
{
    VirtioDevice *dev = VIRTIO_DEVICE(device);
    VirtioDeviceClass *klass = VIRTIO_DEVICE_GET_CLASS(dev);
    RunStateControl *rs = device->machine->runstate;

    g_clear_pointer(&dev->label, g_free);
    dev->label = make_label(dev);
    if (!dev->memory) {
        dev->memory = device->machine->memory;
    }
    g_free(dev->config);
    dev->config = g_malloc0(klass->config_size);
    offer_common_features(dev);
    if (dev->iothread) {
        iothread_use(dev->iothread);
    }
    make_source(dev);
    if (!klass->realize(dev, errp)) {
        drop_source(dev);
        free_queues(dev);
        return false;
    }
    dev->running = runstate_is_running(rs);
    dev->active = dev->running && dev->dma_allowed;
    dev->run_listener = runstate_add_listener(rs, RUN_PRIORITY, follow_run_state, dev);
    return true;
}

static void virtio_device_unrealize(Device *device)
{
    VirtioDevice *dev = VIRTIO_DEVICE(device);
    VirtioDeviceClass *klass = VIRTIO_DEVICE_GET_CLASS(dev);

    runstate_remove_listener(device->machine->runstate, dev->run_listener);
    virtio_reset(dev);
    virtio_lock(dev);
    dev->active = false;
    virtio_unlock(dev);
    if (klass->unrealize) {
        klass->unrealize(dev);
    }
    drop_source(dev);
    free_queues(dev);
}

static const QomProperty virtio_device_properties[] = {
    { "indirect_desc", QOM_BOOL, offsetof(VirtioDevice, indirect_desc), .def = true,
      .description = "descriptors may be in tables of their own" },
    { "event_idx", QOM_BOOL, offsetof(VirtioDevice, event_idx), .def = true,
      .description = "notifications are suppressed by index" },
    { "notify_on_empty", QOM_BOOL, offsetof(VirtioDevice, notify_on_empty), .def = true,
      .description = "legacy drivers are told when all is used" },
    { "any_layout", QOM_BOOL, offsetof(VirtioDevice, any_layout), .def = true,
      .description = "legacy drivers may lay out descriptors as they like" },
    { "packed", QOM_BOOL, offsetof(VirtioDevice, packed), .def = false,
      .description = "packed rings" },
    { "queue_reset", QOM_BOOL, offsetof(VirtioDevice, queue_reset), .def = true,
      .description = "queues can be reset one by one" },
    QOM_PROPERTY_END,
};

/* Devices that the process ends with are not unrealized. */
static void virtio_device_dispose(GObject *gobj)
{
    drop_source(VIRTIO_DEVICE(gobj));
    G_OBJECT_CLASS(virtio_device_parent_class)->dispose(gobj);
}

static void virtio_device_finalize(GObject *gobj)
{
    VirtioDevice *dev = VIRTIO_DEVICE(gobj);

    free_queues(dev);
    g_free(dev->label);
    g_free(dev->config);
    g_free(dev->saved);
    g_mutex_clear(&dev->lock);
    G_OBJECT_CLASS(virtio_device_parent_class)->finalize(gobj);
}

static void virtio_device_init(VirtioDevice *dev)
{
    g_mutex_init(&dev->lock);
    dev->dma_allowed = true;
    dev->saved = virtio_saved_new();
}

static void virtio_device_class_init(VirtioDeviceClass *klass)
{
    DeviceClass *dc = DEVICE_CLASS(klass);

    G_OBJECT_CLASS(klass)->dispose = virtio_device_dispose;
    G_OBJECT_CLASS(klass)->finalize = virtio_device_finalize;
    dc->realize = virtio_device_realize;
    dc->unrealize = virtio_device_unrealize;
    qom_class_install(klass, virtio_device_properties);
}
