/*
 * A driver of virtio-serial for tests, and the other side of its ports: sockets.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_TESTS_QTEST_SERIAL_DRIVER_H
#define COWBIRD_TESTS_QTEST_SERIAL_DRIVER_H

#include "tests/qtest/qvirtio.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CONSOLE 3 /* the type of device */
#define F_MULTIPORT (1ull << 1)
#define F_EMERG_WRITE (1ull << 2)
#define CONTROL_IN 2
#define CONTROL_OUT 3
#define CONTROL_BUFFERS 16
#define CONTROL_SIZE 64
#define PORTS 4

/* Control messages, virtio 1.2, 5.3.6.2 */
enum {
    DEVICE_READY = 0,
    PORT_ADD = 1,
    PORT_REMOVE = 2,
    PORT_READY = 3,
    CONSOLE_PORT = 4,
    PORT_RESIZE = 5,
    PORT_OPEN = 6,
    PORT_NAME = 7,
};

typedef struct Message {
    uint32_t port;
    uint16_t event, value;
    char name[CONTROL_SIZE];
} Message;

typedef struct Serial {
    QTest *q;
    QVirtio *dev;
    QVirtQueue *control_in, *control_out, *rx[PORTS], *tx[PORTS];
    uint64_t messages;              /* CONTROL_BUFFERS times CONTROL_SIZE bytes */
    uint64_t place[QVIRTQUEUE_MAX]; /* of the message buffer with that id */
    char *folder;
} Serial;

/* A console at port 0 with a ring buffer, and ports 1 and 2 with sockets in the folder %s. */
#define SERIAL_OPTIONS                                                               \
    "-device virtio-serial-pci,id=vs0 "                                              \
    "-chardev ringbuf,id=con,size=65536 "                                            \
    "-device virtconsole,bus=vs0.0,chardev=con,id=console0 "                         \
    "-chardev socket,id=one,path=%s/one,server=on,wait=off "                         \
    "-device virtserialport,bus=vs0.0,chardev=one,id=port1,nr=1,name=org.example.1 " \
    "-chardev socket,id=two,path=%s/two,server=on,wait=off "                         \
    "-device virtserialport,bus=vs0.0,chardev=two,id=port2"

/* --- The driver --- */

static inline void give_message_buffer(Serial *s, uint64_t at)
{
    uint16_t id = qvirtqueue_add(s->control_in, &(QVirtBuffer){ at, CONTROL_SIZE, true }, 1);

    s->place[id] = at;
}

/* Queues are set up and some buffers for messages given; nothing is said. */
static inline void serial_begin(Serial *s, bool legacy, uint64_t features, unsigned buffers)
{
    s->dev = qvirtio_new(s->q, CONSOLE, legacy);
    qvirtio_begin(s->dev, features);
    for (unsigned n = 0; n < PORTS; n++) {
        s->rx[n] = qvirtqueue_new(s->dev, n ? 2 * n + 2 : 0, 0);
        s->tx[n] = qvirtqueue_new(s->dev, n ? 2 * n + 3 : 1, 0);
    }
    s->control_in = qvirtqueue_new(s->dev, CONTROL_IN, 0);
    s->control_out = qvirtqueue_new(s->dev, CONTROL_OUT, 0);
    qvirtio_ready(s->dev);
    s->messages = qtest_alloc(s->q, CONTROL_BUFFERS * CONTROL_SIZE, 64);
    for (unsigned i = 0; i < buffers; i++) {
        give_message_buffer(s, s->messages + i * CONTROL_SIZE);
    }
    qvirtqueue_kick(s->control_in);
}

static inline void serial_end(Serial *s)
{
    for (unsigned n = 0; n < PORTS; n++) {
        qvirtqueue_free(s->rx[n]);
        qvirtqueue_free(s->tx[n]);
    }
    qvirtqueue_free(s->control_in);
    qvirtqueue_free(s->control_out);
    qvirtio_free(s->dev);
}

/* @options holds %s, the folder of sockets, twice. */
static inline Serial *serial_new(const char *options, bool legacy, uint64_t features)
{
    Serial *s = g_new0(Serial, 1);
    g_auto(GStrv) parts = g_strsplit(options, "%s", -1);
    g_autofree char *args = NULL;

    s->folder = g_dir_make_tmp("cowbird-serial-XXXXXX", NULL);
    args = g_strjoinv(s->folder, parts);
    s->q = qtest_start("-machine pc -m 64 %s", args);
    serial_begin(s, legacy, features, CONTROL_BUFFERS);
    return s;
}

static inline void serial_free(Serial *s)
{
    serial_end(s);
    qtest_quit(s->q);
    g_rmdir(s->folder);
    g_free(s->folder);
    g_free(s);
}

/* Hands a message of @len bytes to the device and waits until it is taken. */
static inline void say_raw(Serial *s, const void *bytes, uint32_t len)
{
    uint64_t at = qtest_alloc(s->q, 64, 16);

    qtest_memwrite(s->q, at, bytes, len);
    qvirtqueue_do(s->control_out, &(QVirtBuffer){ at, len, false }, 1);
}

static inline void say(Serial *s, uint32_t port, uint16_t event, uint16_t value)
{
    uint8_t msg[8] = { (uint8_t)port,         (uint8_t)(port >> 8), (uint8_t)(port >> 16),
                       (uint8_t)(port >> 24), (uint8_t)event,       (uint8_t)(event >> 8),
                       (uint8_t)value,        (uint8_t)(value >> 8) };

    say_raw(s, msg, sizeof(msg));
}

/* Takes a message; its buffer is given again. */
static inline Message take_message(Serial *s, const QVirtUsed *used)
{
    uint64_t at = s->place[used->id];
    Message m = { qtest_readl(s->q, at), qtest_readw(s->q, at + 4), qtest_readw(s->q, at + 6), "" };

    g_assert_cmpuint(used->len, >=, 8);
    qtest_memread(s->q, at + 8, m.name, used->len - 8);
    qtest_memset(s->q, at, 0, CONTROL_SIZE);
    give_message_buffer(s, at);
    qvirtqueue_kick(s->control_in);
    return m;
}

static inline void expect_message(Serial *s, uint32_t port, uint16_t event, uint16_t value,
                                  const char *name)
{
    QVirtUsed used = qvirtqueue_wait(s->control_in);
    Message m = take_message(s, &used);

    g_assert_cmpuint(m.port, ==, port);
    g_assert_cmpuint(m.event, ==, event);
    g_assert_cmpuint(m.value, ==, value);
    g_assert_cmpstr(m.name, ==, name);
}

static inline void expect_no_message(Serial *s)
{
    QVirtUsed used;

    g_usleep(20000);
    g_assert_false(qvirtqueue_get(s->control_in, &used));
}

/* Up to where ports are open: the messages on the way are the expected ones. */
static inline void hand_shake(Serial *s)
{
    say(s, UINT32_MAX, DEVICE_READY, 1);
    expect_message(s, 0, PORT_ADD, 1, "");
    expect_message(s, 1, PORT_ADD, 1, "");
    expect_message(s, 2, PORT_ADD, 1, "");
    say(s, 0, PORT_READY, 1);
    expect_message(s, 0, CONSOLE_PORT, 1, "");
    expect_message(s, 0, PORT_OPEN, 1, "");
    say(s, 1, PORT_READY, 1);
    expect_message(s, 1, PORT_NAME, 1, "org.example.1");
    say(s, 2, PORT_READY, 1);
    expect_no_message(s);
}

/* --- The other side --- */

/* Of port "one" or "two"; does not block. */
static inline int host_connect(Serial *s, const char *name)
{
    struct sockaddr_un addr = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    g_snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/%s", s->folder, name);
    g_assert_cmpint(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), ==, 0);
    return fd;
}

/* Reads exactly @len bytes within 10 s. */
static inline void host_read(int fd, void *buf, size_t len)
{
    size_t done = 0;

    while (done < len) {
        struct pollfd pfd = { .fd = fd, .events = POLLIN };
        ssize_t n;

        g_assert_cmpint(poll(&pfd, 1, 10000), ==, 1);
        n = read(fd, (char *)buf + done, len - done);
        g_assert_cmpint(n, >, 0);
        done += (size_t)n;
    }
}

static inline void host_expect(int fd, const char *text)
{
    g_autofree char *got = g_malloc0(strlen(text) + 1);

    host_read(fd, got, strlen(text));
    g_assert_cmpstr(got, ==, text);
}

static inline void host_expect_silence(int fd)
{
    struct pollfd pfd = { .fd = fd, .events = POLLIN };

    g_assert_cmpint(poll(&pfd, 1, 30), ==, 0);
}

static inline void host_write(int fd, const char *text)
{
    g_assert_cmpint(write(fd, text, strlen(text)), ==, (ssize_t)strlen(text));
}

/* A long text in which each place can be told from others. */
static inline uint8_t pattern(size_t i)
{
    return (uint8_t)(i * 7 ^ i >> 8 ^ i >> 16);
}

/* What query-chardev says of that one. */
static inline bool frontend_open(Serial *s, const char *label)
{
    json_object *list = qtest_qmp_ok(s->q, "{'execute': 'query-chardev'}");
    bool open = false, found = false;

    for (size_t i = 0; i < json_object_array_length(list); i++) {
        json_object *info = json_object_array_get_idx(list, i);

        if (g_str_equal(json_object_get_string(json_object_object_get(info, "label")), label)) {
            open = json_object_get_boolean(json_object_object_get(info, "frontend-open"));
            found = true;
        }
    }
    json_object_put(list);
    g_assert_true(found);
    return open;
}

/* What the guest has written to the console. */
static inline void expect_console(Serial *s, const char *text)
{
    json_object *got = qtest_qmp_ok(s->q, "{'execute': 'ringbuf-read', 'arguments': "
                                          "{'device': 'con', 'size': 65536}}");

    g_assert_cmpstr(json_object_get_string(got), ==, text);
    json_object_put(got);
}

/* Memory with that text. */
static inline uint64_t guest_text(Serial *s, const char *text)
{
    uint64_t at = qtest_alloc(s->q, strlen(text) + 1, 1);

    qtest_memwrite(s->q, at, text, strlen(text));
    return at;
}

/* The guest writes the text to a port in one piece and gets its buffer back. */
static inline void guest_write(Serial *s, unsigned port, const char *text)
{
    uint64_t at = guest_text(s, text);

    qvirtqueue_do(s->tx[port], &(QVirtBuffer){ at, (uint32_t)strlen(text), false }, 1);
}

#endif
