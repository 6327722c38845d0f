/*
 * What the tests of virtio-balloon share: a driver of it, and memory whose pages tell what has become of them.
 *
 * Memory that is tested lies from AREA on; each of its pages is stamped with its own address. A page that is zero
 * was given back, one that has its stamp was not.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_TESTS_QTEST_BALLOON_DRIVER_H
#define COWBIRD_TESTS_QTEST_BALLOON_DRIVER_H

#include <string.h>

#include "tests/qtest/qvirtio.h"

#define MIB (1024 * 1024)
#define RAM (64 * (uint64_t)MIB)
#define PAGE 4096
#define CHUNK (2 * MIB)
#define CHUNK_PAGES (CHUNK / PAGE)
#define AREA (32 * (uint64_t)MIB) /* 4 chunks */
#define AREA_CHUNKS 4
#define STAMP UINT64_C(0x5a5a000000000000)
#define UNKNOWN UINT64_MAX

enum { MUST_TELL = 1, STATS = 2, DEFLATE_ON_OOM = 4, POISON = 16, REPORTING = 32 };
enum { NUM_PAGES = 0, ACTUAL = 4, POISON_VALUE = 12 };
#define ALL_FEATURES (MUST_TELL | STATS | DEFLATE_ON_OOM | POISON | REPORTING)
#define PATH "/machine/peripheral/balloon0"

typedef struct Balloon {
    QTest *q;
    QVirtio *dev;
    QVirtQueue *inflate, *deflate, *stats, *report;
    uint64_t buffer; /* 64 KiB of guest RAM for page numbers */
} Balloon;

/* --- Set-up --- */

static inline void negotiate(Balloon *b, uint64_t wanted)
{
    qvirtio_begin(b->dev, wanted);
    b->inflate = qvirtqueue_new(b->dev, 0, 0);
    b->deflate = qvirtqueue_new(b->dev, 1, 0);
    if (b->dev->features & STATS) {
        b->stats = qvirtqueue_new(b->dev, 2, 0);
    }
    if (b->dev->features & REPORTING) {
        b->report = qvirtqueue_new(b->dev, b->stats ? 3 : 2, 0);
    }
    qvirtio_ready(b->dev);
}

static inline void drop_queues(Balloon *b)
{
    g_clear_pointer(&b->inflate, qvirtqueue_free);
    g_clear_pointer(&b->deflate, qvirtqueue_free);
    g_clear_pointer(&b->stats, qvirtqueue_free);
    g_clear_pointer(&b->report, qvirtqueue_free);
}

static inline void stamp_area(QTest *q)
{
    for (uint64_t at = AREA; at < AREA + AREA_CHUNKS * CHUNK; at += PAGE) {
        qtest_writeq(q, at, STAMP | at);
    }
}

static inline Balloon *start(const char *options, uint64_t features)
{
    Balloon *b = g_new0(Balloon, 1);

    b->q = qtest_start("-machine pc -m %u -device virtio-balloon-pci,id=balloon0%s",
                       (unsigned)(RAM / MIB), options);
    stamp_area(b->q);
    b->buffer = qtest_alloc(b->q, 65536, PAGE);
    b->dev = qvirtio_new(b->q, 5, false);
    negotiate(b, features);
    return b;
}

/* Memory is a copy-on-write mapping of a snapshot from here on. */
static inline Balloon *start_restored(const char *options, uint64_t features)
{
    Balloon *b = start(options, features);

    qtest_save_restore(b->q, true);
    return b;
}

static inline void end(Balloon *b)
{
    drop_queues(b);
    qvirtio_free(b->dev);
    qtest_quit(b->q);
    g_free(b);
}

/* --- What a driver does --- */

/* Page numbers in one buffer of one piece. */
static inline void give(Balloon *b, QVirtQueue *vq, const uint32_t *numbers, unsigned n)
{
    QVirtBuffer buffer = { b->buffer, n * 4, false };

    qtest_memwrite(b->q, b->buffer, numbers, n * 4);
    qvirtqueue_do(vq, &buffer, 1);
}

/* Pages [first, first + n) of the area, in buffers of 256. */
static inline void give_pages(Balloon *b, QVirtQueue *vq, unsigned first, unsigned n)
{
    for (unsigned done = 0; done < n; done += 256) {
        uint32_t numbers[256];
        unsigned count = MIN(256, n - done);

        for (unsigned i = 0; i < count; i++) {
            numbers[i] = AREA / PAGE + first + done + i;
        }
        give(b, vq, numbers, count);
    }
}

static inline void report(Balloon *b, uint64_t address, uint32_t len)
{
    QVirtBuffer piece = { address, len, true };

    g_assert_cmpuint(qvirtqueue_do(b->report, &piece, 1), ==, 0);
}

static inline uint64_t page(Balloon *b, unsigned n)
{
    return qtest_readq(b->q, AREA + n * PAGE);
}

static inline uint64_t stamp(unsigned n)
{
    return STAMP | (AREA + n * PAGE);
}

static inline void assert_stamped(Balloon *b, unsigned first, unsigned n)
{
    for (unsigned i = first; i < first + n; i++) {
        g_assert_cmphex(page(b, i), ==, stamp(i));
    }
}

static inline void assert_zero(Balloon *b, unsigned first, unsigned n)
{
    for (unsigned i = first; i < first + n; i++) {
        g_assert_cmphex(page(b, i), ==, 0);
    }
}

static inline json_object *member(json_object *obj, const char *name)
{
    json_object *value = json_object_object_get(obj, name);

    g_assert_nonnull(value);
    return value;
}

static inline int64_t query_balloon(QTest *q)
{
    json_object *ret = qtest_qmp_ok(q, "{'execute': 'query-balloon'}");
    int64_t actual = json_object_get_int64(member(ret, "actual"));

    json_object_put(ret);
    return actual;
}

/* Counters of query-ram-restore for pc.ram. */
static inline uint64_t ram_counter(QTest *q, const char *name)
{
    json_object *ret = qtest_qmp_ok(q, "{'execute': 'query-ram-restore'}");
    json_object *blocks = member(ret, "blocks");
    uint64_t value = UINT64_MAX;

    for (size_t i = 0; i < json_object_array_length(blocks); i++) {
        json_object *block = json_object_array_get_idx(blocks, i);

        if (g_str_equal(json_object_get_string(member(block, "block")), "pc.ram")) {
            value = json_object_get_uint64(member(block, name));
        }
    }
    json_object_put(ret);
    return value;
}

static inline void set_target(QTest *q, int64_t bytes)
{
    json_object *ret = qtest_qmp_ok(
        q, "{'execute': 'balloon', 'arguments': {'value': %" G_GINT64_FORMAT "}}", bytes);

    json_object_put(ret);
}

static inline int64_t ignored_pages(Balloon *b)
{
    return qtest_qom_get_int(b->q, PATH, "ignored-pages");
}

/* --- Statistics --- */

typedef struct Stats {
    uint64_t values[16];
    int64_t updated;
} Stats;

static const char *const stat_names[] = {
    "stat-swap-in",      "stat-swap-out",     "stat-major-faults",     "stat-minor-faults",
    "stat-free-memory",  "stat-total-memory", "stat-available-memory", "stat-disk-caches",
    "stat-htlb-pgalloc", "stat-htlb-pgfail",  "stat-oom-kills",        "stat-alloc-stalls",
    "stat-async-scans",  "stat-direct-scans", "stat-async-reclaims",   "stat-direct-reclaims",
};

static inline Stats get_stats(Balloon *b)
{
    json_object *ret = qtest_qmp_ok(
        b->q, "{'execute': 'qom-get', 'arguments': {'path': '%s', 'property': 'guest-stats'}}",
        PATH);
    json_object *stats = member(ret, "stats");
    Stats s;

    g_assert_cmpint(json_object_object_length(stats), ==, G_N_ELEMENTS(stat_names));
    for (unsigned i = 0; i < G_N_ELEMENTS(stat_names); i++) {
        s.values[i] = json_object_get_uint64(member(stats, stat_names[i]));
    }
    s.updated = json_object_get_int64(member(ret, "last-update"));
    json_object_put(ret);
    return s;
}

static inline void put_stat(uint8_t **p, uint16_t tag, uint64_t value)
{
    memcpy(*p, &tag, 2);
    memcpy(*p + 2, &value, 8);
    *p += 10;
}

/* All the tags from 0 to n - 1, each with base + tag, and one that nobody knows. */
static inline void send_stats(Balloon *b, unsigned n, uint64_t base)
{
    uint8_t bytes[400], *p = bytes;
    QVirtBuffer buffer = { b->buffer, 0, false };

    for (unsigned i = 0; i < n; i++) {
        put_stat(&p, i, base + i);
    }
    put_stat(&p, 99, 1);
    buffer.len = p - bytes;
    qtest_memwrite(b->q, b->buffer, bytes, buffer.len);
    qvirtqueue_add(b->stats, &buffer, 1);
    qvirtqueue_kick(b->stats);
}

static inline bool asked(Balloon *b)
{
    QVirtUsed used;

    return qvirtqueue_get(b->stats, &used);
}

static inline void set_interval(Balloon *b, const char *seconds)
{
    qtest_qom_set(b->q, PATH, "guest-stats-polling-interval", seconds);
}

#define SECOND INT64_C(1000000000)

#endif
