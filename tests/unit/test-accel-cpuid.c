/*
 * Tests of -cpu, of the CPUID table made from it, of topology and the digest.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <glib.h>
#include <string.h>

#include "accel/cpuid.h"

static const CpuTopology one = { 1, 1, 1, 1 };

/* --- The text --- */

static void expect_error(const char *text, const char *part)
{
    g_autoptr(GError) err = NULL;
    g_autoptr(CpuModel) m = cpu_model_parse(text, &err);

    g_assert_null(m);
    if (!strstr(err->message, part)) {
        g_error("-cpu %s: '%s' lacks '%s'", text, err->message, part);
    }
}

static void test_parse(void)
{
    g_autoptr(CpuModel) m =
        cpu_model_parse("host,-avx512f,+x2apic,sse4_1=off,tsc-deadline,migratable=off", NULL);

    g_assert_nonnull(m);
    g_assert_cmpstr(m->info->name, ==, "host");
    g_assert_cmphex(m->removed[CPU_WORD_7_0_EBX], ==, 1u << 16);
    g_assert_cmphex(m->added[CPU_WORD_1_ECX], ==, 1u << 21 | 1u << 24);
    g_assert_cmphex(m->removed[CPU_WORD_1_ECX], ==, 1u << 19);
    g_assert_false(m->migratable);
    g_assert_true(m->kvm);
}

/* Each model begins with one above it, and every name in its list is a flag. */
static void test_model_table(void)
{
    for (const CpuModelType *t = cpu_models; t->name; t++) {
        g_auto(GStrv) names = g_strsplit(t->flags ? t->flags : "", " ", -1);
        bool found = !t->parent;

        for (const CpuModelType *above = cpu_models; above != t && !found; above++) {
            found = g_strcmp0(above->name, t->parent) == 0;
        }
        g_assert_true(found);
        for (char **name = names; *name && **name; name++) {
            g_autofree char *text = g_strdup_printf("base,%s%s", **name == '-' ? "" : "+", *name);
            g_autoptr(CpuModel) m = cpu_model_parse(text, NULL);

            g_assert_nonnull(m);
        }
    }
}

static uint32_t flag_of(const char *model, CpuWord word, unsigned bit)
{
    g_autoptr(CpuModel) m = cpu_model_parse(model, NULL);
    uint32_t mask[CPU_WORD__MAX];

    g_assert_nonnull(m);
    cpu_model_base_flags(m->info, mask);
    return mask[word] >> bit & 1;
}

/* Facts of some processors: Intel ARK and AMD's product pages. */
static void test_named_models(void)
{
    g_assert_true(flag_of("Nehalem", CPU_WORD_1_ECX, 20));  /* SSE4.2 */
    g_assert_false(flag_of("Nehalem", CPU_WORD_1_ECX, 25)); /* AES: Westmere */
    g_assert_true(flag_of("Westmere", CPU_WORD_1_ECX, 25));
    g_assert_true(flag_of("Haswell", CPU_WORD_7_0_EBX, 11)); /* RTM */
    g_assert_false(flag_of("Haswell-noTSX", CPU_WORD_7_0_EBX, 11));
    g_assert_true(flag_of("EPYC-Milan", CPU_WORD_7_0_ECX, 3)); /* PKU */
    g_assert_false(flag_of("EPYC-Rome", CPU_WORD_7_0_ECX, 3));
    g_assert_false(flag_of("EPYC", CPU_WORD_80000001_ECX, 2));      /* SVM: never */
    g_assert_true(flag_of("SapphireRapids", CPU_WORD_7_0_EDX, 24)); /* AMX-TILE */
    g_assert_true(flag_of("kvm64", CPU_WORD_KVM_EAX, 3));           /* the guest's clock */
    g_assert_false(flag_of("base", CPU_WORD_1_EDX, 0));
}

static void test_signature(void)
{
    g_autoptr(CpuModel) milan = cpu_model_parse("EPYC-Milan", NULL);
    g_autoptr(CpuModel) haswell = cpu_model_parse("Haswell", NULL);

    g_assert_cmphex(cpu_model_signature(milan->info), ==, 0x00a00f11);
    g_assert_cmphex(cpu_model_signature(haswell->info), ==, 0x000306c4);
}

static void test_last_wins(void)
{
    g_autoptr(CpuModel) m = cpu_model_parse("max,+avx2,avx2=off,-pcid,pcid=on,kvm=off", NULL);

    g_assert_cmphex(m->removed[CPU_WORD_7_0_EBX], ==, 1u << 5);
    g_assert_cmphex(m->added[CPU_WORD_7_0_EBX], ==, 0);
    g_assert_cmphex(m->added[CPU_WORD_1_ECX], ==, 1u << 17);
    g_assert_false(m->kvm);
}

static void test_bad_text(void)
{
    expect_error("hots", "'host'");
    expect_error("", "unknown CPU model ''");
    expect_error("host,+avx512g", "'avx512f'");
    expect_error("host,migratible=on", "'migratable'");
    expect_error("host,bogus=perhaps", "unknown feature or property 'bogus'");
    expect_error("host,avx=perhaps", "neither 'on' nor 'off'");
    expect_error("host,+avx=on", "either a sign or a value");
    expect_error("host,vmx-ept=on", "cannot be given to a guest");
    expect_error("host,hv-relaxed=on", "cannot be given to a guest");
    expect_error("Nehalm", "'Nehalem'");
    expect_error("host,+vmx", "virtual machines inside");
    expect_error("host,svm=on", "virtual machines inside");
    expect_error("host,", "unknown feature or property ''");
}

/* Every name means one bit, and no two flags share a bit but the known synonyms. */
static void test_flag_names(void)
{
    for (size_t i = 0; i < cpu_flag_count; i++) {
        g_assert_cmpuint(cpu_flags[i].bit, <, 32);
        for (size_t k = 0; k < i; k++) {
            g_assert_cmpstr(cpu_flags[i].name, !=, cpu_flags[k].name);
        }
        g_assert_nonnull(cpu_flag_name(cpu_flags[i].word, cpu_flags[i].bit));
    }
    g_assert_cmpstr(cpu_flag_name(CPU_WORD_1_ECX, 28), ==, "avx");
    g_assert_null(cpu_flag_name(CPU_WORD_1_EDX, 10));
}

/* --- The table --- */

/* What a KVM could support: one of each leaf that is treated in a special way. */
static const struct kvm_cpuid_entry2 supported_entries[] = {
    { 0, 0, 0, 0xd, 0x756e6547, 0x6c65746e, 0x49656e69 },
    { 1, 0, 0, 0x000806f8, 0x00100800, 0x9e3fa223, 0x0f8bfbff },
    { 4, 0, 1, 0x7c004121, 0x02c0003f, 0x3f, 0 },
    { 4, 3, 1, 0x7c0fc163, 0x0380003f, 0x3ffff, 0 },
    { 6, 0, 0, 4, 0, 0, 0 },
    { 7, 0, 1, 1, 0xf1bf2fbf, 0x1b415fde, 0xffd94410 },
    { 7, 1, 1, 0x1c30, 0, 0, 0 },
    { 0xa, 0, 0, 0x08300802, 0, 0, 0x603 },
    { 0xb, 0, 1, 1, 2, 0x100, 5 },
    { 0xb, 1, 1, 7, 64, 0x201, 5 },
    { 0xd, 0, 1, 0x2e7, 0x240, 0xa88, 0 },
    { 0xd, 1, 1, 0xf, 0x240, 0, 0 },
    { 0xd, 2, 1, 256, 576, 0, 0 },
    { 0xd, 5, 1, 64, 1088, 0, 0 },
    { 0xd, 6, 1, 512, 1152, 0, 0 },
    { 0xd, 7, 1, 1024, 1664, 0, 0 },
    { 0xd, 9, 1, 8, 2688, 0, 0 },
    { 0x12, 0, 1, 1, 0, 0, 0 },
    { 0x40000000, 0, 0, 0x40000001, 0x4b4d564b, 0x564b4d56, 0x4d },
    { 0x40000001, 0, 0, 0x01007efb, 0, 0, 0 },
    { 0x80000000, 0, 0, 0x80000008, 0, 0, 0 },
    { 0x80000001, 0, 0, 0, 0, 0x121, 0x2c100800 },
    { 0x80000002, 0, 0, 0x41414141, 0x41414141, 0x41414141, 0x41414141 },
    { 0x80000007, 0, 0, 0, 0, 0, 0x100 },
    { 0x80000008, 0, 0, 0x3039, 0x100d200, 0, 0 },
};

static struct kvm_cpuid2 *supported(void)
{
    struct kvm_cpuid2 *c = g_malloc0(sizeof(*c) + sizeof(supported_entries));

    c->nent = G_N_ELEMENTS(supported_entries);
    for (uint32_t i = 0; i < c->nent; i++) {
        c->entries[i] = supported_entries[i];
    }
    return c;
}

static struct kvm_cpuid2 *build(const char *text, const CpuTopology *t, unsigned index)
{
    g_autofree struct kvm_cpuid2 *from = supported();
    g_autoptr(CpuModel) m = cpu_model_parse(text, NULL);
    struct kvm_cpuid2 *c;

    g_assert_nonnull(m);
    c = cpuid_build(from, m, t, index, NULL);
    g_assert_nonnull(c);
    return c;
}

static void test_host(void)
{
    g_autofree struct kvm_cpuid2 *c = build("host", &one, 0);
    struct kvm_cpuid_entry2 *e = cpuid_find(c, 1, 0);

    g_assert_cmphex(e->eax, ==, 0x806f8);
    g_assert_cmphex(e->ecx >> 31, ==, 1);      /* hypervisor */
    g_assert_cmphex(e->ecx & 1u << 5, ==, 0);  /* vmx */
    g_assert_cmphex(e->ecx & 1u << 27, ==, 0); /* OSXSAVE is KVM's to set */
    g_assert_cmphex(cpuid_find(c, 0x80000007, 0)->edx, ==, 0);
    g_assert_cmphex(cpuid_find(c, 0xd, 0)->eax, ==, 0x2e7);
    g_assert_cmphex(cpuid_find(c, 0xd, 0)->ecx, ==, 2696);
    g_assert_cmphex(cpuid_find(c, 7, 0)->ebx & 1u << 2, ==, 0); /* sgx */
    g_assert_null(cpuid_find(c, 0x12, 0));
    g_assert_nonnull(cpuid_find(c, 0xa, 0));
    g_assert_nonnull(cpuid_find(c, 0x40000000, 0));
}

static void test_flags(void)
{
    g_autofree struct kvm_cpuid2 *c =
        build("host,-avx512f,-pku,migratable=off,kvm=off,pmu=off", &one, 0);

    g_assert_cmphex(cpuid_find(c, 7, 0)->ebx & 1u << 16, ==, 0);
    /* Without the feature there is no room for its registers, and none is announced. */
    g_assert_cmphex(cpuid_find(c, 0xd, 0)->eax, ==, 7);
    g_assert_cmphex(cpuid_find(c, 0xd, 0)->ecx, ==, 832);
    g_assert_null(cpuid_find(c, 0xd, 6));
    g_assert_null(cpuid_find(c, 0xd, 9));
    g_assert_nonnull(cpuid_find(c, 0xd, 2));
    g_assert_cmphex(cpuid_find(c, 0x80000007, 0)->edx, ==, 0x100);
    g_assert_null(cpuid_find(c, 0x40000000, 0));
    g_assert_null(cpuid_find(c, 0xa, 0));
}

static void test_qemu64(void)
{
    g_autofree struct kvm_cpuid2 *c = build("qemu64,+avx2", &one, 0);

    g_assert_cmphex(cpuid_find(c, 1, 0)->eax, ==, 0x60fb1);
    g_assert_cmphex(cpuid_find(c, 7, 0)->ebx, ==, 1u << 5);
    g_assert_cmphex(cpuid_find(c, 7, 0)->ecx, ==, 0);
    g_assert_cmphex(cpuid_find(c, 0xd, 0)->eax, ==, 0);
    g_assert_cmphex(cpuid_find(c, 0x80000001, 0)->edx, ==, 1u << 11 | 1u << 20 | 1u << 29);
    g_assert_cmpmem(&cpuid_find(c, 0x80000002, 0)->eax, 14, "Virtual qemu64", 14);
}

static void test_enforce(void)
{
    g_autofree struct kvm_cpuid2 *from = supported();
    g_autoptr(CpuModel) m = cpu_model_parse("host,+amx-tile,+sse4a,enforce=on", NULL);
    g_autoptr(GError) err = NULL;

    cpuid_find(from, 7, 0)->edx &= ~(1u << 24);
    g_assert_null(cpuid_build(from, m, &one, 0, &err));
    g_assert_nonnull(strstr(err->message, "amx-tile sse4a"));
    /* Without enforce they are left out (with a report, only for the first CPU). */
    g_autoptr(CpuModel) lax = cpu_model_parse("host,+sse4a", NULL);
    g_autofree struct kvm_cpuid2 *c = cpuid_build(from, lax, &one, 1, NULL);

    g_assert_nonnull(c);
    g_assert_cmphex(cpuid_find(c, 0x80000001, 0)->ecx & 1u << 6, ==, 0);
}

/* --- Topology --- */

static void test_apic_ids(void)
{
    static const CpuTopology t = { 2, 1, 3, 2 }; /* 3 cores take 4 ids */
    static const uint32_t ids[] = { 0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13 };
    static const CpuTopology dies = { 1, 2, 2, 2 };

    for (unsigned i = 0; i < G_N_ELEMENTS(ids); i++) {
        g_assert_cmpuint(cpu_apic_id(&t, i), ==, ids[i]);
    }
    g_assert_cmpuint(cpu_apic_id(&dies, 7), ==, 7);
    g_assert_cmpuint(cpu_apic_id(&one, 0), ==, 0);
}

static void test_topology_intel(void)
{
    static const CpuTopology t = { 2, 1, 2, 2 };
    g_autofree struct kvm_cpuid2 *c = build("host", &t, 7);
    struct kvm_cpuid_entry2 *e = cpuid_find(c, 1, 0);

    g_assert_cmphex(e->ebx, ==, 0x07040800);
    g_assert_cmphex(e->edx & 1u << 28, !=, 0);
    e = cpuid_find(c, 0xb, 0);
    g_assert_cmphex(e->eax, ==, 1);
    g_assert_cmphex(e->ebx, ==, 2);
    g_assert_cmphex(e->ecx, ==, 0x100);
    g_assert_cmphex(e->edx, ==, 7);
    e = cpuid_find(c, 0xb, 1);
    g_assert_cmphex(e->eax, ==, 2);
    g_assert_cmphex(e->ebx, ==, 4);
    g_assert_cmphex(e->ecx, ==, 0x201);
    g_assert_cmphex(cpuid_find(c, 0xb, 2)->ecx, ==, 2);
    g_assert_null(cpuid_find(c, 0x1f, 0));
    /* The first cache belongs to a core, the third to the socket. */
    g_assert_cmphex(cpuid_find(c, 4, 0)->eax >> 14 & 0xfff, ==, 1);
    g_assert_cmphex(cpuid_find(c, 4, 3)->eax >> 14 & 0xfff, ==, 3);
    g_assert_cmphex(cpuid_find(c, 4, 0)->eax >> 26, ==, 1);
}

static void test_topology_dies(void)
{
    static const CpuTopology t = { 1, 2, 2, 1 };
    g_autofree struct kvm_cpuid2 *c = build("host", &t, 3);

    g_assert_cmphex(cpuid_find(c, 0, 0)->eax, ==, 0x1f);
    g_assert_cmphex(cpuid_find(c, 0x1f, 1)->eax, ==, 1);
    g_assert_cmphex(cpuid_find(c, 0x1f, 2)->ecx, ==, 0x502);
    g_assert_cmphex(cpuid_find(c, 0x1f, 2)->ebx, ==, 4);
    g_assert_cmphex(cpuid_find(c, 0xb, 1)->ebx, ==, 4);
}

static void test_topology_amd(void)
{
    static const CpuTopology t = { 1, 1, 2, 2 };
    g_autofree struct kvm_cpuid2 *c = supported();

    c->entries[0].ebx = 0x68747541;
    c = g_realloc(c, sizeof(*c) + (c->nent + 9) * sizeof(c->entries[0]));
    c->entries[c->nent++] = (struct kvm_cpuid_entry2){ .function = 0x8000001e };
    cpu_topology_apply(&t, 3, c);
    g_assert_cmphex(cpuid_find(c, 0x80000008, 0)->ecx, ==, 0x2003);
    g_assert_cmphex(cpuid_find(c, 0x8000001e, 0)->eax, ==, 3);
    g_assert_cmphex(cpuid_find(c, 0x8000001e, 0)->ebx, ==, 0x101);
}

static bool same_digest(const struct kvm_cpuid2 *a, const struct kvm_cpuid2 *b)
{
    CpuDigest x, y;

    cpuid_digest(a, &x);
    cpuid_digest(b, &y);
    return memcmp(&x, &y, sizeof(x)) == 0;
}

static void test_digest(void)
{
    static const CpuTopology t = { 1, 1, 2, 2 };
    g_autofree struct kvm_cpuid2 *a = build("host", &t, 0);
    g_autofree struct kvm_cpuid2 *b = build("host", &t, 3);
    g_autofree struct kvm_cpuid2 *c = build("host,-avx2", &t, 0);
    g_autofree struct kvm_cpuid2 *d = build("host", &one, 0);

    g_assert_true(same_digest(a, b));
    g_assert_false(same_digest(a, c));
    g_assert_false(same_digest(a, d));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/accel/cpuid/parse", test_parse);
    g_test_add_func("/accel/cpuid/last-wins", test_last_wins);
    g_test_add_func("/accel/cpuid/model-table", test_model_table);
    g_test_add_func("/accel/cpuid/named-models", test_named_models);
    g_test_add_func("/accel/cpuid/signature", test_signature);
    g_test_add_func("/accel/cpuid/bad-text", test_bad_text);
    g_test_add_func("/accel/cpuid/flag-names", test_flag_names);
    g_test_add_func("/accel/cpuid/host", test_host);
    g_test_add_func("/accel/cpuid/flags", test_flags);
    g_test_add_func("/accel/cpuid/qemu64", test_qemu64);
    g_test_add_func("/accel/cpuid/enforce", test_enforce);
    g_test_add_func("/accel/cpuid/apic-ids", test_apic_ids);
    g_test_add_func("/accel/cpuid/topology-intel", test_topology_intel);
    g_test_add_func("/accel/cpuid/topology-dies", test_topology_dies);
    g_test_add_func("/accel/cpuid/topology-amd", test_topology_amd);
    g_test_add_func("/accel/cpuid/digest", test_digest);
    return g_test_run();
}
