/*
 * The visitors: JSON and key=value text to values and back, errors and their wording.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qapi/qapi-types.h"

#include <math.h>
#include <string.h>

#include "util/json.h"
#include "util/keyval.h"

static json_object *parse(const char *text)
{
    json_object *json = json_tokener_parse(text);

    g_assert_true(json || strcmp(text, "null") == 0);
    return json;
}

static void *accept(const QapiType *type, const char *text)
{
    g_autoptr(json_object) json = parse(text);
    g_autoptr(GError) error = NULL;
    void *value = qapi_from_json(type, json, &error);

    g_assert_no_error(error);
    g_assert_nonnull(value);
    return value;
}

static void refuse(const QapiType *type, const char *text, const char *expected)
{
    g_autoptr(json_object) json = parse(text);
    g_autoptr(GError) error = NULL;
    void *value = qapi_from_json(type, json, &error);

    g_assert_null(value);
    g_assert_nonnull(error);
    if (!g_str_has_prefix(error->message, expected)) {
        g_error("for %s: \"%s\" instead of \"%s\"", text, error->message, expected);
    }
}

static void *accept_keyval(const QapiType *type, const char *text, const char *implied)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(json_object) json = keyval_parse(text, implied, &error);
    void *value = qapi_from_keyval(type, json, &error);

    g_assert_no_error(error);
    return value;
}

static void refuse_keyval(const QapiType *type, const char *text, const char *expected)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(json_object) json = keyval_parse(text, NULL, &error);

    g_assert_no_error(error);
    g_assert_null(qapi_from_keyval(type, json, &error));
    g_assert_nonnull(error);
    if (!g_str_has_prefix(error->message, expected)) {
        g_error("for %s: \"%s\" instead of \"%s\"", text, error->message, expected);
    }
}

/* Accepted, and its JSON form is @expected. */
static void round_trip(const QapiType *type, const char *text, const char *expected)
{
    void *value = accept(type, text);
    void *copy = qapi_clone(type, value);
    g_autoptr(json_object) json = qapi_to_json(type, copy);

    g_assert_cmpstr(json_object_to_json_string_ext(json, JSON_C_TO_STRING_NOSLASHESCAPE), ==,
                    expected);
    qapi_free(type, value);
    qapi_free(type, copy);
}

static void test_struct(void)
{
    g_autoptr(MigrationParameters) params =
        accept(&qapi_type_MigrationParameters,
               "{\"max-bandwidth\": 9223372036853727232, \"multifd-channels\": 4,"
               " \"direct-io\": false, \"ram-save-mode\": \"incremental\","
               " \"ram-parent\": [\"/a\", \"/b\"]}");

    g_assert_true(params->has_max_bandwidth);
    g_assert_cmpuint(params->max_bandwidth, ==, 9223372036853727232u);
    g_assert_cmpuint(params->multifd_channels, ==, 4);
    g_assert_true(params->has_direct_io);
    g_assert_false(params->direct_io);
    g_assert_false(params->has_ram_restore_mode);
    g_assert_cmpint(params->ram_save_mode, ==, RAM_SAVE_MODE_INCREMENTAL);
    g_assert_cmpuint(params->ram_parent->len, ==, 2);
    g_assert_cmpstr(params->ram_parent->pdata[1], ==, "/b");

    round_trip(&qapi_type_CpuInfoFast,
               "{\"cpu-index\":1,\"qom-path\":\"/x\",\"thread-id\":-5,"
               "\"props\":{\"core-id\":0},\"target\":\"x86_64\"}",
               "{\"cpu-index\":1,\"qom-path\":\"/x\",\"thread-id\":-5,"
               "\"props\":{\"core-id\":0},\"target\":\"x86_64\"}");
}

static void test_union(void)
{
    g_autoptr(ChardevOptions) socket =
        accept(&qapi_type_ChardevOptions,
               "{\"id\":\"c\",\"backend\":\"socket\",\"path\":\"/s\",\"server\":true}");

    g_assert_cmpint(socket->backend, ==, CHARDEV_BACKEND_KIND_SOCKET);
    g_assert_cmpstr(socket->u.socket.path, ==, "/s");
    g_assert_true(socket->u.socket.has_server && socket->u.socket.server);
    round_trip(&qapi_type_ChardevOptions, "{\"backend\":\"null\",\"id\":\"n\"}",
               "{\"backend\":\"null\",\"id\":\"n\"}");
    refuse(&qapi_type_ChardevOptions, "{\"backend\":\"null\",\"id\":\"n\",\"path\":\"x\"}",
           "Parameter 'path' is unexpected");
    refuse(&qapi_type_ChardevOptions, "{\"id\":\"n\",\"path\":\"x\"}",
           "Parameter 'backend' is missing");
    refuse(&qapi_type_ChardevOptions, "{\"backend\":\"file\",\"id\":\"n\",\"pth\":\"x\"}",
           "Parameter 'path' is missing");
    refuse(&qapi_type_ChardevOptions,
           "{\"backend\":\"file\",\"id\":\"n\",\"path\":\"x\",\"appnd\":true}",
           "Parameter 'appnd' is unexpected; did you mean 'append'");
}

static void test_alternate(void)
{
    g_autoptr(StrOrNull) text = accept(&qapi_type_StrOrNull, "\"x\"");
    g_autoptr(StrOrNull) none = accept(&qapi_type_StrOrNull, "null");

    g_assert_cmpint(text->kind, ==, QAPI_JSON_STRING);
    g_assert_cmpstr(text->u.s, ==, "x");
    g_assert_cmpint(none->kind, ==, QAPI_JSON_NULL);
    round_trip(&qapi_type_StrOrNull, "\"x\"", "\"x\"");
    refuse(&qapi_type_StrOrNull, "1",
           "Invalid parameter type for 'argument', expected: string or null");
}

static void test_errors(void)
{
    const QapiType *params = &qapi_type_MigrationParameters;
    const QapiType *caps = &qapi_type_MigrateSetCapabilitiesArg;

    refuse(params, "[]", "Invalid parameter type for 'argument', expected: object");
    refuse(params, "null", "Invalid parameter type for 'argument', expected: object");
    refuse(params, "{\"direct-io\":1}",
           "Invalid parameter type for 'direct-io', expected: boolean");
    refuse(params, "{\"direct-io\":null}",
           "Invalid parameter type for 'direct-io', expected: boolean");
    refuse(params, "{\"max-bandwidth\":\"1\"}",
           "Invalid parameter type for 'max-bandwidth', expected: integer");
    refuse(params, "{\"max-bandwidth\":1.5}",
           "Invalid parameter type for 'max-bandwidth', expected: integer");
    refuse(params, "{\"max-bandwidth\":-1}", "Parameter 'max-bandwidth' expects an integer from 0");
    refuse(params, "{\"multifd-channels\":256}",
           "Parameter 'multifd-channels' expects an integer from 0 to 255");
    refuse(params, "{\"ram-parent\":{}}",
           "Invalid parameter type for 'ram-parent', expected: array");
    refuse(params, "{\"ram-parent\":[\"a\",7]}",
           "Invalid parameter type for 'ram-parent[1]', expected: string");
    refuse(params, "{\"ram-save-mode\":\"incremntal\"}",
           "Parameter 'ram-save-mode' does not accept value 'incremntal'; did you mean "
           "'incremental'");
    refuse(params, "{\"ram-savemode\":\"full\"}",
           "Parameter 'ram-savemode' is unexpected; did you mean 'ram-save-mode'");
    refuse(caps, "{}", "Parameter 'capabilities' is missing");
    refuse(caps, "{\"capabilities\":[{\"capability\":\"events\",\"state\":true},{}]}",
           "Parameter 'capabilities[1].capability' is missing");
    refuse(caps, "{\"capabilities\":[{\"capability\":\"events\",\"state\":true,\"x\":1}]}",
           "Parameter 'capabilities[0].x' is unexpected");
    refuse(&qapi_type_GetfdArg, "{\"fdname\":\"a\\u0000b\"}",
           "Parameter 'fdname' must not contain a NUL character");
    refuse(&qapi_type_MigrationStats, "{\"transferred\":\"\"}",
           "Invalid parameter type for 'transferred', expected: integer");
}

/* Integers of every width at the ends of their ranges. */
static void test_integers(void)
{
    static const struct {
        const QapiType *type;
        const char *low, *high, *below, *above;
    } rows[] = {
        { &qapi_type_int8, "-128", "127", "-129", "128" },
        { &qapi_type_int16, "-32768", "32767", "-32769", "32768" },
        { &qapi_type_int32, "-2147483648", "2147483647", "-2147483649", "2147483648" },
        { &qapi_type_int, "-9223372036854775808", "9223372036854775807", NULL,
          "9223372036854775808" },
        { &qapi_type_uint8, "0", "255", "-1", "256" },
        { &qapi_type_uint16, "0", "65535", "-1", "65536" },
        { &qapi_type_uint32, "0", "4294967295", "-1", "4294967296" },
        { &qapi_type_uint64, "0", "18446744073709551615", "-1", NULL },
        { &qapi_type_size, "0", "18446744073709551615", "-9223372036854775808", NULL },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(rows); i++) {
        const QapiType list = { .kind = QAPI_KIND_LIST, .name = "l", .element = rows[i].type };
        g_autofree char *good = g_strdup_printf("[%s,%s]", rows[i].low, rows[i].high);

        round_trip(&list, good, good);
        if (rows[i].below) {
            g_autofree char *bad = g_strdup_printf("[%s]", rows[i].below);

            refuse(&list, bad, "Parameter 'argument[0]' expects an integer from ");
        }
        if (rows[i].above) {
            g_autofree char *bad = g_strdup_printf("[0,%s]", rows[i].above);

            refuse(&list, bad, "Parameter 'argument[1]' expects an integer from ");
        }
    }
}

static void test_number(void)
{
    const QapiType list = { .kind = QAPI_KIND_LIST, .name = "l", .element = &qapi_type_number };
    GArray *numbers = accept(&list, "[1, -2.5, 1e3]");

    g_assert_cmpfloat(g_array_index(numbers, double, 0), ==, 1);
    g_assert_cmpfloat(g_array_index(numbers, double, 1), ==, -2.5);
    g_assert_cmpfloat(g_array_index(numbers, double, 2), ==, 1000);
    qapi_free(&list, numbers);
    refuse(&list, "[1e999]", "Invalid parameter type for 'argument[0]', expected: finite number");
    refuse(&list, "[true]", "Invalid parameter type for 'argument[0]', expected: number");
}

static void test_keyval(void)
{
    g_autoptr(MemoryBackendFileProperties) file = accept_keyval(
        &qapi_type_MemoryBackendFileProperties,
        "size=2G,mem-path=/a,,b,share=on,offset=0x1000,align=2M,prealloc=off,prealloc-threads=8,"
        "host-nodes=0-2,policy=bind",
        NULL);
    g_autoptr(SMPConfiguration) smp =
        accept_keyval(&qapi_type_SMPConfiguration, "4,cores=2", "cpus");
    g_autoptr(MigrationParameters) list =
        accept_keyval(&qapi_type_MigrationParameters, "ram-parent.0=/a,ram-parent.1=/b", NULL);
    g_autoptr(MigrationParameters) one =
        accept_keyval(&qapi_type_MigrationParameters, "ram-parent=/a", NULL);

    g_assert_cmpuint(file->size, ==, 2ull << 30);
    g_assert_cmpstr(file->mem_path, ==, "/a,b");
    g_assert_true(file->share && file->has_prealloc && !file->prealloc);
    g_assert_cmpuint(file->offset, ==, 4096);
    g_assert_cmpuint(file->align, ==, 2 << 20);
    g_assert_cmpuint(file->host_nodes->len, ==, 3);
    g_assert_cmpuint(g_array_index(file->host_nodes, uint16_t, 2), ==, 2);
    g_assert_cmpint(file->policy, ==, HOST_MEM_POLICY_BIND);
    g_assert_cmpuint(smp->cpus, ==, 4);
    g_assert_cmpuint(list->ram_parent->len, ==, 2);
    g_assert_cmpuint(one->ram_parent->len, ==, 1);
}

static void test_keyval_errors(void)
{
    const QapiType *file = &qapi_type_MemoryBackendFileProperties;

    refuse_keyval(file, "size=2Q,mem-path=a", "Parameter 'size' expects a size such as");
    refuse_keyval(file, "size=1,mem-path=a,share=maybe",
                  "Parameter 'share' expects 'on' or 'off', not 'maybe'");
    refuse_keyval(file, "size=1,mem-path=a,prealloc-threads=-1",
                  "Parameter 'prealloc-threads' expects an integer from 0");
    refuse_keyval(file, "size=1,mem-path=a,prealloc-threads=4x",
                  "Parameter 'prealloc-threads' expects an integer, not '4x'");
    refuse_keyval(file, "size=1,mem-path=a,host-nodes=3-1",
                  "Parameter 'host-nodes' expects an integer, not '3-1'");
    refuse_keyval(file, "size=1,mem-path=a,prealloc-threads=99999999999999999999",
                  "Parameter 'prealloc-threads' expects an integer, not ");
    refuse_keyval(file, "size.a=1,mem-path=a",
                  "Invalid parameter type for 'size', expected: integer");
}

static void test_bool_words(void)
{
    bool value = false;

    g_assert_true(qapi_parse_bool("on", &value) && value);
    g_assert_true(qapi_parse_bool("no", &value) && !value);
    g_assert_true(qapi_parse_bool("y", &value) && value);
    g_assert_false(qapi_parse_bool("", &value));
    g_assert_false(qapi_parse_bool("ON", &value));
}

static void test_enum(void)
{
    g_autoptr(GError) error = NULL;
    RunState state = RUN_STATE__MAX;

    g_assert_cmpstr(run_state_str(RUN_STATE_IO_ERROR), ==, "io-error");
    g_assert_cmpstr(run_state_str(RUN_STATE__MAX), ==, "?");
    g_assert_true(run_state_parse("paused", &state, NULL));
    g_assert_cmpint(state, ==, RUN_STATE_PAUSED);
    g_assert_false(run_state_parse("pausd", &state, &error));
    g_assert_nonnull(strstr(error->message, "'paused'"));
}

/* Lists may bring an element_free_func or not. */
static void test_free_lists(void)
{
    GPtrArray *with = g_ptr_array_new_with_free_func((GDestroyNotify)qapi_free_CommandInfo);
    CommandInfo *info = g_new0(CommandInfo, 1);

    info->name = g_strdup("x");
    g_ptr_array_add(with, info);
    qapi_free(&qapi_type_CommandInfoList, with);
    qapi_free(&qapi_type_CommandInfoList, g_ptr_array_new());
    qapi_free(&qapi_type_CommandInfoList, NULL);
}

static void test_bad_utf8_out(void)
{
    g_autoptr(CommandInfo) info = g_new0(CommandInfo, 1);

    info->name = g_strdup("a\xff");
    g_autoptr(json_object) json = qapi_to_json(&qapi_type_CommandInfo, info);

    g_assert_true(g_utf8_validate(json_object_to_json_string(json), -1, NULL));
}

/* ---- Random values ---- */

static const QapiType *const random_types[] = {
    &qapi_type_MigrationParameters, &qapi_type_MigrationInfo, &qapi_type_ChardevOptions,
    &qapi_type_ObjectOptions,       &qapi_type_SchemaInfo,    &qapi_type_StrOrNull,
    &qapi_type_RamRestoreInfo,      &qapi_type_FdsetInfo,     &qapi_type_ObjectPropertyInfo,
    &qapi_type_CpuInfoFast,         &qapi_type_MachineInfo,   &qapi_type_CommandLineOptionInfo,
};

static json_object *random_valid(const QapiType *type, int depth);

static void random_members(const QapiType *type, json_object *json, int depth)
{
    for (unsigned i = 0; i < type->n_members; i++) {
        const QapiMember *member = &type->members[i];

        if (!member->optional || (depth < 6 && g_test_rand_int_range(0, 2))) {
            json_object_object_add(json, member->name, random_valid(member->type, depth + 1));
        }
    }
}

static json_object *random_object(const QapiType *type, int depth)
{
    json_object *json = json_object_new_object(), *tag;

    random_members(type, json, depth);
    if (type->tag && json_object_object_get_ex(json, type->tag->name, &tag)) {
        int value = qapi_enum_find(type->tag->type, json_object_get_string(tag));

        if (type->branches[value]) {
            random_members(type->branches[value], json, depth);
        }
    }
    return json;
}

static json_object *random_valid(const QapiType *type, int depth)
{
    json_object *json;

    switch (type->kind) {
    case QAPI_KIND_STR:
        return json_object_new_string(g_test_rand_bit() ? "" : "\xc3\xa9\"\\/\n");
    case QAPI_KIND_BOOL:
    case QAPI_KIND_ANY:
        return json_object_new_boolean(g_test_rand_bit());
    case QAPI_KIND_INT:
        return json_object_new_int(g_test_rand_int_range(0, 128));
    case QAPI_KIND_NUMBER:
        return json_object_new_double(g_test_rand_int() / 4.0);
    case QAPI_KIND_ENUM:
        return json_object_new_string(type->values[g_test_rand_int_range(0, type->n_values)]);
    case QAPI_KIND_OBJECT:
        return random_object(type, depth);
    case QAPI_KIND_ALTERNATE:
        return random_valid(type->members[g_test_rand_int_range(0, type->n_members)].type, depth);
    case QAPI_KIND_LIST:
        json = json_object_new_array();
        for (int n = g_test_rand_int_range(0, 4); n > 0; n--) {
            json_object_array_add(json, random_valid(type->element, depth + 1));
        }
        return json;
    default:
        return NULL;
    }
}

/* Every valid value is taken and comes out as it went in. */
static void test_random_valid(void)
{
    for (int i = 0; i < 4000; i++) {
        const QapiType *type = random_types[i % G_N_ELEMENTS(random_types)];
        g_autoptr(json_object) json = random_valid(type, 0);
        g_autoptr(GError) error = NULL;
        void *value = qapi_from_json(type, json, &error);

        g_assert_no_error(error);
        g_autoptr(json_object) back = qapi_to_json(type, value);

        g_assert_true(json_object_equal(json, back));
        qapi_free(type, value);
    }
}

/* Damage one place of @json: another type, a member more or less, an odd value. */
static void damage(json_object *json)
{
    static const char *const odd[] = { "null", "true", "-1",     "1e9",     "\"\"",
                                       "[]",   "{}",   "[[[]]]", "\"auto\"" };
    const char *text = odd[g_test_rand_int_range(0, G_N_ELEMENTS(odd))];

    if (!json_object_is_type(json, json_type_object)) {
        return;
    }
    int at = g_test_rand_int_range(0, json_object_object_length(json) + 1);

    json_object_object_foreach(json, name, value)
    {
        if (at-- > 0) {
            continue;
        }
        if (json_object_is_type(value, json_type_object) && g_test_rand_bit()) {
            damage(value);
        } else if (g_test_rand_bit()) {
            json_object_object_del(json, name);
        } else {
            json_object_object_add(json, name, json_tokener_parse(text));
        }
        return;
    }
    json_object_object_add(json, "extra", json_tokener_parse(text));
}

/* Damaged values are refused with an error or taken as something that can be written again. */
static void test_random_damaged(void)
{
    for (int i = 0; i < 8000; i++) {
        const QapiType *type = random_types[i % G_N_ELEMENTS(random_types)];
        g_autoptr(json_object) json = random_valid(type, 0);
        g_autoptr(GError) error = NULL;

        damage(json);
        bool keyval = g_test_rand_bit();
        void *value =
            keyval ? qapi_from_keyval(type, json, &error) : qapi_from_json(type, json, &error);

        g_assert_true((value == NULL) == (error != NULL));
        if (value) {
            void *copy = qapi_clone(type, value);

            g_assert_nonnull(copy);
            qapi_free(type, copy);
            qapi_free(type, value);
        }
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/qapi/visit/struct", test_struct);
    g_test_add_func("/qapi/visit/union", test_union);
    g_test_add_func("/qapi/visit/alternate", test_alternate);
    g_test_add_func("/qapi/visit/errors", test_errors);
    g_test_add_func("/qapi/visit/integers", test_integers);
    g_test_add_func("/qapi/visit/number", test_number);
    g_test_add_func("/qapi/visit/keyval", test_keyval);
    g_test_add_func("/qapi/visit/keyval-errors", test_keyval_errors);
    g_test_add_func("/qapi/visit/bool-words", test_bool_words);
    g_test_add_func("/qapi/visit/enum", test_enum);
    g_test_add_func("/qapi/visit/free-lists", test_free_lists);
    g_test_add_func("/qapi/visit/bad-utf8-out", test_bad_utf8_out);
    g_test_add_func("/qapi/visit/random-valid", test_random_valid);
    g_test_add_func("/qapi/visit/random-damaged", test_random_damaged);
    return g_test_run();
}
