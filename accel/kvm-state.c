/*
 * Registers of a vCPU: from KVM, to KVM in the order it needs, and reset values.
 *
 * They are read at most once a stop: fetched when somebody asks, valid until the vCPU runs,
 * written back only if changed. So nothing touches a vCPU (and through it guest memory) while RAM
 * is being saved.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "accel/kvm.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>

#include "util/error.h"
#include "util/log.h"

#define MSR_TSC 0x10
#define MSR_TSC_ADJUST 0x3b
#define APIC_BASE_BSP 0x100u
#define LAPIC_ID 0x20
#define LAPIC_LVT_LINT0 0x350
#define LAPIC_LVT_MASKED 0x10000u
#define XSAVE_SIZE_OLD 4096 /* of KVM_GET_XSAVE */

static bool vcpu_ioctl(KvmVcpu *vcpu, unsigned long request, void *arg, const char *name,
                       GError **errp)
{
    if (ioctl(vcpu->fd, request, arg) < 0) {
        error_set_errno(errp, errno, "CPU %u: %s", vcpu->index, name);
        return false;
    }
    return true;
}

#define VCPU_IOCTL(vcpu, request, arg, errp) vcpu_ioctl(vcpu, request, arg, #request, errp)

static size_t xsave_size(const KvmVcpu *vcpu)
{
    return MAX(vcpu->kvm->caps.xsave_size, XSAVE_SIZE_OLD);
}

void kvm_state_clear(VcpuState *state)
{
    g_clear_pointer(&state->xsave, g_free);
    g_clear_pointer(&state->msrs, g_free);
    state->xsave_size = 0;
    state->n_msrs = 0;
}

/* --- MSRs --- */

static struct kvm_msrs *msr_list_new(uint32_t n)
{
    return g_malloc0(sizeof(struct kvm_msrs) + n * sizeof(struct kvm_msr_entry));
}

/* Reads those of the @n @indices that can be read, in order; the state takes the result. */
static bool fetch_msrs(KvmVcpu *vcpu, const uint32_t *indices, uint32_t n, GError **errp)
{
    VcpuState *state = &vcpu->state;
    g_autofree struct kvm_msrs *list = msr_list_new(n);
    VcpuMsr *out = g_new(VcpuMsr, MAX(n, 1));
    uint32_t n_out = 0;

    for (uint32_t at = 0; at < n;) {
        list->nmsrs = n - at;
        for (uint32_t i = 0; i < list->nmsrs; i++) {
            list->entries[i].index = indices[at + i];
        }
        int r = ioctl(vcpu->fd, KVM_GET_MSRS, list);

        if (r < 0) {
            error_set_errno(errp, errno, "CPU %u: KVM_GET_MSRS", vcpu->index);
            g_free(out);
            return false;
        }
        for (int i = 0; i < r; i++) {
            out[n_out++] = (VcpuMsr){ list->entries[i].index, list->entries[i].data };
        }
        at += r + 1; /* the one after the last that was read cannot be */
    }
    g_free(state->msrs);
    state->msrs = out;
    state->n_msrs = n_out;
    return true;
}

/* KVM does not take this MSR: say so once for each, whatever the number of vCPUs. */
static void report_msr(KvmVcpu *vcpu, const struct kvm_msr_entry *e)
{
    GHashTable *reported = vcpu->kvm->msrs_reported;

    if (g_hash_table_add(reported, GUINT_TO_POINTER(e->index))) {
        warn_report("KVM does not let MSR 0x%x be set to 0x%llx (CPU %u); it is left as it is",
                    e->index, e->data, vcpu->index);
    }
}

static bool push_msrs(KvmVcpu *vcpu, GError **errp)
{
    const VcpuState *state = &vcpu->state;
    g_autofree struct kvm_msrs *list = msr_list_new(state->n_msrs);

    for (uint32_t at = 0; at < state->n_msrs;) {
        list->nmsrs = state->n_msrs - at;
        for (uint32_t i = 0; i < list->nmsrs; i++) {
            list->entries[i] = (struct kvm_msr_entry){ .index = state->msrs[at + i].index,
                                                       .data = state->msrs[at + i].data };
        }
        int r = ioctl(vcpu->fd, KVM_SET_MSRS, list);

        if (r < 0) {
            error_set_errno(errp, errno, "CPU %u: KVM_SET_MSRS", vcpu->index);
            return false;
        }
        if (r < (int)list->nmsrs) {
            report_msr(vcpu, &list->entries[r]);
        }
        at += r + 1;
    }
    return true;
}

/* --- From KVM --- */

static bool fetch_sregs(KvmVcpu *vcpu, GError **errp)
{
    struct kvm_sregs2 *to = &vcpu->state.sregs;
    struct kvm_sregs old;

    if (vcpu->kvm->caps.sregs2) {
        return VCPU_IOCTL(vcpu, KVM_GET_SREGS2, to, errp);
    }
    if (!VCPU_IOCTL(vcpu, KVM_GET_SREGS, &old, errp)) {
        return false;
    }
    /*
     * Both begin with the same members, up to the interrupt bitmap of the one, the flags of the
     * other.
     */
    memset(to, 0, sizeof(*to));
    memcpy(to, &old, offsetof(struct kvm_sregs2, flags));
    return true;
}

static bool fetch_xsave(KvmVcpu *vcpu, GError **errp)
{
    VcpuState *state = &vcpu->state;

    if (state->xsave_size != xsave_size(vcpu)) {
        g_free(state->xsave);
        state->xsave_size = xsave_size(vcpu);
        state->xsave = g_malloc0(state->xsave_size);
    }
    if (vcpu->kvm->caps.xsave_size) {
        return VCPU_IOCTL(vcpu, KVM_GET_XSAVE2, state->xsave, errp);
    }
    return VCPU_IOCTL(vcpu, KVM_GET_XSAVE, state->xsave, errp);
}

/* mp_state comes first: asking for it can make KVM accept an INIT, which changes the others. */
static bool fetch_all(KvmVcpu *vcpu, const uint32_t *indices, uint32_t n, GError **errp)
{
    VcpuState *state = &vcpu->state;
    struct kvm_mp_state mp;

    if (!VCPU_IOCTL(vcpu, KVM_GET_MP_STATE, &mp, errp)) {
        return false;
    }
    state->mp_state = mp.mp_state;
    state->tsc_khz = vcpu->kvm->tsc_khz;
    return VCPU_IOCTL(vcpu, KVM_GET_VCPU_EVENTS, &state->events, errp) &&
           VCPU_IOCTL(vcpu, KVM_GET_REGS, &state->regs, errp) && fetch_sregs(vcpu, errp) &&
           VCPU_IOCTL(vcpu, KVM_GET_XCRS, &state->xcrs, errp) && fetch_xsave(vcpu, errp) &&
           VCPU_IOCTL(vcpu, KVM_GET_DEBUGREGS, &state->debugregs, errp) &&
           (!vcpu->kvm->chips || VCPU_IOCTL(vcpu, KVM_GET_LAPIC, &state->lapic, errp)) &&
           fetch_msrs(vcpu, indices, n, errp);
}

bool kvm_state_fetch(KvmVcpu *vcpu, GError **errp)
{
    const VcpuTemplate *t = &vcpu->kvm->vcpu_template;

    if (!vcpu->state_valid) {
        vcpu->state_valid = fetch_all(vcpu, t->indices, t->n_indices, errp);
    }
    return vcpu->state_valid;
}

/* --- To KVM --- */

static bool push_sregs(KvmVcpu *vcpu, GError **errp)
{
    struct kvm_sregs old = { 0 };

    if (vcpu->kvm->caps.sregs2) {
        return VCPU_IOCTL(vcpu, KVM_SET_SREGS2, &vcpu->state.sregs, errp);
    }
    memcpy(&old, &vcpu->state.sregs, offsetof(struct kvm_sregs2, flags));
    return VCPU_IOCTL(vcpu, KVM_SET_SREGS, &old, errp);
}

/*
 * CR4 and XCR0 decide what XSAVE may hold, APIC_BASE (in sregs) the layout of the local APIC,
 * whose timer mode must stand before the deadline among the MSRs.
 */
bool kvm_state_push(KvmVcpu *vcpu, GError **errp)
{
    VcpuState *state = &vcpu->state;
    bool ok = push_sregs(vcpu, errp) && VCPU_IOCTL(vcpu, KVM_SET_XCRS, &state->xcrs, errp) &&
              VCPU_IOCTL(vcpu, KVM_SET_XSAVE, state->xsave, errp) &&
              VCPU_IOCTL(vcpu, KVM_SET_REGS, &state->regs, errp) &&
              (!vcpu->kvm->chips || VCPU_IOCTL(vcpu, KVM_SET_LAPIC, &state->lapic, errp)) &&
              push_msrs(vcpu, errp) &&
              VCPU_IOCTL(vcpu, KVM_SET_VCPU_EVENTS, &state->events, errp) &&
              VCPU_IOCTL(vcpu, KVM_SET_DEBUGREGS, &state->debugregs, errp);

    if (ok) {
        vcpu->state_dirty = false;
        vcpu->mp_dirty = true;
    }
    return ok;
}

void kvm_state_apply_tsc_rate(KvmVcpu *vcpu)
{
    KvmAccel *kvm = vcpu->kvm;
    uint64_t want = vcpu->state.tsc_khz, have = kvm->tsc_khz;

    /* Within 250 ppm guests cope, as they do with a crystal. */
    if (!want || !have || (want > have ? want - have : have - want) * 4000 <= have) {
        return;
    }
    if (ioctl(vcpu->fd, KVM_SET_TSC_KHZ, (unsigned long)want) < 0 && vcpu->index == 0) {
        warn_report("the guest's time stamp counter ran at %u kHz, here it runs at %u kHz and KVM "
                    "cannot change that: a guest that keeps time by it will be off",
                    (unsigned)want, (unsigned)have);
    }
}

bool kvm_state_flush(KvmVcpu *vcpu, GError **errp)
{
    if (vcpu->state_dirty && !kvm_state_push(vcpu, errp)) {
        return false;
    }
    if (vcpu->mp_dirty) {
        struct kvm_mp_state mp = { .mp_state = vcpu->state.mp_state };

        if (!VCPU_IOCTL(vcpu, KVM_SET_MP_STATE, &mp, errp)) {
            return false;
        }
        vcpu->mp_dirty = false;
    }
    return true;
}

/* --- Reset --- */

/* KVM's list, and the memory type ranges, which KVM keeps but does not list. */
static uint32_t *msr_indices(KvmAccel *kvm, uint32_t *ret_n, GError **errp)
{
    static const uint32_t mtrrs[] = { 0x2ff, 0x250, 0x258, 0x259, 0x268, 0x269, 0x26a,
                                      0x26b, 0x26c, 0x26d, 0x26e, 0x26f, 0x200, 0x201,
                                      0x202, 0x203, 0x204, 0x205, 0x206, 0x207, 0x208,
                                      0x209, 0x20a, 0x20b, 0x20c, 0x20d, 0x20e, 0x20f };
    struct kvm_msr_list probe = { .nmsrs = 0 };
    g_autofree struct kvm_msr_list *list = NULL;
    uint32_t *indices;

    /* Fails with E2BIG and tells how many there are. */
    if (ioctl(kvm->kvm_fd, KVM_GET_MSR_INDEX_LIST, &probe) < 0 && errno != E2BIG) {
        error_set_errno(errp, errno, "KVM_GET_MSR_INDEX_LIST");
        return NULL;
    }
    list = g_malloc0(sizeof(*list) + probe.nmsrs * sizeof(uint32_t));
    list->nmsrs = probe.nmsrs;
    if (ioctl(kvm->kvm_fd, KVM_GET_MSR_INDEX_LIST, list) < 0) {
        error_set_errno(errp, errno, "KVM_GET_MSR_INDEX_LIST");
        return NULL;
    }
    indices = g_new(uint32_t, list->nmsrs + G_N_ELEMENTS(mtrrs));
    memcpy(indices, list->indices, list->nmsrs * sizeof(uint32_t));
    memcpy(indices + list->nmsrs, mtrrs, sizeof(mtrrs));
    *ret_n = list->nmsrs + G_N_ELEMENTS(mtrrs);
    return indices;
}

bool kvm_template_read(KvmVcpu *vcpu, GError **errp)
{
    VcpuTemplate *t = &vcpu->kvm->vcpu_template;
    uint32_t n;
    g_autofree uint32_t *indices = msr_indices(vcpu->kvm, &n, errp);
    int khz = ioctl(vcpu->fd, KVM_GET_TSC_KHZ, 0);

    vcpu->kvm->tsc_khz = MAX(khz, 0);
    if (!indices || !fetch_all(vcpu, indices, n, errp)) {
        return false;
    }
    t->state = vcpu->state;
    vcpu->state = (VcpuState){ .xsave = NULL };
    t->n_indices = t->state.n_msrs;
    t->indices = g_new(uint32_t, MAX(t->n_indices, 1));
    for (uint32_t i = 0; i < t->n_indices; i++) {
        t->indices[i] = t->state.msrs[i].index;
    }
    return true;
}

void kvm_template_free(VcpuTemplate *t)
{
    kvm_state_clear(&t->state);
    g_clear_pointer(&t->indices, g_free);
}

/* A reset leaves the time stamp counter running. */
static void reset_msrs(VcpuState *state, const VcpuState *from)
{
    state->msrs = g_new(VcpuMsr, MAX(from->n_msrs, 1));
    state->n_msrs = 0;
    for (uint32_t i = 0; i < from->n_msrs; i++) {
        if (from->msrs[i].index != MSR_TSC && from->msrs[i].index != MSR_TSC_ADJUST) {
            state->msrs[state->n_msrs++] = from->msrs[i];
        }
    }
}

/* The template is the boot processor's; the others wait for INIT and SIPI. */
static void make_secondary(VcpuState *state, uint32_t apic_id)
{
    uint32_t id = apic_id << 24, lint0 = LAPIC_LVT_MASKED;

    state->sregs.apic_base &= ~(uint64_t)APIC_BASE_BSP;
    memcpy(state->lapic.regs + LAPIC_ID, &id, sizeof(id));
    memcpy(state->lapic.regs + LAPIC_LVT_LINT0, &lint0, sizeof(lint0));
    state->mp_state = KVM_MP_STATE_UNINITIALIZED;
}

void kvm_state_reset(KvmVcpu *vcpu)
{
    const VcpuState *from = &vcpu->kvm->vcpu_template.state;
    VcpuState *state = &vcpu->state;

    kvm_state_clear(state);
    *state = *from;
    state->xsave = g_memdup2(from->xsave, from->xsave_size);
    reset_msrs(state, from);
    if (vcpu->index) {
        make_secondary(state, cpu_apic_id(&vcpu->kvm->topology, vcpu->index));
    } else {
        state->mp_state = KVM_MP_STATE_RUNNABLE;
        kvm_boot_apply(&vcpu->kvm->boot, state);
    }
    vcpu->state_valid = true;
    vcpu->state_dirty = true;
}

/* --- As text --- */

static void format_segment(GString *out, const char *name, const struct kvm_segment *s)
{
    g_string_append_printf(out, "%-3s=%04x %016llx %08x type=%x dpl=%u p=%u db=%u l=%u g=%u\n",
                           name, s->selector, s->base, s->limit, s->type, s->dpl, s->present, s->db,
                           s->l, s->g);
}

char *kvm_state_format(const VcpuState *state)
{
    const struct kvm_regs *r = &state->regs;
    const struct kvm_sregs2 *s = &state->sregs;
    GString *out = g_string_new(NULL);

    g_string_append_printf(out,
                           "RAX=%016llx RBX=%016llx RCX=%016llx RDX=%016llx\n"
                           "RSI=%016llx RDI=%016llx RBP=%016llx RSP=%016llx\n"
                           "R8 =%016llx R9 =%016llx R10=%016llx R11=%016llx\n"
                           "R12=%016llx R13=%016llx R14=%016llx R15=%016llx\n"
                           "RIP=%016llx RFL=%08llx\n",
                           r->rax, r->rbx, r->rcx, r->rdx, r->rsi, r->rdi, r->rbp, r->rsp, r->r8,
                           r->r9, r->r10, r->r11, r->r12, r->r13, r->r14, r->r15, r->rip,
                           r->rflags);
    format_segment(out, "ES", &s->es);
    format_segment(out, "CS", &s->cs);
    format_segment(out, "SS", &s->ss);
    format_segment(out, "DS", &s->ds);
    format_segment(out, "FS", &s->fs);
    format_segment(out, "GS", &s->gs);
    format_segment(out, "LDT", &s->ldt);
    format_segment(out, "TR", &s->tr);
    g_string_append_printf(out,
                           "GDT= %016llx %04x\nIDT= %016llx %04x\n"
                           "CR0=%08llx CR2=%016llx CR3=%016llx CR4=%08llx CR8=%llx\n"
                           "EFER=%016llx APIC_BASE=%llx mp_state=%u\n",
                           s->gdt.base, s->gdt.limit, s->idt.base, s->idt.limit, s->cr0, s->cr2,
                           s->cr3, s->cr4, s->cr8, s->efer, s->apic_base, state->mp_state);
    return g_string_free(out, FALSE);
}
