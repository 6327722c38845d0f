/*
 * Tests of virtio-rng: buffers of all kinds, sources that have nothing yet, the limit, reset, stop, save and restore.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "tests/qtest/qvirtio.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RNG 4 /* the type of device */
#define GUARD 0xa5
#define MS 1000000
#define NOT_RAM 0xd0000000ull

/* A driver, and a pipe that the source may be. */
typedef struct Rng {
    QTest *q;
    QVirtio *dev;
    QVirtQueue *vq;
    char *folder, *pipe;
    int writer;
} Rng;

static void set_up_driver(Rng *r, bool legacy, uint64_t features)
{
    r->dev = qvirtio_new(r->q, RNG, legacy);
    qvirtio_begin(r->dev, features);
    r->vq = qvirtqueue_new(r->dev, 0, 0);
    qvirtio_ready(r->dev);
}

/* %s in the options is the path of the pipe. */
static Rng *rng_new(const char *options, bool legacy, uint64_t features)
{
    Rng *r = g_new0(Rng, 1);
    g_autofree char *args = NULL;

    r->folder = g_dir_make_tmp("cowbird-rng-XXXXXX", NULL);
    r->pipe = g_build_filename(r->folder, "pipe", NULL);
    g_assert_cmpint(mkfifo(r->pipe, 0600), ==, 0);
    r->writer = open(r->pipe, O_RDWR | O_CLOEXEC);
    g_assert_cmpint(r->writer, >=, 0);
    if (strstr(options, "%s")) {
        g_auto(GStrv) parts = g_strsplit(options, "%s", 2);

        args = g_strconcat(parts[0], r->pipe, parts[1], NULL);
    }
    r->q = qtest_start("-machine pc -m 64 %s", args ? args : options);
    set_up_driver(r, legacy, features);
    return r;
}

static void rng_free(Rng *r)
{
    qvirtqueue_free(r->vq);
    qvirtio_free(r->dev);
    qtest_quit(r->q);
    close(r->writer);
    g_unlink(r->pipe);
    g_rmdir(r->folder);
    g_free(r->pipe);
    g_free(r->folder);
    g_free(r);
}

#define PIPE_SOURCE "-object rng-random,id=src,filename=%s -device virtio-rng-pci,rng=src"

/* Memory for a buffer with guards around it. */
static uint64_t guarded(Rng *r, uint32_t len)
{
    uint64_t at = qtest_alloc(r->q, len + 32, 16);

    qtest_memset(r->q, at, GUARD, len + 32);
    return at + 16;
}

static void assert_untouched(Rng *r, uint64_t at, uint32_t len)
{
    g_autofree uint8_t *bytes = g_malloc(len);

    qtest_memread(r->q, at, bytes, len);
    for (uint32_t i = 0; i < len; i++) {
        g_assert_cmphex(bytes[i], ==, GUARD);
    }
}

static void assert_guards(Rng *r, uint64_t at, uint32_t len)
{
    assert_untouched(r, at - 16, 16);
    assert_untouched(r, at + len, 16);
}

/* Random all over: eight guard bytes in it are no accident. */
static void assert_filled(Rng *r, uint64_t at, uint32_t len)
{
    g_autofree uint8_t *bytes = g_malloc(len);
    unsigned same = 0;

    qtest_memread(r->q, at, bytes, len);
    for (uint32_t i = 0; i < len; i++) {
        same += bytes[i] == GUARD;
    }
    g_assert_cmpuint(same, <, len >= 8 ? 8 : len + 1);
    assert_guards(r, at, len);
}

static void request(Rng *r, uint64_t at, uint32_t len)
{
    qvirtqueue_add(r->vq, &(QVirtBuffer){ at, len, true }, 1);
    qvirtqueue_kick(r->vq);
}

static void feed(Rng *r, const char *text)
{
    g_assert_cmpint(write(r->writer, text, strlen(text)), ==, (ssize_t)strlen(text));
}

/* Nothing is given back, though the VMM had time. */
static void assert_waiting(Rng *r)
{
    QVirtUsed used;

    g_usleep(30000);
    g_assert_false(qvirtqueue_get(r->vq, &used));
}

static void assert_text(Rng *r, uint64_t at, const char *text)
{
    g_autofree char *got = g_malloc0(strlen(text) + 1);

    qtest_memread(r->q, at, got, strlen(text));
    g_assert_cmpstr(got, ==, text);
}

/* --- Buffers --- */

typedef struct Variant {
    const char *name, *options;
    bool legacy;
    uint64_t features;
} Variant;

static const Variant variants[] = {
    { "modern", "-device virtio-rng-pci", false, 0 },
    { "event-index", "-device virtio-rng-pci", false, QVIRTIO_F_EVENT_IDX },
    { "packed", "-device virtio-rng-pci,packed=on", false, QVIRTIO_F_PACKED },
    { "legacy", "-device virtio-rng-pci-transitional", true, 0 },
    { "iothread", "-object iothread,id=io -device virtio-rng-pci,iothread=io", false, 0 },
    { "urandom", "-object rng-random,id=src -device virtio-rng-pci,rng=src", false, 0 },
};

/* One piece, pieces in a chain, more than the device gives at a time, and what is not to be written left alone. */
static void test_buffers(const void *data)
{
    const Variant *v = data;
    Rng *r = rng_new(v->options, v->legacy, v->features);
    uint64_t at[3] = { guarded(r, 1), guarded(r, 7), guarded(r, 100) }, big = guarded(r, 100000);
    uint64_t readable = guarded(r, 32);
    QVirtBuffer chain[] = {
        { readable, 32, false }, { at[0], 1, true }, { at[1], 7, true }, { at[2], 100, true }
    };
    uint32_t got;

    for (int round = 0; round < 20; round++) {
        g_assert_cmpuint(qvirtqueue_do(r->vq, chain, G_N_ELEMENTS(chain)), ==, 108);
    }
    assert_untouched(r, readable - 16, 64);
    assert_guards(r, at[0], 1);
    assert_guards(r, at[1], 7);
    assert_filled(r, at[2], 100);
    got = qvirtqueue_do(r->vq, &(QVirtBuffer){ big, 100000, true }, 1);
    g_assert_cmpuint(got, >, 0);
    g_assert_cmpuint(got, <, 100000);
    assert_untouched(r, big + got, 100000 - got + 16);
    g_assert_cmpuint(qvirtqueue_do(r->vq, chain, 1), ==, 0);
    rng_free(r);
}

/* A buffer that is no RAM stops the device, not the VM; a reset mends it. */
static void test_bad_buffer(void)
{
    Rng *r = rng_new("-device virtio-rng-pci", false, 0);
    uint64_t at = guarded(r, 64);

    request(r, NOT_RAM, 64);
    g_assert_true(qvirtio_needs_reset(r->dev));
    qvirtqueue_free(r->vq);
    qvirtio_free(r->dev);
    set_up_driver(r, false, 0);
    g_assert_cmpuint(qvirtqueue_do(r->vq, &(QVirtBuffer){ at, 64, true }, 1), ==, 64);
    assert_filled(r, at, 64);
    rng_free(r);
}

/* --- A source that has nothing yet, or little --- */

static void test_slow_source(const void *options)
{
    Rng *r = rng_new(options, false, 0);
    uint64_t a = guarded(r, 16), b = guarded(r, 16);

    request(r, a, 16);
    request(r, b, 16);
    assert_waiting(r);
    feed(r, "hello");
    g_assert_cmpuint(qvirtqueue_wait(r->vq).len, ==, 5);
    assert_text(r, a, "hello");
    assert_untouched(r, a + 5, 27);
    assert_waiting(r);
    assert_untouched(r, b - 16, 48);
    feed(r, "exactly 16 bytes and more");
    g_assert_cmpuint(qvirtqueue_wait(r->vq).len, ==, 16);
    assert_text(r, b, "exactly 16 bytes");
    assert_guards(r, b, 16);
    request(r, a, 16);
    g_assert_cmpuint(qvirtqueue_wait(r->vq).len, ==, 9);
    assert_text(r, a, " and more");
    rng_free(r);
}

/* What comes after the driver has reset the device goes to its new buffers only. */
static void test_reset(void)
{
    Rng *r = rng_new(PIPE_SOURCE, false, 0);
    uint64_t old = guarded(r, 16), fresh = guarded(r, 16);

    request(r, old, 16);
    assert_waiting(r);
    qvirtqueue_free(r->vq);
    qvirtio_free(r->dev);
    set_up_driver(r, false, 0);
    feed(r, "after");
    g_usleep(30000);
    assert_untouched(r, old - 16, 48);
    request(r, fresh, 16);
    g_assert_cmpuint(qvirtqueue_wait(r->vq).len, ==, 5);
    assert_text(r, fresh, "after");
    assert_untouched(r, old - 16, 48);
    rng_free(r);
}

/* A stopped VM has memory at rest; what was asked for comes when it goes on. */
static void test_stop(const void *options)
{
    Rng *r = rng_new(options, false, 0);
    uint64_t at = guarded(r, 16);

    request(r, at, 16);
    assert_waiting(r);
    json_object_put(qtest_qmp_ok(r->q, "{'execute': 'stop'}"));
    feed(r, "bytes");
    assert_waiting(r);
    assert_untouched(r, at - 16, 48);
    json_object_put(qtest_qmp_ok(r->q, "{'execute': 'cont'}"));
    g_assert_cmpuint(qvirtqueue_wait(r->vq).len, ==, 5);
    assert_text(r, at, "bytes");
    rng_free(r);
}

static void test_restore(const void *options)
{
    Rng *r = rng_new(options, false, 0);
    uint64_t at = guarded(r, 16);

    request(r, at, 16);
    assert_waiting(r);
    qtest_save_restore(r->q, true);
    assert_waiting(r);
    feed(r, "later");
    g_assert_cmpuint(qvirtqueue_wait(r->vq).len, ==, 5);
    assert_text(r, at, "later");
    rng_free(r);
}

/* --- The limit --- */

#define LIMIT "max-bytes=100,period=1000"

/* 100 bytes of each second of virtual time, however they are asked for. */
static void test_limit(const void *options)
{
    Rng *r = rng_new(options, false, 0);
    uint64_t at = guarded(r, 64);
    QVirtUsed used;

    for (int period = 0; period < 3; period++) {
        request(r, at, 64);
        g_assert_cmpuint(qvirtqueue_wait(r->vq).len, ==, 64);
        request(r, at, 64);
        g_assert_cmpuint(qvirtqueue_wait(r->vq).len, ==, 36);
        request(r, at, 50);
        assert_waiting(r);
        qtest_clock_step(r->q, 999 * MS);
        assert_waiting(r);
        qtest_clock_step(r->q, 1 * MS);
        g_assert_cmpuint(qvirtqueue_wait(r->vq).len, ==, 50);
        request(r, at, 50);
        g_assert_cmpuint(qvirtqueue_wait(r->vq).len, ==, 50);
        g_assert_false(qvirtqueue_get(r->vq, &used));
        /* Periods begin with a request: long rest does not add up. */
        g_usleep(20000);
        qtest_clock_step(r->q, 5000ll * MS);
    }
    rng_free(r);
}

static void test_limit_and_reset(void)
{
    Rng *r = rng_new("-device virtio-rng-pci," LIMIT, false, 0);
    uint64_t at = guarded(r, 200);

    g_assert_cmpuint(qvirtqueue_do(r->vq, &(QVirtBuffer){ at, 200, true }, 1), ==, 100);
    qvirtqueue_free(r->vq);
    qvirtio_free(r->dev);
    set_up_driver(r, false, 0);
    request(r, at, 200);
    assert_waiting(r);
    qtest_clock_step(r->q, 1000 * MS);
    g_assert_cmpuint(qvirtqueue_wait(r->vq).len, ==, 100);
    rng_free(r);
}

static void test_limit_and_restore(void)
{
    Rng *r = rng_new("-device virtio-rng-pci," LIMIT, false, 0);
    uint64_t at = guarded(r, 200);

    g_assert_cmpuint(qvirtqueue_do(r->vq, &(QVirtBuffer){ at, 70, true }, 1), ==, 70);
    qtest_clock_step(r->q, 400 * MS);
    qtest_save_restore(r->q, true);
    g_assert_cmpuint(qvirtqueue_do(r->vq, &(QVirtBuffer){ at, 70, true }, 1), ==, 30);
    request(r, at, 70);
    qtest_clock_step(r->q, 599 * MS);
    assert_waiting(r);
    qtest_clock_step(r->q, 1 * MS);
    g_assert_cmpuint(qvirtqueue_wait(r->vq).len, ==, 70);
    rng_free(r);
}

/* --- Objects --- */

static void test_objects(void)
{
    Rng *r = rng_new(PIPE_SOURCE, false, 0);

    qtest_qmp_fails(r->q, "cannot open '/nonexistent/file'",
                    "{'execute': 'object-add', 'arguments': {'qom-type': 'rng-random', 'id': 'a', "
                    "'filename': '/nonexistent/file'}}");
    qtest_qmp_fails(r->q, "in use", "{'execute': 'object-del', 'arguments': {'id': 'src'}}");
    json_object_put(qtest_qmp_ok(r->q, "{'execute': 'object-add', 'arguments': {'qom-type': "
                                       "'rng-builtin', 'id': 'b'}}"));
    json_object_put(qtest_qmp_ok(r->q, "{'execute': 'object-del', 'arguments': {'id': 'b'}}"));
    rng_free(r);
}

/* Options that cannot be are refused with a word on what to do. */
static void test_refusals(void)
{
    static const char *const cases[][2] = {
        { "max-bytes=0", "max-bytes=0" },
        { "period=0", "period=0" },
        { "rng=nobody", "nobody" },
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *device = g_strconcat("virtio-rng-pci,", cases[i][0], NULL);
        const char *const argv[] = { g_getenv("COWBIRD_VMM"),
                                     "-accel",
                                     "qtest",
                                     "-nodefaults",
                                     "-display",
                                     "none",
                                     "-device",
                                     device,
                                     NULL };
        g_autofree char *text = NULL;
        int status;

        g_assert_true(g_spawn_sync(NULL, (char **)argv, NULL, G_SPAWN_DEFAULT, NULL, NULL, NULL,
                                   &text, &status, NULL));
        g_assert_cmpint(status, !=, 0);
        g_assert_nonnull(strstr(text, cases[i][1]));
    }
}

#define IO "-object iothread,id=io "

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(variants); i++) {
        g_autofree char *path = g_strconcat("/rng/buffers/", variants[i].name, NULL);

        g_test_add_data_func(path, &variants[i], test_buffers);
    }
    g_test_add_func("/rng/bad-buffer", test_bad_buffer);
    g_test_add_data_func("/rng/slow-source", PIPE_SOURCE, test_slow_source);
    g_test_add_data_func("/rng/slow-source/iothread", IO PIPE_SOURCE ",iothread=io",
                         test_slow_source);
    g_test_add_func("/rng/reset", test_reset);
    g_test_add_data_func("/rng/stop", PIPE_SOURCE, test_stop);
    g_test_add_data_func("/rng/stop/iothread", IO PIPE_SOURCE ",iothread=io", test_stop);
    g_test_add_data_func("/rng/restore", PIPE_SOURCE, test_restore);
    g_test_add_data_func("/rng/restore/iothread", IO PIPE_SOURCE ",iothread=io", test_restore);
    g_test_add_data_func("/rng/limit", "-device virtio-rng-pci," LIMIT, test_limit);
    g_test_add_data_func("/rng/limit/iothread", IO "-device virtio-rng-pci,iothread=io," LIMIT,
                         test_limit);
    g_test_add_func("/rng/limit/reset", test_limit_and_reset);
    g_test_add_func("/rng/limit/restore", test_limit_and_restore);
    g_test_add_func("/rng/objects", test_objects);
    g_test_add_func("/rng/refusals", test_refusals);
    return g_test_run();
}
