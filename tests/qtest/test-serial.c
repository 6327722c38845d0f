/*
 * Tests of virtio-serial: ports and messages about them, bytes both ways, who is there, faults of the driver.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "tests/qtest/serial-driver.h"

#define NOT_RAM 0xd0000000ull

/* --- Ports --- */

typedef struct Variant {
    const char *name, *options;
    bool legacy;
    uint64_t features;
} Variant;

static const Variant variants[] = {
    { "modern", "", false, F_MULTIPORT },
    { "event-index", "", false, F_MULTIPORT | QVIRTIO_F_EVENT_IDX },
    { "packed", ",packed=on", false, F_MULTIPORT | QVIRTIO_F_PACKED },
    { "legacy", "", true, F_MULTIPORT },
};

static Serial *new_variant(const Variant *v)
{
    g_auto(GStrv) parts = g_strsplit(SERIAL_OPTIONS, ",id=vs0", 2);
    g_autofree char *options = g_strconcat(parts[0], ",id=vs0", v->options, parts[1], NULL);

    return serial_new(options, v->legacy, v->features);
}

/* What a driver does at first, and bytes both ways afterwards. */
static void test_life(const void *data)
{
    Serial *s = new_variant(data);
    uint64_t at = qtest_alloc(s->q, 64, 16);
    int fd;

    g_assert_cmpuint(qvirtio_config32(s->dev, 4), ==, 31);
    hand_shake(s);
    guest_write(s, 0, "to the console\n");
    expect_console(s, "to the console\n");
    fd = host_connect(s, "one");
    expect_message(s, 1, PORT_OPEN, 1, "");
    say(s, 1, PORT_OPEN, 1);
    guest_write(s, 1, "hello host");
    host_expect(fd, "hello host");
    qvirtqueue_add(s->rx[1], &(QVirtBuffer){ at, 64, true }, 1);
    qvirtqueue_kick(s->rx[1]);
    host_write(fd, "hello guest");
    g_assert_cmpuint(qvirtqueue_wait(s->rx[1]).len, ==, 11);
    g_assert_cmphex(qtest_readl(s->q, at), ==, 0x6c6c6568);
    close(fd);
    expect_message(s, 1, PORT_OPEN, 0, "");
    serial_free(s);
}

/* Messages wait for buffers, in order, however late those come; one that is too short is no use. */
static void test_late_buffers(void)
{
    Serial *s = serial_new(SERIAL_OPTIONS, false, F_MULTIPORT);
    uint64_t at = qtest_alloc(s->q, 4, 4);
    int fd;

    serial_end(s);
    serial_begin(s, false, F_MULTIPORT, 0);
    say(s, 0, DEVICE_READY, 1);
    say(s, 1, PORT_READY, 1);
    fd = host_connect(s, "one");
    expect_no_message(s);
    qvirtqueue_add(s->control_in, &(QVirtBuffer){ at, 4, true }, 1);
    qvirtqueue_kick(s->control_in);
    g_assert_cmpuint(qvirtqueue_wait(s->control_in).len, ==, 0);
    give_message_buffer(s, s->messages);
    qvirtqueue_kick(s->control_in);
    expect_message(s, 0, PORT_ADD, 1, "");
    expect_message(s, 1, PORT_ADD, 1, "");
    expect_message(s, 1, PORT_NAME, 1, "org.example.1");
    expect_message(s, 1, PORT_OPEN, 1, "");
    expect_message(s, 2, PORT_ADD, 1, "");
    expect_no_message(s);
    close(fd);
    serial_free(s);
}

/* A driver that knows of one console only. */
static void test_single_port(const void *legacy)
{
    Serial *s = serial_new("-chardev socket,id=con,path=%s/con,server=on,wait=off "
                           "-device virtio-serial-pci,id=vs0 "
                           "-device virtconsole,chardev=con,bus=vs0.0",
                           legacy != NULL, 0);
    uint64_t at = qtest_alloc(s->q, 64, 16);
    int fd = host_connect(s, "con");

    guest_write(s, 0, "one");
    host_expect(fd, "one");
    host_write(fd, "two");
    qvirtqueue_add(s->rx[0], &(QVirtBuffer){ at, 64, true }, 1);
    qvirtqueue_kick(s->rx[0]);
    g_assert_cmpuint(qvirtqueue_wait(s->rx[0]).len, ==, 3);
    close(fd);
    serial_free(s);
}

/* Of libvirt's concern: which port is open, by event and by query. */
static void expect_change(Serial *s, const char *id, bool open)
{
    json_object *event = qtest_qmp_event_wait(s->q, "VSERPORT_CHANGE");
    json_object *data = json_object_object_get(event, "data");

    g_assert_cmpstr(json_object_get_string(json_object_object_get(data, "id")), ==, id);
    g_assert_cmpint(json_object_get_boolean(json_object_object_get(data, "open")), ==, open);
    json_object_put(event);
}

static void test_guest_open(void)
{
    Serial *s = serial_new(SERIAL_OPTIONS, false, F_MULTIPORT);

    hand_shake(s);
    g_assert_false(frontend_open(s, "one"));
    g_assert_true(frontend_open(s, "con"));
    say(s, 1, PORT_OPEN, 1);
    expect_change(s, "port1", true);
    g_assert_true(frontend_open(s, "one"));
    g_assert_false(frontend_open(s, "two"));
    say(s, 2, PORT_OPEN, 1);
    expect_change(s, "port2", true);
    say(s, 1, PORT_OPEN, 0);
    g_assert_false(frontend_open(s, "one"));
    g_assert_false(qtest_qmp_event_seen(s->q, "VSERPORT_CHANGE"));
    expect_change(s, "port1", false);
    /* A reset closes what is open. */
    qvirtio_reset(s->dev);
    g_assert_false(frontend_open(s, "two"));
    expect_change(s, "port2", false);
    serial_free(s);
}

/* Bytes for a port that nobody in the guest has open stay where they are. */
static void test_closed_port(void)
{
    Serial *s = serial_new(SERIAL_OPTIONS, false, F_MULTIPORT);
    uint64_t at = qtest_alloc(s->q, 64, 16);
    QVirtUsed used;
    int fd;

    hand_shake(s);
    qvirtqueue_add(s->rx[1], &(QVirtBuffer){ at, 64, true }, 1);
    qvirtqueue_kick(s->rx[1]);
    fd = host_connect(s, "one");
    expect_message(s, 1, PORT_OPEN, 1, "");
    host_write(fd, "early");
    expect_no_message(s);
    g_assert_false(qvirtqueue_get(s->rx[1], &used));
    say(s, 1, PORT_OPEN, 1);
    g_assert_cmpuint(qvirtqueue_wait(s->rx[1]).len, ==, 5);
    close(fd);
    serial_free(s);
}

/* Clients that come and go while the port is closed are noticed, and told to the guest. */
static void test_clients_of_a_closed_port(void)
{
    Serial *s = serial_new(SERIAL_OPTIONS, false, F_MULTIPORT);

    hand_shake(s);
    for (int i = 0; i < 3; i++) {
        int fd = host_connect(s, "one");

        expect_message(s, 1, PORT_OPEN, 1, "");
        close(fd);
        expect_message(s, 1, PORT_OPEN, 0, "");
    }
    serial_free(s);
}

/* --- Bytes --- */

/* Buffers in pieces, of one byte, empty ones between them, and by indirect tables. */
static void test_pieces(void)
{
    Serial *s = serial_new(SERIAL_OPTIONS, false, F_MULTIPORT | QVIRTIO_F_INDIRECT);
    uint64_t text = guest_text(s, "abcdefghijklmnopqrstuvwxyz"), at = qtest_alloc(s->q, 64, 16);
    QVirtBuffer out[] = { { text, 1, false }, { text + 1, 2, false }, { text + 3, 23, false } };
    QVirtBuffer in[] = { { at, 1, true }, { at + 1, 2, true }, { at + 3, 3, true } };
    char got[8] = "";
    int fd;

    hand_shake(s);
    fd = host_connect(s, "one");
    expect_message(s, 1, PORT_OPEN, 1, "");
    say(s, 1, PORT_OPEN, 1);
    qvirtqueue_do(s->tx[1], out, 3);
    host_expect(fd, "abcdefghijklmnopqrstuvwxyz");
    qvirtqueue_add_indirect(s->tx[1], out, 3);
    qvirtqueue_add(s->tx[1], out, 1);
    qvirtqueue_kick(s->tx[1]);
    host_expect(fd, "abcdefghijklmnopqrstuvwxyza");
    /* What is only for reading holds no room: it is given back. */
    qvirtqueue_add(s->rx[1], &(QVirtBuffer){ text, 1, false }, 1);
    qvirtqueue_add(s->rx[1], in, 3);
    qvirtqueue_add_indirect(s->rx[1], in, 3);
    qvirtqueue_kick(s->rx[1]);
    host_write(fd, "12345678");
    g_assert_cmpuint(qvirtqueue_wait(s->rx[1]).len, ==, 0);
    g_assert_cmpuint(qvirtqueue_wait(s->rx[1]).len, ==, 6);
    g_assert_cmpuint(qvirtqueue_wait(s->rx[1]).len, ==, 2);
    qtest_memread(s->q, at, got, 6);
    g_assert_cmpstr(got, ==, "783456");
    close(fd);
    serial_free(s);
}

/* Nobody at the other side: bytes of the guest are lost, and it is not held up. */
static void test_nobody(void)
{
    Serial *s = serial_new(SERIAL_OPTIONS, false, F_MULTIPORT);
    int fd;

    hand_shake(s);
    say(s, 1, PORT_OPEN, 1);
    for (int i = 0; i < 300; i++) {
        guest_write(s, 1, "lost");
    }
    fd = host_connect(s, "one");
    expect_message(s, 1, PORT_OPEN, 1, "");
    guest_write(s, 1, "kept");
    host_expect(fd, "kept");
    close(fd);
    serial_free(s);
}

static void test_emergency_write(void)
{
    Serial *s = serial_new(SERIAL_OPTIONS, false, F_EMERG_WRITE);

    qvirtio_reset(s->dev);
    qvirtio_set_config32(s->dev, 8, 'X');
    qvirtio_set_config32(s->dev, 8, 0);
    qvirtio_set_config32(s->dev, 8, 'Y');
    expect_console(s, "XY");
    serial_free(s);
}

/* --- Faults of the driver --- */

static void test_bad_messages(void)
{
    Serial *s = serial_new(SERIAL_OPTIONS, false, F_MULTIPORT);

    say(s, 1, PORT_READY, 1);
    say(s, 1, PORT_OPEN, 1);
    expect_no_message(s);
    g_assert_false(frontend_open(s, "one"));
    say_raw(s, "", 0);
    say_raw(s, "abcdefg", 7);
    say(s, 0, DEVICE_READY, 0);
    expect_no_message(s);
    hand_shake(s);
    for (unsigned i = 0; i < 100; i++) {
        say(s, 3 + i, PORT_READY, 1);
        say(s, UINT32_MAX - i, PORT_OPEN, 1);
        say(s, 1, (uint16_t)(8 + i * 600), 1);
        say_raw(s, "abc", 3);
    }
    say_raw(s, "\1\0\0\0\6\0\1", 7); /* all but the last byte of an opening */
    g_assert_false(frontend_open(s, "one"));
    say(s, 1, PORT_READY, 0);
    say(s, 1, PORT_RESIZE, 1);
    expect_no_message(s);
    say(s, 1, PORT_OPEN, 1);
    g_assert_true(frontend_open(s, "one"));
    serial_free(s);
}

/* A buffer that is no RAM, in each direction, stops the device until it is reset; nothing else. */
static void test_bad_buffers(void)
{
    Serial *s = serial_new(SERIAL_OPTIONS, false, F_MULTIPORT);

    for (int round = 0; round < 3; round++) {
        QVirtBuffer bad = { NOT_RAM, 64, round != 0 };
        int fd;

        hand_shake(s);
        fd = host_connect(s, "one");
        expect_message(s, 1, PORT_OPEN, 1, "");
        say(s, 1, PORT_OPEN, 1);
        if (round == 2) {
            close(fd);
            expect_message(s, 1, PORT_OPEN, 0, "");
            fd = -1;
        }
        qvirtqueue_add(round == 0 ? s->tx[1] : s->rx[1], &bad, 1);
        qvirtqueue_kick(round == 0 ? s->tx[1] : s->rx[1]);
        if (round == 1) {
            host_write(fd, "bytes");
        }
        g_usleep(20000);
        g_assert_cmpint(qvirtio_needs_reset(s->dev), ==, round < 2);
        if (fd >= 0) {
            close(fd);
        }
        serial_end(s);
        serial_begin(s, false, F_MULTIPORT, CONTROL_BUFFERS);
    }
    serial_free(s);
}

/* --- Options --- */

#define BUS "-device virtio-serial-pci,id=vs0,max_ports=3 "

static void test_refusals(void)
{
    static const char *const cases[][2] = {
        { BUS "-device virtserialport,nr=0", "nr=0 is reserved" },
        { BUS "-device virtserialport,nr=3", "0 to 2" },
        { BUS "-device virtserialport,nr=1 -device virtconsole,nr=1", "nr=1 is taken" },
        { BUS "-device virtserialport,name=a -device virtserialport,name=a", "name=a" },
        { BUS "-device virtserialport -device virtserialport -device virtserialport",
          "no port free" },
        { BUS "-device virtserialport,chardev=nobody", "nobody" },
        { "-device virtserialport", "no bus" },
        { "-device virtio-serial-pci,max_ports=0", "max_ports=0" },
        { "-device virtio-serial-pci,max_ports=32", "max_ports=32" },
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *line =
            g_strdup_printf("%s -accel qtest -nodefaults -display none -m 64 %s",
                            g_getenv("COWBIRD_VMM"), cases[i][0]);
        g_autofree char *text = NULL;
        int status;

        g_assert_true(g_spawn_command_line_sync(line, NULL, &text, &status, NULL));
        g_assert_cmpint(status, !=, 0);
        if (!strstr(text, cases[i][1])) {
            g_error("'%s': message '%s' lacks '%s'", cases[i][0], text, cases[i][1]);
        }
    }
}

/* Consoles and ports find their places: the first console at 0, others from 1 on. */
static void test_numbers(void)
{
    QTest *q =
        qtest_start("-device virtio-serial-pci -device virtserialport,id=a "
                    "-device virtconsole,id=b -device virtconsole,id=c,bus=virtio-serial-bus.0");

    g_assert_cmpint(qtest_qom_get_int(q, "/machine/peripheral/a", "nr"), ==, 1);
    g_assert_cmpint(qtest_qom_get_int(q, "/machine/peripheral/b", "nr"), ==, 0);
    g_assert_cmpint(qtest_qom_get_int(q, "/machine/peripheral/c", "nr"), ==, 2);
    qtest_quit(q);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(variants); i++) {
        g_autofree char *path = g_strconcat("/serial/life/", variants[i].name, NULL);

        g_test_add_data_func(path, &variants[i], test_life);
    }
    g_test_add_func("/serial/late-buffers", test_late_buffers);
    g_test_add_data_func("/serial/single-port/modern", NULL, test_single_port);
    g_test_add_data_func("/serial/single-port/legacy", "yes", test_single_port);
    g_test_add_func("/serial/guest-open", test_guest_open);
    g_test_add_func("/serial/closed-port", test_closed_port);
    g_test_add_func("/serial/clients-of-a-closed-port", test_clients_of_a_closed_port);
    g_test_add_func("/serial/pieces", test_pieces);
    g_test_add_func("/serial/nobody", test_nobody);
    g_test_add_func("/serial/emergency-write", test_emergency_write);
    g_test_add_func("/serial/bad-messages", test_bad_messages);
    g_test_add_func("/serial/bad-buffers", test_bad_buffers);
    g_test_add_func("/serial/refusals", test_refusals);
    g_test_add_func("/serial/numbers", test_numbers);
    return g_test_run();
}
