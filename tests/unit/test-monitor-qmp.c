/*
 * QMP over a socket: negotiation, requests, errors, events, descriptors, words, the schema.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "tests/unit/monitor-world.h"

static void test_negotiation(World *w, gconstpointer data)
{
    serve(w, "a");
    Client c = join(w, "a");

    expect(&c, "{\"QMP\":{\"version\":{\"qemu\":{\"major\":8,\"minor\":2,\"micro\":0},"
               "\"package\":\"cowbird-" COWBIRD_VERSION "\"},\"capabilities\":[]}}");
    qapi_event_send_stop(monitor_event_sink(w->set));
    send_text(&c, "{\"execute\":\"query-status\",\"id\":1}\n");
    expect(&c, "{\"error\":{\"class\":\"CommandNotFound\",\"desc\":\"Expecting capabilities "
               "negotiation with 'qmp_capabilities'\"},\"id\":1}");
    send_text(&c, "{\"execute\":\"qmp_capabilities\",\"arguments\":{\"enable\":[\"oob\"]}}\n");
    expect_part(&c, "{\"error\":{\"class\":\"GenericError\",\"desc\":\"Capability oob not");
    send_text(&c, "{\"execute\":\"qmp_capabilities\",\"id\":\"libvirt-1\"}\r\n");
    expect(&c, "{\"return\":{},\"id\":\"libvirt-1\"}");
    send_text(&c, "{\"execute\":\"qmp_capabilities\"}");
    expect_part(&c, "{\"error\":{\"class\":\"CommandNotFound\",\"desc\":\"Capabilities negotiation "
                    "is already complete, command ignored\"}}");
    leave(&c);
}

static void test_requests(World *w, gconstpointer data)
{
    serve(w, "a");
    Client c = join_ready(w, "a");

    send_text(&c, "{\"execute\":\"query-status\",\"id\":{\"x\":[null,1]}}"
                  "{\"execute\":\"query-status\",\"arguments\":{},\"id\":null}\n");
    expect(&c, "{\"return\":{\"running\":false,\"status\":\"io-error\"},\"id\":{\"x\":[null,1]}}");
    expect(&c, "{\"return\":{\"running\":false,\"status\":\"io-error\"},\"id\":null}");
    send_text(&c, "{'execute':'query-statu'}");
    expect_part(&c, "{\"error\":{\"class\":\"CommandNotFound\",\"desc\":\"The command query-statu "
                    "has not been found; did you mean 'query-status'");
    send_text(&c, "{\"execute\":\"query-status\",\"arguments\":{\"a\":1}}");
    expect_part(&c, "\"desc\":\"Parameter 'a' is unexpected\"");
    send_text(&c, "{\"execute\":\"getfd\"}");
    expect_part(&c, "\"desc\":\"Parameter 'fdname' is missing\"");
    send_text(&c, "{\"execute\":\"getfd\",\"arguments\":{\"fdname\":7}}");
    expect_part(&c, "\"desc\":\"Invalid parameter type for 'fdname', expected: string\"");
    send_text(&c, "{\"execute\":\"device-list-properties\",\"arguments\":{\"typename\":\"x\"}}");
    expect_part(&c, "{\"error\":{\"class\":\"DeviceNotFound\",\"desc\":\"Device 'x' not found\"}}");
    send_text(&c, "{\"execute\":\"migrate_cancel\"}");
    expect_part(&c, "nothing to work on");
    send_text(&c, "{\"execute\":\"query-commands\"}");
    expect_part(&c, "{\"return\":[{\"name\":\"add-fd\"},{\"name\":\"closefd\"},");
    send_text(&c, "{\"execute\":\"query-version\"}");
    expect_part(&c, "\"package\":\"cowbird-");
    leave(&c);
}

static void test_bad_requests(World *w, gconstpointer data)
{
    static const char *const rows[][2] = {
        { "[]", "QMP input must be a JSON object" },
        { "{}", "QMP input lacks member 'execute'" },
        { "{\"execute\":1}", "QMP input member 'execute' must be a string" },
        { "{\"execute\":\"query-status\",\"arguments\":[]}",
          "QMP input member 'arguments' must be an object" },
        { "{\"exec-oob\":\"query-status\"}", "QMP input member 'exec-oob' is unexpected" },
        { "{\"execute\":\"query-status\",\"x\":1}", "QMP input member 'x' is unexpected" },
        { "{\"execute\":\"query-status\",}", "JSON parse error, " },
        { "hello?", "QMP input must be a JSON object" },
        { "x {} [] {\"execute\":", "QMP input must be a JSON object" },
        { "{\"execute\":\"query-status\"", "JSON parse error, " },
    };
    serve(w, "a");
    Client c = join_ready(w, "a");

    for (unsigned i = 0; i < G_N_ELEMENTS(rows); i++) {
        send_text(&c, rows[i][0]);
        send_text(&c, "\n{\"execute\":\"query-status\",\"id\":1}\n");
        expect_part(&c, rows[i][1]);
        expect_part(&c, "{\"return\":{\"running\":false");
    }
    expect_silence(&c);
    leave(&c);
}

static void test_events(World *w, gconstpointer data)
{
    serve(w, "a");
    serve(w, "b");
    QapiEventSink *sink = monitor_event_sink(w->set);
    Client a = join_ready(w, "a"), b = join_ready(w, "b"), silent = { 0 };

    qapi_event_send_shutdown(sink, true, SHUTDOWN_CAUSE_GUEST_SHUTDOWN);
    expect_part(&a, "\"event\":\"SHUTDOWN\",\"data\":{\"guest\":true,\"reason\":"
                    "\"guest-shutdown\"}}");
    expect_part(&b, "{\"timestamp\":{\"seconds\":");
    send_text(&a, "{\"execute\":\"cont\"}");
    expect_part(&a, "\"event\":\"RESUME\"}");
    expect(&a, "{\"return\":{}}");
    expect_part(&b, "RESUME");
    leave(&b);
    silent = join(w, "b");
    expect_part(&silent, "QMP");
    qapi_event_send_stop(sink);
    expect_part(&a, "STOP");
    expect_silence(&silent);
    leave(&a);
    leave(&silent);
}

/* What a guest can cause at will: the first at once, then the newest after a second, for each port. */
static void test_limited_events(World *w, gconstpointer data)
{
    serve(w, "a");
    QapiEventSink *sink = monitor_event_sink(w->set);
    Client a = join_ready(w, "a");
    gint64 start;

    start = g_get_monotonic_time();
    for (int i = 0; i < 1000; i++) {
        qapi_event_send_vserport_change(sink, "one", i % 2 == 0);
        qapi_event_send_vserport_change(sink, "two", false);
    }
    qapi_event_send_stop(sink);
    expect_part(&a, "{\"id\":\"one\",\"open\":true}");
    expect_part(&a, "{\"id\":\"two\",\"open\":false}");
    expect_part(&a, "STOP");
    expect_part(&a, "{\"id\":\"one\",\"open\":false}");
    g_assert_cmpint(g_get_monotonic_time() - start, >=, G_USEC_PER_SEC * 9 / 10);
    expect_part(&a, "{\"id\":\"two\",\"open\":false}");
    leave(&a);
}

static void *send_events(void *sink)
{
    for (int64_t i = 0; i < 1000; i++) {
        qapi_event_send_migration_pass(sink, i);
    }
    return NULL;
}

/* In the order in which the thread has sent them. */
static void test_events_of_a_thread(World *w, gconstpointer data)
{
    serve(w, "a");
    Client c = join_ready(w, "a");
    GThread *thread = g_thread_new("events", send_events, monitor_event_sink(w->set));

    for (int i = 0; i < 1000; i++) {
        g_autofree char *part = g_strdup_printf("\"data\":{\"pass\":%d}}", i);

        expect_part(&c, part);
    }
    g_thread_join(thread);
    leave(&c);
}

static int temp_file(World *w, const char *text)
{
    g_autofree char *path = g_build_filename(w->dir, "file", NULL);

    g_assert_true(g_file_set_contents(path, text, -1, NULL));
    int fd = open(path, O_RDONLY);

    g_assert_cmpint(fd, >=, 0);
    return fd;
}

static void test_fds(World *w, gconstpointer data)
{
    serve(w, "a");
    Client c = join_ready(w, "a");
    int fd = temp_file(w, "x");

    send_text(&c, "{\"execute\":\"getfd\",\"arguments\":{\"fdname\":\"f\"}}");
    expect_part(&c, "No file descriptor supplied via SCM_RIGHTS");
    send_with_fd(&c, "{\"execute\":\"getfd\",\"arguments\":{\"fdname\":\"f\"}}", fd);
    expect(&c, "{\"return\":{}}");
    int taken = fd_store_take_named(w->fds, "f", NULL);

    g_assert_cmpint(taken, >=, 0);
    close(taken);
    send_with_fd(&c, "{\"execute\":\"getfd\",\"arguments\":{\"fdname\":\"f\"}}", fd);
    expect(&c, "{\"return\":{}}");
    send_text(&c, "{\"execute\":\"closefd\",\"arguments\":{\"fdname\":\"f\"}}");
    expect(&c, "{\"return\":{}}");
    send_text(&c, "{\"execute\":\"closefd\",\"arguments\":{\"fdname\":\"f\"}}");
    expect_part(&c, "\"class\":\"GenericError\"");
    send_with_fd(&c, "{\"execute\":\"add-fd\",\"arguments\":{\"fdset-id\":7,\"opaque\":\"words\"}}",
                 fd);
    expect_part(&c, "{\"return\":{\"fdset-id\":7,\"fd\":");
    send_with_fd(&c, "{\"execute\":\"add-fd\"}", fd);
    expect_part(&c, "{\"return\":{\"fdset-id\":0,\"fd\":");
    send_text(&c, "{\"execute\":\"query-fdsets\"}");
    expect_part(&c, ",\"opaque\":\"words\"}]}]}");
    send_text(&c, "{\"execute\":\"remove-fd\",\"arguments\":{\"fdset-id\":7}}"
                  "{\"execute\":\"remove-fd\",\"arguments\":{\"fdset-id\":0}}");
    expect(&c, "{\"return\":{}}");
    expect(&c, "{\"return\":{}}");
    send_text(&c, "{\"execute\":\"query-fdsets\"}");
    expect(&c, "{\"return\":[]}");
    close(fd);
    leave(&c);
}

static void test_words(World *w, gconstpointer data)
{
    serve(w, "a");
    Client c = join_ready(w, "a");

    send_text(&c, "{\"execute\":\"human-monitor-command\",\"arguments\":"
                  "{\"command-line\":\"info status\"}}");
    expect(&c, "{\"return\":\"VM status: paused (io-error)\\r\\n\"}");
    send_text(&c, "{\"execute\":\"human-monitor-command\",\"arguments\":"
                  "{\"command-line\":\"info  hello\"}}");
    expect_part(&c, "{\"return\":\"unknown command: 'info  hello'");
    send_text(&c, "{\"execute\":\"human-monitor-command\",\"arguments\":"
                  "{\"command-line\":\" info hello  you \",\"cpu-index\":3}}");
    expect(&c, "{\"return\":\"hello you 3\\n\"}");
    leave(&c);
}

static void test_schema(World *w, gconstpointer data)
{
    g_autoptr(json_object) schema = qapi_schema_introspect();
    g_autoptr(GHashTable) names = g_hash_table_new(g_str_hash, g_str_equal);
    g_autoptr(GError) error = NULL;
    GPtrArray *entries = qapi_from_json(&qapi_type_SchemaInfoList, schema, &error);

    g_assert_no_error(error);
    for (unsigned i = 0; i < entries->len; i++) {
        SchemaInfo *info = entries->pdata[i];

        g_assert_true(g_hash_table_add(names, info->name));
    }
    /* Every type that is referred to is there. */
    for (unsigned i = 0; i < entries->len; i++) {
        SchemaInfo *info = entries->pdata[i];

        if (info->meta_type == SCHEMA_META_TYPE_COMMAND) {
            g_assert_true(g_hash_table_contains(names, info->u.command.arg_type));
            g_assert_true(g_hash_table_contains(names, info->u.command.ret_type));
        } else if (info->meta_type == SCHEMA_META_TYPE_ARRAY) {
            g_assert_true(g_hash_table_contains(names, info->u.array.element_type));
        } else if (info->meta_type == SCHEMA_META_TYPE_OBJECT) {
            GPtrArray *members = info->u.object.members;

            for (unsigned m = 0; m < members->len; m++) {
                SchemaInfoObjectMember *member = members->pdata[m];

                g_assert_true(g_hash_table_contains(names, member->type));
            }
        }
    }
    qapi_free(&qapi_type_SchemaInfoList, entries);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    TEST("qmp/negotiation", test_negotiation);
    TEST("qmp/requests", test_requests);
    TEST("qmp/bad-requests", test_bad_requests);
    TEST("qmp/events", test_events);
    TEST("qmp/limited-events", test_limited_events);
    TEST("qmp/events-of-a-thread", test_events_of_a_thread);
    TEST("qmp/fds", test_fds);
    TEST("qmp/words", test_words);
    TEST("qmp/schema", test_schema);
    return g_test_run();
}
