/*
 * QMP sessions over a UNIX socket: negotiation, replies, errors, events, descriptors, clients that
 * leave, that do not read, that send rubbish; deferred replies; several monitors.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "chardev/chardev.h"
#include "monitor/monitor.h"
#include "qapi/qapi-commands.h"
#include "qapi/qapi-events.h"
#include "util/error.h"
#include "util/json.h"

/* ---- Commands: the monitor's own, and some that stand for others' ---- */

typedef struct World {
    char *dir;
    FdStore *fds;
    ChardevRegistry *registry;
    QapiContexts contexts;
    MonitorSet *set;
    QapiReply *owed; /* of the command stop */
    int served;      /* calls of query-status */
} World;

#define THUNK(name, call)                        \
    static bool name(QapiCall *c, GError **errp) \
    {                                            \
        return call;                             \
    }
#define VALUE_THUNK(name, call)                  \
    static bool name(QapiCall *c, GError **errp) \
    {                                            \
        c->ret_value = call;                     \
        return c->ret_value != NULL;             \
    }

THUNK(run_capabilities, qmp_qmp_capabilities(c->ctx, c->arg, errp))
THUNK(run_getfd, qmp_getfd(c->ctx, c->arg, errp))
THUNK(run_closefd, qmp_closefd(c->ctx, c->arg, errp))
THUNK(run_remove_fd, qmp_remove_fd(c->ctx, c->arg, errp))
VALUE_THUNK(run_add_fd, qmp_add_fd(c->ctx, c->arg, errp))
VALUE_THUNK(run_fdsets, qmp_query_fdsets(c->ctx, errp))
VALUE_THUNK(run_commands, qmp_query_commands(c->ctx, errp))
VALUE_THUNK(run_schema, qmp_query_qmp_schema(c->ctx, c->arg, errp))
VALUE_THUNK(run_version, qmp_query_version(c->ctx, errp))
VALUE_THUNK(run_words, qmp_human_monitor_command(c->ctx, c->arg, errp))

static bool run_status(QapiCall *c, GError **errp)
{
    World *w = c->ctx;
    StatusInfo *info = g_new0(StatusInfo, 1);

    w->served++;
    info->status = RUN_STATE_IO_ERROR;
    c->ret_value = info;
    return true;
}

/* An event sent by a handler. */
static bool run_cont(QapiCall *c, GError **errp)
{
    qapi_event_send_resume(monitor_event_sink(((World *)c->ctx)->set));
    return true;
}

static bool run_stop(QapiCall *c, GError **errp)
{
    World *w = c->ctx;

    if (w->owed) {
        error_set(errp, "Only one at a time");
        return false;
    }
    w->owed = c->reply;
    return true;
}

static bool run_detach(QapiCall *c, GError **errp)
{
    qapi_reply_done(c->reply, NULL);
    return true;
}

static bool run_properties(QapiCall *c, GError **errp)
{
    const DeviceListPropertiesArg *arg = c->arg;

    error_set_class(errp, COWBIRD_ERROR_DEVICE_NOT_FOUND, "Device '%s' not found", arg->typename);
    return false;
}

#define SESSION QAPI_CONTEXT_MONITOR_SESSION
#define WORLD QAPI_CONTEXT_RUN_STATE_CONTROL
static const QapiCommand commands[] = {
    { "add-fd", &qapi_type_AddFdArg, &qapi_type_AddfdInfo, SESSION, false, false, run_add_fd },
    { "closefd", &qapi_type_ClosefdArg, NULL, SESSION, false, false, run_closefd },
    { "cont", NULL, NULL, WORLD, false, false, run_cont },
    { "device-list-properties", &qapi_type_DeviceListPropertiesArg,
      &qapi_type_ObjectPropertyInfoList, WORLD, false, false, run_properties },
    { "getfd", &qapi_type_GetfdArg, NULL, SESSION, false, false, run_getfd },
    { "human-monitor-command", &qapi_type_HumanMonitorCommandArg, &qapi_type_str, SESSION, false,
      false, run_words },
    { "migrate_cancel", NULL, NULL, QAPI_CONTEXT_MIGRATION_STATE, false, false, run_cont },
    { "qmp_capabilities", &qapi_type_QmpCapabilitiesArg, NULL, SESSION, false, false,
      run_capabilities },
    { "query-commands", NULL, &qapi_type_CommandInfoList, SESSION, false, false, run_commands },
    { "query-fdsets", NULL, &qapi_type_FdsetInfoList, SESSION, false, false, run_fdsets },
    { "query-qmp-schema", NULL, &qapi_type_SchemaInfoList, SESSION, false, true, run_schema },
    { "query-status", NULL, &qapi_type_StatusInfo, WORLD, false, false, run_status },
    { "query-version", NULL, &qapi_type_VersionInfo, SESSION, false, false, run_version },
    { "ram-detach", NULL, NULL, WORLD, true, false, run_detach },
    { "remove-fd", &qapi_type_RemoveFdArg, NULL, SESSION, false, false, run_remove_fd },
    { "stop", NULL, NULL, WORLD, true, false, run_stop },
};
static const QapiCommandTable table = { commands, G_N_ELEMENTS(commands) };

static char *say_hello(void *opaque, const char *args, bool has_cpu_index, int64_t cpu_index,
                       GError **errp)
{
    return g_strdup_printf("hello %s %" PRId64 "\n", args, has_cpu_index ? cpu_index : -1);
}

static const MonitorHumanCommand human[] = { { "info hello", "a greeting", say_hello }, { NULL } };

/* ---- The world and its clients ---- */

static void set_up(World *w, gconstpointer data)
{
    w->dir = g_dir_make_tmp("cowbird-monitor-XXXXXX", NULL);
    w->fds = fd_store_new();
    w->registry = chardev_registry_new(w->fds);
    w->contexts.ctx[WORLD] = w;
    MonitorEnv env = {
        .fds = w->fds,
        .commands = &table,
        .contexts = &w->contexts,
        .human = human,
        .human_opaque = w,
    };

    w->set = monitor_set_new(&env);
}

static void tear_down(World *w, gconstpointer data)
{
    g_autofree char *command = g_strdup_printf("rm -rf '%s'", w->dir);

    monitor_set_free(w->set);
    if (w->owed) {
        qapi_reply_done(w->owed, NULL);
    }
    chardev_registry_free(w->registry);
    fd_store_free(w->fds);
    while (g_main_context_iteration(NULL, FALSE)) {
    }
    g_assert_cmpint(system(command), ==, 0);
    g_free(w->dir);
}

/* A monitor on a socket of that name. */
static void serve(World *w, const char *name)
{
    g_autofree char *text = g_strdup_printf("unix:%s/%s,server=on,wait=off", w->dir, name);
    g_autoptr(GError) error = NULL;
    Chardev *chardev = chardev_new_short(w->registry, name, text, &error);

    g_assert_no_error(error);
    g_assert_true(monitor_add(w->set, chardev, false, &error));
}

typedef struct Client {
    int fd;
    GString *got;
} Client;

static Client join(World *w, const char *name)
{
    Client client = { socket(AF_UNIX, SOCK_STREAM, 0), g_string_new(NULL) };
    struct sockaddr_un address = { .sun_family = AF_UNIX };

    g_snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", w->dir, name);
    g_assert_cmpint(connect(client.fd, (void *)&address, sizeof(address)), ==, 0);
    g_assert_cmpint(fcntl(client.fd, F_SETFL, O_NONBLOCK), ==, 0);
    return client;
}

static void leave(Client *client)
{
    close(client->fd);
    g_string_free(client->got, TRUE);
    for (int i = 0; i < 20; i++) {
        g_main_context_iteration(NULL, FALSE);
    }
}

static void send_bytes(Client *client, const char *data, size_t len)
{
    while (len) {
        ssize_t n = write(client->fd, data, len);

        if (n < 0) {
            g_assert_cmpint(errno, ==, EAGAIN);
            g_main_context_iteration(NULL, FALSE);
            continue;
        }
        data += n;
        len -= n;
    }
}

static void send_text(Client *client, const char *text)
{
    send_bytes(client, text, strlen(text));
}

static void send_with_fd(Client *client, const char *text, int fd)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = { 0 };
    struct iovec iov = { (void *)text, strlen(text) };
    struct msghdr message = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
    };

    control.head.cmsg_level = SOL_SOCKET;
    control.head.cmsg_type = SCM_RIGHTS;
    control.head.cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
    g_assert_cmpint(sendmsg(client->fd, &message, 0), ==, (ssize_t)strlen(text));
}

/* Take in what has come; false at the end of the connection. */
static bool receive_some(Client *client)
{
    char buffer[4096];
    ssize_t n = read(client->fd, buffer, sizeof(buffer));

    if (n > 0) {
        g_string_append_len(client->got, buffer, n);
    }
    return n > 0 || (n < 0 && errno == EAGAIN);
}

/* The next line, without its end; to be freed. */
static char *next_line(Client *client)
{
    gint64 end = g_get_monotonic_time() + 20 * G_USEC_PER_SEC;
    char *newline;

    while (!(newline = strstr(client->got->str, "\r\n"))) {
        g_assert_cmpint(g_get_monotonic_time(), <, end);
        g_assert_true(receive_some(client));
        g_main_context_iteration(NULL, FALSE);
    }
    char *line = g_strndup(client->got->str, newline - client->got->str);

    g_string_erase(client->got, 0, newline + 2 - client->got->str);
    return line;
}

static void expect(Client *client, const char *line)
{
    g_autofree char *got = next_line(client);

    g_assert_cmpstr(got, ==, line);
}

static void expect_part(Client *client, const char *part)
{
    g_autofree char *got = next_line(client);

    if (!strstr(got, part)) {
        g_error("\"%s\" lacks \"%s\"", got, part);
    }
}

/* Let the loop run; nothing more must come. */
static void expect_silence(Client *client)
{
    for (int i = 0; i < 50; i++) {
        g_main_context_iteration(NULL, FALSE);
        receive_some(client);
    }
    g_assert_cmpstr(client->got->str, ==, "");
}

static Client join_ready(World *w, const char *name)
{
    Client client = join(w, name);

    expect_part(&client, "{\"QMP\":");
    send_text(&client, "{\"execute\":\"qmp_capabilities\"}\r\n");
    expect(&client, "{\"return\":{}}");
    return client;
}

/* ---- Tests ---- */

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
        { "hello?", "JSON parse error, " },
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

static void test_deferred(World *w, gconstpointer data)
{
    serve(w, "a");
    Client c = join_ready(w, "a");

    send_text(&c, "{\"execute\":\"stop\",\"id\":1}{\"execute\":\"query-status\",\"id\":2}");
    expect_silence(&c);
    g_assert_cmpint(w->served, ==, 0);
    qapi_reply_done(g_steal_pointer(&w->owed), NULL);
    expect(&c, "{\"return\":{},\"id\":1}");
    expect_part(&c, "\"id\":2}");
    send_text(&c, "{\"execute\":\"stop\",\"id\":3}");
    expect_silence(&c);
    GError *error = NULL;

    error_set(&error, "No \xff way");
    qapi_reply_error(g_steal_pointer(&w->owed), error);
    expect_part(&c, "{\"error\":{\"class\":\"GenericError\",\"desc\":\"No ");
    /* Answered before the handler returns. */
    send_text(&c, "{\"execute\":\"ram-detach\",\"id\":4}{\"execute\":\"ram-detach\",\"id\":5}");
    expect(&c, "{\"return\":{},\"id\":4}");
    expect(&c, "{\"return\":{},\"id\":5}");
    leave(&c);
}

static void test_deferred_refused(World *w, gconstpointer data)
{
    serve(w, "a");
    serve(w, "b");
    Client a = join_ready(w, "a"), b = join_ready(w, "b");

    send_text(&a, "{\"execute\":\"stop\"}");
    expect_silence(&a);
    send_text(&b, "{\"execute\":\"stop\",\"id\":7}{\"execute\":\"query-status\"}");
    expect_part(&b, "\"desc\":\"Only one at a time\"},\"id\":7}");
    expect_part(&b, "io-error");
    qapi_reply_done(g_steal_pointer(&w->owed), NULL);
    expect(&a, "{\"return\":{}}");
    leave(&a);
    leave(&b);
}

/* The reply to a client that has left is nobody's. */
static void test_deferred_left(World *w, gconstpointer data)
{
    serve(w, "a");
    Client c = join_ready(w, "a");

    send_text(&c, "{\"execute\":\"stop\"}");
    expect_silence(&c);
    leave(&c);
    c = join_ready(w, "a");
    send_text(&c, "{\"execute\":\"query-status\"}");
    expect_part(&c, "io-error");
    qapi_reply_done(g_steal_pointer(&w->owed), NULL);
    expect_silence(&c);
    send_text(&c, "{\"execute\":\"stop\"}");
    expect_silence(&c);
    leave(&c);
}

/* A reply that comes when there are no monitors any more: tear_down gives it. */
static void test_deferred_late(World *w, gconstpointer data)
{
    serve(w, "a");
    Client c = join_ready(w, "a");

    send_text(&c, "{\"execute\":\"stop\"}");
    expect_silence(&c);
    g_assert_nonnull(w->owed);
    leave(&c);
}

static void test_reconnect(World *w, gconstpointer data)
{
    serve(w, "a");
    for (int i = 0; i < 20; i++) {
        Client c = i % 2 ? join_ready(w, "a") : join(w, "a");

        send_text(&c, i % 3 ? "{\"execute\":\"query-st" : "{\"execute\":\"query-status\"}");
        leave(&c);
    }
    Client c = join_ready(w, "a");

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

/* A client that does not read its replies holds up itself only, and gets them all later. */
static void test_slow_reader(World *w, gconstpointer data)
{
    serve(w, "a");
    serve(w, "b");
    Client slow = join_ready(w, "a"), quick = join_ready(w, "b");
    const char *request = "{\"execute\":\"query-qmp-schema\"}";
    int sent = 0;

    while (sent < 400) {
        ssize_t n = write(slow.fd, request, strlen(request));

        if (n < (ssize_t)strlen(request)) {
            break;
        }
        sent++;
        g_main_context_iteration(NULL, FALSE);
    }
    send_text(&quick, "{\"execute\":\"query-status\"}");
    expect_part(&quick, "io-error");
    for (int i = 0; i < sent; i++) {
        expect_part(&slow, "\"meta-type\":\"command\"");
    }
    leave(&slow);
    leave(&quick);
}

static void test_big_message(World *w, gconstpointer data)
{
    serve(w, "a");
    Client c = join_ready(w, "a");
    g_autofree char *padding = g_strnfill(3 << 20, 'x');
    g_autofree char *big =
        g_strdup_printf("{\"execute\":\"closefd\",\"arguments\":{\"fdname\":\"%s\"}}\n", padding);

    send_text(&c, big);
    expect_part(&c, "\"class\":\"GenericError\"");
    g_autofree char *open = g_strnfill(2000, '[');

    send_text(&c, open);
    send_text(&c, "\n{\"execute\":\"query-status\"}");
    expect_part(&c, "nesting too deep");
    expect_part(&c, "io-error");
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

#define TEST(path, fn) g_test_add("/monitor/qmp/" path, World, NULL, set_up, fn, tear_down)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    TEST("negotiation", test_negotiation);
    TEST("requests", test_requests);
    TEST("bad-requests", test_bad_requests);
    TEST("events", test_events);
    TEST("events-of-a-thread", test_events_of_a_thread);
    TEST("deferred", test_deferred);
    TEST("deferred-refused", test_deferred_refused);
    TEST("deferred-left", test_deferred_left);
    TEST("deferred-late", test_deferred_late);
    TEST("reconnect", test_reconnect);
    TEST("fds", test_fds);
    TEST("words", test_words);
    TEST("slow-reader", test_slow_reader);
    TEST("big-message", test_big_message);
    TEST("schema", test_schema);
    return g_test_run();
}
