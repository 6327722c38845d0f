/*
 * Clients that wait for a deferred reply, leave, do not read, or send very much.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "tests/unit/monitor-world.h"

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

    send_text(&c, "{\"a\":");
    send_text(&c, open);
    send_text(&c, "\n{\"execute\":\"query-status\"}");
    expect_part(&c, "nested too deep");
    expect_part(&c, "io-error");
    leave(&c);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    TEST("clients/deferred", test_deferred);
    TEST("clients/deferred-refused", test_deferred_refused);
    TEST("clients/deferred-left", test_deferred_left);
    TEST("clients/deferred-late", test_deferred_late);
    TEST("clients/reconnect", test_reconnect);
    TEST("clients/slow-reader", test_slow_reader);
    TEST("clients/big-message", test_big_message);
    return g_test_run();
}
