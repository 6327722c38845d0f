/*
 * Topology as CPUID tells it, on Intel's and on AMD's way.
 *
 * Sources: Intel SDM volume 2A, CPUID leaves 1, 4, 0xb and 0x1f; AMD APM volume 3, functions
 * 8000_0008, 8000_001d and 8000_001e.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "accel/cpu-topology.h"

#include <glib.h>

#include "accel/cpuid.h"

#define LEVEL_INVALID 0
#define LEVEL_SMT 1
#define LEVEL_CORE 2
#define LEVEL_DIE 5

/* Bits that number @n things. */
static unsigned bits_for(unsigned n)
{
    return n > 1 ? g_bit_storage(n - 1) : 0;
}

/* How far an APIC id is shifted to tell the core, the die, the socket. */
typedef struct Shifts {
    unsigned core, die, socket;
} Shifts;

static Shifts topology_shifts(const CpuTopology *t)
{
    Shifts s = { .core = bits_for(t->threads) };

    s.die = s.core + bits_for(t->cores);
    s.socket = s.die + bits_for(t->dies);
    return s;
}

uint32_t cpu_apic_id(const CpuTopology *t, unsigned index)
{
    Shifts s = topology_shifts(t);
    unsigned thread = index % t->threads;
    unsigned core = index / t->threads % t->cores;
    unsigned die = index / t->threads / t->cores % t->dies;
    unsigned socket = index / t->threads / t->cores / t->dies;

    return socket << s.socket | die << s.die | core << s.core | thread;
}

static unsigned threads_per_socket(const CpuTopology *t)
{
    return t->threads * t->cores * t->dies;
}

static void set_bits(uint32_t *reg, unsigned shift, unsigned width, uint32_t value)
{
    uint32_t mask = ((1u << width) - 1) << shift;

    *reg = (*reg & ~mask) | (MIN(value, (1u << width) - 1) << shift);
}

/* Leaf 1: initial APIC id, and ids a socket takes, where HTT says that the number counts. */
static void apply_leaf_1(const CpuTopology *t, uint32_t apic_id, struct kvm_cpuid_entry2 *e)
{
    set_bits(&e->ebx, 24, 8, apic_id & 0xff);
    set_bits(&e->ebx, 16, 8, 1u << topology_shifts(t).socket);
    set_bits(&e->edx, 28, 1, threads_per_socket(t) > 1);
}

/* One cache: who shares it. Levels 1 and 2 belong to a core, the others to a die. */
static void apply_cache(const CpuTopology *t, struct kvm_cpuid_entry2 *e, bool intel)
{
    Shifts s = topology_shifts(t);
    unsigned level = e->eax >> 5 & 7;

    if ((e->eax & 0x1f) == 0) {
        return;
    }
    set_bits(&e->eax, 14, 12, (1u << (level < 3 ? s.core : s.die)) - 1);
    if (intel) {
        set_bits(&e->eax, 26, 6, (1u << (s.socket - s.core)) - 1);
    }
}

/* Functions 8000_0008 ECX and 8000_001e. */
static void apply_amd(const CpuTopology *t, uint32_t apic_id, struct kvm_cpuid2 *cpuid)
{
    Shifts s = topology_shifts(t);
    struct kvm_cpuid_entry2 *sizes = cpuid_find(cpuid, 0x80000008, 0);
    struct kvm_cpuid_entry2 *ids = cpuid_find(cpuid, 0x8000001e, 0);

    if (sizes) {
        sizes->ecx =
            threads_per_socket(t) > 1 ? s.socket << 12 | ((threads_per_socket(t) - 1) & 0xff) : 0;
    }
    if (ids) {
        ids->eax = apic_id;
        ids->ebx = (t->threads - 1) << 8 | (apic_id >> s.core & 0xff);
        ids->ecx = (t->dies - 1) << 8 | (apic_id >> s.die & 0xff);
        ids->edx = 0;
    }
}

static void add_level(struct kvm_cpuid2 *cpuid, uint32_t function, uint32_t index, unsigned type,
                      unsigned shift, unsigned threads, uint32_t apic_id)
{
    cpuid->entries[cpuid->nent++] = (struct kvm_cpuid_entry2){
        .function = function,
        .index = index,
        .flags = KVM_CPUID_FLAG_SIGNIFCANT_INDEX,
        .eax = shift,
        .ebx = threads,
        .ecx = index | type << 8,
        .edx = apic_id,
    };
}

/* Leaf 0xb knows threads and cores: the dies of a socket count as its cores there. */
static void add_leaf_b(const CpuTopology *t, uint32_t apic_id, struct kvm_cpuid2 *cpuid)
{
    Shifts s = topology_shifts(t);

    add_level(cpuid, 0xb, 0, LEVEL_SMT, s.core, t->threads, apic_id);
    add_level(cpuid, 0xb, 1, LEVEL_CORE, s.socket, threads_per_socket(t), apic_id);
    add_level(cpuid, 0xb, 2, LEVEL_INVALID, 0, 0, apic_id);
}

static void add_leaf_1f(const CpuTopology *t, uint32_t apic_id, struct kvm_cpuid2 *cpuid)
{
    Shifts s = topology_shifts(t);

    add_level(cpuid, 0x1f, 0, LEVEL_SMT, s.core, t->threads, apic_id);
    add_level(cpuid, 0x1f, 1, LEVEL_CORE, s.die, t->threads * t->cores, apic_id);
    add_level(cpuid, 0x1f, 2, LEVEL_DIE, s.socket, threads_per_socket(t), apic_id);
    add_level(cpuid, 0x1f, 3, LEVEL_INVALID, 0, 0, apic_id);
}

static void drop_leaf(struct kvm_cpuid2 *cpuid, uint32_t function)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < cpuid->nent; i++) {
        if (cpuid->entries[i].function != function) {
            cpuid->entries[kept++] = cpuid->entries[i];
        }
    }
    cpuid->nent = kept;
}

void cpu_topology_apply(const CpuTopology *t, unsigned index, struct kvm_cpuid2 *cpuid)
{
    uint32_t apic_id = cpu_apic_id(t, index);
    struct kvm_cpuid_entry2 *max = cpuid_find(cpuid, 0, 0);

    drop_leaf(cpuid, 0xb);
    drop_leaf(cpuid, 0x1f);
    for (uint32_t i = 0; i < cpuid->nent; i++) {
        struct kvm_cpuid_entry2 *e = &cpuid->entries[i];

        if (e->function == 1) {
            apply_leaf_1(t, apic_id, e);
        } else if (e->function == 4 || e->function == 0x8000001d) {
            apply_cache(t, e, e->function == 4);
        }
    }
    if (max && max->ebx == 0x68747541) { /* "Auth"enticAMD */
        apply_amd(t, apic_id, cpuid);
    }
    if (max && max->eax >= 0xb) {
        add_leaf_b(t, apic_id, cpuid);
        if (t->dies > 1) {
            max->eax = MAX(max->eax, 0x1f);
            add_leaf_1f(t, apic_id, cpuid);
        }
    }
}
