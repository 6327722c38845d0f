/*
 * Tests of util's texts: errors, keyval, JSON, suggestions, sizes, UUIDs, log items.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <errno.h>
#include <string.h>

#include "util/error.h"
#include "util/json.h"
#include "util/keyval.h"
#include "util/log.h"
#include "util/suggest.h"
#include "util/units.h"
#include "util/uuid.h"

static void test_error_classes(void)
{
    g_autoptr(GError) generic = NULL, missing = NULL, system = NULL;

    error_set(&generic, "bad '%s'", "x");
    g_assert_error(generic, COWBIRD_ERROR, COWBIRD_ERROR_GENERIC);
    g_assert_cmpstr(generic->message, ==, "bad 'x'");
    g_assert_cmpstr(error_class_name(generic), ==, "GenericError");

    error_set_class(&missing, COWBIRD_ERROR_COMMAND_NOT_FOUND, "no command");
    g_assert_cmpstr(error_class_name(missing), ==, "CommandNotFound");

    error_set_errno(&system, ENOSPC, "Writing '%s' failed", "f");
    g_assert_cmpstr(system->message, ==, "Writing 'f' failed: No space left on device (errno 28)");
    error_set(NULL, "nobody wants it");
}

static void check_keyval(const char *text, const char *implied, const char *expected)
{
    g_autoptr(GError) err = NULL;
    g_autoptr(json_object) obj = keyval_parse(text, implied, &err);
    g_autofree char *got = NULL;

    g_assert_no_error(err);
    got = json_to_text(obj);
    g_assert_cmpstr(got, ==, expected);
}

static void test_keyval_good(void)
{
    check_keyval("", NULL, "{}");
    check_keyval("a=1", NULL, "{\"a\":\"1\"}");
    check_keyval("a=1,b=", NULL, "{\"a\":\"1\",\"b\":\"\"}");
    check_keyval("a=x,,y,b=,,", NULL, "{\"a\":\"x,y\",\"b\":\",\"}");
    check_keyval("pc,accel=kvm", "type", "{\"type\":\"pc\",\"accel\":\"kvm\"}");
    check_keyval("type=pc", "type", "{\"type\":\"pc\"}");
    check_keyval("a=1,a=2", NULL, "{\"a\":\"2\"}");
    check_keyval("a.b.c=1,a.d=2", NULL, "{\"a\":{\"b\":{\"c\":\"1\"},\"d\":\"2\"}}");
    check_keyval("l.0=x,l.1.k=y", NULL, "{\"l\":[\"x\",{\"k\":\"y\"}]}");
    check_keyval("l.1=b,l.0=a", NULL, "{\"l\":[\"a\",\"b\"]}");
    check_keyval("a=1=2", NULL, "{\"a\":\"1=2\"}");
    check_keyval("ram-restore-mode=copy", NULL, "{\"ram-restore-mode\":\"copy\"}");
}

static void check_keyval_error(const char *text, const char *implied, const char *part)
{
    g_autoptr(GError) err = NULL;
    json_object *obj = keyval_parse(text, implied, &err);

    g_assert_null(obj);
    g_assert_nonnull(err);
    if (!strstr(err->message, part)) {
        g_error("'%s': message '%s' lacks '%s'", text, err->message, part);
    }
}

static void test_keyval_bad(void)
{
    check_keyval_error("server", NULL, "write 'server=on' or 'server=off'");
    check_keyval_error("a=1,nowait", NULL, "'wait=off' for 'nowait'");
    check_keyval_error("a=1,server", "a", "Expected '='");
    check_keyval_error("=1", NULL, "Expected a parameter");
    check_keyval_error(",a=1", "x", "Expected a parameter");
    check_keyval_error("1a=1", NULL, "Invalid parameter '1a'");
    check_keyval_error("0=1", NULL, "Invalid parameter '0'");
    check_keyval_error("a..b=1", NULL, "Invalid parameter 'a..b'");
    check_keyval_error("a b=1", NULL, "Invalid parameter");
    check_keyval_error("a=1,a.b=2", NULL, "both");
    check_keyval_error("a.b=1,a=2", NULL, "both");
    check_keyval_error("l.0=a,l.2=b", NULL, "'l.1' is missing");
    check_keyval_error("l.0=a,l.x=b", NULL, "mix");
    check_keyval_error("l.007=a", NULL, "Invalid parameter");
    check_keyval_error("a=\xff", NULL, "UTF-8");
}

static void test_keyval_long(void)
{
    g_autoptr(GString) deep = g_string_new("a");

    for (int i = 0; i < 100; i++) {
        g_string_append(deep, ".a");
    }
    g_string_append(deep, "=1");
    check_keyval_error(deep->str, NULL, "Invalid parameter");
    g_string_truncate(deep, 0);
    for (int i = 0; i < 200; i++) {
        g_string_append_c(deep, 'k');
    }
    g_string_append(deep, "=1");
    check_keyval_error(deep->str, NULL, "Invalid parameter");
}

static void test_keyval_or_json(void)
{
    g_autoptr(GError) err = NULL, err2 = NULL;
    g_autoptr(json_object) obj =
        keyval_or_json_parse("{\"driver\":\"pvpanic\",\"n\":3}", NULL, &err);

    g_assert_no_error(err);
    g_assert_cmpstr(json_get_str(obj, "driver"), ==, "pvpanic");
    g_assert_null(json_get_str(obj, "n"));
    g_assert_null(keyval_or_json_parse("{\"a\":1", NULL, &err2));
    g_assert_nonnull(strstr(err2->message, "ends too early"));
}

static void test_json_text(void)
{
    static const char *const bad[] = { "",    "{",        "[1,]", "{\"a\":1} x", "null",
                                       "tru", "\"\xff\"", "'a'",  "{a:1}",       "1 2" };
    g_autoptr(GError) err = NULL;
    g_autoptr(json_object) num = json_parse_text("18446744073709551615", 20, &err);

    g_assert_no_error(err);
    g_assert_cmpuint(json_object_get_uint64(num), ==, G_MAXUINT64);
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GError) e = NULL;
        json_object *obj = json_parse_text(bad[i], strlen(bad[i]), &e);

        if (obj) {
            g_error("accepted '%s'", bad[i]);
        }
        g_assert_nonnull(e);
    }
}

static void test_suggest(void)
{
    const char *const names[] = { "copy", "copy-on-write", "on-demand", "auto", NULL };
    const char *const none[] = { NULL };
    g_autofree char *near = suggest_nearest("coyp", names);
    g_autofree char *prefix = suggest_nearest("demand", names);
    g_autofree char *far = suggest_nearest("zzzzzzz", names);
    g_autofree char *long_name = g_strnfill(5000, 'x');
    g_autofree char *from_long = suggest_nearest(long_name, names);

    g_assert_cmpstr(near, ==, "did you mean 'copy'?");
    g_assert_cmpstr(prefix, ==, "did you mean 'on-demand'?");
    g_assert_cmpstr(far, ==, "valid: 'copy', 'copy-on-write', 'on-demand', 'auto'");
    g_assert_nonnull(from_long);
    g_assert_null(suggest_nearest("x", none));
}

static void check_size(const char *text, char suffix, uint64_t expected)
{
    uint64_t size = 0;

    if (!size_parse(text, suffix, &size) || size != expected) {
        g_error("'%s': %" G_GUINT64_FORMAT, text, size);
    }
}

static void test_sizes(void)
{
    static const char *const bad[] = { "",       "-1", "x",   "1x", "1GG",
                                       "1.5.5G", " 1", "16E", "0x", "99999999999999999999",
                                       "1e3",    "G",  "0xG", "1.", "17179869184G" };
    uint64_t size;

    check_size("0", 0, 0);
    check_size("1", 'M', MiB);
    check_size("512M", 0, 512 * MiB);
    check_size("2g", 'M', 2 * GiB);
    check_size("1.5G", 0, 1536 * MiB);
    check_size("0x1000", 0, 4096);
    check_size("100b", 'M', 100);
    check_size("18446744073709551615", 0, UINT64_MAX);
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        if (size_parse(bad[i], 0, &size)) {
            g_error("accepted '%s'", bad[i]);
        }
    }
    g_assert_cmpuint(ROUND_UP(UINT64_C(4097), 4096), ==, 8192);
    g_assert_cmpuint(ROUND_DOWN(UINT64_C(0x1ffffffff), 4096u), ==, 0x1fffff000);
    g_assert_true(IS_ALIGNED(2 * MiB, 2 * MiB));
}

static void test_uuid(void)
{
    const char *text = "0123abcd-4567-89ef-fedc-ba9876543210";
    Uuid a, b = uuid_generate(), c = uuid_generate();
    g_autofree char *back = NULL;

    g_assert_true(uuid_parse(text, &a));
    back = uuid_to_string(&a);
    g_assert_cmpstr(back, ==, text);
    g_assert_cmphex(a.data[0], ==, 0x01);
    g_assert_cmphex(a.data[15], ==, 0x10);
    g_assert_false(uuid_equal(&b, &c));
    g_assert_cmphex(b.data[6] >> 4, ==, 4);
    g_assert_false(uuid_parse("0123abcd-4567-89ef-fedc-ba987654321", &a));
    g_assert_false(uuid_parse("0123abcd04567-89ef-fedc-ba9876543210", &a));
    g_assert_false(uuid_parse("0123abcg-4567-89ef-fedc-ba9876543210", &a));
}

static void test_log_limit(void)
{
    LogLimit limit = { 0 };

    for (int window = 0; window < 3; window++) {
        for (int i = 0; i < 100; i++) {
            g_assert_cmpint(log_limit_pass(&limit), ==, i < 10);
        }
        limit.window -= 5 * G_USEC_PER_SEC;
    }
}

static void test_log_items(void)
{
    g_autoptr(GError) err = NULL, bad = NULL;
    g_autofree char *help = log_help();

    g_assert_false(log_enabled(LOG_QMP));
    g_assert_true(log_set_items("qmp,memory", &err));
    g_assert_true(log_enabled(LOG_QMP));
    g_assert_false(log_enabled(LOG_KVM));
    g_assert_true(log_set_items("none", &err));
    g_assert_false(log_enabled(LOG_QMP));
    g_assert_false(log_set_items("memroy", &bad));
    g_assert_nonnull(strstr(bad->message, "'memory'"));
    g_assert_nonnull(strstr(help, "guest_errors"));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/util/error/classes", test_error_classes);
    g_test_add_func("/util/keyval/good", test_keyval_good);
    g_test_add_func("/util/keyval/bad", test_keyval_bad);
    g_test_add_func("/util/keyval/long", test_keyval_long);
    g_test_add_func("/util/keyval/json", test_keyval_or_json);
    g_test_add_func("/util/json/text", test_json_text);
    g_test_add_func("/util/suggest", test_suggest);
    g_test_add_func("/util/sizes", test_sizes);
    g_test_add_func("/util/uuid", test_uuid);
    g_test_add_func("/util/log", test_log_items);
    g_test_add_func("/util/log-limit", test_log_limit);
    return g_test_run();
}
