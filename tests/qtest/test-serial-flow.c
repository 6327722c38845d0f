/*
 * Tests of virtio-serial under pressure: sides that take nothing, reset and save and restore in the middle of a stream.
 * No byte may be lost or come twice.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "tests/qtest/serial-driver.h"

#define LENGTH (4u << 20) /* more than a socket and the chardev's queue hold */
#define PIECE 4096u

/* The ports open and a client at port 1. */
static Serial *open_stream(int *ret_fd)
{
    Serial *s = serial_new(SERIAL_OPTIONS, false, F_MULTIPORT);

    hand_shake(s);
    *ret_fd = host_connect(s, "one");
    expect_message(s, 1, PORT_OPEN, 1, "");
    say(s, 1, PORT_OPEN, 1);
    return s;
}

/* Guest memory with LENGTH bytes of the pattern. */
static uint64_t guest_pattern(Serial *s)
{
    uint64_t at = qtest_alloc(s->q, LENGTH, 4096);
    g_autofree uint8_t *bytes = g_malloc(LENGTH);

    for (size_t i = 0; i < LENGTH; i++) {
        bytes[i] = pattern(i);
    }
    qtest_memwrite(s->q, at, bytes, LENGTH);
    return at;
}

static void assert_pattern(const uint8_t *bytes, size_t from, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] != pattern(from + i)) {
            g_error("byte %zu is 0x%02x, not 0x%02x", from + i, bytes[i], pattern(from + i));
        }
    }
}

static void expect_pattern(int fd, size_t from, size_t len)
{
    g_autofree uint8_t *bytes = g_malloc(len);

    host_read(fd, bytes, len);
    assert_pattern(bytes, from, len);
}

/* --- Guest to host --- */

/* Many buffers: as long as the host does not read the guest is held up; then all arrives in order. */
static void test_host_is_slow(void)
{
    int fd;
    Serial *s = open_stream(&fd);
    uint64_t at = guest_pattern(s);
    unsigned given = 0, back = 0;
    size_t seen = 0;
    QVirtUsed used;

    while (given - back < s->tx[1]->size) {
        qvirtqueue_add(s->tx[1], &(QVirtBuffer){ at + given++ * PIECE, PIECE, false }, 1);
        qvirtqueue_kick(s->tx[1]);
        back += qvirtqueue_get(s->tx[1], &used);
        g_assert_cmpuint(given, <, LENGTH / PIECE);
    }
    g_usleep(20000);
    g_assert_cmpuint(given - back, >, 0);
    while (seen < LENGTH) {
        expect_pattern(fd, seen, PIECE);
        seen += PIECE;
        while (qvirtqueue_get(s->tx[1], &used)) {
            back++;
        }
        if (given < LENGTH / PIECE && given - back < s->tx[1]->size) {
            qvirtqueue_add(s->tx[1], &(QVirtBuffer){ at + given++ * PIECE, PIECE, false }, 1);
            qvirtqueue_kick(s->tx[1]);
        }
    }
    while (back < given) {
        qvirtqueue_wait(s->tx[1]);
        back++;
    }
    host_expect_silence(fd);
    close(fd);
    serial_free(s);
}

/* One huge buffer is given back when the last byte of it is on its way. */
static void test_huge_buffer(void)
{
    int fd;
    Serial *s = open_stream(&fd);
    uint64_t at = guest_pattern(s);
    QVirtUsed used;

    qvirtqueue_add(s->tx[1], &(QVirtBuffer){ at, LENGTH, false }, 1);
    qvirtqueue_kick(s->tx[1]);
    g_usleep(20000);
    g_assert_false(qvirtqueue_get(s->tx[1], &used));
    expect_pattern(fd, 0, LENGTH);
    qvirtqueue_wait(s->tx[1]);
    /* Other ports are not held up by a full one. */
    qvirtqueue_add(s->tx[1], &(QVirtBuffer){ at, LENGTH, false }, 1);
    qvirtqueue_kick(s->tx[1]);
    guest_write(s, 0, "console");
    expect_console(s, "console");
    close(fd);
    /* Nobody is there any more: it is let go. */
    qvirtqueue_wait(s->tx[1]);
    serial_free(s);
}

/* After a reset in the middle of a buffer the next one is sent from its beginning. */
static void test_reset(void)
{
    int fd;
    Serial *s = open_stream(&fd);
    uint64_t at = guest_pattern(s);

    qvirtqueue_add(s->tx[1], &(QVirtBuffer){ at, LENGTH, false }, 1);
    qvirtqueue_kick(s->tx[1]);
    g_usleep(20000);
    serial_end(s);
    serial_begin(s, false, F_MULTIPORT, CONTROL_BUFFERS);
    close(fd);
    hand_shake(s);
    fd = host_connect(s, "one");
    expect_message(s, 1, PORT_OPEN, 1, "");
    say(s, 1, PORT_OPEN, 1);
    guest_write(s, 1, "from the beginning");
    host_expect(fd, "from the beginning");
    host_expect_silence(fd);
    close(fd);
    serial_free(s);
}

typedef struct Reader {
    int fd;
    GByteArray *got;
} Reader;

static void *read_to_end(void *opaque)
{
    Reader *r = opaque;
    uint8_t buf[65536];

    for (;;) {
        struct pollfd pfd = { .fd = r->fd, .events = POLLIN };
        ssize_t n;

        g_assert_cmpint(poll(&pfd, 1, 20000), ==, 1);
        n = read(r->fd, buf, sizeof(buf));
        if (n <= 0) {
            return NULL;
        }
        g_byte_array_append(r->got, buf, (guint)n);
    }
}

static void wait_open(Serial *s, const char *name, int *ret_fd)
{
    *ret_fd = host_connect(s, name);
    /* It is accepted and told before the answer to this. */
    for (int i = 0; i < 3; i++) {
        json_object_put(qtest_qmp_ok(s->q, "{'execute': 'query-chardev'}"));
    }
}

/* What the first VM has sent and what the restored one sends make up the whole. */
static void test_restore_sending(void)
{
    Reader r = { .got = g_byte_array_new() };
    Serial *s = open_stream(&r.fd);
    uint64_t at = guest_pattern(s);
    GThread *thread;
    size_t first;
    int fd;

    qvirtqueue_add(s->tx[1], &(QVirtBuffer){ at, LENGTH, false }, 1);
    qvirtqueue_kick(s->tx[1]);
    g_usleep(20000);
    json_object_put(qtest_qmp_ok(s->q, "{'execute': 'stop'}"));
    thread = g_thread_new("reader", read_to_end, &r);
    qtest_save_restore(s->q, false);
    g_thread_join(thread);
    close(r.fd);
    first = r.got->len;
    g_assert_cmpuint(first, >, 0);
    g_assert_cmpuint(first, <, LENGTH);
    assert_pattern(r.got->data, 0, first);
    wait_open(s, "one", &fd);
    json_object_put(qtest_qmp_ok(s->q, "{'execute': 'cont'}"));
    expect_pattern(fd, first, LENGTH - first);
    qvirtqueue_wait(s->tx[1]);
    host_expect_silence(fd);
    close(fd);
    g_byte_array_unref(r.got);
    serial_free(s);
}

/* --- Host to guest --- */

/* Gives the guest's port 1 a buffer, waits for it and checks what came; returns how much. */
static size_t take_piece(Serial *s, uint64_t at, size_t from, uint32_t len)
{
    g_autofree uint8_t *bytes = g_malloc(len);
    QVirtUsed used;

    qvirtqueue_add(s->rx[1], &(QVirtBuffer){ at, len, true }, 1);
    qvirtqueue_kick(s->rx[1]);
    used = qvirtqueue_wait(s->rx[1]);
    g_assert_cmpuint(used.len, >, 0);
    qtest_memread(s->q, at, bytes, used.len);
    assert_pattern(bytes, from, used.len);
    return used.len;
}

/* Writes as much of the pattern as is taken within a moment; returns how much. */
static size_t push_pattern(int fd)
{
    g_autofree uint8_t *bytes = g_malloc(LENGTH);
    size_t done = 0;
    ssize_t n;

    for (size_t i = 0; i < LENGTH; i++) {
        bytes[i] = pattern(i);
    }
    while (done < LENGTH && (n = write(fd, bytes + done, LENGTH - done)) > 0) {
        done += (size_t)n;
        g_usleep(5000);
    }
    return done;
}

/* Without buffers the host is held up; with buffers of all sizes all arrives in order. */
static void test_guest_is_slow(void)
{
    int fd;
    Serial *s = open_stream(&fd);
    uint64_t at = qtest_alloc(s->q, 8192, 4096);
    size_t sent = push_pattern(fd), seen = 0;
    static const uint32_t sizes[] = { 1, 8192, 3, 4096, 4097, 100 };

    g_assert_cmpuint(sent, <, LENGTH);
    for (unsigned i = 0; seen < sent; i++) {
        seen += take_piece(s, at, seen, sizes[i % G_N_ELEMENTS(sizes)]);
    }
    g_assert_cmpuint(seen, ==, sent);
    close(fd);
    expect_message(s, 1, PORT_OPEN, 0, "");
    serial_free(s);
}

/* A buffer that waits is there after the restore, and nothing comes into a stopped guest. */
static void test_restore_receiving(void)
{
    int fd;
    Serial *s = open_stream(&fd);
    uint64_t at = qtest_alloc(s->q, 64, 16);
    QVirtUsed used;

    qvirtqueue_add(s->rx[1], &(QVirtBuffer){ at, 64, true }, 1);
    qvirtqueue_kick(s->rx[1]);
    json_object_put(qtest_qmp_ok(s->q, "{'execute': 'stop'}"));
    host_write(fd, "lost with the first VM");
    g_usleep(20000);
    g_assert_false(qvirtqueue_get(s->rx[1], &used));
    g_assert_cmphex(qtest_readl(s->q, at), ==, 0);
    qtest_save_restore(s->q, false);
    close(fd);
    wait_open(s, "one", &fd);
    host_write(fd, "hello");
    g_usleep(20000);
    g_assert_false(qvirtqueue_get(s->rx[1], &used));
    json_object_put(qtest_qmp_ok(s->q, "{'execute': 'cont'}"));
    g_assert_cmpuint(qvirtqueue_wait(s->rx[1]).len, ==, 5);
    g_assert_true(frontend_open(s, "one"));
    g_assert_false(frontend_open(s, "two"));
    expect_no_message(s);
    close(fd);
    serial_free(s);
}

/* The guest learns that the client it knew is not there any more, and of the next one. */
static void test_restore_alone(void)
{
    int fd;
    Serial *s = open_stream(&fd);

    qtest_save_restore(s->q, true);
    expect_message(s, 1, PORT_OPEN, 0, "");
    close(fd);
    fd = host_connect(s, "one");
    expect_message(s, 1, PORT_OPEN, 1, "");
    guest_write(s, 1, "again");
    host_expect(fd, "again");
    close(fd);
    serial_free(s);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/serial/host-is-slow", test_host_is_slow);
    g_test_add_func("/serial/huge-buffer", test_huge_buffer);
    g_test_add_func("/serial/reset", test_reset);
    g_test_add_func("/serial/restore/sending", test_restore_sending);
    g_test_add_func("/serial/guest-is-slow", test_guest_is_slow);
    g_test_add_func("/serial/restore/receiving", test_restore_receiving);
    g_test_add_func("/serial/restore/alone", test_restore_alone);
    return g_test_run();
}
