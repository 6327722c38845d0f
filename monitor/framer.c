/*
 * Messages from bytes: json-c's tokener for the grammar, json-scan for everything around it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "monitor/framer.h"

#include <glib.h>

#include "monitor/json-scan.h"

struct JsonFramer {
    size_t max_bytes;
    int64_t max_depth;
    json_tokener *tokener;
    JsonScan scan;
    GString *held;    /* read and not yet given to the tokener */
    size_t bytes;     /* of the present message */
    bool skipping;    /* behind an error, looking for a place to start again */
    bool line_failed; /* an error has been told for the present line */
};

JsonFramer *framer_new(size_t max_bytes, unsigned max_depth)
{
    JsonFramer *f = g_new0(JsonFramer, 1);

    f->max_bytes = max_bytes;
    f->max_depth = max_depth;
    f->tokener = json_tokener_new_ex(max_depth + 2);
    json_tokener_set_flags(f->tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    f->held = g_string_new(NULL);
    return f;
}

void framer_free(JsonFramer *f)
{
    json_tokener_free(f->tokener);
    g_string_free(f->held, TRUE);
    g_free(f);
}

static void forget_message(JsonFramer *f)
{
    json_tokener_reset(f->tokener);
    g_string_truncate(f->held, 0);
    f->bytes = 0;
}

void framer_reset(JsonFramer *f)
{
    forget_message(f);
    f->scan = (JsonScan){ 0 };
    f->skipping = f->line_failed = false;
}

void framer_begin_write(JsonFramer *f)
{
    if (f->scan.depth <= 0) {
        f->line_failed = false;
    }
}

bool framer_line_failed(const JsonFramer *f)
{
    return f->line_failed;
}

/* Bytes at the end of @text that begin a UTF-8 character and do not end it. */
static size_t unfinished_utf8(const GString *text)
{
    for (size_t n = 1; n <= 3 && n <= text->len; n++) {
        unsigned char c = text->str[text->len - n];

        if (c >= 0xc0) {
            size_t wanted = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;

            return wanted > n ? n : 0;
        }
        if (c < 0x80) {
            break;
        }
    }
    return 0;
}

/*
 * Give the held text to the tokener, but for a character or escape that is cut: the tokener checks
 * UTF-8 within one call only, and hold_byte may take a backslash back.
 */
static enum json_tokener_error tokenize(JsonFramer *f, json_object **ret_message)
{
    size_t keep = f->scan.quote && f->scan.escaped ? 1 : unfinished_utf8(f->held);
    size_t len = f->held->len - keep;
    enum json_tokener_error error = json_tokener_continue;

    if (len) {
        *ret_message = json_tokener_parse_ex(f->tokener, f->held->str, len);
        error = json_tokener_get_error(f->tokener);
        g_string_erase(f->held, 0, len);
    }
    return error;
}

static FramerResult fail(JsonFramer *f, const char *reason, char **ret_error)
{
    bool tell = !f->line_failed;

    forget_message(f);
    f->skipping = f->line_failed = true;
    if (!tell) {
        return FRAMER_MORE;
    }
    *ret_error = g_strdup(reason);
    return FRAMER_ERROR;
}

static FramerResult bad_json(JsonFramer *f, const char *reason, char **ret_error)
{
    g_autofree char *text = g_strdup_printf("JSON parse error, %s", reason);

    return fail(f, text, ret_error);
}

/* Whether reading can start again at @c, which then is not used up yet. */
static bool can_restart(JsonFramer *f, char c)
{
    if (c == '{' && (f->scan.line_start || (f->scan.depth <= 0 && !f->scan.quote))) {
        return true;
    }
    return c == '\n' && f->scan.depth <= 0;
}

static void skip_byte(JsonFramer *f, char c)
{
    if (c == (char)0xff) { /* the byte with which clients force a known state */
        f->scan.depth = 0;
    }
    json_scan_byte(&f->scan, c);
    if (c == '\n') {
        f->line_failed = false;
    }
}

/* A byte between messages. Returns FRAMER_MESSAGE if it begins one. */
static FramerResult idle_byte(JsonFramer *f, char c, char **ret_error)
{
    if (g_ascii_isspace(c)) {
        json_scan_byte(&f->scan, c);
        f->line_failed = f->line_failed && c != '\n';
        return FRAMER_MORE;
    }
    f->scan = (JsonScan){ 0 };
    if (c == '{') {
        return FRAMER_MESSAGE;
    }
    json_scan_byte(&f->scan, c);
    return fail(f, "QMP input must be a JSON object", ret_error);
}

/*
 * Hold @c for the tokener, with strings in single quotes, which QMP's users write by hand, turned
 * into JSON's. @quote and @escaped: the state before @c.
 */
static void hold_byte(JsonFramer *f, char c, char quote, bool escaped)
{
    bool single = quote == '\'' || (!quote && c == '\'');

    if (single && c == '\'' && !escaped) {
        c = '"';
    } else if (single && c == '\'') {
        g_string_truncate(f->held, f->held->len - 1);
    } else if (single && c == '"' && !escaped) {
        g_string_append_c(f->held, '\\');
    }
    g_string_append_c(f->held, c);
}

/*
 * A byte of a message. FRAMER_MESSAGE: it was the last one. A '{' that begins a line and cannot
 * stand here is left unused: the message before it was never finished.
 */
static FramerResult message_byte(JsonFramer *f, char c, bool *ret_unused, json_object **ret_message,
                                 char **ret_error)
{
    bool maybe_new = c == '{' && f->scan.line_start && f->bytes;

    if (maybe_new && f->line_failed) {
        *ret_unused = true; /* what began on a malformed line is more of the same */
        return FRAMER_MORE;
    }
    char quote = f->scan.quote;
    bool escaped = f->scan.escaped;
    const char *bad = json_scan_byte(&f->scan, c);
    enum json_tokener_error error = json_tokener_continue;

    hold_byte(f, c, quote, escaped);
    f->bytes++;
    if (bad) {
        return bad_json(f, bad, ret_error);
    }
    if (f->bytes > f->max_bytes) {
        return fail(f, "QMP input is longer than 64 MiB", ret_error);
    }
    if (f->scan.depth > f->max_depth) {
        return fail(f, "QMP input is nested too deep", ret_error);
    }
    if (f->scan.depth > 0 && !maybe_new) {
        return FRAMER_MORE;
    }
    error = tokenize(f, ret_message);
    if (error == json_tokener_success) {
        forget_message(f);
        f->scan.depth = 0;
        return FRAMER_MESSAGE;
    }
    if (error == json_tokener_continue && f->scan.depth > 0) {
        return FRAMER_MORE;
    }
    *ret_unused = maybe_new;
    return bad_json(f, json_tokener_error_desc(error), ret_error);
}

/* One byte, in whichever state. */
static FramerResult feed_byte(JsonFramer *f, char c, bool *ret_unused, json_object **ret_message,
                              char **ret_error)
{
    if (f->skipping) {
        if (!can_restart(f, c)) {
            skip_byte(f, c);
            return FRAMER_MORE;
        }
        f->skipping = false;
        f->line_failed = f->line_failed && !f->scan.line_start;
        f->scan = (JsonScan){ 0 };
    }
    if (!f->bytes) {
        FramerResult result = idle_byte(f, c, ret_error);

        if (result != FRAMER_MESSAGE) {
            return result;
        }
    }
    return message_byte(f, c, ret_unused, ret_message, ret_error);
}

FramerResult framer_feed(JsonFramer *f, const char *data, size_t len, size_t *ret_used,
                         json_object **ret_message, char **ret_error)
{
    *ret_message = NULL;
    for (size_t i = 0; i < len;) {
        bool unused = false;
        FramerResult result = feed_byte(f, data[i], &unused, ret_message, ret_error);

        if (unused) {
            framer_reset(f);
        } else {
            i++;
        }
        if (result != FRAMER_MORE) {
            *ret_used = i;
            return result;
        }
    }
    *ret_used = len;
    if (f->bytes) {
        enum json_tokener_error error = tokenize(f, ret_message);

        if (error != json_tokener_continue) {
            json_object_put(*ret_message);
            *ret_message = NULL;
            return bad_json(f, json_tokener_error_desc(error), ret_error);
        }
    }
    return FRAMER_MORE;
}
