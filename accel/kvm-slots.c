/*
 * Memory slots: what of the address map is RAM, as KVM wants to know it.
 *
 * Each change of a slot may wait milliseconds for readers inside KVM, so ranges that continue one
 * another in both guest and host memory share a slot, and only slots that differ are touched.
 * While a slot is exchanged its memory is not there: no vCPU is in the guest then.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "accel/kvm.h"

#include <errno.h>
#include <sys/ioctl.h>

#include "util/error.h"
#include "util/log.h"

static void slot_failed(KvmAccel *kvm, GError *err)
{
    error_report("%s", err->message);
    if (kvm->slot_error) {
        g_error_free(err);
    } else {
        kvm->slot_error = err;
    }
    if (kvm->common.running) {
        runstate_request_stop(kvm->common.env.runstate, RUN_STATE_INTERNAL_ERROR);
    }
}

static bool set_slot(KvmAccel *kvm, const KvmSlot *s, uint64_t size)
{
    struct kvm_userspace_memory_region region = {
        .slot = s->number,
        .flags = s->readonly ? KVM_MEM_READONLY : 0,
        .guest_phys_addr = s->base,
        .memory_size = size,
        .userspace_addr = s->host,
    };
    GError *err = NULL;

    log_printf(LOG_KVM,
               "kvm_set_slot: number=%u base=0x%" G_GINT64_MODIFIER "x size=0x%" G_GINT64_MODIFIER
               "x readonly=%d",
               s->number, s->base, size, s->readonly);
    if (ioctl(kvm->vm_fd, KVM_SET_USER_MEMORY_REGION, &region) == 0) {
        return true;
    }
    error_set_errno(&err, errno,
                    "KVM cannot %s memory slot %u at 0x%" G_GINT64_MODIFIER
                    "x, 0x%" G_GINT64_MODIFIER "x bytes",
                    size ? "add" : "remove", s->number, s->base, s->size);
    slot_failed(kvm, err);
    return false;
}

/* --- The ranges, and the slots they make --- */

static bool same_range(const KvmSlot *a, const KvmSlot *b)
{
    return a->base == b->base && a->size == b->size && a->host == b->host &&
           a->readonly == b->readonly;
}

static KvmSlot from_range(const AddressRange *r)
{
    return (KvmSlot){ .base = r->base,
                      .size = r->size,
                      .host = (uintptr_t)r->block->host + r->block_offset,
                      .readonly = r->readonly };
}

static KvmSlot *slot_at(GArray *slots, guint i)
{
    return &g_array_index(slots, KvmSlot, i);
}

static bool contains(GArray *slots, const KvmSlot *s)
{
    for (guint i = 0; i < slots->len; i++) {
        if (same_range(slot_at(slots, i), s)) {
            return true;
        }
    }
    return false;
}

static void remove_range(GArray *ranges, const AddressRange *r)
{
    KvmSlot s = from_range(r);

    for (guint i = 0; i < ranges->len; i++) {
        if (same_range(slot_at(ranges, i), &s)) {
            g_array_remove_index(ranges, i);
            return;
        }
    }
}

static gint compare_base(gconstpointer a, gconstpointer b)
{
    uint64_t x = ((const KvmSlot *)a)->base, y = ((const KvmSlot *)b)->base;

    return x < y ? -1 : x > y;
}

static void update_ranges(GArray *ranges, const AddressRange *removed, size_t n_removed,
                          const AddressRange *added, size_t n_added)
{
    for (size_t i = 0; i < n_removed; i++) {
        if (removed[i].kind == ADDRESS_RAM) {
            remove_range(ranges, &removed[i]);
        }
    }
    for (size_t i = 0; i < n_added; i++) {
        if (added[i].kind == ADDRESS_RAM) {
            KvmSlot s = from_range(&added[i]);

            g_array_append_val(ranges, s);
        }
    }
    g_array_sort(ranges, compare_base);
}

/* Ranges that continue one another become one; the caller frees the array. */
static GArray *join_ranges(GArray *ranges)
{
    GArray *joined = g_array_new(FALSE, FALSE, sizeof(KvmSlot));

    for (guint i = 0; i < ranges->len; i++) {
        const KvmSlot *r = slot_at(ranges, i);
        KvmSlot *last = joined->len ? slot_at(joined, joined->len - 1) : NULL;

        if (last && last->base + last->size == r->base && last->host + last->size == r->host &&
            last->readonly == r->readonly) {
            last->size += r->size;
        } else {
            g_array_append_val(joined, *r);
        }
    }
    return joined;
}

/* --- To KVM --- */

static void remove_gone(KvmAccel *kvm, GArray *wanted)
{
    for (guint i = kvm->slots->len; i-- > 0;) {
        KvmSlot *s = slot_at(kvm->slots, i);

        if (!contains(wanted, s)) {
            set_slot(kvm, s, 0);
            g_array_remove_index_fast(kvm->slots, i);
        }
    }
}

static unsigned free_number(GArray *slots)
{
    unsigned number = 0;

    for (guint i = 0; i < slots->len; i++) {
        if (slot_at(slots, i)->number == number) {
            number++;
            i = -1; /* from the start: numbers are in no order, and there are few */
        }
    }
    return number;
}

static void add_new(KvmAccel *kvm, GArray *wanted)
{
    for (guint i = 0; i < wanted->len; i++) {
        KvmSlot s = *slot_at(wanted, i);
        GError *err = NULL;

        if (contains(kvm->slots, &s)) {
            continue;
        }
        s.number = free_number(kvm->slots);
        if (s.number >= kvm->caps.slots) {
            error_set(&err,
                      "RAM at 0x%" G_GINT64_MODIFIER
                      "x needs memory slot %u, this host's KVM has %u",
                      s.base, s.number, kvm->caps.slots);
            slot_failed(kvm, err);
        } else if (set_slot(kvm, &s, s.size)) {
            g_array_append_val(kvm->slots, s);
        }
    }
}

static bool all_contained(GArray *a, GArray *b)
{
    for (guint i = 0; i < a->len; i++) {
        if (!contains(b, slot_at(a, i))) {
            return false;
        }
    }
    return true;
}

void kvm_commit_slots(void *opaque, const AddressRange *removed, size_t n_removed,
                      const AddressRange *added, size_t n_added)
{
    KvmAccel *kvm = opaque;
    g_autoptr(GArray) wanted = NULL;

    update_ranges(kvm->ranges, removed, n_removed, added, n_added);
    wanted = join_ranges(kvm->ranges);
    if (all_contained(wanted, kvm->slots) && all_contained(kvm->slots, wanted)) {
        return;
    }
    kvm_exclude_guests(kvm);
    kvm->slots_generation++;
    remove_gone(kvm, wanted);
    add_new(kvm, wanted);
}
