/*
 * MSI-X: the table, masks and pending bits, and where messages go.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/pci/msix.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "accel/accel.h"
#include "hw/core/machine.h"
#include "util/error.h"
#include "util/le.h"
#include "util/units.h"

/* How long vectors keep still before they move to irqfds. */
#define IRQFD_DELAY_US (1 * G_USEC_PER_SEC)
#define BAR_SIZE_MIN 4096
#define ENTRY_DATA 8
#define ENTRY_CONTROL 12
#define ENTRY_MASKED 1

typedef struct MsixVector {
    unsigned users;
    int eventfd;   /* -1: never had one; kept until the end, as who signals it takes no big lock */
    int gsi;       /* of its route; -1: none */
    bool by_irqfd; /* KVM sends the message when eventfd is signalled */
} MsixVector;

struct Msix {
    PciDevice *dev;
    unsigned count;
    uint8_t cap;
    uint32_t pending_offset; /* in the BAR */
    guint listener;
    GMutex lock;  /* for all below: the guest writes while any thread notifies */
    gint enabled; /* atomic */
    bool masked;
    uint32_t table_bytes, pending_bytes;
    uint8_t *table, *pending;
    MsixVector *vectors;
    uint32_t saved_bytes; /* table, then pending bits */
    uint8_t *saved;
};

static Machine *machine_of(const Msix *m)
{
    return DEVICE(m->dev)->machine;
}

bool msix_enabled(const PciDevice *dev)
{
    return dev->msix && g_atomic_int_get(&dev->msix->enabled);
}

unsigned msix_vectors(const PciDevice *dev)
{
    return dev->msix ? dev->msix->count : 0;
}

/* ---- one vector; lock held ---- */

static uint8_t *entry(const Msix *m, unsigned n)
{
    return m->table + (size_t)n * MSIX_ENTRY_SIZE;
}

static bool is_masked(const Msix *m, unsigned n)
{
    return m->masked || (entry(m, n)[ENTRY_CONTROL] & ENTRY_MASKED);
}

static bool is_pending(const Msix *m, unsigned n)
{
    return m->pending[n / 8] >> n % 8 & 1;
}

/* Messages of a stopped VM wait: the interrupt controllers may have been read for saving. */
static bool can_send(const Msix *m, unsigned n)
{
    return m->enabled && !is_masked(m, n) && runstate_is_running(machine_of(m)->runstate);
}

static void send(const Msix *m, unsigned n)
{
    const uint64_t one = 1;

    if (!m->vectors[n].by_irqfd || write(m->vectors[n].eventfd, &one, sizeof(one)) < 0) {
        accel_send_msi(machine_of(m)->accel, get_le64(entry(m, n)),
                       get_le32(entry(m, n) + ENTRY_DATA));
    }
}

static void send_pending(Msix *m, unsigned n)
{
    if (is_pending(m, n) && can_send(m, n)) {
        m->pending[n / 8] &= (uint8_t) ~(1 << n % 8);
        send(m, n);
    }
}

static void send_all_pending(Msix *m)
{
    for (unsigned i = 0; i < m->count; i++) {
        send_pending(m, i);
    }
}

void msix_notify(PciDevice *dev, unsigned vector)
{
    Msix *m = dev->msix;

    if (!m || vector >= m->count) {
        return;
    }
    g_mutex_lock(&m->lock);
    if (can_send(m, vector)) {
        send(m, vector);
    } else if (m->enabled) {
        m->pending[vector / 8] |= (uint8_t)(1 << vector % 8);
    }
    g_mutex_unlock(&m->lock);
}

/* ---- irqfds ---- */

static bool wants_irqfd(const Msix *m, unsigned n)
{
    return m->enabled && m->vectors[n].users && !is_masked(m, n);
}

/* Back to sending by calls, with the lock held: the route no longer says what the table says, or nobody needs it. */
static void drop_irqfd(Msix *m, unsigned n)
{
    Accel *accel = machine_of(m)->accel;
    MsixVector *v = &m->vectors[n];
    g_autoptr(GError) err = NULL;

    if (v->by_irqfd && !accel_remove_irqfd(accel, v->eventfd, v->gsi, &err)) {
        warn_report("MSI-X vector %u: %s", n, err->message);
    }
    v->by_irqfd = false;
    if (v->gsi >= 0) {
        accel_remove_msi_route(accel, v->gsi);
        v->gsi = -1;
    }
}

/* First step for all vectors: routes, which are then made known to KVM in one call. */
static bool add_routes(Msix *m)
{
    g_autoptr(GError) err = NULL;
    bool any = false;

    g_mutex_lock(&m->lock);
    for (unsigned i = 0; i < m->count && !err; i++) {
        MsixVector *v = &m->vectors[i];

        if (!v->by_irqfd && wants_irqfd(m, i)) {
            v->gsi = accel_add_msi_route(machine_of(m)->accel, get_le64(entry(m, i)),
                                         get_le32(entry(m, i) + ENTRY_DATA), &err);
            any |= v->gsi >= 0;
        }
    }
    g_mutex_unlock(&m->lock);
    if (err) {
        warn_report("MSI-X: %s; interrupts are sent one by one", err->message);
    }
    return any;
}

static bool attach(const Msix *m, MsixVector *v, GError **errp)
{
    if (v->eventfd < 0) {
        v->eventfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    }
    if (v->eventfd < 0) {
        error_set_errno(errp, errno, "eventfd");
        return false;
    }
    return accel_add_irqfd(machine_of(m)->accel, v->eventfd, -1, v->gsi, errp);
}

/* Second step: eventfds onto the routes. */
static void add_irqfds(Msix *m, bool committed)
{
    g_autoptr(GError) err = NULL;

    g_mutex_lock(&m->lock);
    for (unsigned i = 0; i < m->count; i++) {
        MsixVector *v = &m->vectors[i];

        if (v->gsi < 0 || v->by_irqfd) {
            continue;
        }
        v->by_irqfd = committed && !err && attach(m, v, &err);
        if (!v->by_irqfd) {
            drop_irqfd(m, i);
        }
    }
    g_mutex_unlock(&m->lock);
    if (err) {
        warn_report("MSI-X: %s; interrupts are sent one by one", err->message);
    }
}

static gboolean bind_bus(gpointer opaque)
{
    PciBus *bus = opaque;
    g_autoptr(GError) err = NULL;
    bool any = false, ok;

    g_source_set_ready_time(bus->irqfd_source, -1);
    for (unsigned i = 0; i < G_N_ELEMENTS(bus->functions); i++) {
        PciDevice *dev = bus->functions[i];

        any |= dev && dev->msix && add_routes(dev->msix);
    }
    if (!any) {
        return G_SOURCE_CONTINUE;
    }
    ok = accel_commit_routes(bus->machine->accel, &err);
    if (!ok) {
        warn_report("MSI-X: %s; interrupts are sent one by one", err->message);
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(bus->functions); i++) {
        PciDevice *dev = bus->functions[i];

        if (dev && dev->msix) {
            add_irqfds(dev->msix, ok);
        }
    }
    return G_SOURCE_CONTINUE;
}

static gboolean dispatch_ready(GSource *source, GSourceFunc callback, gpointer opaque)
{
    return callback(opaque);
}

/* Some vector of the bus may want an irqfd: look once the guest has stopped changing them. */
static void bind_later(Msix *m)
{
    static GSourceFuncs funcs = { .dispatch = dispatch_ready };
    PciBus *bus = PCI_BUS(DEVICE(m->dev)->bus);
    const Machine *machine = machine_of(m);

    if (!accel_has_irqfd(machine->accel) || !runstate_is_running(machine->runstate)) {
        return;
    }
    if (!bus->irqfd_source) {
        bus->irqfd_source = g_source_new(&funcs, sizeof(GSource));
        g_source_set_callback(bus->irqfd_source, bind_bus, bus, NULL);
        g_source_attach(bus->irqfd_source, NULL);
    }
    g_source_set_ready_time(bus->irqfd_source, g_get_monotonic_time() + IRQFD_DELAY_US);
}

/* After any change: what has an irqfd no longer needs it, or another vector does. Lock held. */
static void review(Msix *m)
{
    bool wanted = false;

    for (unsigned i = 0; i < m->count; i++) {
        bool wants = wants_irqfd(m, i);

        if (m->vectors[i].by_irqfd && !m->enabled) {
            drop_irqfd(m, i);
        }
        wanted |= wants && !m->vectors[i].by_irqfd;
    }
    if (wanted) {
        bind_later(m);
    }
}

void msix_use(PciDevice *dev, unsigned vector)
{
    Msix *m = dev->msix;

    g_mutex_lock(&m->lock);
    m->vectors[vector].users++;
    review(m);
    g_mutex_unlock(&m->lock);
}

void msix_unuse(PciDevice *dev, unsigned vector)
{
    Msix *m = dev->msix;

    g_mutex_lock(&m->lock);
    if (--m->vectors[vector].users == 0) {
        drop_irqfd(m, vector);
    }
    g_mutex_unlock(&m->lock);
}

/* ---- what the guest sees ---- */

void msix_config_written(PciDevice *dev)
{
    Msix *m = dev->msix;
    uint16_t control = get_le16(dev->config + m->cap + MSIX_CAP_CONTROL);
    bool enabled = control & MSIX_CONTROL_ENABLE, masked = control & MSIX_CONTROL_MASK;

    if (enabled == m->enabled && masked == m->masked) {
        return;
    }
    g_mutex_lock(&m->lock);
    g_atomic_int_set(&m->enabled, enabled);
    m->masked = masked;
    send_all_pending(m);
    review(m);
    g_mutex_unlock(&m->lock);
}

static uint64_t bar_read(void *opaque, uint64_t offset, unsigned size)
{
    Msix *m = opaque;
    uint32_t value = 0;

    g_mutex_lock(&m->lock);
    if (offset < m->table_bytes) {
        value = get_le32(m->table + offset);
    } else if (offset >= m->pending_offset && offset - m->pending_offset < m->pending_bytes) {
        value = get_le32(m->pending + (offset - m->pending_offset));
    }
    g_mutex_unlock(&m->lock);
    return value;
}

static void write_entry(Msix *m, unsigned n, unsigned field, uint32_t value)
{
    uint8_t *p = entry(m, n) + field;

    if (field == ENTRY_CONTROL) {
        value &= ENTRY_MASKED;
    }
    if (get_le32(p) == value) {
        return;
    }
    put_le32(p, value);
    if (field != ENTRY_CONTROL) {
        drop_irqfd(m, n);
    }
    send_pending(m, n);
    if (wants_irqfd(m, n) && !m->vectors[n].by_irqfd) {
        bind_later(m);
    }
}

/* Pending bits are read-only. */
static void bar_write(void *opaque, uint64_t offset, uint64_t value, unsigned size)
{
    Msix *m = opaque;

    if (offset < m->table_bytes) {
        g_mutex_lock(&m->lock);
        write_entry(m, (unsigned)(offset / MSIX_ENTRY_SIZE), offset % MSIX_ENTRY_SIZE,
                    (uint32_t)value);
        g_mutex_unlock(&m->lock);
    }
}

static void clear(Msix *m)
{
    memset(m->table, 0, m->table_bytes);
    memset(m->pending, 0, m->pending_bytes);
    for (unsigned i = 0; i < m->count; i++) {
        entry(m, i)[ENTRY_CONTROL] = ENTRY_MASKED;
        drop_irqfd(m, i);
    }
}

void msix_reset(PciDevice *dev)
{
    Msix *m = dev->msix;
    uint8_t *control = dev->config + m->cap + MSIX_CAP_CONTROL;

    put_le16(control, get_le16(control) & (uint16_t) ~(MSIX_CONTROL_ENABLE | MSIX_CONTROL_MASK));
    g_mutex_lock(&m->lock);
    g_atomic_int_set(&m->enabled, false);
    m->masked = false;
    clear(m);
    g_mutex_unlock(&m->lock);
}

/* ---- life ---- */

static void state_changed(void *opaque, bool running, RunState state)
{
    Msix *m = opaque;

    if (running) {
        g_mutex_lock(&m->lock);
        send_all_pending(m);
        review(m);
        g_mutex_unlock(&m->lock);
    }
}

static bool add_capability(PciDevice *dev, unsigned vectors, unsigned bar, uint32_t pending,
                           GError **errp)
{
    uint8_t cap = pci_add_capability(dev, PCI_CAP_MSIX, MSIX_CAP_SIZE, errp);
    uint8_t *p = dev->config + cap;

    if (!cap) {
        return false;
    }
    put_le16(p + MSIX_CAP_CONTROL, (uint16_t)(vectors - 1));
    put_le16(dev->writable + cap + MSIX_CAP_CONTROL, MSIX_CONTROL_ENABLE | MSIX_CONTROL_MASK);
    put_le32(p + MSIX_CAP_TABLE, bar);
    put_le32(p + MSIX_CAP_PENDING, pending | bar);
    dev->msix->cap = cap;
    return true;
}

bool msix_init(PciDevice *dev, unsigned vectors, unsigned bar, GError **errp)
{
    static const IoOps ops = { .read = bar_read, .write = bar_write, .min_size = 4, .max_size = 4 };
    uint64_t size = BAR_SIZE_MIN;
    Msix *m;

    if (vectors < 1 || vectors > MSIX_VECTORS_MAX) {
        error_set(errp, "vectors=%u: MSI-X has 1 to %u", vectors, MSIX_VECTORS_MAX);
        return false;
    }
    while (size / 2 < (uint64_t)vectors * MSIX_ENTRY_SIZE) {
        size *= 2;
    }
    m = dev->msix = g_new0(Msix, 1);
    m->dev = dev;
    m->count = vectors;
    m->pending_offset = (uint32_t)(size / 2);
    m->table_bytes = vectors * MSIX_ENTRY_SIZE;
    m->pending_bytes = ROUND_UP(vectors, 64) / 8;
    m->table = g_malloc(m->table_bytes);
    m->pending = g_malloc(m->pending_bytes);
    m->vectors = g_new(MsixVector, vectors);
    for (unsigned i = 0; i < vectors; i++) {
        m->vectors[i] = (MsixVector){ .eventfd = -1, .gsi = -1 };
    }
    g_mutex_init(&m->lock);
    clear(m);
    m->listener = runstate_add_listener(machine_of(m)->runstate, 0, state_changed, m);
    if (!add_capability(dev, vectors, bar, m->pending_offset, errp)) {
        msix_uninit(dev);
        return false;
    }
    pci_add_bar(dev, bar, PCI_BAR_MEM32, false, size, "msix", &ops, m);
    return true;
}

void msix_uninit(PciDevice *dev)
{
    Msix *m = dev->msix;

    if (!m) {
        return;
    }
    runstate_remove_listener(machine_of(m)->runstate, m->listener);
    for (unsigned i = 0; i < m->count; i++) {
        drop_irqfd(m, i);
    }
    msix_free(dev);
}

void msix_free(PciDevice *dev)
{
    Msix *m = dev->msix;

    if (!m) {
        return;
    }
    for (unsigned i = 0; i < m->count; i++) {
        if (m->vectors[i].eventfd >= 0) {
            close(m->vectors[i].eventfd);
        }
    }
    g_mutex_clear(&m->lock);
    g_free(m->table);
    g_free(m->pending);
    g_free(m->vectors);
    g_free(m->saved);
    g_free(m);
    dev->msix = NULL;
}

/* ---- saved state ---- */

static void msix_pre_save(void *opaque)
{
    Msix *m = opaque;

    g_mutex_lock(&m->lock);
    m->saved_bytes = m->table_bytes + m->pending_bytes;
    m->saved = g_realloc(m->saved, m->saved_bytes);
    memcpy(m->saved, m->table, m->table_bytes);
    memcpy(m->saved + m->table_bytes, m->pending, m->pending_bytes);
    g_mutex_unlock(&m->lock);
}

bool msix_loaded(PciDevice *dev, GError **errp)
{
    Msix *m = dev->msix;

    if (!m) {
        return true;
    }
    if (m->saved_bytes != m->table_bytes + m->pending_bytes) {
        error_set(errp, "%s at PCI %x.%x: the saved state has another number of MSI-X vectors",
                  object_type_name(OBJECT(dev)), dev->devfn >> 3, dev->devfn & 7);
        return false;
    }
    g_mutex_lock(&m->lock);
    clear(m);
    memcpy(m->table, m->saved, m->table_bytes);
    memcpy(m->pending, m->saved + m->table_bytes, m->pending_bytes);
    for (unsigned i = 0; i < m->count; i++) {
        put_le32(entry(m, i) + ENTRY_CONTROL, entry(m, i)[ENTRY_CONTROL] & ENTRY_MASKED);
    }
    g_mutex_unlock(&m->lock);
    msix_config_written(dev);
    return true;
}

static bool msix_exists(void *opaque, int version)
{
    return ((PciDevice *)opaque)->msix != NULL;
}

static const VMStateDescription vmstate_msix_vectors = {
    .name = "MSIX",
    .version_id = 1,
    .minimum_version_id = 1,
    .pre_save = msix_pre_save,
    .fields = (const VMStateField[]){ VMSTATE_UINT32(saved_bytes, Msix),
                                      VMSTATE_VARRAY_UINT32_ALLOC(saved, Msix, saved_bytes, 0,
                                                                  vmstate_info_uint8, uint8_t),
                                      VMSTATE_END_OF_LIST() },
};

const VMStateDescription vmstate_msix = {
    .name = "PCIDevice-MSIX",
    .version_id = 1,
    .minimum_version_id = 1,
    .fields = (const VMStateField[]){ VMSTATE_STRUCT_POINTER_TEST(msix, PciDevice, msix_exists, 0,
                                                                  vmstate_msix_vectors, Msix),
                                      VMSTATE_END_OF_LIST() },
};
