/*
 * virtio-rng: an entropy source (virtio 1.2, 5.4).
 *
 * A buffer is taken from the queue only when there are bytes for it: while the back end has none, or the limit of this
 * period is used up, it stays in the queue. So nothing is out when the VM stops or the driver resets the device.
 *
 * The limit: at most max-bytes in period milliseconds of virtual time. A period begins with the first bytes given
 * after the one before has ended. Its timer belongs to the main loop, also when the queue is served by an iothread.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/virtio/rng.h"

#include "hw/core/machine.h"
#include "hw/timer/clock.h"
#include "hw/virtio/rng-backend.h"
#include "hw/virtio/virtqueue.h"
#include "util/error.h"

#define QUEUE_SIZE 8
#define BYTES_PER_BUFFER \
    4096 /* at most; the driver asks again (5.4.6.1: it may be less than the buffer) */
#define NO_LIMIT INT64_MAX
#define NS_PER_MS INT64_C(1000000)

struct _VirtioRng {
    VirtioDevice parent_instance;
    RngBackend *rng;
    uint64_t max_bytes; /* in a period */
    uint32_t period;    /* ms */
    VirtQueue *vq;
    GSource *wait; /* for bytes of the back end, in the device's context; NULL: not waiting */
    uint64_t quota;
    int64_t period_end; /* virtual time; 0: none has begun */
    VmTimer *timer;     /* big lock */
};

QOM_DEFINE_TYPE(VirtioRng, virtio_rng, "virtio-rng-device", TYPE_VIRTIO_DEVICE)

/* --- The limit --- */

/* Of a period that begins now. The clock is at rest or goes on evenly while the device is active, so any thread may ask. */
static int64_t latest_end(VirtioRng *s)
{
    return vm_clock_now(DEVICE(s)->machine->clock) + s->period * NS_PER_MS;
}

static gboolean on_arm_timer(void *opaque)
{
    VirtioRng *s = opaque;

    virtio_lock(VIRTIO_DEVICE(s));
    if (s->timer && s->period_end) {
        vm_timer_set(s->timer, s->period_end);
    }
    virtio_unlock(VIRTIO_DEVICE(s));
    return G_SOURCE_REMOVE;
}

static void on_period_end(void *opaque)
{
    VirtioRng *s = opaque;

    virtio_lock(VIRTIO_DEVICE(s));
    s->period_end = 0;
    s->quota = s->max_bytes;
    virtio_unlock(VIRTIO_DEVICE(s));
    virtio_kick(VIRTIO_DEVICE(s), 0);
}

static void count_bytes(VirtioRng *s, size_t n)
{
    if (s->max_bytes >= NO_LIMIT) {
        return;
    }
    s->quota -= n;
    if (s->period_end) {
        return;
    }
    s->period_end = latest_end(s);
    if (VIRTIO_DEVICE(s)->iothread) {
        g_idle_add_full(G_PRIORITY_DEFAULT, on_arm_timer, g_object_ref(s), g_object_unref);
    } else {
        vm_timer_set(s->timer, s->period_end);
    }
}

/* --- Requests --- */

static void stop_waiting(VirtioRng *s)
{
    if (s->wait) {
        g_source_destroy(s->wait);
        g_clear_pointer(&s->wait, g_source_unref);
    }
}

static gboolean on_bytes(void *opaque)
{
    VirtioRng *s = opaque;
    VirtioDevice *dev = VIRTIO_DEVICE(s);

    virtio_lock(dev);
    /* Otherwise somebody has stopped waiting while this thread was on its way here. */
    if (s->wait == g_main_current_source()) {
        stop_waiting(s);
        virtio_queue_schedule(s->vq);
    }
    virtio_unlock(dev);
    return G_SOURCE_REMOVE;
}

/* Takes the reference to the source. */
static void wait_for(VirtioRng *s, GSource *source)
{
    s->wait = source;
    g_source_set_callback(source, on_bytes, g_object_ref(s), g_object_unref);
    g_source_attach(source, virtio_context(VIRTIO_DEVICE(s)));
}

/* False: there are no bytes now, and the device waits for some. */
static bool serve(VirtioRng *s, VirtElement *elem)
{
    VirtioDevice *dev = VIRTIO_DEVICE(s);
    uint8_t bytes[BYTES_PER_BUFFER];
    size_t len = MIN(MIN(elem->in_len, sizeof(bytes)), s->quota);
    ssize_t n = 0;

    if (len > 0) {
        n = rng_backend_read(s->rng, bytes, len);
        if (n <= 0) {
            wait_for(s, rng_backend_source(s->rng, n));
            return false;
        }
        n = (ssize_t)virtelement_write(dev, elem, 0, bytes, (size_t)n);
        count_bytes(s, (size_t)n);
    }
    virtqueue_push(s->vq, elem, (uint32_t)n);
    return true;
}

static void handle_requests(VirtioDevice *dev, VirtQueue *vq)
{
    VirtioRng *s = VIRTIO_RNG(dev);
    VirtElement *elem;

    while (!s->wait && s->quota > 0 && (elem = virtqueue_pop(vq))) {
        if (!serve(s, elem)) {
            virtqueue_unpop(vq, elem);
        }
    }
    virtqueue_flush(vq);
}

/* When the VM goes on every queue is looked at again. */
static void virtio_rng_drain(VirtioDevice *dev)
{
    stop_waiting(VIRTIO_RNG(dev));
}

/* The limit stays as it is: else a driver could have more bytes by resetting the device. */
static void virtio_rng_reset(VirtioDevice *dev)
{
    stop_waiting(VIRTIO_RNG(dev));
}

/* --- Life --- */

static bool use_backend(VirtioRng *s, GError **errp)
{
    g_autoptr(Object) builtin = NULL;

    if (s->rng) {
        rng_backend_connect(s->rng);
        return true;
    }
    builtin = object_new(rng_builtin_get_type(), OBJECT(s)->root);
    if (!object_complete(builtin, errp) ||
        !object_add_child(OBJECT(s), "default-backend", builtin, errp)) {
        return false;
    }
    s->rng = g_object_ref(RNG_BACKEND(builtin));
    rng_backend_connect(s->rng);
    return true;
}

static bool virtio_rng_realize(VirtioDevice *dev, GError **errp)
{
    VirtioRng *s = VIRTIO_RNG(dev);

    if (s->period == 0) {
        error_set(errp, "period=0: give the length of a period in milliseconds, at least 1");
        return false;
    }
    if (s->max_bytes == 0 || s->max_bytes > NO_LIMIT) {
        error_set(errp, "max-bytes=%" PRIu64 ": give the bytes of a period, 1 to %" PRId64,
                  s->max_bytes, NO_LIMIT);
        return false;
    }
    if (!use_backend(s, errp)) {
        return false;
    }
    s->quota = s->max_bytes;
    s->timer = vm_timer_new(DEVICE(s)->machine->clock, on_period_end, s);
    s->vq = virtqueue_add(dev, QUEUE_SIZE, handle_requests);
    return true;
}

static void virtio_rng_unrealize(VirtioDevice *dev)
{
    VirtioRng *s = VIRTIO_RNG(dev);

    virtio_lock(dev);
    stop_waiting(s);
    g_clear_pointer(&s->timer, vm_timer_free);
    virtio_unlock(dev);
    rng_backend_disconnect(s->rng);
}

static void virtio_rng_init(VirtioRng *s)
{
}

static void virtio_rng_finalize(GObject *gobj)
{
    g_clear_pointer(&VIRTIO_RNG(gobj)->timer, vm_timer_free);
    G_OBJECT_CLASS(virtio_rng_parent_class)->finalize(gobj);
}

static bool virtio_rng_post_load(void *opaque, int version, GError **errp)
{
    VirtioRng *s = opaque;

    if (s->period_end <= 0 || s->max_bytes >= NO_LIMIT) {
        s->period_end = 0;
        s->quota = s->max_bytes;
    } else {
        s->quota = MIN(s->quota, s->max_bytes);
        s->period_end = MIN(s->period_end, latest_end(s));
        vm_timer_set(s->timer, s->period_end);
    }
    return true;
}

static const VMStateDescription vmstate_virtio_rng = {
    .name = "virtio-rng",
    .version_id = 1,
    .minimum_version_id = 1,
    .post_load = virtio_rng_post_load,
    .fields = (const VMStateField[]){ VMSTATE_UINT64(quota, VirtioRng),
                                      VMSTATE_INT64(period_end, VirtioRng), VMSTATE_END_OF_LIST() },
};

static const QomProperty virtio_rng_properties[] = {
    { .name = "rng",
      .kind = QOM_LINK,
      .offset = offsetof(VirtioRng, rng),
      .link_type = "rng-backend",
      .description = "id of the object that gives random bytes; left out: an rng-builtin" },
    { .name = "max-bytes",
      .kind = QOM_UINT64,
      .offset = offsetof(VirtioRng, max_bytes),
      .def = NO_LIMIT,
      .description = "bytes that the guest gets in a period at most" },
    { .name = "period",
      .kind = QOM_UINT32,
      .offset = offsetof(VirtioRng, period),
      .def = 1 << 16,
      .description = "length of a period in milliseconds" },
    { .name = "iothread",
      .kind = QOM_LINK,
      .offset = offsetof(VirtioRng, parent_instance.iothread),
      .link_type = "iothread",
      .description = "id of the iothread object that serves the queue; left out: the main loop" },
    QOM_PROPERTY_END,
};

static void virtio_rng_class_init(VirtioRngClass *klass)
{
    VirtioDeviceClass *vc = VIRTIO_DEVICE_CLASS(klass);

    G_OBJECT_CLASS(klass)->finalize = virtio_rng_finalize;
    qom_class_install(klass, virtio_rng_properties);
    DEVICE_CLASS(klass)->desc = "source of random bytes";
    vc->device_id = VIRTIO_ID_RNG;
    vc->realize = virtio_rng_realize;
    vc->unrealize = virtio_rng_unrealize;
    vc->reset = virtio_rng_reset;
    vc->drain = virtio_rng_drain;
    vc->state = &vmstate_virtio_rng;
}
