/*
 * The CPUID table of a guest: what KVM supports, less what the model leaves out.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "accel/cpuid.h"

#include <string.h>

#include "util/error.h"

/* Entries that may come on top of KVM's: those of the topology. */
#define EXTRA_ENTRIES 8

#define LEAF_KVM 0x40000000u
#define LEAF_KVM_FEATURES 0x40000001u
#define LEAF_KVM_LAST 0x400000ffu
#define OSXSAVE (1u << 27)    /* of leaf 1 ECX: follows CR4 */
#define HYPERVISOR (1u << 31) /* of leaf 1 ECX */

/* Where each word of flags stands. */
static const struct {
    uint32_t function, index;
    size_t reg;
} words[] = {
    [CPU_WORD_1_EDX] = { 1, 0, offsetof(struct kvm_cpuid_entry2, edx) },
    [CPU_WORD_1_ECX] = { 1, 0, offsetof(struct kvm_cpuid_entry2, ecx) },
    [CPU_WORD_7_0_EBX] = { 7, 0, offsetof(struct kvm_cpuid_entry2, ebx) },
    [CPU_WORD_7_0_ECX] = { 7, 0, offsetof(struct kvm_cpuid_entry2, ecx) },
    [CPU_WORD_7_0_EDX] = { 7, 0, offsetof(struct kvm_cpuid_entry2, edx) },
    [CPU_WORD_7_1_EAX] = { 7, 1, offsetof(struct kvm_cpuid_entry2, eax) },
    [CPU_WORD_7_1_EDX] = { 7, 1, offsetof(struct kvm_cpuid_entry2, edx) },
    [CPU_WORD_7_2_EDX] = { 7, 2, offsetof(struct kvm_cpuid_entry2, edx) },
    [CPU_WORD_D_1_EAX] = { 0xd, 1, offsetof(struct kvm_cpuid_entry2, eax) },
    [CPU_WORD_80000001_EDX] = { 0x80000001, 0, offsetof(struct kvm_cpuid_entry2, edx) },
    [CPU_WORD_80000001_ECX] = { 0x80000001, 0, offsetof(struct kvm_cpuid_entry2, ecx) },
    [CPU_WORD_80000007_EBX] = { 0x80000007, 0, offsetof(struct kvm_cpuid_entry2, ebx) },
    [CPU_WORD_80000007_EDX] = { 0x80000007, 0, offsetof(struct kvm_cpuid_entry2, edx) },
    [CPU_WORD_80000008_EBX] = { 0x80000008, 0, offsetof(struct kvm_cpuid_entry2, ebx) },
    [CPU_WORD_8000000A_EDX] = { 0x8000000a, 0, offsetof(struct kvm_cpuid_entry2, edx) },
    [CPU_WORD_80000021_EAX] = { 0x80000021, 0, offsetof(struct kvm_cpuid_entry2, eax) },
    [CPU_WORD_80000022_EAX] = { 0x80000022, 0, offsetof(struct kvm_cpuid_entry2, eax) },
    [CPU_WORD_6_EAX] = { 6, 0, offsetof(struct kvm_cpuid_entry2, eax) },
    [CPU_WORD_KVM_EAX] = { LEAF_KVM_FEATURES, 0, offsetof(struct kvm_cpuid_entry2, eax) },
};

/* Parts of the extended state and the flag without which a guest has none of it. */
static const struct {
    uint64_t components;
    CpuWord word;
    uint8_t bit;
} xsave_parts[] = {
    { 1u << 2, CPU_WORD_1_ECX, 28 },    /* YMM: avx */
    { 3u << 3, CPU_WORD_7_0_EBX, 14 },  /* bounds: mpx */
    { 7u << 5, CPU_WORD_7_0_EBX, 16 },  /* ZMM, masks: avx512f */
    { 1u << 9, CPU_WORD_7_0_ECX, 3 },   /* PKRU: pku */
    { 3u << 17, CPU_WORD_7_0_EDX, 24 }, /* tiles: amx-tile */
};

struct kvm_cpuid_entry2 *cpuid_find(struct kvm_cpuid2 *cpuid, uint32_t function, uint32_t index)
{
    for (uint32_t i = 0; i < cpuid->nent; i++) {
        if (cpuid->entries[i].function == function && cpuid->entries[i].index == index) {
            return &cpuid->entries[i];
        }
    }
    return NULL;
}

/* The register of a word, or NULL where the table lacks its leaf. */
static uint32_t *find_word(struct kvm_cpuid2 *cpuid, CpuWord word)
{
    struct kvm_cpuid_entry2 *e = cpuid_find(cpuid, words[word].function, words[word].index);

    return e ? (uint32_t *)((char *)e + words[word].reg) : NULL;
}

void cpuid_flags(const struct kvm_cpuid2 *cpuid, uint32_t ret_flags[CPU_WORD__MAX])
{
    for (CpuWord w = 0; w < CPU_WORD__MAX; w++) {
        const uint32_t *reg = find_word((struct kvm_cpuid2 *)cpuid, w);

        ret_flags[w] = reg ? *reg : 0;
    }
}

void cpuid_missing(const struct kvm_cpuid2 *supported, const CpuModel *model,
                   uint32_t ret_flags[CPU_WORD__MAX])
{
    uint32_t have[CPU_WORD__MAX], listed[CPU_WORD__MAX];

    cpuid_flags(supported, have);
    have[CPU_WORD_1_ECX] |= HYPERVISOR;
    cpu_model_base_flags(model->info, listed);
    for (CpuWord w = 0; w < CPU_WORD__MAX; w++) {
        uint32_t wanted = model->added[w] | (model->info->flags ? listed[w] : 0);

        ret_flags[w] = wanted & ~model->removed[w] & ~have[w];
    }
}

/* "avx512f avx2": the flags of a word, for people. */
static void append_names(GString *out, CpuWord word, uint32_t bits)
{
    for (unsigned bit = 0; bit < 32; bit++) {
        if (bits >> bit & 1) {
            const char *name = cpu_flag_name(word, bit);

            g_string_append_printf(out, "%s%s", out->len ? " " : "", name ? name : "?");
        }
    }
}

/* Flags that were asked for and cannot be had. */
static bool check_missing(const struct kvm_cpuid2 *supported, const CpuModel *model, bool report,
                          GError **errp)
{
    g_autoptr(GString) missing = g_string_new("");
    uint32_t flags[CPU_WORD__MAX];

    cpuid_missing(supported, model, flags);
    for (CpuWord w = 0; w < CPU_WORD__MAX; w++) {
        append_names(missing, w, flags[w]);
    }
    if (missing->len && model->enforce) {
        error_set(errp,
                  "-cpu: this host's KVM does not support: %s (without enforce=on they are "
                  "left out)",
                  missing->str);
        return false;
    }
    if (missing->len && report) {
        warn_report("-cpu: this host's KVM does not support: %s", missing->str);
    }
    return true;
}

static void apply_flags(struct kvm_cpuid2 *cpuid, const CpuModel *model)
{
    uint32_t mask[CPU_WORD__MAX];

    cpu_model_base_flags(model->info, mask);
    if (model->migratable) {
        mask[CPU_WORD_80000007_EDX] &= ~(1u << 8); /* invtsc: the rate is this host's */
    }
    for (CpuWord w = 0; w < CPU_WORD__MAX; w++) {
        uint32_t *reg = find_word(cpuid, w);

        if (reg) {
            *reg &= (mask[w] | model->added[w]) & ~model->removed[w];
        }
    }
}

/* The processor's name in leaves 80000002 to 80000004. */
static void set_model_id(struct kvm_cpuid2 *cpuid, const char *text)
{
    char id[48] = { 0 };

    memcpy(id, text, MIN(strlen(text), sizeof(id)));
    for (unsigned i = 0; i < 3; i++) {
        struct kvm_cpuid_entry2 *e = cpuid_find(cpuid, 0x80000002 + i, 0);

        if (e) {
            memcpy(&e->eax, id + 16 * i, 4);
            memcpy(&e->ebx, id + 16 * i + 4, 4);
            memcpy(&e->ecx, id + 16 * i + 8, 4);
            memcpy(&e->edx, id + 16 * i + 12, 4);
        }
    }
}

static void apply_identity(struct kvm_cpuid2 *cpuid, const CpuModelType *type)
{
    struct kvm_cpuid_entry2 *e = cpuid_find(cpuid, 1, 0);
    g_autofree char *id = NULL;

    if (!type->family) {
        return;
    }
    if (e) {
        e->eax = cpu_model_signature(type);
    }
    id = g_strdup_printf("Virtual %s processor", type->name);
    set_model_id(cpuid, id);
}

static bool has_flag(struct kvm_cpuid2 *cpuid, CpuWord word, unsigned bit)
{
    const uint32_t *reg = find_word(cpuid, word);

    return reg && (*reg >> bit & 1);
}

/* The room that the parts of the extended state take when stored in their standard places. */
static uint32_t xsave_room(struct kvm_cpuid2 *cpuid, uint64_t components)
{
    uint32_t room = 512 + 64;

    for (unsigned i = 2; i < 63; i++) {
        const struct kvm_cpuid_entry2 *e = components >> i & 1 ? cpuid_find(cpuid, 0xd, i) : NULL;

        if (e) {
            room = MAX(room, e->ebx + e->eax);
        }
    }
    return room;
}

/* Extended state of features that are left out is left out, too. */
static void apply_xsave(struct kvm_cpuid2 *cpuid)
{
    struct kvm_cpuid_entry2 *e = cpuid_find(cpuid, 0xd, 0);
    uint64_t components;

    if (!e) {
        return;
    }
    components = e->eax | (uint64_t)e->edx << 32;
    for (size_t i = 0; i < G_N_ELEMENTS(xsave_parts); i++) {
        if (!has_flag(cpuid, xsave_parts[i].word, xsave_parts[i].bit)) {
            components &= ~xsave_parts[i].components;
        }
    }
    if (!has_flag(cpuid, CPU_WORD_1_ECX, 26)) {
        components = 0;
    }
    e->eax = components;
    e->edx = components >> 32;
    e->ebx = e->ecx = components ? xsave_room(cpuid, components) : 0;
}

static bool leaf_is_hidden(const struct kvm_cpuid_entry2 *e, const CpuModel *model,
                           uint64_t xsave_components)
{
    switch (e->function) {
    case 0xa:
        return !model->pmu;
    case 0xd:
        return e->index >= 2 && !(xsave_components >> e->index & 1) && e->index < 63 &&
               !(e->ecx & 1); /* supervisor state does not follow XCR0 */
    case 0x12:                /* SGX */
    case 0x8000000a:          /* SVM */
        return true;
    default:
        return !model->kvm && e->function >= LEAF_KVM && e->function <= LEAF_KVM_LAST;
    }
}

static void drop_hidden(struct kvm_cpuid2 *cpuid, const CpuModel *model)
{
    struct kvm_cpuid_entry2 *xsave = cpuid_find(cpuid, 0xd, 0);
    uint64_t components = xsave ? xsave->eax | (uint64_t)xsave->edx << 32 : 0;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < cpuid->nent; i++) {
        if (!leaf_is_hidden(&cpuid->entries[i], model, components)) {
            cpuid->entries[kept++] = cpuid->entries[i];
        }
    }
    cpuid->nent = kept;
}

struct kvm_cpuid2 *cpuid_build(const struct kvm_cpuid2 *supported, const CpuModel *model,
                               const CpuTopology *topology, unsigned index, GError **errp)
{
    g_autofree struct kvm_cpuid2 *cpuid = g_malloc0(
        sizeof(*cpuid) + (supported->nent + EXTRA_ENTRIES) * sizeof(struct kvm_cpuid_entry2));
    uint32_t *ecx;

    if (!check_missing(supported, model, model->check && index == 0, errp)) {
        return NULL;
    }
    cpuid->nent = supported->nent;
    memcpy(cpuid->entries, supported->entries, supported->nent * sizeof(supported->entries[0]));
    /* KVM does not list what is its own nature rather than a feature. */
    ecx = find_word(cpuid, CPU_WORD_1_ECX);
    if (ecx) {
        *ecx = (*ecx | HYPERVISOR) & ~OSXSAVE;
    }
    apply_flags(cpuid, model);
    apply_identity(cpuid, model->info);
    apply_xsave(cpuid);
    drop_hidden(cpuid, model);
    cpu_topology_apply(topology, index, cpuid);
    return g_steal_pointer(&cpuid);
}

/* --- Digest --- */

/* Without what differs between the vCPUs of one VM or follows from the guest's registers. */
static void make_common(struct kvm_cpuid_entry2 *e)
{
    switch (e->function) {
    case 1:
        e->ebx &= 0x00ffffff;
        e->ecx &= ~OSXSAVE;
        break;
    case 0xb:
    case 0x1f:
        e->edx = 0;
        break;
    case 0xd:
        if (e->index < 2) {
            e->ebx = 0;
        }
        break;
    case 0x8000001e:
        e->eax = 0;
        e->ebx &= ~0xffu;
        e->ecx &= ~0xffu;
        break;
    default:
        break;
    }
}

void cpuid_digest(const struct kvm_cpuid2 *cpuid, CpuDigest *ret_digest)
{
    g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_SHA256);
    gsize len = sizeof(ret_digest->data);

    for (uint32_t i = 0; i < cpuid->nent; i++) {
        struct kvm_cpuid_entry2 e = cpuid->entries[i];
        uint32_t leaf[6];

        make_common(&e);
        leaf[0] = GUINT32_TO_LE(e.function);
        leaf[1] = GUINT32_TO_LE(e.index);
        leaf[2] = GUINT32_TO_LE(e.eax);
        leaf[3] = GUINT32_TO_LE(e.ebx);
        leaf[4] = GUINT32_TO_LE(e.ecx);
        leaf[5] = GUINT32_TO_LE(e.edx);
        g_checksum_update(sum, (const guchar *)leaf, sizeof(leaf));
    }
    g_checksum_get_digest(sum, ret_digest->data, &len);
}
