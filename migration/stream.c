/*
 * The outer form of a migration stream: magic, configuration, section heads and footers.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "migration/stream.h"

#include <string.h>

#include "util/error.h"
#include "util/json.h"

#define SUBSECTION_MARK 0x05
#define CONFIG_VERSION 1
#define CAPABILITIES_NAME "configuration/capabilities"
#define MAPPED_RAM_NAME "mapped-ram"
#define MACHINE_NAME_MAX 255
/* More capabilities than anybody has; keeps a hostile count from looping. */
#define CAPABILITIES_MAX 64

void stream_config_clear(StreamConfig *config)
{
    g_clear_pointer(&config->machine_type, g_free);
}

static void put_bytes(GByteArray *out, const char *text)
{
    g_byte_array_append(out, (const uint8_t *)text, strlen(text));
}

void stream_put_header(GByteArray *out, const StreamConfig *config)
{
    byte_array_put_be32(out, STREAM_MAGIC);
    byte_array_put_be32(out, STREAM_VERSION);
    byte_array_put_u8(out, STREAM_CONFIGURATION);
    byte_array_put_be32(out, strlen(config->machine_type));
    put_bytes(out, config->machine_type);
    if (config->mapped_ram) {
        byte_array_put_u8(out, SUBSECTION_MARK);
        byte_array_put_counted_string(out, CAPABILITIES_NAME);
        byte_array_put_be32(out, CONFIG_VERSION);
        byte_array_put_be32(out, 1);
        byte_array_put_counted_string(out, MAPPED_RAM_NAME);
    }
}

void stream_put_section(GByteArray *out, StreamMark mark, uint32_t id, const char *idstr,
                        uint32_t instance_id, uint32_t version)
{
    byte_array_put_u8(out, mark);
    byte_array_put_be32(out, id);
    byte_array_put_counted_string(out, idstr);
    byte_array_put_be32(out, instance_id);
    byte_array_put_be32(out, version);
}

void stream_put_section_more(GByteArray *out, StreamMark mark, uint32_t id)
{
    byte_array_put_u8(out, mark);
    byte_array_put_be32(out, id);
}

void stream_put_footer(GByteArray *out, uint32_t id)
{
    byte_array_put_u8(out, STREAM_SECTION_FOOTER);
    byte_array_put_be32(out, id);
}

void stream_put_end(GByteArray *out, json_object *description)
{
    const char *text = json_object_to_json_string_ext(description, JSON_C_TO_STRING_PLAIN);

    byte_array_put_u8(out, STREAM_EOF);
    byte_array_put_u8(out, STREAM_VMDESCRIPTION);
    byte_array_put_be32(out, strlen(text));
    put_bytes(out, text);
}

static json_object *describe_field(const char *name, const char *type, size_t size)
{
    json_object *field = json_object_new_object();

    json_add_str(field, "name", name);
    json_add_str(field, "type", type);
    json_add_uint(field, "size", size);
    return field;
}

static json_object *describe_capabilities(void)
{
    json_object *sub = json_object_new_object(), *fields = json_object_new_array();

    json_add_str(sub, "vmsd_name", CAPABILITIES_NAME);
    json_add_int(sub, "version", CONFIG_VERSION);
    json_object_array_add(fields, describe_field("caps_count", "uint32", 4));
    json_object_array_add(
        fields, describe_field("capabilities", "capability", 1 + strlen(MAPPED_RAM_NAME)));
    json_object_object_add(sub, "fields", fields);
    return sub;
}

json_object *stream_describe_config(const StreamConfig *config)
{
    json_object *desc = json_object_new_object(), *fields = json_object_new_array();

    json_add_str(desc, "vmsd_name", "configuration");
    json_add_int(desc, "version", CONFIG_VERSION);
    json_object_array_add(fields, describe_field("len", "uint32", 4));
    json_object_array_add(fields, describe_field("name", "buffer", strlen(config->machine_type)));
    json_object_object_add(desc, "fields", fields);
    if (config->mapped_ram) {
        json_object *subs = json_object_new_array();

        json_object_array_add(subs, describe_capabilities());
        json_object_object_add(desc, "subsections", subs);
    }
    return desc;
}

static bool get_capability(ByteReader *in, StreamConfig *config, GError **errp)
{
    g_autofree char *name = NULL;

    if (!byte_reader_get_counted_string(in, &name, errp)) {
        return false;
    }
    if (strcmp(name, MAPPED_RAM_NAME) != 0) {
        error_set(errp, "the stream needs the migration capability '%s', which is not supported",
                  name);
        return false;
    }
    config->mapped_ram = true;
    return true;
}

static bool get_subsection(ByteReader *in, StreamConfig *config, GError **errp)
{
    g_autofree char *name = NULL;
    uint32_t version, count;
    uint8_t mark;

    if (!byte_reader_get_u8(in, &mark, errp) || !byte_reader_get_counted_string(in, &name, errp) ||
        !byte_reader_get_be32(in, &version, errp)) {
        return false;
    }
    if (strcmp(name, CAPABILITIES_NAME) != 0 || version != CONFIG_VERSION) {
        error_set(errp, "the stream's configuration has an unknown part '%s' of version %u", name,
                  version);
        return false;
    }
    if (!byte_reader_get_be32(in, &count, errp)) {
        return false;
    }
    if (count > CAPABILITIES_MAX) {
        error_set(errp, "the stream's configuration claims %u capabilities", count);
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!get_capability(in, config, errp)) {
            return false;
        }
    }
    return true;
}

static bool get_machine_type(ByteReader *in, StreamConfig *config, GError **errp)
{
    uint32_t len;

    if (!byte_reader_get_be32(in, &len, errp)) {
        return false;
    }
    if (len == 0 || len > MACHINE_NAME_MAX || len > byte_reader_left(in)) {
        error_set(errp, "the stream's machine name of %u bytes is too long or cut off", len);
        return false;
    }
    config->machine_type = g_strndup((const char *)in->data + in->pos, len);
    if (strlen(config->machine_type) != len || !g_utf8_validate(config->machine_type, -1, NULL)) {
        error_set(errp, "the stream's machine name is not text");
        return false;
    }
    return byte_reader_skip(in, len, errp);
}

static bool get_magic(ByteReader *in, GError **errp)
{
    uint32_t magic, version;
    uint8_t mark;

    if (!byte_reader_get_be32(in, &magic, errp)) {
        return false;
    }
    if (magic != STREAM_MAGIC) {
        error_set(errp, "not a migration stream: it begins with 0x%08x instead of 0x%08x", magic,
                  STREAM_MAGIC);
        return false;
    }
    if (!byte_reader_get_be32(in, &version, errp)) {
        return false;
    }
    if (version != STREAM_VERSION) {
        error_set(errp, "the migration stream has version %u; only %d is supported", version,
                  STREAM_VERSION);
        return false;
    }
    if (!byte_reader_get_u8(in, &mark, errp)) {
        return false;
    }
    if (mark != STREAM_CONFIGURATION) {
        error_set(errp, "the migration stream has no configuration section (0x%02x found)", mark);
        return false;
    }
    return true;
}

bool stream_get_header(ByteReader *in, StreamConfig *ret_config, GError **errp)
{
    g_auto(StreamConfig) config = { 0 };

    if (!get_magic(in, errp) || !get_machine_type(in, &config, errp)) {
        return false;
    }
    while (byte_reader_left(in) && in->data[in->pos] == SUBSECTION_MARK) {
        if (!get_subsection(in, &config, errp)) {
            return false;
        }
    }
    *ret_config = config;
    config.machine_type = NULL;
    return true;
}

bool stream_get_section(ByteReader *in, StreamMark mark, StreamSection *ret_section, GError **errp)
{
    g_autofree char *idstr = NULL;
    StreamSection section = { .mark = mark };

    if (!byte_reader_get_be32(in, &section.id, errp) ||
        !byte_reader_get_counted_string(in, &idstr, errp) ||
        !byte_reader_get_be32(in, &section.instance_id, errp) ||
        !byte_reader_get_be32(in, &section.version, errp)) {
        return false;
    }
    g_strlcpy(section.idstr, idstr, sizeof(section.idstr));
    *ret_section = section;
    return true;
}

bool stream_get_section_more(ByteReader *in, uint32_t want_id, GError **errp)
{
    uint32_t id;

    if (!byte_reader_get_be32(in, &id, errp)) {
        return false;
    }
    if (id != want_id) {
        error_set(errp, "section %u goes on in the stream where section %u was expected", id,
                  want_id);
        return false;
    }
    return true;
}

bool stream_get_footer(ByteReader *in, uint32_t want_id, GError **errp)
{
    uint8_t mark;
    uint32_t id;

    if (!byte_reader_get_u8(in, &mark, errp)) {
        return false;
    }
    if (mark != STREAM_SECTION_FOOTER) {
        error_set(errp, "section %u does not end where it should: 0x%02x instead of a footer",
                  want_id, mark);
        return false;
    }
    if (!byte_reader_get_be32(in, &id, errp)) {
        return false;
    }
    if (id != want_id) {
        error_set(errp, "the footer of section %u names section %u", want_id, id);
        return false;
    }
    return true;
}
