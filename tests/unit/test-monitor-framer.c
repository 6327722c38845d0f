/*
 * Cutting bytes into messages: pieces of every size, malformed input and the way out of it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "monitor/framer.h"

#include <glib.h>
#include <string.h>

#define LIMIT 4096
#define DEPTH 1024

/* What came out: 'm' for a message, 'e' for an error, and the texts. */
typedef struct Seen {
    GString *kinds;
    GString *texts;
} Seen;

static void feed(JsonFramer *framer, const char *data, size_t len, Seen *seen)
{
    framer_begin_write(framer);
    while (len) {
        json_object *message = NULL;
        char *error = NULL;
        size_t used = 0;
        FramerResult result = framer_feed(framer, data, len, &used, &message, &error);

        g_assert_cmpuint(used, <=, len);
        if (result == FRAMER_MORE) {
            g_assert_cmpuint(used, ==, len);
        }
        if (result == FRAMER_MESSAGE) {
            g_string_append_c(seen->kinds, 'm');
            g_string_append(seen->texts, json_object_to_json_string_ext(message, 0));
            json_object_put(message);
        } else if (result == FRAMER_ERROR) {
            g_string_append_c(seen->kinds, 'e');
            g_string_append_printf(seen->texts, "<%s>", error);
            g_free(error);
        }
        data += used;
        len -= used;
    }
}

static void check_pieces(const char *input, size_t len, size_t piece, const char *kinds)
{
    JsonFramer *framer = framer_new(LIMIT, DEPTH);
    Seen seen = { g_string_new(NULL), g_string_new(NULL) };

    for (size_t at = 0; at < len; at += piece) {
        feed(framer, input + at, MIN(piece, len - at), &seen);
    }
    if (strcmp(seen.kinds->str, kinds) != 0) {
        g_error("input \"%s\" in pieces of %zu: \"%s\" (%s) instead of \"%s\"", input, piece,
                seen.kinds->str, seen.texts->str, kinds);
    }
    g_string_free(seen.kinds, TRUE);
    g_string_free(seen.texts, TRUE);
    framer_free(framer);
}

static void check(const char *input, const char *kinds)
{
    check_pieces(input, strlen(input), strlen(input), kinds);
}

/* However the bytes are cut. */
static void check_always(const char *input, const char *kinds)
{
    for (size_t piece = 1; piece <= strlen(input); piece++) {
        check_pieces(input, strlen(input), piece, kinds);
    }
}

static void test_messages(void)
{
    check_always("{\"a\":1}", "m");
    check_always("{\"a\":1}\r\n{\"b\":[1,{\"c\":\"}{\\\"\"}]}\n", "mm");
    check_always("{}{} {\"a\":[]}", "mmm");
    check_always("{'a': 'it\\'s \"x\"'}\n", "m");
    check_always("{\"\xc3\xa9\":\"\xe2\x82\xac\xf0\x9f\x98\x80\"}", "m");
    check_always("{\n \"a\":\n  {\n\"b\": 1 }\n}\n{}", "mm");
    check_always("\n\n \r\n", "");
    check_always("{\"a\":18446744073709551615,\"b\":-9223372036854775808,\"c\":1e400}", "m");
}

static void test_malformed(void)
{
    static const char *const lines[] = {
        "{\"a\":1,}",
        "{]",
        "}",
        "]]]",
        "[]",
        "[",
        "[{}",
        "null",
        "foo",
        "12",
        "\"text\"",
        "{\"a\" 1}",
        "{\"a\":1 2}",
        "{\"a\":NaN}",
        "{\"a\":Infinity}",
        "{\"a\":01}",
        "{\"a\":tru}",
        "{\"a\":\"\x01\"}",
        "{\"a\":\"\xff\"}",
        "{\"a\":\"\\q\"}",
        "{\"a\":18446744073709551616}",
        "{\"a\":-9223372036854775809}",
        "{\"a\":/* x */1}",
        "\xff",
        "{\"execute\":\"x\"",
        "{\"execute\":\"x",
        "{{{{[[[",
        "{\"a\": foo {\"x\": 1}}",
        "<html>{{}",
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(lines); i++) {
        g_autofree char *input = g_strdup_printf("%s\n{\"a\":1}\n{\"b\":2}\n", lines[i]);

        check_pieces(input, strlen(input), strlen(input), "emm");
        /* Cut at the line ends, as clients write. */
        JsonFramer *framer = framer_new(LIMIT, DEPTH);
        Seen seen = { g_string_new(NULL), g_string_new(NULL) };

        feed(framer, input, strlen(lines[i]) + 1, &seen);
        feed(framer, input + strlen(lines[i]) + 1, strlen(input) - strlen(lines[i]) - 1, &seen);
        g_assert_cmpstr(seen.kinds->str, ==, "emm");
        g_string_free(seen.kinds, TRUE);
        g_string_free(seen.texts, TRUE);
        framer_free(framer);
    }
}

static void test_same_line(void)
{
    check("{\"a\":1,}{\"b\":2}\n", "em");
    check("foo {\"b\":2} bar {\"c\":3}\n{}", "emmm");
    check("{]}}{\"a\":1]{}{\n", "em");
    check("{\"a\":\n{\"b\":1}\n}\n", "m");
}

static void test_limits(void)
{
    g_autofree char *filler = g_strnfill(LIMIT, 'x');
    g_autofree char *too_long = g_strdup_printf("{\"a\":\"%s\"}\n{}\n", filler);
    g_autofree char *open = g_strnfill(DEPTH - 1, '[');
    g_autofree char *close = g_strnfill(DEPTH - 1, ']');
    g_autofree char *deep = g_strdup_printf("{\"a\":%s%s}\n{}\n", open, close);
    g_autofree char *too_deep = g_strdup_printf("{\"a\":[%s%s]}\n{}\n", open, close);

    check(too_long, "em");
    check(deep, "mm");
    check(too_deep, "em");
}

static void test_reset(void)
{
    JsonFramer *framer = framer_new(LIMIT, DEPTH);
    Seen seen = { g_string_new(NULL), g_string_new(NULL) };

    feed(framer, "{\"a\":[", 6, &seen);
    framer_reset(framer);
    feed(framer, "{}", 2, &seen);
    feed(framer, "{{", 2, &seen);
    framer_reset(framer);
    feed(framer, "{}", 2, &seen);
    g_assert_cmpstr(seen.kinds->str, ==, "mem");
    g_string_free(seen.kinds, TRUE);
    g_string_free(seen.texts, TRUE);
    framer_free(framer);
}

/* A line of random bytes: at most one error, and the line after it is always understood. */
static void test_garbage_lines(void)
{
    static const char likely[] = "{}[]\"':,\\ 01-.eNtrue\xff\xc3\t";

    for (int round = 0; round < 20000; round++) {
        JsonFramer *framer = framer_new(LIMIT, DEPTH);
        Seen seen = { g_string_new(NULL), g_string_new(NULL) };
        g_autoptr(GString) line = g_string_new(NULL);

        for (int n = g_test_rand_int_range(0, 60); n > 0; n--) {
            char c = g_test_rand_bit() ? likely[g_test_rand_int_range(0, sizeof(likely) - 1)]
                                       : g_test_rand_int_range(1, 256);

            g_string_append_c(line, c == '\n' ? ' ' : c);
        }
        g_string_append(line, "\n");
        feed(framer, line->str, line->len, &seen);
        feed(framer, "{\"x\":1}\n{\"y\":2}\n", 16, &seen);
        unsigned errors = 0;

        for (size_t i = 0; i < seen.kinds->len; i++) {
            errors += seen.kinds->str[i] == 'e';
        }
        /* A line that is the beginning of a message fails where the next one begins. */
        g_assert_cmpuint(errors, <=, 1);
        g_assert_true(g_str_has_suffix(seen.kinds->str, "m"));
        g_assert_nonnull(strstr(seen.texts->str, "{\"y\":2}"));
        g_string_free(seen.kinds, TRUE);
        g_string_free(seen.texts, TRUE);
        framer_free(framer);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/monitor/framer/messages", test_messages);
    g_test_add_func("/monitor/framer/malformed", test_malformed);
    g_test_add_func("/monitor/framer/same-line", test_same_line);
    g_test_add_func("/monitor/framer/limits", test_limits);
    g_test_add_func("/monitor/framer/reset", test_reset);
    g_test_add_func("/monitor/framer/garbage-lines", test_garbage_lines);
    return g_test_run();
}
