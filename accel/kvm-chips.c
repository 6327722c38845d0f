/*
 * The interrupt controllers, the timer and the clock inside KVM: creation, reset, their state.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "accel/kvm-chips.h"

#include <errno.h>
#include <sys/ioctl.h>

#include "util/error.h"

/* Told after devices when the VM stops, before them when it starts. */
#define CLOCK_LISTENER_PRIORITY (-100)

static bool vm_ioctl(KvmAccel *kvm, unsigned long request, void *arg, const char *name,
                     GError **errp)
{
    if (ioctl(kvm->vm_fd, request, arg) < 0) {
        error_set_errno(errp, errno, "KVM: %s", name);
        return false;
    }
    return true;
}

#define VM_IOCTL(kvm, request, arg, errp) vm_ioctl(kvm, request, arg, #request, errp)

static void report(GError *err)
{
    error_report("%s", err->message);
    g_error_free(err);
}

/* --- Interrupt controllers and PIT --- */

static void chip_pre_save(void *opaque)
{
    KvmChip *chip = opaque;
    GError *err = NULL;

    if (!VM_IOCTL(chip->kvm, KVM_GET_IRQCHIP, &chip->state, &err)) {
        report(err);
    }
}

static bool chip_post_load(void *opaque, int version, GError **errp)
{
    KvmChip *chip = opaque;

    return VM_IOCTL(chip->kvm, KVM_SET_IRQCHIP, &chip->state, errp);
}

static void pit_pre_save(void *opaque)
{
    KvmPit *pit = opaque;
    GError *err = NULL;

    if (!VM_IOCTL(pit->kvm, KVM_GET_PIT2, &pit->state, &err)) {
        report(err);
    }
}

static bool pit_post_load(void *opaque, int version, GError **errp)
{
    KvmPit *pit = opaque;

    return VM_IOCTL(pit->kvm, KVM_SET_PIT2, &pit->state, errp);
}

/* --- kvmclock: guest time stands still while the VM is stopped --- */

static bool clock_read(KvmClock *c, GError **errp)
{
    struct kvm_clock_data data = { 0 };

    if (!VM_IOCTL(c->kvm, KVM_GET_CLOCK, &data, errp)) {
        return false;
    }
    c->nanoseconds = data.clock;
    return true;
}

static void clock_listener(void *opaque, bool running, RunState state)
{
    KvmClock *c = opaque;
    GError *err = NULL;

    if (!running) {
        c->stopped = clock_read(c, &err);
    } else if (c->stopped) {
        struct kvm_clock_data data = { .clock = c->nanoseconds };

        VM_IOCTL(c->kvm, KVM_SET_CLOCK, &data, &err);
        c->stopped = false;
    }
    if (err) {
        report(err);
    }
}

static void clock_pre_save(void *opaque)
{
    KvmClock *c = opaque;
    GError *err = NULL;

    if (!c->stopped && !clock_read(c, &err)) {
        report(err);
    }
}

static bool clock_post_load(void *opaque, int version, GError **errp)
{
    ((KvmClock *)opaque)->stopped = true;
    return true;
}

/* --- Tables --- */

#define PIC_FIELD(f) VMSTATE_UINT8(state.chip.pic.f, KvmChip)

static const VMStateDescription vmstate_pic = {
    .name = "kvm-i8259",
    .version_id = 1,
    .minimum_version_id = 1,
    .pre_save = chip_pre_save,
    .post_load = chip_post_load,
    .fields =
        (const VMStateField[]){
            PIC_FIELD(last_irr), PIC_FIELD(irr), PIC_FIELD(imr), PIC_FIELD(isr),
            PIC_FIELD(priority_add), PIC_FIELD(irq_base), PIC_FIELD(read_reg_select),
            PIC_FIELD(poll), PIC_FIELD(special_mask), PIC_FIELD(init_state), PIC_FIELD(auto_eoi),
            PIC_FIELD(rotate_on_auto_eoi), PIC_FIELD(special_fully_nested_mode), PIC_FIELD(init4),
            PIC_FIELD(elcr), PIC_FIELD(elcr_mask), VMSTATE_END_OF_LIST() },
};

/* The redirection table is an array of unions, each of one 64-bit number. */
static const VMStateDescription vmstate_ioapic = {
    .name = "kvm-ioapic",
    .version_id = 1,
    .minimum_version_id = 1,
    .pre_save = chip_pre_save,
    .post_load = chip_post_load,
    .fields = (const VMStateField[]){ VMSTATE_SINGLE(state.chip.ioapic.base_address, KvmChip, 0,
                                                     vmstate_info_uint64, __u64),
                                      VMSTATE_UINT32(state.chip.ioapic.ioregsel, KvmChip),
                                      VMSTATE_UINT32(state.chip.ioapic.id, KvmChip),
                                      VMSTATE_UINT32(state.chip.ioapic.irr, KvmChip),
                                      { .name = "redirtbl",
                                        .offset = offsetof(KvmChip, state.chip.ioapic.redirtbl),
                                        .size = sizeof(uint64_t),
                                        .num = KVM_IOAPIC_NUM_PINS,
                                        .info = &vmstate_info_uint64,
                                        .flags = VMS_ARRAY },
                                      VMSTATE_END_OF_LIST() },
};

/* When a count was loaded is a time of this host; KVM starts the count anew when it is set. */
static const VMStateDescription vmstate_pit_channel = {
    .name = "kvm-i8254/channel",
    .version_id = 1,
    .minimum_version_id = 1,
    .fields = (const VMStateField[]){ VMSTATE_UINT32(count, struct kvm_pit_channel_state),
                                      VMSTATE_UINT16(latched_count, struct kvm_pit_channel_state),
                                      VMSTATE_UINT8(count_latched, struct kvm_pit_channel_state),
                                      VMSTATE_UINT8(status_latched, struct kvm_pit_channel_state),
                                      VMSTATE_UINT8(status, struct kvm_pit_channel_state),
                                      VMSTATE_UINT8(read_state, struct kvm_pit_channel_state),
                                      VMSTATE_UINT8(write_state, struct kvm_pit_channel_state),
                                      VMSTATE_UINT8(write_latch, struct kvm_pit_channel_state),
                                      VMSTATE_UINT8(rw_mode, struct kvm_pit_channel_state),
                                      VMSTATE_UINT8(mode, struct kvm_pit_channel_state),
                                      VMSTATE_UINT8(bcd, struct kvm_pit_channel_state),
                                      VMSTATE_UINT8(gate, struct kvm_pit_channel_state),
                                      VMSTATE_END_OF_LIST() },
};

static const VMStateDescription vmstate_pit = {
    .name = "kvm-i8254",
    .version_id = 1,
    .minimum_version_id = 1,
    .pre_save = pit_pre_save,
    .post_load = pit_post_load,
    .fields = (const VMStateField[]){ VMSTATE_STRUCT_ARRAY(state.channels, KvmPit, 3, 0,
                                                           vmstate_pit_channel,
                                                           struct kvm_pit_channel_state),
                                      VMSTATE_UINT32(state.flags, KvmPit), VMSTATE_END_OF_LIST() },
};

static const VMStateDescription vmstate_clock = {
    .name = "kvmclock",
    .version_id = 1,
    .minimum_version_id = 1,
    .pre_save = clock_pre_save,
    .post_load = clock_post_load,
    .fields =
        (const VMStateField[]){ VMSTATE_UINT64(nanoseconds, KvmClock), VMSTATE_END_OF_LIST() },
};

static bool register_sections(KvmAccel *kvm, GError **errp)
{
    VMStateRegistry *r = kvm->common.env.vmstate;
    KvmChips *c = kvm->chips;
    int priority = VMSTATE_PRIORITY_IRQCHIP;

    return vmstate_register(r, "i8259", 0, priority, &vmstate_pic, &c->chip[0], errp) &&
           vmstate_register(r, "i8259", 1, priority, &vmstate_pic, &c->chip[1], errp) &&
           vmstate_register(r, "ioapic", 0, priority, &vmstate_ioapic, &c->chip[2], errp) &&
           (!c->has_pit ||
            vmstate_register(r, "i8254", 0, priority, &vmstate_pit, &c->pit, errp)) &&
           vmstate_register(r, "kvmclock", 0, priority, &vmstate_clock, &c->clock, errp);
}

/* --- Life --- */

/* What a reset goes back to. */
static bool read_reset_state(KvmAccel *kvm, GError **errp)
{
    KvmChips *c = kvm->chips;

    for (unsigned i = 0; i < G_N_ELEMENTS(c->reset); i++) {
        c->chip[i] = (KvmChip){ .kvm = kvm, .state.chip_id = i };
        c->reset[i].chip_id = i;
        if (!VM_IOCTL(kvm, KVM_GET_IRQCHIP, &c->reset[i], errp)) {
            return false;
        }
    }
    c->pit.kvm = kvm;
    c->clock.kvm = kvm;
    return !c->has_pit || VM_IOCTL(kvm, KVM_GET_PIT2, &c->pit_reset, errp);
}

static bool create_pit(KvmAccel *kvm, GError **errp)
{
    /* KVM answers port 0x61 as well, whose bits belong to the PIT's channels. */
    struct kvm_pit_config config = { .flags = KVM_PIT_SPEAKER_DUMMY };

    return VM_IOCTL(kvm, KVM_CREATE_PIT2, &config, errp);
}

bool kvm_create_irqchip(Accel *accel, bool pit, GError **errp)
{
    KvmAccel *kvm = KVM_ACCEL(accel);

    g_return_val_if_fail(!kvm->chips, false);
    kvm->chips = g_new0(KvmChips, 1);
    kvm->chips->has_pit = pit;
    if (!VM_IOCTL(kvm, KVM_CREATE_IRQCHIP, NULL, errp) || (pit && !create_pit(kvm, errp)) ||
        !read_reset_state(kvm, errp) || !register_sections(kvm, errp)) {
        return false;
    }
    kvm->chips->clock_listener = runstate_add_listener(
        kvm->common.env.runstate, CLOCK_LISTENER_PRIORITY, clock_listener, &kvm->chips->clock);
    return true;
}

bool kvm_chips_reset(KvmAccel *kvm, GError **errp)
{
    KvmChips *c = kvm->chips;

    if (!c) {
        return true;
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(c->reset); i++) {
        if (!VM_IOCTL(kvm, KVM_SET_IRQCHIP, &c->reset[i], errp)) {
            return false;
        }
    }
    return !c->has_pit || VM_IOCTL(kvm, KVM_SET_PIT2, &c->pit_reset, errp);
}

void kvm_chips_free(KvmAccel *kvm)
{
    KvmChips *c = kvm->chips;

    if (!c) {
        return;
    }
    if (c->clock_listener) {
        runstate_remove_listener(kvm->common.env.runstate, c->clock_listener);
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(c->chip); i++) {
        vmstate_unregister(kvm->common.env.vmstate, NULL, &c->chip[i]);
    }
    vmstate_unregister(kvm->common.env.vmstate, NULL, &c->pit);
    vmstate_unregister(kvm->common.env.vmstate, NULL, &c->clock);
    g_clear_pointer(&kvm->chips, g_free);
}
