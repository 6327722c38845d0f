/*
 * Tests of the machine's own devices without a guest: real-time clock, PCI configuration space,
 * serial port, pvpanic, fw_cfg.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <string.h>
#include <unistd.h>

#include "tests/qtest/qpci.h"

#define SECOND 1000000000ll

/* --- Real-time clock --- */

static uint8_t cmos(QTest *q, uint8_t index)
{
    qtest_outb(q, 0x70, index);
    return qtest_inb(q, 0x71);
}

static void set_cmos(QTest *q, uint8_t index, uint8_t value)
{
    qtest_outb(q, 0x70, index);
    qtest_outb(q, 0x71, value);
}

static void test_rtc_time(void)
{
    QTest *q = qtest_start("-machine pc -rtc base=2026-11-30T23:59:58,clock=vm");

    g_assert_cmphex(cmos(q, 4), ==, 0x23);
    g_assert_cmphex(cmos(q, 2), ==, 0x59);
    g_assert_cmphex(cmos(q, 0), ==, 0x58);
    qtest_clock_step(q, 3 * SECOND);
    g_assert_cmphex(cmos(q, 4), ==, 0);
    g_assert_cmphex(cmos(q, 0), ==, 1);
    g_assert_cmphex(cmos(q, 7), ==, 1);
    g_assert_cmphex(cmos(q, 8), ==, 0x12);
    qtest_save_restore(q, true);
    qtest_clock_step(q, SECOND);
    g_assert_cmphex(cmos(q, 0), ==, 2);
    qtest_quit(q);
}

/* The update-ended interrupt comes once a second of virtual time. */
static void test_rtc_interrupt(void)
{
    QTest *q = qtest_start("-machine pc -rtc base=2026-11-30T12:00:00,clock=vm");

    qtest_irq_intercept_in(q, "ioapic");
    set_cmos(q, 0xb, cmos(q, 0xb) | 0x10);
    g_assert_false(qtest_get_irq(q, 8));
    qtest_clock_step(q, 2 * SECOND);
    g_assert_cmpuint(qtest_irq_count(q, 8), >, 0);
    g_assert_cmphex(cmos(q, 0xc) & 0x10, ==, 0x10);
    g_assert_false(qtest_get_irq(q, 8));
    qtest_quit(q);
}

/* --- PCI --- */

static void test_pci(void)
{
    QTest *q = qtest_start("-machine pc");
    QPciDevice *host = qpci_at(q, QPCI_DEVFN(0, 0));

    g_assert_nonnull(host);
    g_assert_cmphex(qpci_readl(host, 0), ==, 0x12378086);
    g_assert_null(qpci_at(q, QPCI_DEVFN(31, 7)));
    g_assert_cmphex(qpci_config(q, QPCI_DEVFN(31, 7), 0, 4), ==, 0xffffffff);
    /* Ids cannot be written. */
    qpci_writel(host, 0, 0);
    g_assert_cmphex(qpci_readw(host, 2), ==, 0x1237);
    qpci_free(host);
    host = qpci_find(q, 0x8086, 0x7000);
    g_assert_nonnull(host);
    g_assert_cmphex(host->devfn, ==, QPCI_DEVFN(1, 0));
    qpci_free(host);
    qtest_quit(q);
}

/* --- Serial port --- */

static void test_serial(void)
{
    g_autofree char *file = g_strdup_printf("%s/cowbird-serial-%d", g_get_tmp_dir(), getpid());
    QTest *q = qtest_start("-machine pc -serial file:%s", file);
    g_autofree char *text = NULL;

    qtest_irq_intercept_in(q, "ioapic");
    qtest_outb(q, 0x3fc, 8); /* the interrupt gate of PCs */
    qtest_outb(q, 0x3f9, 2); /* transmitter empty */
    g_assert_true(qtest_get_irq(q, 4));
    g_assert_cmphex(qtest_inb(q, 0x3fa) & 0xf, ==, 2);
    for (const char *p = "hello"; *p; p++) {
        g_assert_cmphex(qtest_inb(q, 0x3fd) & 0x20, ==, 0x20);
        qtest_outb(q, 0x3f8, *p);
        qtest_clock_step(q, 1000000);
    }
    qtest_quit(q);
    g_assert_true(g_file_get_contents(file, &text, NULL, NULL));
    g_assert_cmpstr(text, ==, "hello");
    unlink(file);
}

/* --- pvpanic, fw_cfg --- */

static void test_pvpanic(void)
{
    QTest *q = qtest_start("-machine pc -device pvpanic -action panic=pause");

    g_assert_cmphex(qtest_inb(q, 0x505) & 1, ==, 1);
    qtest_outb(q, 0x505, 1);
    json_object_put(qtest_qmp_event_wait(q, "GUEST_PANICKED"));
    json_object_put(qtest_qmp_event_wait(q, "STOP"));
    qtest_quit(q);
}

static void test_fw_cfg(void)
{
    QTest *q = qtest_start("-machine pc -m 64M -smp 3");
    char signature[4];

    qtest_outw(q, 0x510, 0);
    for (unsigned i = 0; i < 4; i++) {
        signature[i] = qtest_inb(q, 0x511);
    }
    g_assert_cmpmem(signature, 4, "QEMU", 4);
    g_assert_cmphex(qtest_inb(q, 0x511), ==, 0);
    qtest_outw(q, 0x510, 3); /* RAM size */
    for (unsigned i = 0; i < 8; i++) {
        g_assert_cmphex(qtest_inb(q, 0x511), ==, i == 3 ? 4 : 0);
    }
    qtest_outw(q, 0x510, 5); /* number of CPUs */
    g_assert_cmphex(qtest_inb(q, 0x511), ==, 3);
    qtest_quit(q);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/machine/rtc/time", test_rtc_time);
    g_test_add_func("/machine/rtc/interrupt", test_rtc_interrupt);
    g_test_add_func("/machine/pci", test_pci);
    g_test_add_func("/machine/serial", test_serial);
    g_test_add_func("/machine/pvpanic", test_pvpanic);
    g_test_add_func("/machine/fw-cfg", test_fw_cfg);
    return g_test_run();
}
