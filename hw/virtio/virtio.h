/*
 * virtio devices: what every device has in common, whatever its transport (virtio 1.2, chapter 2).
 *
 * A device type derives from VirtioDevice and fills in VirtioDeviceClass; a transport (virtio-pci.h) makes the
 * device its child "virtio-backend", gives it a VirtioTransport, and passes on what the driver does. Queues are in
 * hw/virtio/virtqueue.h.
 *
 * Threads: class callbacks and queue handlers run on the main loop or on a vCPU's thread, in both cases with the big
 * lock held; or, for a device with an iothread, queue handlers run on that thread without the big lock. In
 * every case the device's own lock (virtio_lock) is held while a callback or handler runs. Order: big lock, then device.
 *
 * While the VM is stopped no handler runs and no device writes guest RAM; whoever completes requests from a back end
 * asks virtio_is_active() and otherwise keeps the completion until resume() is called. A doorbell meanwhile is not lost, as
 * resuming calls the handler of every enabled queue. docs/architecture.rst has the rules in full.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_VIRTIO_VIRTIO_H
#define COWBIRD_HW_VIRTIO_VIRTIO_H

#include "hw/core/device.h"
#include "vmstate/vmstate.h"

typedef struct AddressMap AddressMap;
typedef struct IoThread IoThread;
typedef struct VirtQueue VirtQueue;

#define VIRTIO_QUEUE_MAX 64        /* queues of one device */
#define VIRTIO_QUEUE_SIZE_MAX 1024 /* entries of one queue */
#define VIRTIO_NO_VECTOR 0xffff

/* Device types (virtio 1.2, chapter 5). */
enum {
    VIRTIO_ID_NET = 1,
    VIRTIO_ID_BLOCK = 2,
    VIRTIO_ID_CONSOLE = 3,
    VIRTIO_ID_RNG = 4,
    VIRTIO_ID_BALLOON = 5
};

/* Device status (2.1). */
enum {
    VIRTIO_STATUS_ACKNOWLEDGE = 1,
    VIRTIO_STATUS_DRIVER = 2,
    VIRTIO_STATUS_DRIVER_OK = 4,
    VIRTIO_STATUS_FEATURES_OK = 8,
    VIRTIO_STATUS_NEEDS_RESET = 64,
    VIRTIO_STATUS_FAILED = 128,
};

/* Feature bits that belong to queues and transports (chapter 6), as bit numbers. */
enum {
    VIRTIO_F_NOTIFY_ON_EMPTY = 24,
    VIRTIO_F_ANY_LAYOUT = 27,
    VIRTIO_F_INDIRECT_DESC = 28,
    VIRTIO_F_EVENT_IDX = 29,
    VIRTIO_F_VERSION_1 = 32,
    VIRTIO_F_ACCESS_PLATFORM = 33,
    VIRTIO_F_RING_PACKED = 34,
    VIRTIO_F_RING_RESET = 40,
};
#define VIRTIO_FEATURE(bit) (UINT64_C(1) << (bit))

#define TYPE_VIRTIO_DEVICE (virtio_device_get_type())
QOM_DECLARE_TYPE(VirtioDevice, virtio_device, VIRTIO_DEVICE)

/* What the device needs of its transport. */
typedef struct VirtioTransport {
    /*
     * Tell the driver: buffers of queue n were used (any thread, device's lock held), or the configuration has
     * changed (big lock held, with or without the device's lock). Neither may take the device's lock.
     */
    void (*notify_queue)(void *opaque, unsigned n);
    void (*notify_config)(void *opaque);
    void *opaque;
} VirtioTransport;

struct _VirtioDevice {
    Device parent_instance;
    AddressMap *memory; /* that its addresses are in; the machine's, unless set before realize */
    VirtioTransport transport;
    /* Properties of every virtio device, as QEMU names them. */
    bool indirect_desc, event_idx, notify_on_empty, any_layout, packed, queue_reset;
    IoThread *iothread;      /* link property of those that have one; NULL = main loop */
    uint64_t host_features;  /* offered, transport's included */
    uint64_t guest_features; /* negotiated; 0 before */
    bool features_set;       /* they are final */
    uint8_t status;
    uint32_t config_generation; /* a transport shows its low bits */
    /*
     * The driver uses the legacy interface: virtio_use_legacy(), until a reset.
     */
    bool legacy;
    bool broken; /* a ring or a request was malformed: queues are dead until reset */
    bool active; /* the VM runs and the transport lets the device reach guest RAM */
    unsigned n_queues;
    VirtQueue *queues[VIRTIO_QUEUE_MAX];
    GMutex lock;
    /* hw/virtio/virtio.c and virtio-vmstate.c only. */
    bool running, dma_allowed; /* what active is made of */
    GSource *source;           /* doorbells: eventfds and bits of kicked; in the device's context */
    uint64_t kicked;           /* atomic, a bit a queue */
    guint run_listener;
    char *label;
    uint8_t *config; /* config_size bytes for a moment */
    struct VirtioSaved *saved;
};

struct _VirtioDeviceClass {
    DeviceClass parent_class;
    uint16_t device_id; /* VIRTIO_ID_... */
    size_t config_size; /* at most, bytes of device configuration */
    /* Set up queues (virtqueue_add) and offer: host_features |= ... . In place of DeviceClass.realize. */
    bool (*realize)(VirtioDevice *dev, GError **errp);
    void (*unrealize)(VirtioDevice *dev);
    /* Present size of the configuration space if it depends on properties; NULL: config_size. */
    size_t (*get_config_size)(VirtioDevice *dev);
    /* config: config_size bytes, all of them to be filled in; little-endian. */
    void (*get_config)(VirtioDevice *dev, uint8_t *config);
    /* The driver wrote; config is the whole space with the change in place. NULL: read-only. */
    void (*set_config)(VirtioDevice *dev, const uint8_t *config);
    /* Negotiated: at FEATURES_OK, or for legacy drivers at the write of the features. May be NULL. */
    void (*set_features)(VirtioDevice *dev, uint64_t features);
    void (*set_status)(VirtioDevice *dev, uint8_t status); /* after the change; may be NULL */
    /* By driver, by bus, by VM: drop all requests and guest state. May be NULL. */
    void (*reset)(VirtioDevice *dev);
    /* The driver resets queue n alone (VIRTIO_F_RING_RESET): drop what is out of it. May be NULL. */
    void (*queue_reset)(VirtioDevice *dev, unsigned n);
    /*
     * The VM stops: finish (guest RAM may still be written) or take back requests in flight, so that no element is
     * out when this returns. What was pushed is flushed afterwards. May be NULL.
     */
    void (*drain)(VirtioDevice *dev);
    /* The VM runs again (also after a restore); every queue's handler is called right after. May be NULL. */
    void (*resume)(VirtioDevice *dev);
    /* The device's own state, saved after the common part. May be NULL. */
    const VMStateDescription *state;
};

/* --- For devices --- */

/* Negotiated? (bit number) */
bool virtio_has_feature(const VirtioDevice *dev, unsigned bit);
/* Requests may be completed and guest RAM written now. Lock held. */
bool virtio_is_active(const VirtioDevice *dev);
/* The configuration space has changed: next generation, notification. Big lock held, device's lock or not. */
void virtio_config_changed(VirtioDevice *dev);
/*
 * The driver did what a driver must not do: sets NEEDS_RESET, logs once (guest_error, with the device's name and the
 * text), tells the driver (VERSION_1), and stops all queues until reset. Never ends the VM.
 */
void virtio_error(VirtioDevice *dev, const char *fmt, ...) G_GNUC_PRINTF(2, 3);
void virtio_lock(VirtioDevice *dev);
void virtio_unlock(VirtioDevice *dev);
/* Context that the device's sources (timers, back ends) belong in: of its iothread or the default one (NULL). */
GMainContext *virtio_context(VirtioDevice *dev);
/* Name for messages: "virtio-balloon-pci 'balloon0'". Valid as long as the device. */
const char *virtio_name(VirtioDevice *dev);

/* --- For transports (big lock held, device's lock not) --- */

/*
 * Before realize. The transport realizes its backend by DEVICE_GET_CLASS(dev)->realize and unrealize, not by device_realize():
 * its reset calls virtio_reset, its saved state contains vmstate_virtio_device.
 */
void virtio_set_transport(VirtioDevice *dev, const VirtioTransport *transport);
/* Offset and size as the driver gave them; out of range reads zeros and writes nothing. */
void virtio_config_read(VirtioDevice *dev, unsigned offset, void *buf, unsigned len);
void virtio_config_write(VirtioDevice *dev, unsigned offset, const void *buf, unsigned len);
size_t virtio_config_size(VirtioDevice *dev);
/* What is shown to a driver: bits that exist only in the legacy interface, or only outside of it, are left out. */
uint64_t virtio_offered_features(const VirtioDevice *dev, bool legacy);
/*
 * The driver writes features or a status other than 0 in the legacy interface: it uses that one from now on, unless it
 * has negotiated or enabled a queue in the other.
 */
void virtio_use_legacy(VirtioDevice *dev);
/* Features the driver accepts; what was not offered is dropped and logged. */
void virtio_set_features(VirtioDevice *dev, uint64_t features);
/* Writing the status register: 0 resets; FEATURES_OK stays clear if the combination cannot be served. */
void virtio_set_status(VirtioDevice *dev, uint8_t status);
void virtio_reset(VirtioDevice *dev);
/*
 * Whether the device may reach guest RAM (the bus master bit); it may at first. While it may not, all is as
 * in a stopped VM: queues rest, and are looked at when it may again.
 */
void virtio_set_dma_allowed(VirtioDevice *dev, bool allowed);
/* The driver's doorbell of queue n when no ioeventfd took it: handled before it returns, or by the iothread. */
void virtio_kick(VirtioDevice *dev, unsigned n);

/* The common part and, as a subsection-like tail, the class's state; part of the transport's table. */
extern const VMStateDescription vmstate_virtio_device;

#endif
