/*
 * Test of what virtio-balloon does with pages: given up, taken back, reported, and by drivers that err.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "tests/qtest/balloon-driver.h"

/* --- Inflate and deflate --- */

static void test_inflate_anonymous(void)
{
    Balloon *b = start("", ALL_FEATURES);

    give_pages(b, b->inflate, 10, 300);
    assert_stamped(b, 0, 10);
    assert_zero(b, 10, 300);
    assert_stamped(b, 310, 10);
    give_pages(b, b->deflate, 10, 300);
    assert_zero(b, 10, 300);
    end(b);
}

/* Shared memory: holes are punched, page by page. */
static void test_inflate_shared(void)
{
    Balloon *b = start(" -object memory-backend-memfd,id=mem,size=64M,share=on "
                       "-machine pc,memory-backend=mem",
                       MUST_TELL);

    give_pages(b, b->inflate, 10, 300);
    assert_stamped(b, 0, 10);
    assert_zero(b, 10, 300);
    assert_stamped(b, 310, 10);
    end(b);
}

/* T1, T3: only a whole chunk is given back, when its last page comes; neighbours live on. */
static void test_inflate_restored(void)
{
    Balloon *b = start_restored("", MUST_TELL | STATS | POISON);

    give_pages(b, b->inflate, 1, CHUNK_PAGES);
    assert_stamped(b, 0, 2 * CHUNK_PAGES);
    g_assert_cmpuint(ram_counter(b->q, "chunks-released"), ==, 0);
    give_pages(b, b->inflate, 0, 1);
    assert_zero(b, 0, CHUNK_PAGES);
    assert_stamped(b, CHUNK_PAGES, CHUNK_PAGES);
    g_assert_cmpuint(ram_counter(b->q, "chunks-released"), ==, 1);
    end(b);
}

/* Backwards and in disorder. */
static void test_inflate_any_order(void)
{
    Balloon *b = start_restored("", MUST_TELL | POISON);
    uint32_t numbers[CHUNK_PAGES];

    for (unsigned i = 0; i < CHUNK_PAGES; i++) {
        numbers[i] = AREA / PAGE + (i * 5 + 3) % CHUNK_PAGES;
    }
    give(b, b->inflate, numbers, 100);
    give(b, b->inflate, numbers + 100, CHUNK_PAGES - 101);
    assert_stamped(b, 0, CHUNK_PAGES);
    give(b, b->inflate, numbers + CHUNK_PAGES - 1, 1);
    assert_zero(b, 0, CHUNK_PAGES);
    for (int i = 2 * CHUNK_PAGES - 1; i >= CHUNK_PAGES; i--) {
        assert_stamped(b, i, 1);
        give_pages(b, b->inflate, i, 1);
    }
    assert_zero(b, CHUNK_PAGES, CHUNK_PAGES);
    assert_stamped(b, 2 * CHUNK_PAGES, CHUNK_PAGES);
    end(b);
}

static void test_same_page_twice(void)
{
    Balloon *b = start_restored("", MUST_TELL | POISON);

    for (unsigned i = 0; i < 3; i++) {
        give_pages(b, b->inflate, 0, CHUNK_PAGES - 1);
    }
    assert_stamped(b, 0, CHUNK_PAGES);
    give_pages(b, b->inflate, CHUNK_PAGES - 1, 1);
    assert_zero(b, 0, CHUNK_PAGES);
    /* And once more, when it is released already. */
    give_pages(b, b->inflate, 0, CHUNK_PAGES);
    assert_zero(b, 0, CHUNK_PAGES);
    assert_stamped(b, CHUNK_PAGES, 1);
    end(b);
}

/* A page that went back to the guest keeps its chunk alive; pages that were never given up do no harm. */
static void test_deflate(void)
{
    Balloon *b = start_restored("", MUST_TELL | POISON);

    give_pages(b, b->deflate, 0, 2 * CHUNK_PAGES);
    give_pages(b, b->inflate, 0, CHUNK_PAGES - 1);
    give_pages(b, b->deflate, 7, 1);
    qtest_writeq(b->q, AREA + 7 * PAGE, 42);
    give_pages(b, b->inflate, CHUNK_PAGES - 1, 1);
    g_assert_cmpuint(page(b, 7), ==, 42);
    g_assert_cmpuint(ram_counter(b->q, "chunks-released"), ==, 0);
    give_pages(b, b->inflate, 7, 1);
    assert_zero(b, 0, CHUNK_PAGES);
    /* Used again. */
    give_pages(b, b->deflate, 0, CHUNK_PAGES);
    qtest_writeq(b->q, AREA, 43);
    g_assert_cmpuint(page(b, 0), ==, 43);
    give_pages(b, b->inflate, 1, CHUNK_PAGES - 1);
    g_assert_cmpuint(page(b, 0), ==, 43);
    end(b);
}

/* T3: a driver that need not tell may use pages as soon as they are acknowledged. */
static void test_without_must_tell(void)
{
    Balloon *b = start_restored("", POISON);
    uint32_t numbers[CHUNK_PAGES];

    give_pages(b, b->inflate, 0, CHUNK_PAGES);
    assert_stamped(b, 0, CHUNK_PAGES);
    for (unsigned i = 0; i < CHUNK_PAGES; i++) {
        numbers[i] = AREA / PAGE + CHUNK_PAGES + i;
    }
    /* All of a chunk in one buffer is nobody's until that is acknowledged. */
    give(b, b->inflate, numbers, CHUNK_PAGES);
    assert_zero(b, CHUNK_PAGES, CHUNK_PAGES);
    end(b);
}

/* T10 */
static void test_bad_pages(void)
{
    static const uint32_t bad[] = {
        RAM / PAGE,          /* behind RAM */
        0xc0000,    0xe0000, /* the hole below 4 GiB */
        0xfec00,    0xfee00, /* registers */
        0x100000,            /* 4 GiB, with nothing there */
        UINT32_MAX,          /* 16 TiB */
        0x80000000,
    };
    Balloon *b = start_restored("", MUST_TELL | POISON);
    uint32_t numbers[2 * G_N_ELEMENTS(bad)];

    for (unsigned i = 0; i < G_N_ELEMENTS(bad); i++) {
        numbers[2 * i] = bad[i];
        numbers[2 * i + 1] = AREA / PAGE + i;
    }
    give(b, b->inflate, numbers, G_N_ELEMENTS(numbers));
    g_assert_cmpint(ignored_pages(b), ==, G_N_ELEMENTS(bad));
    give(b, b->deflate, bad, G_N_ELEMENTS(bad));
    g_assert_cmpint(ignored_pages(b), ==, 2 * G_N_ELEMENTS(bad));
    /* The good ones between them counted. */
    give_pages(b, b->inflate, G_N_ELEMENTS(bad), CHUNK_PAGES - G_N_ELEMENTS(bad));
    assert_zero(b, 0, CHUNK_PAGES);
    g_assert_false(qvirtio_needs_reset(b->dev));
    end(b);
}

/* ROM: the place of the BIOS, read-only in a machine after reset. */
static void test_rom(void)
{
    Balloon *b = start("", MUST_TELL);
    uint32_t rom = 0xfffff;
    uint32_t before = qtest_readl(b->q, 0xfffffff0);

    give(b, b->inflate, &rom, 1);
    g_assert_cmpint(ignored_pages(b), ==, 1);
    g_assert_cmphex(qtest_readl(b->q, 0xfffffff0), ==, before);
    end(b);
}

/* --- Descriptors --- */

static void test_odd_lengths(void)
{
    Balloon *b = start("", MUST_TELL);
    uint32_t numbers[8];
    QVirtBuffer parts[] = {
        { b->buffer, 3, false },
        { b->buffer + 3, 6, false },
        { b->buffer + 9, 1, false },
        { b->buffer + 10, 17, false }, /* 27 bytes: 6 numbers and a part of one */
    };
    QVirtBuffer writable = { b->buffer, 4, true };

    for (unsigned i = 0; i < 8; i++) {
        numbers[i] = AREA / PAGE + 2 * i;
    }
    qtest_memwrite(b->q, b->buffer, numbers, sizeof(numbers));
    qvirtqueue_do(b->inflate, parts, G_N_ELEMENTS(parts));
    for (unsigned i = 0; i < 8; i++) {
        g_assert_cmphex(page(b, 2 * i), ==, i < 6 ? 0 : stamp(2 * i));
        g_assert_cmphex(page(b, 2 * i + 1), ==, stamp(2 * i + 1));
    }
    /* No numbers at all. */
    qvirtqueue_do(b->inflate, &writable, 1);
    g_assert_false(qvirtio_needs_reset(b->dev));
    end(b);
}

static void test_long_chain(void)
{
    Balloon *b = start_restored("", MUST_TELL | POISON);
    QVirtBuffer parts[128];
    uint32_t numbers[CHUNK_PAGES];

    for (unsigned i = 0; i < CHUNK_PAGES; i++) {
        numbers[i] = AREA / PAGE + i;
    }
    qtest_memwrite(b->q, b->buffer, numbers, sizeof(numbers));
    for (unsigned i = 0; i < G_N_ELEMENTS(parts); i++) {
        parts[i] = (QVirtBuffer){ b->buffer + i * 16, 16, false };
    }
    qvirtqueue_do(b->inflate, parts, G_N_ELEMENTS(parts));
    assert_zero(b, 0, CHUNK_PAGES);
    assert_stamped(b, CHUNK_PAGES, 1);
    end(b);
}

/* A million numbers, most of them of no page: done in many pieces, each of them bounded. */
static void test_huge_buffer(void)
{
    Balloon *b = start_restored("", MUST_TELL | POISON);
    uint64_t from = AREA + 2 * CHUNK;
    QVirtBuffer buffer = { from, 2 * CHUNK, false };
    QVirtBuffer all = { from, UINT32_MAX, false };

    qtest_memset(b->q, from, 0xff, 2 * CHUNK);
    for (unsigned i = 0; i < CHUNK_PAGES; i++) {
        qtest_writel(b->q, from + i * 8188, AREA / PAGE + i);
    }
    qvirtqueue_do(b->inflate, &buffer, 1);
    assert_zero(b, 0, CHUNK_PAGES);
    assert_stamped(b, CHUNK_PAGES, CHUNK_PAGES);
    g_assert_cmpint(ignored_pages(b), ==, CHUNK_PAGES * 2048 - CHUNK_PAGES);
    g_assert_false(qvirtio_needs_reset(b->dev));

    /* It does not fit into RAM: the driver is broken, the VM is not. */
    qvirtqueue_add(b->inflate, &all, 1);
    qvirtqueue_kick(b->inflate);
    while (!qvirtio_needs_reset(b->dev)) {
        g_usleep(1000);
    }
    qvirtio_reset(b->dev);
    drop_queues(b);
    negotiate(b, ALL_FEATURES);
    give_pages(b, b->inflate, CHUNK_PAGES, CHUNK_PAGES);
    assert_zero(b, CHUNK_PAGES, CHUNK_PAGES);
    end(b);
}

static void test_empty_descriptor(void)
{
    Balloon *b = start("", MUST_TELL);

    qvirtq_set_desc(b->dev, b->inflate->desc, 0, b->buffer, 0, 0, 0);
    qvirtqueue_add_head(b->inflate, 0);
    qvirtqueue_kick(b->inflate);
    /* Acknowledged, or refused as a driver must not do it; the device works on. */
    if (qtest_readw(b->q, b->inflate->device + 2) == 0) {
        g_assert_true(qvirtio_needs_reset(b->dev));
    }
    qvirtio_reset(b->dev);
    drop_queues(b);
    negotiate(b, MUST_TELL);
    give_pages(b, b->inflate, 0, 1);
    assert_zero(b, 0, 1);
    end(b);
}

/* --- Poison --- */

/* T2: a guest that expects a pattern in its pages keeps them. */
static void test_poison(void)
{
    Balloon *b = start_restored(",free-page-reporting=on", ALL_FEATURES);

    qvirtio_set_config32(b->dev, POISON_VALUE, 0xaaaaaaaa);
    g_assert_cmphex(qvirtio_config32(b->dev, POISON_VALUE), ==, 0xaaaaaaaa);
    give_pages(b, b->inflate, 0, CHUNK_PAGES);
    report(b, AREA + CHUNK, CHUNK);
    assert_stamped(b, 0, 2 * CHUNK_PAGES);
    qvirtio_set_config32(b->dev, POISON_VALUE, 0);
    report(b, AREA + CHUNK, CHUNK);
    assert_zero(b, CHUNK_PAGES, CHUNK_PAGES);
    assert_stamped(b, 0, CHUNK_PAGES);
    end(b);
}

/* --- Reset --- */

/* T4: what a driver gave up before a reset is not part of what the next one gives up. */
static void test_reset_mid_batch(void)
{
    Balloon *b = start_restored("", MUST_TELL | STATS | POISON);

    qvirtio_set_config32(b->dev, ACTUAL, CHUNK_PAGES - 1);
    give_pages(b, b->inflate, 0, CHUNK_PAGES - 1);
    qvirtio_reset(b->dev);
    g_assert_cmpint(query_balloon(b->q), ==, RAM);
    drop_queues(b);
    negotiate(b, MUST_TELL | STATS | POISON);
    give_pages(b, b->inflate, CHUNK_PAGES - 1, 1);
    assert_stamped(b, 0, CHUNK_PAGES);
    g_assert_cmpuint(ram_counter(b->q, "chunks-released"), ==, 0);
    end(b);
}

/* In the middle of a buffer that takes several calls. */
static void test_reset_mid_buffer(void)
{
    Balloon *b = start("", MUST_TELL);
    uint64_t from = AREA + CHUNK;
    QVirtBuffer buffer = { from, CHUNK, false };

    qtest_memset(b->q, from, 0xff, CHUNK);
    for (unsigned i = 0; i < 20; i++) {
        qvirtqueue_add(b->inflate, &buffer, 1);
        qvirtqueue_kick(b->inflate);
        qvirtio_reset(b->dev);
        drop_queues(b);
        negotiate(b, MUST_TELL);
    }
    give_pages(b, b->inflate, 0, 1);
    assert_zero(b, 0, 1);
    end(b);
}

static void test_system_reset(void)
{
    Balloon *b = start_restored("", MUST_TELL | POISON);
    json_object *ret;

    set_target(b->q, RAM / 2);
    give_pages(b, b->inflate, 0, CHUNK_PAGES - 1);
    ret = qtest_qmp_ok(b->q, "{'execute': 'system_reset'}");
    json_object_put(ret);
    ret = qtest_qmp_event_wait(b->q, "RESET");
    json_object_put(ret);
    drop_queues(b);
    qvirtio_free(b->dev);
    b->dev = qvirtio_new(b->q, 5, false);
    negotiate(b, MUST_TELL | POISON);
    /* The target stays, what was in the balloon is unknown. */
    g_assert_cmpuint(qvirtio_config32(b->dev, NUM_PAGES), ==, RAM / 2 / PAGE);
    give_pages(b, b->inflate, CHUNK_PAGES - 1, 1);
    g_assert_cmpuint(ram_counter(b->q, "chunks-released"), ==, 0);
    end(b);
}

/* --- Reporting --- */

static void test_report(void)
{
    Balloon *b = start_restored(",free-page-reporting=on", ALL_FEATURES);
    QVirtBuffer parts[] = {
        { AREA + CHUNK, PAGE, false }, /* not a free page: the device does not write here */
        { AREA + 3 * CHUNK, CHUNK, true },
        { AREA + 2 * CHUNK, CHUNK, true },
        { AREA, CHUNK / 2, true },
    };

    qvirtqueue_do(b->report, parts, G_N_ELEMENTS(parts));
    assert_stamped(b, 0, 2 * CHUNK_PAGES);
    assert_zero(b, 2 * CHUNK_PAGES, 2 * CHUNK_PAGES);
    g_assert_cmpuint(ram_counter(b->q, "chunks-released"), ==, 2);
    /* Used, then reported again. */
    qtest_writeq(b->q, AREA + 2 * CHUNK, 1);
    report(b, AREA + 2 * CHUNK, CHUNK);
    assert_zero(b, 2 * CHUNK_PAGES, CHUNK_PAGES);
    end(b);
}

/* T10: as far as it is RAM. */
static void test_report_bad_ranges(void)
{
    Balloon *b = start_restored(",free-page-reporting=on", ALL_FEATURES);

    report(b, AREA + 100, CHUNK);
    assert_stamped(b, 0, 2 * CHUNK_PAGES);
    report(b, RAM, CHUNK);
    report(b, UINT64_C(1) << 60, UINT32_MAX);
    report(b, UINT64_MAX - CHUNK, CHUNK);
    report(b, 0xfee00000, PAGE);
    g_assert_cmpuint(ram_counter(b->q, "chunks-released"), ==, 0);
    /* To the end of RAM and far beyond it. */
    report(b, RAM - CHUNK, UINT32_MAX);
    g_assert_cmpuint(ram_counter(b->q, "chunks-released"), ==, 1);
    g_assert_cmpint(ignored_pages(b), >=, 3 * CHUNK_PAGES);
    g_assert_false(qvirtio_needs_reset(b->dev));
    end(b);
}

/* Drivers differ in where the queue is. */
static void test_report_queue_index(void)
{
    static const struct {
        uint64_t features;
        unsigned index;
    } cases[] = {
        { ALL_FEATURES, 3 },          /* Linux and QEMU */
        { ALL_FEATURES, 4 },          /* the specification */
        { ALL_FEATURES & ~STATS, 2 }, /* Linux counts what it uses */
        { ALL_FEATURES & ~STATS, 4 },
    };
    Balloon *b = start_restored(",free-page-reporting=on", 0);

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        drop_queues(b);
        qvirtio_begin(b->dev, cases[i].features);
        b->report = qvirtqueue_new(b->dev, cases[i].index, 0);
        qvirtio_ready(b->dev);
        report(b, AREA + i * CHUNK, CHUNK);
        assert_zero(b, i * CHUNK_PAGES, CHUNK_PAGES);
    }
    end(b);
}

/* The policy to measure against: the snapshot shows through again. */
static void test_dontneed(void)
{
    Balloon *b =
        start_restored(",free-page-reporting=on,x-discard-policy=dontneed", ALL_FEATURES & ~POISON);

    qtest_writeq(b->q, AREA, 42);
    report(b, AREA, CHUNK);
    assert_stamped(b, 0, CHUNK_PAGES);
    g_assert_cmpuint(ram_counter(b->q, "chunks-released"), ==, 0);
    end(b);
}

/* --- Save and restore --- */

/* T4, T5: after a restore pages in the balloon are unknown, and released chunks are zero. */
static void test_map_over_restore(void)
{
    Balloon *b = start_restored("", MUST_TELL | STATS | POISON);

    give_pages(b, b->inflate, 0, 2 * CHUNK_PAGES - 1);
    assert_zero(b, 0, CHUNK_PAGES);
    qtest_save_restore(b->q, true);
    assert_zero(b, 0, CHUNK_PAGES);
    give_pages(b, b->deflate, 0, CHUNK_PAGES);
    give_pages(b, b->inflate, 2 * CHUNK_PAGES - 1, 1);
    assert_stamped(b, CHUNK_PAGES, CHUNK_PAGES);
    give_pages(b, b->inflate, CHUNK_PAGES, CHUNK_PAGES - 1);
    assert_zero(b, CHUNK_PAGES, CHUNK_PAGES);
    end(b);
}

/* A long buffer of which a part is done when the VM is saved begins anew after the restore. */
static void test_save_mid_buffer(void)
{
    Balloon *b = start("", MUST_TELL | POISON);
    uint64_t from = AREA + 2 * CHUNK;
    QVirtBuffer buffer = { from, 2 * CHUNK, false };

    qtest_memset(b->q, from, 0xff, 2 * CHUNK);
    for (unsigned i = 0; i < CHUNK_PAGES; i++) {
        qtest_writel(b->q, from + i * 8188, AREA / PAGE + i);
    }
    qvirtqueue_add(b->inflate, &buffer, 1);
    qvirtqueue_kick(b->inflate);
    qtest_save_restore(b->q, true);
    qvirtqueue_wait(b->inflate);
    assert_zero(b, 0, CHUNK_PAGES);
    assert_stamped(b, CHUNK_PAGES, CHUNK_PAGES);
    end(b);
}

static const struct {
    const char *path;
    void (*fn)(void);
} tests[] = {
    { "/balloon/inflate-anonymous", test_inflate_anonymous },
    { "/balloon/inflate-shared", test_inflate_shared },
    { "/balloon/t01_t03_inflate-restored", test_inflate_restored },
    { "/balloon/inflate-any-order", test_inflate_any_order },
    { "/balloon/same-page-twice", test_same_page_twice },
    { "/balloon/deflate", test_deflate },
    { "/balloon/t03_without-must-tell", test_without_must_tell },
    { "/balloon/t10_bad-pages", test_bad_pages },
    { "/balloon/t10_rom", test_rom },
    { "/balloon/odd-lengths", test_odd_lengths },
    { "/balloon/long-chain", test_long_chain },
    { "/balloon/huge-buffer", test_huge_buffer },
    { "/balloon/empty-descriptor", test_empty_descriptor },
    { "/balloon/t02_poison", test_poison },
    { "/balloon/t04_reset-mid-batch", test_reset_mid_batch },
    { "/balloon/reset-mid-buffer", test_reset_mid_buffer },
    { "/balloon/t04_system-reset", test_system_reset },
    { "/balloon/report", test_report },
    { "/balloon/t10_report-bad-ranges", test_report_bad_ranges },
    { "/balloon/report-queue-index", test_report_queue_index },
    { "/balloon/dontneed", test_dontneed },
    { "/balloon/t04_t05_map-over-restore", test_map_over_restore },
    { "/balloon/save-mid-buffer", test_save_mid_buffer },
};

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    for (unsigned i = 0; i < G_N_ELEMENTS(tests); i++) {
        g_test_add_func(tests[i].path, tests[i].fn);
    }
    return g_test_run();
}
