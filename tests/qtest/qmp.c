/*
 * QMP for tests of devices: commands, replies, events.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "tests/qtest/qtest-internal.h"

#include <errno.h>
#include <string.h>

/* An error must stop a test at the line that made it. */
static json_object *parse(const char *text)
{
    enum json_tokener_error error;
    json_object *obj = json_tokener_parse_verbose(text, &error);

    if (!obj) {
        g_error("no JSON (%s): %s", json_tokener_error_desc(error), text);
    }
    return obj;
}

/* The next reply, or NULL if no line is there and @wait is not set; events are kept. */
static json_object *receive(QTest *q, bool wait)
{
    for (;;) {
        g_autofree char *line = qtest_link_read_line(&q->qmp, wait);
        json_object *obj = line ? parse(line) : NULL;

        if (!obj || !json_object_object_get(obj, "event")) {
            return obj;
        }
        g_ptr_array_add(q->events, obj);
    }
}

/* Takes @text. */
static json_object *command(QTest *q, char *text)
{
    json_object *obj = parse(text);
    /* In one piece: after "quit" nothing more is taken. */
    g_autofree char *line =
        g_strconcat(json_object_to_json_string_ext(obj, JSON_C_TO_STRING_PLAIN), "\n", NULL);

    qtest_link_send(&q->qmp, line, strlen(line));
    json_object_put(obj);
    g_free(text);
    return receive(q, true);
}

void qtest_qmp_greet(QTest *q)
{
    json_object *greeting = receive(q, true);

    g_assert_nonnull(json_object_object_get(greeting, "QMP"));
    json_object_put(greeting);
    json_object_put(qtest_qmp_ok(q, "{'execute': 'qmp_capabilities'}"));
}

json_object *qtest_qmp(QTest *q, const char *format, ...)
{
    va_list args;
    char *text;

    va_start(args, format);
    text = g_strdup_vprintf(format, args);
    va_end(args);
    return command(q, text);
}

json_object *qtest_qmp_ok(QTest *q, const char *format, ...)
{
    json_object *reply, *result;
    va_list args;
    char *text;

    va_start(args, format);
    text = g_strdup_vprintf(format, args);
    va_end(args);
    reply = command(q, text);
    if (!json_object_object_get_ex(reply, "return", &result)) {
        g_error("QMP error: %s", json_object_to_json_string(reply));
    }
    json_object_get(result);
    json_object_put(reply);
    return result;
}

void qtest_qmp_fails(QTest *q, const char *expected, const char *format, ...)
{
    json_object *reply, *error;
    const char *desc;
    va_list args;
    char *text;

    va_start(args, format);
    text = g_strdup_vprintf(format, args);
    va_end(args);
    reply = command(q, text);
    if (!json_object_object_get_ex(reply, "error", &error)) {
        g_error("QMP success where an error was due: %s", json_object_to_json_string(reply));
    }
    desc = json_object_get_string(json_object_object_get(error, "desc"));
    if (!strstr(desc, expected)) {
        g_error("the error \"%s\" does not contain \"%s\"", desc, expected);
    }
    json_object_put(reply);
}

/* --- Events --- */

static int find_event(QTest *q, const char *name)
{
    for (guint i = 0; i < q->events->len; i++) {
        json_object *event = json_object_object_get(q->events->pdata[i], "event");

        if (g_str_equal(json_object_get_string(event), name)) {
            return i;
        }
    }
    return -1;
}

/* No reply is due: whatever there is is an event. */
static void receive_events(QTest *q)
{
    json_object *reply = receive(q, false);

    if (reply) {
        g_error("QMP reply without a command: %s", json_object_to_json_string(reply));
    }
}

bool qtest_qmp_event_seen(QTest *q, const char *name)
{
    receive_events(q);
    return find_event(q, name) >= 0;
}

json_object *qtest_qmp_event_wait(QTest *q, const char *name)
{
    gint64 end = g_get_monotonic_time() + QTEST_TIMEOUT_S * G_TIME_SPAN_SECOND;
    int i;

    while (!qtest_qmp_event_seen(q, name)) {
        GPollFD poll = { .fd = q->qmp.fd, .events = G_IO_IN };

        if (g_get_monotonic_time() > end) {
            g_error("the event %s has not come within %d s", name, QTEST_TIMEOUT_S);
        }
        g_poll(&poll, 1, 100);
    }
    i = find_event(q, name);
    return g_ptr_array_steal_index(q->events, i);
}

/* --- Properties --- */

int64_t qtest_qom_get_int(QTest *q, const char *path, const char *property)
{
    json_object *value = qtest_qmp_ok(
        q, "{'execute': 'qom-get', 'arguments': {'path': '%s', 'property': '%s'}}", path, property);
    int64_t number = json_object_get_int64(value);

    json_object_put(value);
    return number;
}

void qtest_qom_set(QTest *q, const char *path, const char *property, const char *json)
{
    json_object_put(qtest_qmp_ok(
        q, "{'execute': 'qom-set', 'arguments': {'path': '%s', 'property': '%s', 'value': %s}}",
        path, property, json));
}
