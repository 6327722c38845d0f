/*
 * A virtio driver for tests: modern and legacy virtio-pci, split and packed rings, MSI-X or INTx.
 *
 * From "Virtual I/O Device (VIRTIO) Version 1.2". A test can use the rings as a driver does
 * (qvirtqueue_add, _kick, _wait) or write any nonsense into them: the addresses are public.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_TESTS_QTEST_QVIRTIO_H
#define COWBIRD_TESTS_QTEST_QVIRTIO_H

#include "tests/qtest/qpci.h"

/* 2.1 Device status */
enum {
    QVIRTIO_ACKNOWLEDGE = 1,
    QVIRTIO_DRIVER = 2,
    QVIRTIO_DRIVER_OK = 4,
    QVIRTIO_FEATURES_OK = 8,
    QVIRTIO_NEEDS_RESET = 64,
    QVIRTIO_FAILED = 128,
};

/* 6 Reserved feature bits, as masks */
#define QVIRTIO_F_INDIRECT (1ull << 28)
#define QVIRTIO_F_EVENT_IDX (1ull << 29)
#define QVIRTIO_F_VERSION_1 (1ull << 32)
#define QVIRTIO_F_PACKED (1ull << 34)

/* Descriptor flags, 2.7.5 and 2.8.1 */
enum {
    QVIRTQ_NEXT = 1,
    QVIRTQ_WRITE = 2,
    QVIRTQ_INDIRECT = 4,
    QVIRTQ_AVAIL = 1 << 7,
    QVIRTQ_USED = 1 << 15,
};

#define QVIRTIO_NO_VECTOR 0xffff
#define QVIRTQUEUE_MAX 32768

typedef struct QVirtio {
    QTest *q;
    QPciDevice *pci;
    bool legacy;
    uint64_t features;                   /* negotiated */
    QPciBar common, isr, notify, config; /* legacy: common is BAR 0, the others are parts of it */
    uint32_t notify_multiplier;
    uint64_t msi; /* guest address of 32 bits for each vector; 0: MSI-X is not used */
} QVirtio;

/* A buffer, or a part of one. */
typedef struct QVirtBuffer {
    uint64_t address;
    uint32_t len;
    bool write; /* by the device */
} QVirtBuffer;

typedef struct QVirtQueue {
    QVirtio *dev;
    unsigned index, size;
    uint64_t desc, driver, device; /* the three areas; split: table, available, used ring */
    bool packed, event_idx;
    uint64_t doorbell; /* guest address of the register of this queue */

    /* Split: what is free and where we are. */
    uint16_t free_head, n_free, avail_index, used_seen;
    /* Packed. */
    uint16_t next, next_used;
    bool wrap, used_wrap;
    uint16_t chain[QVIRTQUEUE_MAX]; /* descriptors of the buffer with that id */
    uint16_t link[QVIRTQUEUE_MAX];  /* split: next free one; packed: ids that are free */
} QVirtQueue;

/* What the device has given back. */
typedef struct QVirtUsed {
    uint16_t id; /* as qvirtqueue_add has returned it */
    uint32_t len;
} QVirtUsed;

/* --- The device --- */

/*
 * The virtio device of that type (2 block, 3 console, 4 entropy, 5 balloon ...), by its
 * transitional or modern id, its BARs mapped, reset. @legacy: driven by the interface before 1.0.
 * The test fails when it is not there.
 */
QVirtio *qvirtio_new(QTest *q, unsigned type, bool legacy);
void qvirtio_free(QVirtio *dev);

uint8_t qvirtio_status(QVirtio *dev);
void qvirtio_set_status(QVirtio *dev, uint8_t status);
/* Writes 0 and waits until it reads 0; MSI-X vectors and queues are to be set again. */
void qvirtio_reset(QVirtio *dev);
uint64_t qvirtio_offered(QVirtio *dev);
/* Writes the driver's features as they are. */
void qvirtio_set_features(QVirtio *dev, uint64_t features);
/*
 * Reset, ACKNOWLEDGE, DRIVER, features (those of @wanted that are offered, and VERSION_1 for a
 * modern driver), FEATURES_OK. Queues come next, then qvirtio_ready.
 */
void qvirtio_begin(QVirtio *dev, uint64_t wanted);
/* Sets DRIVER_OK. */
void qvirtio_ready(QVirtio *dev);
bool qvirtio_needs_reset(QVirtio *dev);
/* Reads the ISR register, which clears it: bit 0 queues, bit 1 configuration. */
uint8_t qvirtio_isr(QVirtio *dev);

uint8_t qvirtio_config_generation(QVirtio *dev);
uint8_t qvirtio_config8(QVirtio *dev, unsigned offset);
uint16_t qvirtio_config16(QVirtio *dev, unsigned offset);
uint32_t qvirtio_config32(QVirtio *dev, unsigned offset);
void qvirtio_set_config8(QVirtio *dev, unsigned offset, uint8_t value);
void qvirtio_set_config32(QVirtio *dev, unsigned offset, uint32_t value);

/* --- MSI-X: vector n stores n + 1 at its place in RAM --- */

/* Enables it and unmasks every vector; before the queues are set up. */
void qvirtio_msix_enable(QVirtio *dev);
/* The vector for configuration changes; returns what the device has taken. */
uint16_t qvirtio_set_config_vector(QVirtio *dev, uint16_t vector);
/* Whether it has come since the last time this was asked. */
bool qvirtio_msi_arrived(QVirtio *dev, unsigned vector);

/* --- Queues --- */

/*
 * Sets up queue @index in new RAM, of @size elements (0: what the device offers), packed if that
 * is negotiated, and enables it. With MSI-X it uses @vector.
 */
QVirtQueue *qvirtqueue_new_vector(QVirtio *dev, unsigned index, unsigned size, uint16_t vector);
/* With MSI-X enabled the vector is index + 1 (0 is for configuration), if there are as many. */
QVirtQueue *qvirtqueue_new(QVirtio *dev, unsigned index, unsigned size);
void qvirtqueue_free(QVirtQueue *vq);
/* How many elements the device offers for queue @index; 0: there is no such queue. */
unsigned qvirtqueue_max_size(QVirtio *dev, unsigned index);

/*
 * Makes one buffer of @n parts available, those the device reads first; as one indirect
 * descriptor with _add_indirect. Returns its id. The test fails if the queue is full.
 */
uint16_t qvirtqueue_add(QVirtQueue *vq, const QVirtBuffer *parts, unsigned n);
uint16_t qvirtqueue_add_indirect(QVirtQueue *vq, const QVirtBuffer *parts, unsigned n);
/* Rings the doorbell. */
void qvirtqueue_kick(QVirtQueue *vq);
/* Takes the next used buffer; false: there is none. */
bool qvirtqueue_get(QVirtQueue *vq, QVirtUsed *ret);
/* Waits for it, at most 10 s, or the test fails. */
QVirtUsed qvirtqueue_wait(QVirtQueue *vq);
/* Adds, kicks, waits; returns the bytes written. */
uint32_t qvirtqueue_do(QVirtQueue *vq, const QVirtBuffer *parts, unsigned n);

/* --- Any nonsense; split rings, except the last --- */

/* Writes descriptor @i of the table at @table. */
void qvirtq_set_desc(QVirtio *dev, uint64_t table, unsigned i, uint64_t address, uint32_t len,
                     uint16_t flags, uint16_t next);
/* Puts @head into the available ring and counts the index up. */
void qvirtqueue_add_head(QVirtQueue *vq, uint16_t head);
/* Packed: a descriptor at the present place, available if @flags say so by the wrap counter's rule. */
void qvirtqueue_add_packed(QVirtQueue *vq, uint64_t address, uint32_t len, uint16_t id,
                           uint16_t flags);

#endif
