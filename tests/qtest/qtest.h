/*
 * The test's side of the qtest protocol: a VMM without a guest, whose devices are driven from here.
 *
 * Whatever goes wrong in the connection ends the test program: these functions have no errors to
 * report. Guest addresses are physical; numbers are in the guest's byte order (little endian).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_TESTS_QTEST_QTEST_H
#define COWBIRD_TESTS_QTEST_QTEST_H

#include <glib.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

#define QTEST_IRQ_MAX 256

typedef struct QTest QTest;

/*
 * Starts $COWBIRD_VMM (set by meson) with -accel qtest, -nodefaults, -display none, a QMP monitor
 * and the arguments of the format, which are split as a shell would. The machine runs when this
 * returns, unless they say -S or -incoming.
 */
QTest *qtest_start(const char *format, ...) G_GNUC_PRINTF(1, 2);
/* Ends the VMM by QMP and waits for it: exit status 0 or the test fails. */
void qtest_quit(QTest *q);
/*
 * Stops and saves the VM, ends it and starts another one of the same command line from the saved
 * state, running if @run. The same QTest then talks to the new one, so everything that was built
 * on it goes on. Interrupts must be intercepted again.
 */
void qtest_save_restore(QTest *q, bool run);
/* Of the VMM; for signals and /proc. */
GPid qtest_pid(const QTest *q);
/* A folder of the test's own, removed by qtest_quit. */
const char *qtest_folder(const QTest *q);

/* --- Guest memory and ports --- */

uint8_t qtest_readb(QTest *q, uint64_t address);
uint16_t qtest_readw(QTest *q, uint64_t address);
uint32_t qtest_readl(QTest *q, uint64_t address);
uint64_t qtest_readq(QTest *q, uint64_t address);
void qtest_writeb(QTest *q, uint64_t address, uint8_t value);
void qtest_writew(QTest *q, uint64_t address, uint16_t value);
void qtest_writel(QTest *q, uint64_t address, uint32_t value);
void qtest_writeq(QTest *q, uint64_t address, uint64_t value);
uint8_t qtest_inb(QTest *q, uint16_t port);
uint16_t qtest_inw(QTest *q, uint16_t port);
uint32_t qtest_inl(QTest *q, uint16_t port);
void qtest_outb(QTest *q, uint16_t port, uint8_t value);
void qtest_outw(QTest *q, uint16_t port, uint16_t value);
void qtest_outl(QTest *q, uint16_t port, uint32_t value);
void qtest_memread(QTest *q, uint64_t address, void *buf, size_t len);
void qtest_memwrite(QTest *q, uint64_t address, const void *buf, size_t len);
void qtest_memset(QTest *q, uint64_t address, uint8_t value, size_t len);
/*
 * Guest RAM that nobody else has, from 2 MiB upwards, zeroed; @align is a power of two. It is not
 * given back before the VM ends.
 */
uint64_t qtest_alloc(QTest *q, size_t size, size_t align);

/* --- Time: stands still otherwise; each returns the new time in nanoseconds --- */

int64_t qtest_clock_step(QTest *q, int64_t ns);
/* To the next timer, if there is one. */
int64_t qtest_clock_step_next(QTest *q);
int64_t qtest_clock_set(QTest *q, int64_t ns);

/* --- Interrupts --- */

/* @path: "ioapic", its pins are the GSIs; an MSI that goes to no RAM pulses the number of its vector. */
void qtest_irq_intercept_in(QTest *q, const char *path);
/* @path: the PCI bus, or its name "pci.0": its lines are PIRQA to PIRQD. */
void qtest_irq_intercept_out(QTest *q, const char *path);
/* Level, as of the last answer (every function here brings it up to date). */
bool qtest_get_irq(QTest *q, unsigned n);
/* How often it has been raised since it was intercepted. */
unsigned qtest_irq_count(QTest *q, unsigned n);

/* --- Raw --- */

/* One line of the protocol; its answer ("OK ...", "FAIL ..."), owned by the caller. */
char *qtest_command(QTest *q, const char *format, ...) G_GNUC_PRINTF(2, 3);
/* Sends text without waiting for an answer. */
void qtest_send(QTest *q, const char *text, size_t len);
/* The next line that is not about interrupts; owned by the caller. */
char *qtest_read_line(QTest *q);

/* --- QMP --- */

/*
 * A command as JSON, in which ' may stand for "; the whole reply, with "return" or "error". Owned
 * by the caller. Events that come meanwhile are kept.
 */
json_object *qtest_qmp(QTest *q, const char *format, ...) G_GNUC_PRINTF(2, 3);
/* The same; an error fails the test. Returns what "return" holds, owned by the caller. */
json_object *qtest_qmp_ok(QTest *q, const char *format, ...) G_GNUC_PRINTF(2, 3);
/* The same; its error's "desc" must contain @expected. */
void qtest_qmp_fails(QTest *q, const char *expected, const char *format, ...) G_GNUC_PRINTF(3, 4);
/* The next event of that name, one that was kept or within 10 s, owned by the caller. */
json_object *qtest_qmp_event_wait(QTest *q, const char *name);
/* Whether such an event has come, without waiting; it is not taken. */
bool qtest_qmp_event_seen(QTest *q, const char *name);
/* qom-get as a number; qom-set takes JSON text. */
int64_t qtest_qom_get_int(QTest *q, const char *path, const char *property);
void qtest_qom_set(QTest *q, const char *path, const char *property, const char *json);

/* --- Waiting for what another thread or process does --- */

/* Until @done says so, asked every millisecond, at most 10 s, or the test fails naming @what. */
void qtest_wait_until(bool (*done)(void *opaque), void *opaque, const char *what);

#endif
