/*
 * Tests of -qtest itself: the protocol, the clock that stands, interrupts, run states.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <string.h>

#include "tests/qtest/qtest.h"

static void assert_answer(QTest *q, const char *command, const char *expected)
{
    g_autofree char *answer = qtest_command(q, "%s", command);

    if (!g_str_has_prefix(answer, expected)) {
        g_error("'%.60s' is answered by '%.120s', not '%s'", command, answer, expected);
    }
}

static void test_words(void)
{
    static const char *const lines[][2] = {
        { "endianness", "OK little" },
        { "readb 0x100000", "OK 0x0000000000000000" },
        { "  readb   0x100000  ", "OK 0x0000000000000000" },
        { "read 0x100000 4", "OK 0x00000000" },
        { "read 0x100000 0", "OK 0x" },
        { "write 0x100000 4 0x0102", "OK" },
        { "readl 0x100000", "OK 0x0000000000000201" },
        { "b64read 0x100000 3", "OK AQIA" },
        { "b64write 0x100000 2 //8=", "OK" },
        { "readw 0x100000", "OK 0x000000000000ffff" },
        { "memset 0x100000 0x8 0x5a", "OK" },
        { "readq 0x100000", "OK 0x5a5a5a5a5a5a5a5a" },
        { "inb 0xfffe", "OK 0x00ff" },
        { "readq 0xd0000000", "OK 0xffffffffffffffff" },
        { "clock_step", "OK " },
    };
    QTest *q = qtest_start("-machine pc");

    for (size_t i = 0; i < G_N_ELEMENTS(lines); i++) {
        assert_answer(q, lines[i][0], lines[i][1]);
    }
    qtest_quit(q);
}

/* Whatever is said is answered by one line, and the next command works. */
static void test_wrong_words(void)
{
    static const char *const lines[] = {
        "",
        " ",
        "nonsense",
        "readb",
        "readb x",
        "readb 0x1 2",
        "readb 0x1ffffffffffffffff",
        "readb -1",
        "outb 0x10000 1",
        "outb 0x80 0x100",
        "outl 0x80",
        "writeb 0x1000 256",
        "read 0x1000",
        "read 0xffffffffffffffff 2",
        "read 0 0x7fffffffffffffff",
        "read 0 -1",
        "write 0x1000 2 0x010203",
        "write 0x1000 2 0x1",
        "write 0x1000 2 zz",
        "write 0x1000 1 0xgg",
        "memset 0x1000 4 0x100",
        "memset 0 0xffffffff 0",
        "clock_step -1",
        "clock_step x",
        "clock_set 0xffffffffffffffff",
        "clock_set",
        "irq_intercept_in",
        "irq_intercept_in /machine",
        "irq_intercept_out nowhere",
        "set_irq_in ioapic x 24 1",
        "set_irq_in ioapic x 1 2",
        "set_irq_in /machine x 1 1",
        "module_load a b",
        "rtas a b c d e f g h",
        "a b c d e f g h i",
    };
    QTest *q = qtest_start("-machine pc");

    for (size_t i = 0; i < G_N_ELEMENTS(lines); i++) {
        assert_answer(q, lines[i], "FAIL ");
        assert_answer(q, "endianness", "OK little");
    }
    qtest_send(q, "a\0b\n", 4);
    g_free(qtest_read_line(q));
    assert_answer(q, "endianness", "OK little");
    qtest_quit(q);
}

/* Several commands in one packet, one command in several. */
static void test_packets(void)
{
    static const char text[] = "endianness\nreadb 0x100000\nendia";
    QTest *q = qtest_start("-machine pc");
    static const char *const expected[] = { "OK little", "OK 0x0000000000000000", "OK little" };

    qtest_send(q, text, strlen(text));
    qtest_send(q, "nness\n", 6);
    for (size_t i = 0; i < G_N_ELEMENTS(expected); i++) {
        g_autofree char *line = qtest_read_line(q);

        g_assert_cmpstr(line, ==, expected[i]);
    }
    qtest_quit(q);
}

static void test_memory(void)
{
    const size_t len = 3 << 20;
    QTest *q = qtest_start("-machine pc -m 16M");
    g_autofree uint8_t *out = g_malloc(len), *in = g_malloc0(len);

    for (size_t i = 0; i < len; i++) {
        out[i] = i * 7 + (i >> 12);
    }
    qtest_memwrite(q, 0x200001, out, len);
    qtest_memread(q, 0x200001, in, len);
    g_assert_cmpmem(in, len, out, len);
    /* The end of RAM: what is beyond reads as ones. */
    qtest_writel(q, (16 << 20) - 4, 0x12345678);
    qtest_memread(q, (16 << 20) - 4, in, 8);
    g_assert_cmpmem(in, 8, "\x78\x56\x34\x12\xff\xff\xff\xff", 8);
    g_assert_cmphex(qtest_readq(q, (16 << 20) - 4), ==, 0xffffffff12345678);
    qtest_quit(q);
}

static void test_clock(void)
{
    QTest *q = qtest_start("-machine pc");

    g_assert_cmpint(qtest_clock_step(q, 0), ==, 0);
    g_usleep(10000);
    g_assert_cmpint(qtest_clock_step(q, 0), ==, 0);
    g_assert_cmpint(qtest_clock_step(q, 1000), ==, 1000);
    g_assert_cmpint(qtest_clock_set(q, 5000), ==, 5000);
    g_assert_cmpint(qtest_clock_set(q, 10), ==, 5000); /* never back */
    qtest_quit(q);
}

static void assert_status(QTest *q, const char *expected)
{
    json_object *info = qtest_qmp_ok(q, "{'execute': 'query-status'}");

    g_assert_cmpstr(json_object_get_string(json_object_object_get(info, "status")), ==, expected);
    json_object_put(info);
}

static void test_run_states(void)
{
    QTest *q = qtest_start("-machine pc");
    json_object *cpus;

    assert_status(q, "running");
    json_object_put(qtest_qmp_ok(q, "{'execute': 'stop'}"));
    json_object_put(qtest_qmp_event_wait(q, "STOP"));
    assert_status(q, "paused");
    assert_answer(q, "clock_step 1", "FAIL ");
    qtest_writel(q, 0x100000, 77);
    json_object_put(qtest_qmp_ok(q, "{'execute': 'cont'}"));
    assert_status(q, "running");
    g_assert_cmpuint(qtest_readl(q, 0x100000), ==, 77);
    cpus = qtest_qmp_ok(q, "{'execute': 'query-cpus-fast'}");
    g_assert_cmpuint(json_object_array_length(cpus), ==, 0);
    json_object_put(cpus);
    json_object_put(qtest_qmp_ok(q, "{'execute': 'system_reset'}"));
    json_object_put(qtest_qmp_event_wait(q, "RESET"));
    assert_status(q, "running");
    qtest_quit(q);
}

static void test_save_restore(void)
{
    QTest *q = qtest_start("-machine pc");

    qtest_writel(q, 0x1234560, 0xabcdef);
    qtest_clock_step(q, 123456789);
    qtest_save_restore(q, false);
    assert_status(q, "paused");
    json_object_put(qtest_qmp_ok(q, "{'execute': 'cont'}"));
    g_assert_cmphex(qtest_readl(q, 0x1234560), ==, 0xabcdef);
    g_assert_cmpint(qtest_clock_step(q, 1), ==, 123456790);
    qtest_save_restore(q, true);
    g_assert_cmphex(qtest_readl(q, 0x1234560), ==, 0xabcdef);
    qtest_quit(q);
}

static void test_interrupts(void)
{
    QTest *q = qtest_start("-machine pc");

    qtest_irq_intercept_in(q, "ioapic");
    assert_answer(q, "irq_intercept_in ioapic", "OK");
    assert_answer(q, "irq_intercept_out /machine/unattached", "FAIL ");
    g_assert_false(qtest_get_irq(q, 5));
    assert_answer(q, "set_irq_in ioapic unnamed-gpio-in 5 1", "OK");
    g_assert_true(qtest_get_irq(q, 5));
    assert_answer(q, "set_irq_in ioapic unnamed-gpio-in 5 1", "OK");
    g_assert_cmpuint(qtest_irq_count(q, 5), ==, 1);
    assert_answer(q, "set_irq_in ioapic unnamed-gpio-in 5 0", "OK");
    g_assert_false(qtest_get_irq(q, 5));
    qtest_quit(q);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/qtest/words", test_words);
    g_test_add_func("/qtest/wrong-words", test_wrong_words);
    g_test_add_func("/qtest/packets", test_packets);
    g_test_add_func("/qtest/memory", test_memory);
    g_test_add_func("/qtest/clock", test_clock);
    g_test_add_func("/qtest/run-states", test_run_states);
    g_test_add_func("/qtest/save-restore", test_save_restore);
    g_test_add_func("/qtest/interrupts", test_interrupts);
    return g_test_run();
}
