/*
 * Test of virtio-balloon as a device: features, sizes, statistics, saved state, interfaces.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "tests/qtest/balloon-driver.h"

/* --- Features and sizes --- */

static void test_features(void)
{
    static const struct {
        const char *options;
        uint64_t offered;
    } cases[] = {
        { "", MUST_TELL | STATS | POISON },
        { ",page-poison=off", MUST_TELL | STATS },
        { ",deflate-on-oom=on", MUST_TELL | STATS | POISON | DEFLATE_ON_OOM },
        { ",free-page-reporting=on,page-poison=off", MUST_TELL | STATS | REPORTING },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        Balloon *b = start(cases[i].options, 0);

        g_assert_cmphex(qvirtio_offered(b->dev) & 0xffffff, ==, cases[i].offered);
        g_assert_cmpuint(qvirtqueue_max_size(b->dev, 2), ==, 128);
        g_assert_cmpuint(qvirtqueue_max_size(b->dev, 3), ==, cases[i].offered & REPORTING ? 32 : 0);
        g_assert_cmpuint(qvirtqueue_max_size(b->dev, 5), ==, 0);
        end(b);
    }
}

/* The field for the poison value is there with the feature. */
static void test_poison_field(void)
{
    static const char *const options[] = { "", ",page-poison=off",
                                           ",page-poison=off,qemu-4-0-config-size=on" };

    for (unsigned i = 0; i < G_N_ELEMENTS(options); i++) {
        Balloon *b = start(options[i], 0);

        qvirtio_set_config32(b->dev, POISON_VALUE, 0x11223344);
        g_assert_cmphex(qvirtio_config32(b->dev, POISON_VALUE), ==, i == 0 ? 0x11223344 : 0);
        end(b);
    }
}

static void test_target(void)
{
    Balloon *b = start("", ALL_FEATURES);
    QTest *q = b->q;

    g_assert_cmpint(query_balloon(q), ==, RAM);
    set_target(q, RAM - 10 * PAGE);
    g_assert_cmpuint(qvirtio_config32(b->dev, NUM_PAGES), ==, 10);
    set_target(q, RAM - 10 * PAGE + 1);
    g_assert_cmpuint(qvirtio_config32(b->dev, NUM_PAGES), ==, 9);
    set_target(q, 1);
    g_assert_cmpuint(qvirtio_config32(b->dev, NUM_PAGES), ==, RAM / PAGE - 1);
    set_target(q, RAM + 1);
    g_assert_cmpuint(qvirtio_config32(b->dev, NUM_PAGES), ==, 0);
    set_target(q, INT64_MAX);
    g_assert_cmpuint(qvirtio_config32(b->dev, NUM_PAGES), ==, 0);
    qtest_qmp_fails(q, "value=0", "{'execute': 'balloon', 'arguments': {'value': 0}}");
    qtest_qmp_fails(q, "value=-1", "{'execute': 'balloon', 'arguments': {'value': -1}}");
    /* The driver tells how far it is; nobody else changes it. */
    g_assert_cmpint(query_balloon(q), ==, RAM);
    end(b);
}

static void test_config_interrupt(void)
{
    Balloon *b = start("", ALL_FEATURES);

    qvirtio_isr(b->dev);
    set_target(b->q, RAM / 2);
    g_assert_cmpuint(qvirtio_isr(b->dev), ==, 2);
    end(b);
}

static void wait_change(QTest *q, int64_t actual)
{
    json_object *event = qtest_qmp_event_wait(q, "BALLOON_CHANGE");

    g_assert_cmpint(json_object_get_int64(member(member(event, "data"), "actual")), ==, actual);
    json_object_put(event);
}

/* The first change at once, the last one of a second when it is over. */
static void test_change_event(void)
{
    Balloon *b = start("", ALL_FEATURES);

    for (unsigned i = 1; i <= 20; i++) {
        qvirtio_set_config32(b->dev, ACTUAL, i * 10);
        g_assert_cmpint(query_balloon(b->q), ==, RAM - i * 10 * PAGE);
    }
    wait_change(b->q, RAM - 10 * PAGE);
    wait_change(b->q, RAM - 200 * PAGE);
    g_assert_false(qtest_qmp_event_seen(b->q, "BALLOON_CHANGE"));
    /* More than there is. */
    qvirtio_set_config32(b->dev, ACTUAL, UINT32_MAX);
    g_assert_cmpint(query_balloon(b->q), ==, 0);
    end(b);
}

static void test_no_balloon(void)
{
    static const char *const commands[] = {
        "{'execute': 'query-balloon'}", "{'execute': 'balloon', 'arguments': {'value': 1048576}}"
    };
    QTest *q = qtest_start("-machine pc -m 64");

    for (unsigned i = 0; i < G_N_ELEMENTS(commands); i++) {
        json_object *ret = qtest_qmp(q, "%s", commands[i]);

        g_assert_cmpstr(json_object_get_string(member(member(ret, "error"), "class")), ==,
                        "DeviceNotActive");
        json_object_put(ret);
    }
    qtest_quit(q);
}

static void test_one_balloon_only(void)
{
    char *args[] = { (char *)g_getenv("COWBIRD_VMM"),
                     "-accel",
                     "qtest",
                     "-nodefaults",
                     "-device",
                     "virtio-balloon-pci,id=one",
                     "-device",
                     "virtio-balloon-pci,id=two",
                     NULL };
    g_autofree char *text = NULL;
    int status;
    GError *err = NULL;

    g_spawn_sync(NULL, args, NULL, G_SPAWN_STDOUT_TO_DEV_NULL, NULL, NULL, NULL, &text, &status,
                 &err);
    g_assert_no_error(err);
    g_assert_cmpint(status, !=, 0);
    g_assert_nonnull(strstr(text, "at most one balloon"));
}

/* libvirt sets the target before the state comes in. */
static void test_target_while_incoming(void)
{
    QTest *q = qtest_start("-machine pc -m 64 -incoming defer -device "
                           "virtio-balloon-pci,id=balloon0");

    set_target(q, RAM / 2);
    g_assert_cmpint(query_balloon(q), ==, RAM);
    qtest_qom_set(q, PATH, "guest-stats-polling-interval", "3");
    qtest_quit(q);
}

/* --- Statistics --- */

static void test_stats(void)
{
    Balloon *b = start("", ALL_FEATURES);
    Stats s = get_stats(b);

    g_assert_cmpint(s.updated, ==, 0);
    for (unsigned i = 0; i < 16; i++) {
        g_assert_cmphex(s.values[i], ==, UNKNOWN);
    }
    /* As a driver of Debian 12 does; kept until it is asked for again, which nobody does. */
    send_stats(b, 10, 1000);
    s = get_stats(b);
    for (unsigned i = 0; i < 16; i++) {
        g_assert_cmpuint(s.values[i], ==, i < 10 ? 1000 + i : UNKNOWN);
    }
    g_assert_cmpint(ABS(s.updated - g_get_real_time() / G_USEC_PER_SEC), <=, 2);
    qtest_clock_step(b->q, 100 * SECOND);
    g_assert_false(asked(b));
    end(b);
}

static void test_stats_polling(void)
{
    Balloon *b = start("", ALL_FEATURES);

    send_stats(b, 10, 1000);
    set_interval(b, "2");
    g_assert_cmpint(qtest_qom_get_int(b->q, PATH, "guest-stats-polling-interval"), ==, 2);
    qtest_clock_step(b->q, 1);
    g_assert_true(asked(b));
    /* A guest of Debian 13 answers. */
    send_stats(b, 16, 2000);
    g_assert_cmpuint(get_stats(b).values[15], ==, 2015);
    qtest_clock_step(b->q, SECOND);
    g_assert_false(asked(b));
    qtest_clock_step(b->q, SECOND);
    g_assert_true(asked(b));
    /* It does not answer: asked again later. */
    qtest_clock_step(b->q, 10 * SECOND);
    g_assert_false(asked(b));
    send_stats(b, 1, 3000);
    g_assert_cmpuint(get_stats(b).values[0], ==, 3000);
    g_assert_cmpuint(get_stats(b).values[1], ==, UNKNOWN);
    set_interval(b, "0");
    qtest_clock_step(b->q, 10 * SECOND);
    g_assert_false(asked(b));
    g_assert_cmpuint(get_stats(b).values[0], ==, 3000);
    end(b);
}

static void test_stats_interval_values(void)
{
    Balloon *b = start(",guest-stats-polling-interval=7", ALL_FEATURES);
    static const char *const bad[] = { "-1", "4294967296", "'soon'", "1.5", "true" };

    g_assert_cmpint(qtest_qom_get_int(b->q, PATH, "guest-stats-polling-interval"), ==, 7);
    for (unsigned i = 0; i < G_N_ELEMENTS(bad); i++) {
        qtest_qmp_fails(b->q, "guest-stats-polling-interval",
                        "{'execute': 'qom-set', 'arguments': {'path': '%s', 'property': "
                        "'guest-stats-polling-interval', 'value': %s}}",
                        PATH, bad[i]);
    }
    set_interval(b, "4294967295");
    qtest_qmp_fails(b->q, "guest-stats",
                    "{'execute': 'qom-set', 'arguments': {'path': '%s', 'property': "
                    "'guest-stats', 'value': 1}}",
                    PATH);
    end(b);
}

/* Two buffers: the older one has served. Endless and odd ones are read in part. */
static void test_stats_odd_buffers(void)
{
    Balloon *b = start("", ALL_FEATURES);
    QVirtBuffer huge = { AREA, 4 * CHUNK, false };
    QVirtBuffer odd = { b->buffer, 17, false };

    send_stats(b, 10, 1000);
    send_stats(b, 10, 2000);
    g_assert_true(asked(b));
    g_assert_false(asked(b));
    g_assert_cmpuint(get_stats(b).values[0], ==, 2000);
    qvirtqueue_add(b->stats, &huge, 1);
    qvirtqueue_add(b->stats, &odd, 1);
    qvirtqueue_kick(b->stats);
    g_assert_true(asked(b));
    g_assert_true(asked(b));
    g_assert_cmpuint(get_stats(b).values[0], ==, 2000);
    g_assert_cmpuint(get_stats(b).values[1], ==, UNKNOWN);
    g_assert_false(qvirtio_needs_reset(b->dev));
    end(b);
}

/* A stop takes the buffer back and does not take old statistics for new ones. */
static void test_stats_stop(void)
{
    Balloon *b = start("", ALL_FEATURES);
    json_object *ret;

    send_stats(b, 10, 1000);
    ret = qtest_qmp_ok(b->q, "{'execute': 'stop'}");
    json_object_put(ret);
    /* Would be seen if the buffer were read again. */
    qtest_writeq(b->q, b->buffer + 2, 7);
    ret = qtest_qmp_ok(b->q, "{'execute': 'cont'}");
    json_object_put(ret);
    g_assert_cmpuint(get_stats(b).values[0], ==, 1000);
    set_interval(b, "1");
    qtest_clock_step(b->q, SECOND);
    g_assert_true(asked(b));
    send_stats(b, 10, 2000);
    g_assert_cmpuint(get_stats(b).values[0], ==, 2000);
    end(b);
}

/* --- Save and restore --- */

static void test_save_restore(void)
{
    Balloon *b = start(",free-page-reporting=on", ALL_FEATURES);
    int64_t updated;

    set_target(b->q, RAM - 100 * PAGE);
    qvirtio_set_config32(b->dev, ACTUAL, 60);
    qvirtio_set_config32(b->dev, POISON_VALUE, 5);
    send_stats(b, 10, 1000);
    updated = get_stats(b).updated;
    qtest_save_restore(b->q, true);
    g_assert_cmpint(query_balloon(b->q), ==, RAM - 60 * PAGE);
    g_assert_cmpuint(qvirtio_config32(b->dev, NUM_PAGES), ==, 100);
    g_assert_cmpuint(qvirtio_config32(b->dev, ACTUAL), ==, 60);
    g_assert_cmphex(qvirtio_config32(b->dev, POISON_VALUE), ==, 5);
    g_assert_cmpuint(get_stats(b).values[9], ==, 1009);
    g_assert_cmpint(get_stats(b).updated, ==, updated);
    /* The buffer of statistics is still kept, and given back when it is asked for. */
    set_interval(b, "1");
    qtest_clock_step(b->q, SECOND);
    g_assert_true(asked(b));
    send_stats(b, 10, 2000);
    g_assert_cmpuint(get_stats(b).values[0], ==, 2000);
    qvirtio_set_config32(b->dev, POISON_VALUE, 0);
    report(b, AREA, CHUNK);
    assert_zero(b, 0, CHUNK_PAGES);
    end(b);
}

/* --- Rings and legacy drivers --- */

static void test_legacy(void)
{
    Balloon *b = g_new0(Balloon, 1);

    b->q = qtest_start("-machine pc -m 64 -device virtio-balloon-pci-transitional,id=balloon0");
    stamp_area(b->q);
    b->buffer = qtest_alloc(b->q, 65536, PAGE);
    b->dev = qvirtio_new(b->q, 5, true);
    negotiate(b, MUST_TELL | STATS);
    set_target(b->q, RAM / 2);
    g_assert_cmpuint(qvirtio_config32(b->dev, NUM_PAGES), ==, RAM / 2 / PAGE);
    give_pages(b, b->inflate, 0, 100);
    assert_zero(b, 0, 100);
    assert_stamped(b, 100, 1);
    qvirtio_set_config32(b->dev, ACTUAL, 100);
    g_assert_cmpint(query_balloon(b->q), ==, RAM - 100 * PAGE);
    send_stats(b, 10, 1000);
    g_assert_cmpuint(get_stats(b).values[3], ==, 1003);
    end(b);
}

static void test_packed(void)
{
    Balloon *b = start_restored(",packed=on,free-page-reporting=on",
                                ALL_FEATURES | QVIRTIO_F_PACKED | QVIRTIO_F_INDIRECT);

    give_pages(b, b->inflate, 0, CHUNK_PAGES);
    report(b, AREA + CHUNK, CHUNK);
    assert_zero(b, 0, 2 * CHUNK_PAGES);
    assert_stamped(b, 2 * CHUNK_PAGES, 1);
    send_stats(b, 10, 1000);
    g_assert_cmpuint(get_stats(b).values[3], ==, 1003);
    end(b);
}

static const struct {
    const char *path;
    void (*fn)(void);
} tests[] = {
    { "/balloon/features", test_features },
    { "/balloon/poison-field", test_poison_field },
    { "/balloon/target", test_target },
    { "/balloon/config-interrupt", test_config_interrupt },
    { "/balloon/change-event", test_change_event },
    { "/balloon/no-balloon", test_no_balloon },
    { "/balloon/one-only", test_one_balloon_only },
    { "/balloon/target-while-incoming", test_target_while_incoming },
    { "/balloon/stats", test_stats },
    { "/balloon/stats-polling", test_stats_polling },
    { "/balloon/stats-interval-values", test_stats_interval_values },
    { "/balloon/stats-odd-buffers", test_stats_odd_buffers },
    { "/balloon/stats-stop", test_stats_stop },
    { "/balloon/save-restore", test_save_restore },
    { "/balloon/legacy", test_legacy },
    { "/balloon/packed", test_packed },
};

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    for (unsigned i = 0; i < G_N_ELEMENTS(tests); i++) {
        g_test_add_func(tests[i].path, tests[i].fn);
    }
    return g_test_run();
}
