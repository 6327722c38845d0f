/*
 * One monitor: its present client, what the client sends, and what is sent to it.
 *
 * Nothing here blocks. What a client does not read is kept; while much is kept, no more commands
 * are taken from it, and a client that lets events pile up beyond all measure is dropped.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "monitor/internal.h"

#include "util/error.h"
#include "util/log.h"

#define INPUT_CHUNK (64u << 10)
#define INPUT_HIGH (1u << 20)    /* nothing more is read while this much waits */
#define INPUT_SLICE_US 2000      /* time given to commands at one go */
#define OUTPUT_HIGH (1u << 20)   /* no more commands beyond this */
#define OUTPUT_LIMIT (64u << 20) /* the client is dropped beyond this */

MonitorSession *session_new(MonitorSet *set, Chardev *chardev, bool pretty)
{
    MonitorSession *session = g_new0(MonitorSession, 1);

    session->refs = 1;
    session->set = set;
    session->chardev = chardev;
    session->pretty = pretty;
    session->framer = framer_new(MONITOR_MAX_MESSAGE, MONITOR_MAX_DEPTH);
    session->in.bytes = g_string_new(NULL);
    session->out.bytes = g_string_new(NULL);
    return session;
}

MonitorSession *session_ref(MonitorSession *session)
{
    session->refs++;
    return session;
}

void session_unref(MonitorSession *session)
{
    if (--session->refs) {
        return;
    }
    framer_free(session->framer);
    g_string_free(session->in.bytes, TRUE);
    g_string_free(session->out.bytes, TRUE);
    g_free(session);
}

/* ---- Output ---- */

static gboolean on_drop(void *opaque)
{
    MonitorSession *session = opaque;

    session->drop_source = 0;
    warn_report("QMP client on chardev '%s' does not read; it is disconnected",
                chardev_id(session->chardev));
    chardev_disconnect(session->chardev);
    return G_SOURCE_REMOVE;
}

static void write_out(MonitorSession *session)
{
    size_t len = byte_queue_len(&session->out);

    if (len) {
        byte_queue_take(&session->out,
                        chardev_write(session->chardev, byte_queue_data(&session->out), len));
    }
}

void session_send(MonitorSession *session, json_object *message)
{
    int flags = JSON_C_TO_STRING_NOSLASHESCAPE | (session->pretty ? JSON_C_TO_STRING_PRETTY : 0);

    if (session->open && !session->drop_source) {
        const char *text = json_object_to_json_string_ext(message, flags);

        log_printf(LOG_QMP, "qmp_send: %s: %s", chardev_id(session->chardev), text);
        bool was_empty = byte_queue_len(&session->out) == 0;

        g_string_append(session->out.bytes, text);
        g_string_append(session->out.bytes, "\r\n");
        if (was_empty) {
            write_out(session);
        }
        if (byte_queue_len(&session->out) > OUTPUT_LIMIT) {
            session->drop_source = g_idle_add(on_drop, session);
        }
    }
    json_object_put(message);
}

void session_flush(MonitorSession *session, int timeout_ms)
{
    int64_t end = g_get_monotonic_time() + timeout_ms * 1000LL;
    int left = timeout_ms;

    write_out(session);
    do {
        chardev_flush(session->chardev, left);
        write_out(session);
        left = (end - g_get_monotonic_time()) / 1000;
    } while (chardev_queued(session->chardev) && left > 0);
}

/* ---- Input ---- */

static bool can_take_commands(const MonitorSession *session)
{
    return session->open && !session->busy && byte_queue_len(&session->out) < OUTPUT_HIGH;
}

/* Reading goes on while commands wait, so that the client's end is noticed. */
static size_t on_can_receive(void *opaque)
{
    MonitorSession *session = opaque;

    return byte_queue_len(&session->in) < INPUT_HIGH ? INPUT_CHUNK : 0;
}

/* A piece of a malformed line that happens to be JSON and is no request: its error has been told. */
static bool is_debris(MonitorSession *session, json_object *message)
{
    return framer_line_failed(session->framer) &&
           !json_object_object_get_ex(message, "execute", NULL);
}

static void take_message(MonitorSession *session, json_object *message)
{
    log_printf(LOG_QMP, "qmp_receive: %s: %s", chardev_id(session->chardev),
               json_object_to_json_string_ext(message, JSON_C_TO_STRING_NOSLASHESCAPE));
    if (!is_debris(session, message)) {
        dispatch_message(session, message);
    }
}

/* Take one step through the input. */
static void process_some(MonitorSession *session)
{
    json_object *message = NULL;
    char *reason = NULL;
    size_t used = 0;
    GError *error = NULL;
    FramerResult result = framer_feed(session->framer, byte_queue_data(&session->in),
                                      byte_queue_len(&session->in), &used, &message, &reason);

    byte_queue_take(&session->in, used);
    if (result == FRAMER_MESSAGE) {
        take_message(session, message);
        json_object_put(message);
    } else if (result == FRAMER_ERROR) {
        error_set(&error, "%s", reason);
        session_send(session, dispatch_error(error, false, NULL));
        g_free(reason);
    }
}

static gboolean on_more_input(void *opaque)
{
    MonitorSession *session = opaque;

    session->input_source = 0;
    session_resume(session);
    return G_SOURCE_REMOVE;
}

/* Some steps at a time: the main loop has others to serve. */
static void process_input(MonitorSession *session)
{
    int64_t end = g_get_monotonic_time() + INPUT_SLICE_US;

    session->processing = true;
    session_ref(session);
    while (byte_queue_len(&session->in) && can_take_commands(session)) {
        if (g_get_monotonic_time() > end) {
            session->input_source = g_timeout_add(0, on_more_input, session);
            break;
        }
        process_some(session);
    }
    session->processing = false;
    session_unref(session);
}

static void on_receive(void *opaque, const uint8_t *data, size_t len)
{
    MonitorSession *session = opaque;

    framer_begin_write(session->framer);
    g_string_append_len(session->in.bytes, (const char *)data, len);
    if (!session->processing && !session->input_source) {
        process_input(session);
    }
}

void session_resume(MonitorSession *session)
{
    if (session->processing || session->input_source || !session->open) {
        return;
    }
    process_input(session);
    if (on_can_receive(session)) {
        chardev_accept_input(session->chardev);
    }
}

/* ---- Clients come and go ---- */

static void greet(MonitorSession *session)
{
    json_object *greeting = json_object_new_object();
    json_object *qmp = json_object_new_object();

    json_object_object_add(qmp, "version", monitor_version());
    json_object_object_add(qmp, "capabilities", json_object_new_array());
    json_object_object_add(greeting, "QMP", qmp);
    session_send(session, greeting);
}

static void set_open(MonitorSession *session, bool open)
{
    session->open = open;
    session->negotiated = session->busy = false;
    session->client++;
    framer_reset(session->framer);
    byte_queue_clear(&session->in);
    byte_queue_clear(&session->out);
    g_clear_handle_id(&session->drop_source, g_source_remove);
    g_clear_handle_id(&session->input_source, g_source_remove);
    if (open) {
        greet(session);
    }
}

static void on_event(void *opaque, ChardevEvent event)
{
    MonitorSession *session = opaque;

    switch (event) {
    case CHARDEV_EVENT_OPENED:
    case CHARDEV_EVENT_CLOSED:
        set_open(session, event == CHARDEV_EVENT_OPENED);
        break;
    case CHARDEV_EVENT_WRITABLE:
        write_out(session);
        session_resume(session);
        break;
    }
}

bool session_start(MonitorSession *session, GError **errp)
{
    static const ChardevHandlers handlers = {
        .can_receive = on_can_receive,
        .receive = on_receive,
        .event = on_event,
    };

    return chardev_set_handlers(session->chardev, &handlers, session, errp);
}

void session_stop(MonitorSession *session)
{
    chardev_set_handlers(session->chardev, NULL, NULL, NULL);
    set_open(session, false);
    session->set = NULL;
    session_unref(session);
}
