/*
 * The outer form of streams, options and addresses: what is accepted and what is not.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <glib.h>
#include <string.h>

#include "migration/channel.h"
#include "migration/options.h"
#include "migration/section.h"
#include "migration/stream.h"
#include "util/error.h"
#include "util/json.h"

/* --- Header --- */

static void test_header(void)
{
    for (int mapped = 0; mapped < 2; mapped++) {
        g_autoptr(GByteArray) out = g_byte_array_new();
        StreamConfig put = { .machine_type = (char *)"pc-i440fx-8.2", .mapped_ram = mapped };
        g_auto(StreamConfig) got = { 0 };
        ByteReader in;

        stream_put_header(out, &put);
        byte_array_put_u8(out, STREAM_EOF);
        in = byte_reader_init(out->data, out->len);
        g_assert_true(stream_get_header(&in, &got, NULL));
        g_assert_cmpstr(got.machine_type, ==, put.machine_type);
        g_assert_true(got.mapped_ram == mapped);
        g_assert_cmpuint(byte_reader_left(&in), ==, 1);
    }
}

/* Every shorter one, and every one with a byte made extreme, is refused or reads something else. */
static void test_bad_header(void)
{
    g_autoptr(GByteArray) out = g_byte_array_new();
    StreamConfig put = { .machine_type = (char *)"pc", .mapped_ram = true };

    stream_put_header(out, &put);
    for (guint len = 0; len < out->len; len++) {
        ByteReader in = byte_reader_init(out->data, len);
        g_auto(StreamConfig) got = { 0 };

        /* Without its subsection the header is whole. */
        g_assert_true(stream_get_header(&in, &got, NULL) == (len == 15));
    }
    for (guint pos = 0; pos < out->len; pos++) {
        g_autofree uint8_t *bad = g_memdup2(out->data, out->len);
        ByteReader in = byte_reader_init(bad, out->len);
        g_auto(StreamConfig) got = { 0 };

        bad[pos] = 0xff;
        g_assert_true(!stream_get_header(&in, &got, NULL) || pos == 15);
    }
}

static void test_unknown_capability(void)
{
    g_autoptr(GByteArray) out = g_byte_array_new();
    StreamConfig put = { .machine_type = (char *)"pc", .mapped_ram = true };
    g_auto(StreamConfig) got = { 0 };
    g_autoptr(GError) err = NULL;
    ByteReader in;

    stream_put_header(out, &put);
    memcpy(out->data + out->len - strlen("mapped-ram"), "x-ignore-s", strlen("mapped-ram"));
    in = byte_reader_init(out->data, out->len);
    g_assert_false(stream_get_header(&in, &got, &err));
    g_assert_nonnull(strstr(err->message, "x-ignore-s"));
}

/* --- Device sections --- */

typedef struct Thing {
    uint32_t a;
    uint64_t b;
} Thing;

static const VMStateField thing_fields[] = {
    VMSTATE_UINT32(a, Thing),
    VMSTATE_UINT64(b, Thing),
    VMSTATE_END_OF_LIST(),
};

static const VMStateDescription vmstate_thing = {
    .name = "thing", .version_id = 2, .minimum_version_id = 1, .fields = thing_fields
};

static VMStateRegistry *thing_registry(Thing *thing, const char *name)
{
    VMStateRegistry *r = vmstate_registry_new();

    g_assert_true(vmstate_register(r, name, 0, 0, &vmstate_thing, thing, NULL));
    return r;
}

static GByteArray *save_thing(Thing *thing)
{
    g_autoptr(VMStateRegistry) r = thing_registry(thing, "thing");
    g_autoptr(json_object) description = json_object_new_object();
    json_object *devices = json_object_new_array();
    GByteArray *out = g_byte_array_new();

    json_object_object_add(description, "devices", devices);
    sections_save(r, out, devices);
    g_assert_cmpuint(json_object_array_length(devices), ==, 1);
    stream_put_end(out, description);
    return out;
}

static void test_sections(void)
{
    Thing thing = { 0x11223344, 0x5566778899aabbcc }, got = { 0 };
    g_autoptr(GByteArray) out = save_thing(&thing);
    g_autoptr(VMStateRegistry) r = thing_registry(&got, "thing");
    ByteReader in = byte_reader_init(out->data, out->len);
    g_autoptr(GError) err = NULL;

    sections_load(r, &in, &err);
    g_assert_no_error(err);
    g_assert_cmphex(got.a, ==, thing.a);
    g_assert_cmphex(got.b, ==, thing.b);
    for (guint len = 0; len < out->len; len++) {
        in = byte_reader_init(out->data, len);
        g_assert_false(sections_load(r, &in, NULL));
    }
}

static void assert_sections_refused(VMStateRegistry *r, const GByteArray *out, const char *text)
{
    ByteReader in = byte_reader_init(out->data, out->len);
    g_autoptr(GError) err = NULL;

    g_assert_false(sections_load(r, &in, &err));
    if (!strstr(err->message, text)) {
        g_error("'%s' is not in '%s'", text, err->message);
    }
}

static void test_wrong_devices(void)
{
    Thing thing = { 1, 2 };
    g_autoptr(GByteArray) out = save_thing(&thing);
    g_autoptr(VMStateRegistry) other = thing_registry(&thing, "other");
    g_autoptr(VMStateRegistry) more = thing_registry(&thing, "thing");

    assert_sections_refused(other, out, "'thing'");
    g_assert_true(vmstate_register(more, "second", 0, 0, &vmstate_thing, &thing, NULL));
    assert_sections_refused(more, out, "no section for 'second'");
}

static void test_newer_version(void)
{
    Thing thing = { 1, 2 };
    g_autoptr(GByteArray) out = save_thing(&thing);
    g_autoptr(VMStateRegistry) r = thing_registry(&thing, "thing");

    /* mark, id, name with its length, instance: then the version. */
    out->data[1 + 4 + 6 + 4 + 3] = 9;
    assert_sections_refused(r, out, "version 9");
}

/* --- Addresses --- */

static void test_addresses(void)
{
    static const struct {
        const char *uri;
        ChannelKind kind;
        const char *name, *port;
        uint64_t offset;
    } good[] = {
        { "file:/a/b", CHANNEL_FILE, "/a/b", NULL, 0 },
        { "file:/a,b,offset=0x10c2d", CHANNEL_FILE, "/a,b", NULL, 0x10c2d },
        { "file:/dev/fdset/3,offset=4096", CHANNEL_FILE, "/dev/fdset/3", NULL, 4096 },
        { "fd:migrate", CHANNEL_FD, "migrate", NULL, 0 },
        { "exec:cat > x", CHANNEL_EXEC, "cat > x", NULL, 0 },
        { "unix:/s", CHANNEL_UNIX, "/s", NULL, 0 },
        { "tcp:host:44", CHANNEL_TCP, "host", "44", 0 },
        { "tcp:[::1]:44", CHANNEL_TCP, "::1", "44", 0 },
        { "tcp::44", CHANNEL_TCP, "", "44", 0 },
    };

    for (size_t i = 0; i < G_N_ELEMENTS(good); i++) {
        g_autoptr(MigrationAddress) a = migration_address_parse(good[i].uri, NULL);

        g_assert_nonnull(a);
        g_assert_cmpint(a->kind, ==, good[i].kind);
        g_assert_cmpstr(a->name, ==, good[i].name);
        g_assert_cmpstr(a->port, ==, good[i].port);
        g_assert_cmpuint(a->offset, ==, good[i].offset);
    }
}

static void test_bad_addresses(void)
{
    static const char *const bad[] = { "",         "rdma:x",    "file:", "file:/a,offset=-1",
                                       "tcp:host", "tcp:host:", "fd:",   "file:/a,offset=20E",
                                       "/a/b",     "File:/a" };

    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GError) err = NULL;

        g_assert_null(migration_address_parse(bad[i], &err));
        g_assert_nonnull(err);
    }
}

/* --- Options --- */

static void test_options(void)
{
    MigrationParameters set = { .has_multifd_channels = true, .multifd_channels = 7 };
    MigrationOptions options, copy;
    g_autoptr(GError) err = NULL;

    migration_options_init(&options);
    g_assert_true(options.parameters->has_max_bandwidth);
    g_assert_cmpuint(options.parameters->max_bandwidth, ==, 0);
    g_assert_true(migration_options_set_parameters(&options, &set, NULL));
    g_assert_true(migration_options_set_global(&options, "x-multifd", "on", NULL));
    g_assert_cmpuint(migration_options_threads(&options), ==, 7);
    set.multifd_channels = 0;
    g_assert_false(migration_options_set_parameters(&options, &set, &err));
    g_assert_nonnull(strstr(err->message, "multifd-channels"));
    migration_options_copy(&copy, &options);
    migration_options_clear(&options);
    g_assert_cmpuint(migration_options_threads(&copy), ==, 7);
    migration_options_clear(&copy);
}

static void test_globals(void)
{
    static const char *const good[][2] = {
        { "ram-save-mode", "incremental" },
        { "ram-restore-mode", "copy" },
        { "max-bandwidth", "1G" },
        { "direct-io", "on" },
        { "ram-parent", "/some/file" },
        { "mapped-ram", "off" },
        { "x-events", "on" },
        { "x-ram-restore-hugepage-hint", "on" },
    };
    static const char *const bad[][2] = {
        { "ram-save-mod", "full" },    { "ram-save-mode", "fully" }, { "direct-io", "maybe" },
        { "max-bandwidth", "fast" },   { "x-events", "1" },          { "multifd-channels", "0" },
        { "multifd-channels", "256" },
    };
    MigrationOptions options;

    migration_options_init(&options);
    for (size_t i = 0; i < G_N_ELEMENTS(good); i++) {
        g_autoptr(GError) err = NULL;

        migration_options_set_global(&options, good[i][0], good[i][1], &err);
        g_assert_no_error(err);
    }
    g_assert_cmpint(options.parameters->ram_save_mode, ==, RAM_SAVE_MODE_INCREMENTAL);
    g_assert_cmpuint(options.parameters->max_bandwidth, ==, 1u << 30);
    g_assert_cmpuint(options.parameters->ram_parent->len, ==, 1);
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GError) err = NULL;

        g_assert_false(migration_options_set_global(&options, bad[i][0], bad[i][1], &err));
        g_assert_nonnull(err);
    }
    migration_options_clear(&options);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/migration-stream/header", test_header);
    g_test_add_func("/migration-stream/bad-header", test_bad_header);
    g_test_add_func("/migration-stream/unknown-capability", test_unknown_capability);
    g_test_add_func("/migration-stream/sections", test_sections);
    g_test_add_func("/migration-stream/wrong-devices", test_wrong_devices);
    g_test_add_func("/migration-stream/newer-version", test_newer_version);
    g_test_add_func("/migration-stream/addresses", test_addresses);
    g_test_add_func("/migration-stream/bad-addresses", test_bad_addresses);
    g_test_add_func("/migration-stream/options", test_options);
    g_test_add_func("/migration-stream/globals", test_globals);
    return g_test_run();
}
