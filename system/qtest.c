/*
 * The connection of a test that drives the machine: lines in, answers and interrupts out.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "system/qtest.h"

#include "chardev/chardev.h"
#include "hw/timer/clock.h"
#include "system/kvm-probe.h"
#include "system/machine-setup.h"
#include "system/qtest-internal.h"
#include "util/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A command with its data as two digits a byte. */
#define LINE_MAX_LENGTH (2 * (size_t)QTEST_LENGTH_MAX + 4096)
/* What is not taken by the test before its next command is read. */
#define OUTPUT_HIGH (1u << 20)

/* --- Log: [R time] received, [S time] sent, [I time] about the connection --- */

static void log_line(QtestServer *server, char kind, const char *text, size_t len)
{
    if (server->log) {
        fprintf(server->log, "[%c +%.6f] %.*s\n", kind,
                (g_get_monotonic_time() - server->start) / 1e6, (int)len, text);
        fflush(server->log);
    }
}

static bool open_log(QtestServer *server, const char *name, GError **errp)
{
    server->start = g_get_monotonic_time();
    if (!name) {
        server->log = stderr;
    } else if (!g_str_equal(name, "none")) {
        server->log = fopen(name, "we");
        if (!server->log) {
            error_set_errno(errp, errno, "-qtest-log: cannot open '%s'", name);
            return false;
        }
    }
    return true;
}

/* --- Out --- */

/* Lock held. */
static void flush_output(QtestServer *server)
{
    size_t taken = chardev_write(server->chr, server->output->data, server->output->len);

    g_byte_array_remove_range(server->output, 0, taken);
}

/* Lock held. @text is whole lines. */
static void send_text(QtestServer *server, const char *text, size_t len)
{
    log_line(server, 'S', text, len - 1);
    g_byte_array_append(server->output, (const guint8 *)text, len);
    flush_output(server);
}

static void send_irq(QtestServer *server, unsigned n, bool level)
{
    char text[32];
    int len = g_snprintf(text, sizeof(text), "IRQ %s %u\n", level ? "raise" : "lower", n);

    send_text(server, text, len);
}

/* --- Interrupts --- */

static void note_level(QtestServer *server, QtestIntercept what, uint8_t *levels, unsigned n,
                       int level)
{
    g_mutex_lock(&server->lock);
    if (levels[n] != level) {
        levels[n] = level;
        if (server->intercept == what) {
            send_irq(server, n, level);
        }
    }
    g_mutex_unlock(&server->lock);
}

static void gsi_changed(void *opaque, unsigned n, int level)
{
    QtestServer *server = opaque;

    note_level(server, INTERCEPT_GSI, server->levels, n % QTEST_IRQ_COUNT, level);
}

static void pirq_changed(void *opaque, int n, int level)
{
    QtestServer *server = opaque;

    note_level(server, INTERCEPT_PCI, server->pci_levels, n, !!level);
    irq_set(&server->pirq[n], level);
}

/* Puts us between the PCI bus and the interrupt router. */
static void watch_pci(QtestServer *server)
{
    PciBus *bus = server->state->machine->pci;

    for (int i = 0; bus && i < PCI_PIRQ_COUNT; i++) {
        server->pirq[i] = bus->pirq[i];
        bus->pirq[i] = (IrqLine){ .set = pirq_changed, .opaque = server, .n = i };
    }
}

static void unwatch_pci(QtestServer *server)
{
    PciBus *bus = server->state->machine->pci;

    for (int i = 0; bus && i < PCI_PIRQ_COUNT; i++) {
        bus->pirq[i] = server->pirq[i];
    }
}

bool qtest_intercept(QtestServer *server, QtestIntercept what)
{
    const uint8_t *levels = what == INTERCEPT_PCI ? server->pci_levels : server->levels;
    unsigned n = what == INTERCEPT_PCI ? PCI_PIRQ_COUNT : QTEST_IRQ_COUNT;
    bool ok;

    g_mutex_lock(&server->lock);
    ok = server->intercept == INTERCEPT_NONE || server->intercept == what;
    for (unsigned i = 0; server->intercept == INTERCEPT_NONE && i < n; i++) {
        if (levels[i]) {
            send_irq(server, i, true);
        }
    }
    server->intercept = ok ? what : server->intercept;
    g_mutex_unlock(&server->lock);
    return ok;
}

/* --- In --- */

static void answer(QtestServer *server, const char *text, size_t len)
{
    g_mutex_lock(&server->lock);
    send_text(server, text, len);
    g_mutex_unlock(&server->lock);
}

static void execute(QtestServer *server, char *line, size_t len)
{
    g_autoptr(GString) text = NULL;

    log_line(server, 'R', line, len);
    text = memchr(line, '\0', len) ? g_string_new("FAIL a line holds no NUL bytes\n")
                                   : qtest_execute(server, line);
    answer(server, text->str, text->len);
    g_string_free(g_steal_pointer(&text), TRUE);
}

/* Carries out the lines that are complete. */
static void take_lines(QtestServer *server)
{
    GByteArray *in = server->input;
    char *begin = (char *)in->data, *end;
    size_t left = in->len;

    while (left && (end = memchr(begin, '\n', left))) {
        *end = '\0';
        if (server->skipping) {
            server->skipping = false;
        } else {
            execute(server, begin, end - begin);
        }
        left -= end + 1 - begin;
        begin = end + 1;
    }
    g_byte_array_remove_range(in, 0, in->len - left);
    if (in->len > LINE_MAX_LENGTH) {
        static const char text[] = "FAIL the line is too long\n";

        if (!server->skipping) {
            answer(server, text, sizeof(text) - 1);
        }
        server->skipping = true;
        g_byte_array_set_size(in, 0);
    }
}

static size_t can_receive(void *opaque)
{
    QtestServer *server = opaque;
    size_t n;

    g_mutex_lock(&server->lock);
    n = server->output->len > OUTPUT_HIGH ? 0 : 64 * 1024;
    g_mutex_unlock(&server->lock);
    return n;
}

static void receive(void *opaque, const uint8_t *data, size_t len)
{
    QtestServer *server = opaque;
    bool ends = memchr(data, '\n', len) != NULL;

    g_byte_array_append(server->input, data, len);
    if (ends || server->input->len > LINE_MAX_LENGTH) {
        take_lines(server);
    }
}

/* A new test starts afresh: nothing of the last one's lines, nothing intercepted. */
static void forget_test(QtestServer *server)
{
    g_byte_array_set_size(server->input, 0);
    server->skipping = false;
    g_mutex_lock(&server->lock);
    g_byte_array_set_size(server->output, 0);
    server->intercept = INTERCEPT_NONE;
    g_mutex_unlock(&server->lock);
}

static void event(void *opaque, ChardevEvent what)
{
    QtestServer *server = opaque;

    switch (what) {
    case CHARDEV_EVENT_OPENED:
        forget_test(server);
        log_line(server, 'I', "OPENED", 6);
        break;
    case CHARDEV_EVENT_CLOSED:
        log_line(server, 'I', "CLOSED", 6);
        break;
    case CHARDEV_EVENT_WRITABLE:
        g_mutex_lock(&server->lock);
        flush_output(server);
        g_mutex_unlock(&server->lock);
        chardev_accept_input(server->chr);
        break;
    }
}

/* --- Life --- */

/* The id of a chardev, or a short form of one. */
static Chardev *open_chardev(SystemState *state, const char *text, GError **errp)
{
    Chardev *chr = chardev_find(state->chardevs, text);

    return chr ? chr : chardev_new_short(state->chardevs, "qtest", text, errp);
}

static bool connect_test(SystemState *state, const char *text, GError **errp)
{
    static const ChardevHandlers handlers = { can_receive, receive, event };
    QtestServer *server = g_new0(QtestServer, 1);

    state->qtest = server;
    server->state = state;
    server->input = g_byte_array_new();
    server->line = g_byte_array_new();
    server->output = g_byte_array_new();
    g_mutex_init(&server->lock);
    if (state->accel) {
        accel_qtest_set_observer(state->accel, gsi_changed, server);
    }
    watch_pci(server);
    if (!open_log(server, state->options->qtest_log, errp)) {
        return false;
    }
    server->chr = open_chardev(state, text, errp);
    if (!server->chr || !chardev_set_handlers(server->chr, &handlers, server, errp)) {
        server->chr = NULL;
        g_prefix_error(errp, "-qtest %s: ", text);
        return false;
    }
    return true;
}

/* A machine without RAM has no accelerator, only a list of names. */
static bool qtest_is_chosen(SystemState *state)
{
    g_autofree char *list = machine_setup_accel_list(state, NULL);

    return state->accel ? accel_is_qtest(state->accel) : list && accel_is_listed(list, "qtest");
}

bool qtest_open(SystemState *state, GError **errp)
{
    const char *text = state->options->qtest;
    bool chosen = qtest_is_chosen(state);

    if (!text && !state->options->qtest_log) {
        text = "none";
    } else if (!text || !chosen) {
        error_set(errp, text ? "-qtest needs -accel qtest" : "-qtest-log needs -qtest");
        return false;
    }
    if (chosen && state->machine->clock) {
        vm_clock_set_stepped(state->machine->clock);
    }
    return g_str_equal(text, "none") || connect_test(state, text, errp);
}

void qtest_close(SystemState *state)
{
    QtestServer *server = state->qtest;

    if (!server) {
        return;
    }
    if (server->chr) {
        chardev_set_handlers(server->chr, NULL, NULL, NULL);
    }
    if (state->accel) {
        accel_qtest_set_observer(state->accel, NULL, NULL);
    }
    unwatch_pci(server);
    if (server->log && server->log != stderr) {
        fclose(server->log);
    }
    g_byte_array_unref(server->input);
    g_byte_array_unref(server->line);
    g_byte_array_unref(server->output);
    g_mutex_clear(&server->lock);
    g_free(server);
    state->qtest = NULL;
}
