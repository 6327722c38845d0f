/*
 * Tests of vmstate: tables to bytes and back, subsections, descriptions, hostile bytes.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <glib.h>
#include <string.h>

#include "util/error.h"
#include "vmstate/vmstate.h"

typedef struct Inner {
    uint16_t a;
    uint8_t b;
} Inner;

typedef struct Sample {
    bool flag;
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
    int8_t s8;
    int16_t s16;
    int32_t s32;
    int64_t s64;
    uint16_t words[3];
    uint8_t bytes[4];
    Inner inner;
    Inner inners[2];
    uint32_t n_inline;
    uint32_t inline_items[4];
    uint32_t n_heap;
    uint64_t *heap;
    uint32_t n_structs;
    Inner *structs;
    Inner *pointed;
    uint32_t late;     /* since version 2 */
    uint32_t optional; /* only with flag */
    uint32_t extra;    /* a subsection */
    int pre_loads, post_loads, pre_saves;
    bool refuse;
} Sample;

static bool flag_is_set(void *opaque, int version)
{
    return ((Sample *)opaque)->flag;
}

static bool extra_needed(void *opaque)
{
    return ((Sample *)opaque)->extra != 0;
}

static bool count_pre_load(void *opaque, GError **errp)
{
    ((Sample *)opaque)->pre_loads++;
    return true;
}

static bool count_post_load(void *opaque, int version, GError **errp)
{
    Sample *s = opaque;

    s->post_loads++;
    if (s->refuse) {
        error_set(errp, "refused by post_load");
    }
    return !s->refuse;
}

static void count_pre_save(void *opaque)
{
    ((Sample *)opaque)->pre_saves++;
}

static const VMStateDescription vmstate_inner = {
    .name = "sample/inner",
    .version_id = 1,
    .minimum_version_id = 1,
    .fields = (const VMStateField[]){ VMSTATE_UINT16(a, Inner), VMSTATE_UINT8(b, Inner),
                                      VMSTATE_END_OF_LIST() },
};

static const VMStateDescription vmstate_extra = {
    .name = "sample/extra",
    .version_id = 3,
    .minimum_version_id = 2,
    .needed = extra_needed,
    .fields = (const VMStateField[]){ VMSTATE_UINT32(extra, Sample), VMSTATE_END_OF_LIST() },
};

static const VMStateDescription vmstate_sample = {
    .name = "sample",
    .version_id = 2,
    .minimum_version_id = 1,
    .pre_load = count_pre_load,
    .post_load = count_post_load,
    .pre_save = count_pre_save,
    .fields =
        (const VMStateField[]){
            VMSTATE_BOOL(flag, Sample),
            VMSTATE_UINT8(u8, Sample),
            VMSTATE_UINT16(u16, Sample),
            VMSTATE_UINT32(u32, Sample),
            VMSTATE_UINT64(u64, Sample),
            VMSTATE_INT8(s8, Sample),
            VMSTATE_INT16(s16, Sample),
            VMSTATE_INT32(s32, Sample),
            VMSTATE_INT64(s64, Sample),
            VMSTATE_UINT16_ARRAY(words, Sample, 3),
            VMSTATE_BUFFER(bytes, Sample),
            VMSTATE_UNUSED(2),
            VMSTATE_STRUCT(inner, Sample, 0, vmstate_inner, Inner),
            VMSTATE_STRUCT_ARRAY(inners, Sample, 2, 0, vmstate_inner, Inner),
            VMSTATE_UINT32(n_inline, Sample),
            VMSTATE_VARRAY_UINT32(inline_items, Sample, n_inline, 0, vmstate_info_uint32, uint32_t),
            VMSTATE_UINT32(n_heap, Sample),
            VMSTATE_VARRAY_UINT32_ALLOC(heap, Sample, n_heap, 0, vmstate_info_uint64, uint64_t),
            VMSTATE_UINT32(n_structs, Sample),
            VMSTATE_STRUCT_VARRAY_UINT32_ALLOC(structs, Sample, n_structs, 0, vmstate_inner, Inner),
            VMSTATE_STRUCT_POINTER(pointed, Sample, vmstate_inner, Inner),
            VMSTATE_UINT32_V(late, Sample, 2),
            VMSTATE_UINT32_TEST(optional, Sample, flag_is_set),
            VMSTATE_END_OF_LIST() },
    .subsections = (const VMStateDescription *const[]){ &vmstate_extra, NULL },
};

static void sample_fill(Sample *s)
{
    *s = (Sample){ .flag = true,
                   .u8 = 0x12,
                   .u16 = 0x1234,
                   .u32 = 0x12345678,
                   .u64 = 0x123456789abcdef0,
                   .s8 = -2,
                   .s16 = -300,
                   .s32 = -70000,
                   .s64 = -5000000000,
                   .words = { 1, 2, 0xffee },
                   .bytes = { 9, 8, 7, 6 },
                   .inner = { 0x0102, 3 },
                   .inners = { { 4, 5 }, { 6, 7 } },
                   .n_inline = 2,
                   .inline_items = { 100, 200 },
                   .n_heap = 3,
                   .n_structs = 2,
                   .late = 77,
                   .optional = 88,
                   .extra = 99 };
    s->heap = g_new(uint64_t, 3);
    for (int i = 0; i < 3; i++) {
        s->heap[i] = 1000 + i;
    }
    s->structs = g_new(Inner, 2);
    s->structs[0] = (Inner){ 10, 11 };
    s->structs[1] = (Inner){ 12, 13 };
    s->pointed = g_new(Inner, 1);
    *s->pointed = (Inner){ 14, 15 };
}

static void sample_blank(Sample *s)
{
    memset(s, 0, sizeof(*s));
    s->pointed = g_new0(Inner, 1);
}

static void sample_clear(Sample *s)
{
    g_free(s->heap);
    g_free(s->structs);
    g_free(s->pointed);
}

static void assert_equal(const Sample *a, const Sample *b)
{
    g_assert_cmpint(a->flag, ==, b->flag);
    g_assert_cmpuint(a->u8, ==, b->u8);
    g_assert_cmpuint(a->u16, ==, b->u16);
    g_assert_cmpuint(a->u32, ==, b->u32);
    g_assert_cmpuint(a->u64, ==, b->u64);
    g_assert_true(a->s8 == b->s8);
    g_assert_cmpint(a->s16, ==, b->s16);
    g_assert_cmpint(a->s32, ==, b->s32);
    g_assert_cmpint(a->s64, ==, b->s64);
    g_assert_cmpmem(a->words, sizeof(a->words), b->words, sizeof(b->words));
    g_assert_cmpmem(a->bytes, sizeof(a->bytes), b->bytes, sizeof(b->bytes));
    g_assert_cmpuint(a->inner.a, ==, b->inner.a);
    g_assert_cmpuint(a->inners[1].b, ==, b->inners[1].b);
    g_assert_cmpmem(a->inline_items, a->n_inline * 4, b->inline_items, b->n_inline * 4);
    g_assert_cmpmem(a->heap, a->n_heap * 8, b->heap, b->n_heap * 8);
    g_assert_cmpuint(b->n_structs, ==, 2);
    g_assert_cmpuint(a->structs[1].a, ==, b->structs[1].a);
    g_assert_cmpuint(a->pointed->b, ==, b->pointed->b);
    g_assert_cmpuint(a->optional, ==, b->optional);
    g_assert_cmpuint(a->extra, ==, b->extra);
}

static GByteArray *save(Sample *s)
{
    GByteArray *out = g_byte_array_new();

    vmstate_save(out, &vmstate_sample, s);
    return out;
}

static void test_round_trip(void)
{
    g_autoptr(GByteArray) bytes = NULL;
    g_autoptr(GError) err = NULL;
    Sample a, b;

    sample_fill(&a);
    sample_blank(&b);
    bytes = save(&a);
    ByteReader in = byte_reader_init(bytes->data, bytes->len);

    g_assert_true(vmstate_load(&in, &vmstate_sample, &b, 2, &err));
    g_assert_no_error(err);
    g_assert_cmpuint(byte_reader_left(&in), ==, 0);
    assert_equal(&a, &b);
    g_assert_cmpuint(b.late, ==, 77);
    g_assert_cmpint(a.pre_saves, ==, 1);
    g_assert_cmpint(b.pre_loads, ==, 1);
    g_assert_cmpint(b.post_loads, ==, 1);
    sample_clear(&a);
    sample_clear(&b);
}

/* The bytes themselves: big-endian, no padding, the subsection's header. */
static void test_wire(void)
{
    static const uint8_t expected[] = { 0x01, 0x02, 0x03 };
    static const uint8_t subsection[] = { 0x05, 12,  's', 'a', 'm', 'p', 'l', 'e', '/', 'e', 'x',
                                          't',  'r', 'a', 0,   0,   0,   3,   0,   0,   0,   99 };
    g_autoptr(GByteArray) out = g_byte_array_new();
    g_autoptr(GByteArray) all = NULL;
    Inner i = { 0x0102, 3 };
    Sample s;

    vmstate_save(out, &vmstate_inner, &i);
    g_assert_cmpmem(out->data, out->len, expected, sizeof(expected));
    sample_fill(&s);
    all = save(&s);
    g_assert_cmpmem(all->data + all->len - sizeof(subsection), sizeof(subsection), subsection,
                    sizeof(subsection));
    sample_clear(&s);
}

static void test_no_subsection(void)
{
    g_autoptr(GByteArray) bytes = NULL;
    g_autoptr(GError) err = NULL;
    Sample a, b;

    sample_fill(&a);
    sample_blank(&b);
    a.extra = 0;
    a.flag = false;
    bytes = save(&a);
    /* What follows a section can begin with the subsection's mark: it is left alone. */
    static const uint8_t next[] = { 0x05, 4, 'n', 'e', 'x', 't', 0, 0, 0, 1 };
    guint len = bytes->len;

    g_byte_array_append(bytes, next, sizeof(next));
    ByteReader in = byte_reader_init(bytes->data, bytes->len);

    g_assert_true(vmstate_load(&in, &vmstate_sample, &b, 2, &err));
    g_assert_no_error(err);
    g_assert_cmpuint(in.pos, ==, len);
    g_assert_cmpuint(b.extra, ==, 0);
    g_assert_cmpuint(b.optional, ==, 0);
    sample_clear(&a);
    sample_clear(&b);
}

static void test_versions(void)
{
    g_autoptr(GByteArray) bytes = NULL;
    g_autoptr(GError) err = NULL;
    Sample a, b;

    sample_fill(&a);
    sample_blank(&b);
    bytes = save(&a);
    for (int version = -1; version < 5; version++) {
        ByteReader in = byte_reader_init(bytes->data, bytes->len);

        if (version < 1 || version > 2) {
            g_assert_false(vmstate_load(&in, &vmstate_sample, &b, version, &err));
            g_assert_nonnull(strstr(err->message, "version"));
            g_clear_error(&err);
        }
    }
    /* In version 1 'late' is not there. */
    guint late_at = bytes->len - 22 - 4 - 4;

    g_byte_array_remove_range(bytes, late_at, 4);
    ByteReader in = byte_reader_init(bytes->data, bytes->len);

    g_assert_true(vmstate_load(&in, &vmstate_sample, &b, 1, &err));
    g_assert_no_error(err);
    assert_equal(&a, &b);
    g_assert_cmpuint(b.late, ==, 0);
    sample_clear(&a);
    sample_clear(&b);
}

/* Every truncation fails with an error and reads nothing outside. */
static void test_truncated(void)
{
    g_autoptr(GByteArray) bytes = NULL;
    Sample a;

    sample_fill(&a);
    bytes = save(&a);
    guint without_subsection = bytes->len - 22;

    for (guint len = 0; len < bytes->len; len++) {
        g_autofree uint8_t *copy = g_memdup2(bytes->data, len);
        g_autoptr(GError) err = NULL;
        ByteReader in = byte_reader_init(copy, len);
        Sample b;

        sample_blank(&b);
        bool ok = vmstate_load(&in, &vmstate_sample, &b, 2, &err);

        /* A subsection whose header is cut is not one; the section's footer will tell. */
        if (len >= without_subsection && len < without_subsection + 14) {
            g_assert_true(ok);
            g_assert_cmpuint(in.pos, ==, without_subsection);
        } else {
            g_assert_false(ok);
            g_assert_nonnull(err);
        }
        sample_clear(&b);
    }
    sample_clear(&a);
}

static void expect_refused(GByteArray *bytes, const char *text)
{
    g_autoptr(GError) err = NULL;
    ByteReader in = byte_reader_init(bytes->data, bytes->len);
    Sample b;

    sample_blank(&b);
    g_assert_false(vmstate_load(&in, &vmstate_sample, &b, 2, &err));
    g_assert_nonnull(err);
    if (!strstr(err->message, text)) {
        g_error("'%s' lacks '%s'", err->message, text);
    }
    sample_clear(&b);
}

static void test_hostile(void)
{
    g_autoptr(GByteArray) bytes = NULL;
    Sample a;

    sample_fill(&a);
    bytes = save(&a);
    guint inline_at = 1 + 15 + 15 + 6 + 4 + 2 + 3 + 6;
    guint heap_at = inline_at + 4 + 8;

    g_assert_cmpuint(bytes->data[inline_at + 3], ==, 2);
    bytes->data[inline_at + 3] = 5;
    expect_refused(bytes, "do not fit");
    bytes->data[inline_at + 3] = 2;
    g_assert_cmpuint(bytes->data[heap_at + 3], ==, 3);
    memset(bytes->data + heap_at, 0xff, 4);
    expect_refused(bytes, "cannot be in");
    memcpy(bytes->data + heap_at, "\0\0\0\3", 4);
    bytes->data[0] = 2;
    expect_refused(bytes, "sample.flag");
    bytes->data[0] = 1;
    bytes->data[bytes->len - 9] = 'X';
    expect_refused(bytes, "unknown subsection 'sample/extrX'");
    bytes->data[bytes->len - 9] = 'a';
    bytes->data[bytes->len - 5] = 4;
    expect_refused(bytes, "version 4");
    memset(bytes->data + bytes->len - 8, 0xff, 4);
    expect_refused(bytes, "version");
    sample_clear(&a);
}

static void test_refusal(void)
{
    g_autoptr(GByteArray) bytes = NULL;
    g_autoptr(GError) err = NULL;
    Sample a, b;

    sample_fill(&a);
    sample_blank(&b);
    b.refuse = true;
    bytes = save(&a);
    ByteReader in = byte_reader_init(bytes->data, bytes->len);

    g_assert_false(vmstate_load(&in, &vmstate_sample, &b, 2, &err));
    g_assert_cmpstr(err->message, ==, "refused by post_load");
    sample_clear(&a);
    sample_clear(&b);
}

/* Whatever the bytes are, loading ends. Run it under ASan for its worth. */
static void test_random(void)
{
    g_autoptr(GByteArray) bytes = NULL;
    g_autoptr(GRand) rand = g_rand_new_with_seed(1);
    Sample a;

    sample_fill(&a);
    bytes = save(&a);
    for (int round = 0; round < 20000; round++) {
        g_autofree uint8_t *copy = g_memdup2(bytes->data, bytes->len);
        ByteReader in = byte_reader_init(copy, bytes->len);
        Sample b;

        for (int flips = g_rand_int_range(rand, 1, 4); flips > 0; flips--) {
            copy[g_rand_int_range(rand, 0, bytes->len)] = g_rand_int(rand);
        }
        sample_blank(&b);
        vmstate_load(&in, &vmstate_sample, &b, 2, NULL);
        g_assert_cmpuint(in.pos, <=, in.len);
        sample_clear(&b);
    }
    sample_clear(&a);
}

/* --- Description --- */

/* What a reader of the description computes: the bytes the table takes. */
static size_t described_size(json_object *table)
{
    json_object *fields = json_object_object_get(table, "fields");
    json_object *subs = json_object_object_get(table, "subsections");
    size_t total = 0;

    for (size_t i = 0; i < json_object_array_length(fields); i++) {
        json_object *f = json_object_array_get_idx(fields, i);
        json_object *n = json_object_object_get(f, "array_len");
        size_t size = json_object_get_uint64(json_object_object_get(f, "size"));
        json_object *inner = json_object_object_get(f, "struct");

        if (inner) {
            g_assert_cmpstr(json_object_get_string(json_object_object_get(f, "type")), ==,
                            "struct");
            g_assert_cmpuint(described_size(inner), ==, size);
        }
        total += size * (n ? json_object_get_int64(n) : 1);
    }
    for (size_t i = 0; subs && i < json_object_array_length(subs); i++) {
        json_object *s = json_object_array_get_idx(subs, i);

        total += 2 + 4 + json_object_get_string_len(json_object_object_get(s, "vmsd_name")) +
                 described_size(s);
    }
    return total;
}

/* An array without elements has no address; the sanitizers object to copying even nothing there. */
static void test_empty(void)
{
    ByteReader in = byte_reader_init(NULL, 0);
    g_autoptr(GError) err = NULL;

    g_assert_true(byte_reader_get_bytes(&in, NULL, 0, &err));
    g_assert_no_error(err);
    g_assert_false(byte_reader_get_bytes(&in, &(uint8_t){ 0 }, 1, &err));
    g_assert_nonnull(err);
}

static void test_description(void)
{
    g_autoptr(GByteArray) bytes = NULL;
    json_object *d, *field;
    Sample a;

    sample_fill(&a);
    bytes = save(&a);
    d = vmstate_describe(&vmstate_sample, &a);
    g_assert_cmpstr(json_object_get_string(json_object_object_get(d, "vmsd_name")), ==, "sample");
    g_assert_cmpint(json_object_get_int(json_object_object_get(d, "version")), ==, 2);
    g_assert_cmpuint(described_size(d), ==, bytes->len);
    field = json_object_array_get_idx(json_object_object_get(d, "fields"), 9);
    g_assert_cmpstr(json_object_to_json_string_ext(field, JSON_C_TO_STRING_PLAIN), ==,
                    "{\"name\":\"words\",\"type\":\"uint16\",\"size\":2,\"array_len\":3}");
    g_assert_cmpint(a.pre_saves, ==, 1);
    json_object_put(d);
    a.extra = 0;
    d = vmstate_describe(&vmstate_sample, &a);
    g_assert_null(json_object_object_get(d, "subsections"));
    json_object_put(d);
    sample_clear(&a);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/vmstate/round-trip", test_round_trip);
    g_test_add_func("/vmstate/wire", test_wire);
    g_test_add_func("/vmstate/no-subsection", test_no_subsection);
    g_test_add_func("/vmstate/versions", test_versions);
    g_test_add_func("/vmstate/truncated", test_truncated);
    g_test_add_func("/vmstate/hostile", test_hostile);
    g_test_add_func("/vmstate/refusal", test_refusal);
    g_test_add_func("/vmstate/random", test_random);
    g_test_add_func("/vmstate/empty", test_empty);
    g_test_add_func("/vmstate/description", test_description);
    return g_test_run();
}
