/*
 * What the parts of the queues share: virtqueue.c (registers, pool, notification), virtqueue-split.c and virtqueue-packed.c
 * (the two layouts of a ring), virtio.c (handlers), virtio-vmstate.c (saved state).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_VIRTIO_VIRTQUEUE_INTERNAL_H
#define COWBIRD_HW_VIRTIO_VIRTQUEUE_INTERNAL_H

#include "hw/virtio/virtqueue.h"

#define VIRT_DESC_SIZE 16 /* of a descriptor in either layout */
#define VIRT_HEADS 16     /* entries of the available ring read at once */

/* Flags of descriptors (virtio 1.2, 2.7.5 and 2.8.1). */
enum {
    VIRT_DESC_NEXT = 1,
    VIRT_DESC_WRITE = 2,
    VIRT_DESC_INDIRECT = 4,
    VIRT_DESC_AVAIL = 1 << 7, /* packed */
    VIRT_DESC_USED = 1 << 15, /* packed */
};

/* An element in the pool of its queue. */
typedef struct PoolElement {
    VirtElement elem; /* first: pointers to one are pointers to the other */
    bool out;         /* the device has it */
    struct PoolElement *next_free;
    VirtSegment segments[]; /* max_size: those to be read, then those to be written */
} PoolElement;

/* Pushed and not yet shown to the driver. */
typedef struct VirtUsed {
    uint16_t id, n_descs;
    uint32_t written;
} VirtUsed;

/* Where the three parts of a ring lie and how large they are, for the check when the queue is enabled. */
typedef struct VirtRingArea {
    const char *name;
    uint64_t addr, len;
    unsigned align;
    bool device_writes;
} VirtRingArea;

/*
 * A layout. All functions are called with a queue that is enabled, and report what is wrong with
 * virtqueue_error().
 */
typedef struct VirtRingOps {
    void (*areas)(const VirtQueue *vq, VirtRingArea ret_areas[3]);
    bool (*size_allowed)(unsigned size);
    /* Is there a buffer to be taken? Looks into guest memory if need be. */
    bool (*available)(VirtQueue *vq);
    /* Reads the next buffer's descriptors and goes on to the one after; false = broken. */
    bool (*take)(VirtQueue *vq, PoolElement *e);
    void (*untake)(VirtQueue *vq, const PoolElement *e);
    /* Shows what is pending to the driver; tells whether the driver wants an interrupt for it. */
    bool (*publish)(VirtQueue *vq);
    /* Tells the driver whether to kick. If so, a full barrier follows: a look at the ring afterwards misses nothing. */
    void (*set_kicks)(VirtQueue *vq, bool wanted);
} VirtRingOps;

extern const VirtRingOps virtqueue_split, virtqueue_packed;

struct VirtQueue {
    VirtioDevice *dev;
    unsigned index;
    VirtQueueHandler *handler;
    unsigned max_size;
    unsigned budget; /* buffers that the handler that runs may still take */
    bool in_handler;
    bool again; /* the budget was used up */

    /* Registers. */
    unsigned size;
    bool enabled;
    uint64_t desc, driver, device;
    uint32_t pfn; /* legacy */
    uint16_t vector;

    /* The ring. Split: indices run freely through 16 bits. Packed: they are places below size. */
    const VirtRingOps *ring;
    uint16_t last_avail;           /* next to be taken */
    uint16_t used;                 /* next to be shown as used */
    bool avail_wrap, used_wrap;    /* packed */
    uint16_t avail_idx;            /* split: as last read */
    uint16_t heads[VIRT_HEADS];    /* split: entries of the available ring ... */
    uint16_t heads_from, n_heads;  /* ... from this index on */
    unsigned descs_out;            /* packed: entries taken and not yet shown as used */
    bool notification;             /* the device wants kicks */
    bool kicks_told, kicks_wanted; /* what the driver was told last */
    uint16_t kick_at;              /* ... and for which index */

    /* Elements. */
    unsigned n_out;      /* the device has them */
    PoolElement *newest; /* popped last, if it is still out */
    PoolElement *free;
    GPtrArray *pool;   /* of PoolElement, all that were made */
    VirtUsed *pending; /* max_size */
    unsigned n_pending;
    uint8_t *table; /* room for max_size descriptors */

    int notifier;          /* eventfd or -1 */
    gpointer notifier_tag; /* atomic; in the device's source, or NULL */
};

/* virtqueue.c */
void virtqueue_free(VirtQueue *vq);
/* virtio_error() naming the queue. */
void virtqueue_error(VirtQueue *vq, const char *fmt, ...) G_GNUC_PRINTF(2, 3);
/* virtqueue_reset and the register writes, with the lock held. */
void virtqueue_reset_locked(VirtQueue *vq);
/* The layout that the negotiated features ask for. */
const VirtRingOps *virtqueue_layout(const VirtioDevice *dev);
/* What is wrong with the registers, RAM aside; NULL = nothing. */
const char *virtqueue_check_registers(const VirtQueue *vq);

/* For layouts: access to the ring; false after virtqueue_error(). */
bool virtqueue_ring_read(VirtQueue *vq, uint64_t addr, void *buf, size_t len);
bool virtqueue_ring_write(VirtQueue *vq, uint64_t addr, const void *buf, size_t len);
/* One more piece of a buffer; false after virtqueue_error(). */
bool virtqueue_add_segment(VirtQueue *vq, PoolElement *e, uint64_t addr, uint32_t len, bool in);
/* Reads an indirect table into vq->table; 0 after virtqueue_error(), else its number of entries. */
unsigned virtqueue_read_table(VirtQueue *vq, uint64_t addr, uint32_t len, uint16_t flags);

/* virtio.c: attaches an eventfd to the device's source. */
gpointer virtio_watch_notifier(VirtioDevice *dev, int fd);

/* virtio-vmstate.c */
typedef struct VirtioSaved VirtioSaved;
VirtioSaved *virtio_saved_new(void);

#endif
