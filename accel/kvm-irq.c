/*
 * Interrupts into the guest and notifications out of it: lines, messages, routes, eventfds.
 *
 * GSIs 0 to 23 are the pins of the I/O APIC of the same number (0 to 15 the 8259s' too), as KVM
 * sets them up itself; each MSI that an eventfd raises has a GSI of its own after those. KVM
 * takes the whole table at once and may wait milliseconds for it, so changes are collected.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "accel/kvm.h"

#include <errno.h>
#include <sys/ioctl.h>

#include "util/error.h"

#define FIRST_MSI_GSI KVM_IOAPIC_NUM_PINS
#define PIC_PINS 8

void kvm_set_irq(Accel *accel, unsigned gsi, int level)
{
    KvmAccel *kvm = KVM_ACCEL(accel);
    struct kvm_irq_level line = { .irq = gsi, .level = !!level };

    if (ioctl(kvm->vm_fd, KVM_IRQ_LINE, &line) < 0) {
        error_report("KVM_IRQ_LINE, GSI %u: %s (errno %d)", gsi, g_strerror(errno), errno);
    }
}

/* The destination's bits above 8 stand in the high half of the address, as VT-d has it. */
static struct kvm_msi make_msi(uint64_t address, uint32_t data)
{
    return (struct kvm_msi){ .address_lo = address, .address_hi = address >> 32, .data = data };
}

bool kvm_send_msi(Accel *accel, uint64_t address, uint32_t data)
{
    KvmAccel *kvm = KVM_ACCEL(accel);
    struct kvm_msi msi = make_msi(address, data);

    return ioctl(kvm->vm_fd, KVM_SIGNAL_MSI, &msi) > 0;
}

void kvm_inject_nmi(Accel *accel)
{
    KvmAccel *kvm = KVM_ACCEL(accel);
    for (unsigned i = 0; i < kvm->n_vcpus; i++) {
        g_atomic_int_set(&kvm->vcpus[i].nmi_wanted, 1);
    }
    kvm_kick_all(kvm);
}

/* --- Routes --- */

static struct kvm_irq_routing_entry *route_at(KvmAccel *kvm, guint i)
{
    return &g_array_index(kvm->routes, struct kvm_irq_routing_entry, i);
}

static void fill_route(struct kvm_irq_routing_entry *e, uint64_t address, uint32_t data)
{
    e->type = KVM_IRQ_ROUTING_MSI;
    e->u.msi.address_lo = address;
    e->u.msi.address_hi = address >> 32;
    e->u.msi.data = data;
}

int kvm_add_msi_route(Accel *accel, uint64_t address, uint32_t data, GError **errp)
{
    KvmAccel *kvm = KVM_ACCEL(accel);
    guint max = kvm_check(kvm, KVM_CAP_IRQ_ROUTING);
    guint i = 0;

    g_mutex_lock(&kvm->routes_lock);
    while (i < kvm->routes->len && route_at(kvm, i)->type) {
        i++;
    }
    if (FIRST_MSI_GSI + i + PIC_PINS * 2 >= max) {
        g_mutex_unlock(&kvm->routes_lock);
        error_set(errp, "KVM's interrupt routing table of %u entries is full", max);
        return -1;
    }
    if (i == kvm->routes->len) {
        g_array_set_size(kvm->routes, i + 1);
    }
    route_at(kvm, i)->gsi = FIRST_MSI_GSI + i;
    fill_route(route_at(kvm, i), address, data);
    kvm->routes_dirty = true;
    g_mutex_unlock(&kvm->routes_lock);
    return FIRST_MSI_GSI + i;
}

void kvm_update_msi_route(Accel *accel, int gsi, uint64_t address, uint32_t data)
{
    KvmAccel *kvm = KVM_ACCEL(accel);
    g_mutex_lock(&kvm->routes_lock);
    fill_route(route_at(kvm, gsi - FIRST_MSI_GSI), address, data);
    kvm->routes_dirty = true;
    g_mutex_unlock(&kvm->routes_lock);
}

void kvm_remove_msi_route(Accel *accel, int gsi)
{
    KvmAccel *kvm = KVM_ACCEL(accel);
    g_mutex_lock(&kvm->routes_lock);
    route_at(kvm, gsi - FIRST_MSI_GSI)->type = 0;
    kvm->routes_dirty = true;
    g_mutex_unlock(&kvm->routes_lock);
}

static void add_pin(struct kvm_irq_routing *table, unsigned gsi, unsigned chip, unsigned pin)
{
    table->entries[table->nr++] = (struct kvm_irq_routing_entry){
        .gsi = gsi, .type = KVM_IRQ_ROUTING_IRQCHIP, .u.irqchip = { .irqchip = chip, .pin = pin }
    };
}

static struct kvm_irq_routing *make_table(KvmAccel *kvm)
{
    guint n = KVM_IOAPIC_NUM_PINS + 2 * PIC_PINS + kvm->routes->len;
    struct kvm_irq_routing *table =
        g_malloc0(sizeof(*table) + n * sizeof(struct kvm_irq_routing_entry));

    for (unsigned i = 0; i < KVM_IOAPIC_NUM_PINS; i++) {
        if (i < 2 * PIC_PINS) {
            add_pin(table, i, i < PIC_PINS ? KVM_IRQCHIP_PIC_MASTER : KVM_IRQCHIP_PIC_SLAVE,
                    i % PIC_PINS);
        }
        add_pin(table, i, KVM_IRQCHIP_IOAPIC, i);
    }
    for (guint i = 0; i < kvm->routes->len; i++) {
        if (route_at(kvm, i)->type) {
            table->entries[table->nr++] = *route_at(kvm, i);
        }
    }
    return table;
}

bool kvm_commit_routes(Accel *accel, GError **errp)
{
    KvmAccel *kvm = KVM_ACCEL(accel);
    bool ok = true;

    g_mutex_lock(&kvm->routes_lock);
    if (kvm->routes_dirty) {
        g_autofree struct kvm_irq_routing *table = make_table(kvm);

        ok = ioctl(kvm->vm_fd, KVM_SET_GSI_ROUTING, table) == 0;
        if (!ok) {
            error_set_errno(errp, errno, "KVM_SET_GSI_ROUTING, %u entries", table->nr);
        }
        kvm->routes_dirty = !ok;
    }
    g_mutex_unlock(&kvm->routes_lock);
    return ok;
}

/* --- Eventfds --- */

bool kvm_add_irqfd(Accel *accel, int eventfd, int resample, int gsi, GError **errp)
{
    KvmAccel *kvm = KVM_ACCEL(accel);
    struct kvm_irqfd f = { .fd = eventfd, .gsi = gsi };

    if (resample >= 0) {
        f.flags = KVM_IRQFD_FLAG_RESAMPLE;
        f.resamplefd = resample;
    }
    if (ioctl(kvm->vm_fd, KVM_IRQFD, &f) < 0) {
        error_set_errno(errp, errno, "KVM_IRQFD, GSI %d", gsi);
        return false;
    }
    return true;
}

bool kvm_remove_irqfd(Accel *accel, int eventfd, int gsi, GError **errp)
{
    KvmAccel *kvm = KVM_ACCEL(accel);
    struct kvm_irqfd f = { .fd = eventfd, .gsi = gsi, .flags = KVM_IRQFD_FLAG_DEASSIGN };

    if (ioctl(kvm->vm_fd, KVM_IRQFD, &f) < 0) {
        error_set_errno(errp, errno, "KVM_IRQFD (remove), GSI %d", gsi);
        return false;
    }
    return true;
}

static struct kvm_ioeventfd make_ioevent(const AccelIoEvent *e)
{
    return (struct kvm_ioeventfd){
        .datamatch = e->value,
        .addr = e->addr,
        .len = e->size,
        .fd = e->eventfd,
        .flags =
            (e->pio ? KVM_IOEVENTFD_FLAG_PIO : 0) | (e->match ? KVM_IOEVENTFD_FLAG_DATAMATCH : 0),
    };
}

bool kvm_add_ioevent(Accel *accel, const AccelIoEvent *e, GError **errp)
{
    KvmAccel *kvm = KVM_ACCEL(accel);
    struct kvm_ioeventfd io = make_ioevent(e);

    if (ioctl(kvm->vm_fd, KVM_IOEVENTFD, &io) < 0) {
        error_set_errno(errp, errno, "KVM_IOEVENTFD at 0x%" G_GINT64_MODIFIER "x", e->addr);
        return false;
    }
    return true;
}

void kvm_remove_ioevent(Accel *accel, const AccelIoEvent *e)
{
    KvmAccel *kvm = KVM_ACCEL(accel);
    struct kvm_ioeventfd io = make_ioevent(e);

    io.flags |= KVM_IOEVENTFD_FLAG_DEASSIGN;
    if (ioctl(kvm->vm_fd, KVM_IOEVENTFD, &io) < 0) {
        error_report("KVM_IOEVENTFD (remove) at 0x%" G_GINT64_MODIFIER "x: %s (errno %d)", e->addr,
                     g_strerror(errno), errno);
    }
}
