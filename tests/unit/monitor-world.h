/*
 * Monitors on UNIX sockets in a temporary folder, commands for them, and clients, for tests.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_TESTS_UNIT_MONITOR_WORLD_H
#define COWBIRD_TESTS_UNIT_MONITOR_WORLD_H

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

#define THUNK(name, call)                               \
    static inline bool name(QapiCall *c, GError **errp) \
    {                                                   \
        return call;                                    \
    }
#define VALUE_THUNK(name, call)                         \
    static inline bool name(QapiCall *c, GError **errp) \
    {                                                   \
        c->ret_value = call;                            \
        return c->ret_value != NULL;                    \
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

static inline bool run_status(QapiCall *c, GError **errp)
{
    World *w = c->ctx;
    StatusInfo *info = g_new0(StatusInfo, 1);

    w->served++;
    info->status = RUN_STATE_IO_ERROR;
    c->ret_value = info;
    return true;
}

/* An event sent by a handler. */
static inline bool run_cont(QapiCall *c, GError **errp)
{
    qapi_event_send_resume(monitor_event_sink(((World *)c->ctx)->set));
    return true;
}

static inline bool run_stop(QapiCall *c, GError **errp)
{
    World *w = c->ctx;

    if (w->owed) {
        error_set(errp, "Only one at a time");
        return false;
    }
    w->owed = c->reply;
    return true;
}

static inline bool run_detach(QapiCall *c, GError **errp)
{
    qapi_reply_done(c->reply, NULL);
    return true;
}

static inline bool run_properties(QapiCall *c, GError **errp)
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

static inline char *say_hello(void *opaque, const char *args, bool has_cpu_index, int64_t cpu_index,
                              GError **errp)
{
    return g_strdup_printf("hello %s %" PRId64 "\n", args, has_cpu_index ? cpu_index : -1);
}

static const MonitorHumanCommand human[] = { { "info hello", "a greeting", say_hello }, { NULL } };

/* ---- The world and its clients ---- */

static inline void set_up(World *w, gconstpointer data)
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

static inline void tear_down(World *w, gconstpointer data)
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
static inline void serve(World *w, const char *name)
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

static inline Client join(World *w, const char *name)
{
    Client client = { socket(AF_UNIX, SOCK_STREAM, 0), g_string_new(NULL) };
    struct sockaddr_un address = { .sun_family = AF_UNIX };

    g_snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", w->dir, name);
    g_assert_cmpint(connect(client.fd, (void *)&address, sizeof(address)), ==, 0);
    g_assert_cmpint(fcntl(client.fd, F_SETFL, O_NONBLOCK), ==, 0);
    return client;
}

static inline void leave(Client *client)
{
    close(client->fd);
    g_string_free(client->got, TRUE);
    for (int i = 0; i < 20; i++) {
        g_main_context_iteration(NULL, FALSE);
    }
}

static inline void send_bytes(Client *client, const char *data, size_t len)
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

static inline void send_text(Client *client, const char *text)
{
    send_bytes(client, text, strlen(text));
}

static inline void send_with_fd(Client *client, const char *text, int fd)
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
static inline bool receive_some(Client *client)
{
    char buffer[4096];
    ssize_t n = read(client->fd, buffer, sizeof(buffer));

    if (n > 0) {
        g_string_append_len(client->got, buffer, n);
    }
    return n > 0 || (n < 0 && errno == EAGAIN);
}

/* The next line, without its end; to be freed. */
static inline char *next_line(Client *client)
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

static inline void expect(Client *client, const char *line)
{
    g_autofree char *got = next_line(client);

    g_assert_cmpstr(got, ==, line);
}

static inline void expect_part(Client *client, const char *part)
{
    g_autofree char *got = next_line(client);

    if (!strstr(got, part)) {
        g_error("\"%s\" lacks \"%s\"", got, part);
    }
}

/* Let the loop run; nothing more must come. */
static inline void expect_silence(Client *client)
{
    for (int i = 0; i < 50; i++) {
        g_main_context_iteration(NULL, FALSE);
        receive_some(client);
    }
    g_assert_cmpstr(client->got->str, ==, "");
}

static inline Client join_ready(World *w, const char *name)
{
    Client client = join(w, name);

    expect_part(&client, "{\"QMP\":");
    send_text(&client, "{\"execute\":\"qmp_capabilities\"}\r\n");
    expect(&client, "{\"return\":{}}");
    return client;
}

#define TEST(path, fn) g_test_add("/monitor/" path, World, NULL, set_up, fn, tear_down)

#endif
