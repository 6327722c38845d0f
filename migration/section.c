/*
 * The state of devices and vCPUs as sections of a stream.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "migration/section.h"

#include "migration/stream.h"
#include "util/error.h"
#include "util/json.h"
#include "util/log.h"

typedef struct SaveContext {
    GByteArray *out;
    json_object *devices;
    uint32_t next_id;
} SaveContext;

static void save_entry(const VMStateEntry *e, void *opaque)
{
    SaveContext *c = opaque;
    guint start = c->out->len;
    json_object *desc;

    if (e->vmsd->needed && !e->vmsd->needed(e->opaque)) {
        return;
    }
    stream_put_section(c->out, STREAM_SECTION_FULL, c->next_id, e->idstr, e->instance_id,
                       e->vmsd->version_id);
    vmstate_save(c->out, e->vmsd, e->opaque);
    stream_put_footer(c->out, c->next_id++);
    desc = vmstate_describe(e->vmsd, e->opaque);
    json_add_str(desc, "name", e->idstr);
    json_add_uint(desc, "instance_id", e->instance_id);
    json_object_array_add(c->devices, desc);
    log_printf(LOG_MIGRATION, "migration_save_section: name=%s instance=%u bytes=%u", e->idstr,
               e->instance_id, c->out->len - start);
}

void sections_save(const VMStateRegistry *registry, GByteArray *out, json_object *devices)
{
    SaveContext c = { .out = out, .devices = devices, .next_id = STREAM_SECTION_ID_FIRST_DEVICE };

    vmstate_registry_foreach(registry, save_entry, &c);
}

static bool load_section(const VMStateRegistry *registry, ByteReader *in, GHashTable *seen,
                         GError **errp)
{
    const VMStateEntry *e;
    StreamSection s;

    if (!stream_get_section(in, STREAM_SECTION_FULL, &s, errp)) {
        return false;
    }
    e = vmstate_registry_find(registry, s.idstr, s.instance_id);
    if (!e) {
        error_set(errp,
                  "the state has a section '%s' (instance %u) for a device that this machine does "
                  "not have; start it with the same devices as the one that was saved",
                  s.idstr, s.instance_id);
        return false;
    }
    if (!g_hash_table_add(seen, (gpointer)e)) {
        error_set(errp, "the state has section '%s' (instance %u) twice", s.idstr, s.instance_id);
        return false;
    }
    log_printf(LOG_MIGRATION, "migration_load_section: name=%s instance=%u version=%u", s.idstr,
               s.instance_id, s.version);
    if (s.version > (uint32_t)e->vmsd->version_id) {
        error_set(errp, "the state of '%s' has version %u; this program knows up to %d", s.idstr,
                  s.version, e->vmsd->version_id);
        return false;
    }
    if (!vmstate_load(in, e->vmsd, e->opaque, s.version, errp)) {
        g_prefix_error(errp, "cannot load the state of '%s' (instance %u): ", s.idstr,
                       s.instance_id);
        return false;
    }
    return stream_get_footer(in, s.id, errp);
}

static bool check_all_loaded(const VMStateRegistry *registry, GHashTable *seen, GError **errp)
{
    for (size_t i = 0; i < vmstate_registry_count(registry); i++) {
        const VMStateEntry *e = vmstate_registry_get(registry, i);

        if (!g_hash_table_contains(seen, e) && !e->vmsd->needed) {
            error_set(errp,
                      "the state has no section for '%s' (instance %u), which this machine has; "
                      "start it with the same devices as the one that was saved",
                      e->idstr, e->instance_id);
            return false;
        }
    }
    return true;
}

static bool check_description(ByteReader *in, GError **errp)
{
    uint32_t len;
    uint8_t mark;

    if (!byte_reader_get_u8(in, &mark, errp) || !byte_reader_get_be32(in, &len, errp)) {
        return false;
    }
    if (mark != STREAM_VMDESCRIPTION || len != byte_reader_left(in)) {
        error_set(errp, "the stream does not end with the description of the device state");
        return false;
    }
    return byte_reader_skip(in, len, errp);
}

bool sections_load(const VMStateRegistry *registry, ByteReader *in, GError **errp)
{
    g_autoptr(GHashTable) seen = g_hash_table_new(NULL, NULL);

    for (;;) {
        uint8_t mark;

        if (!byte_reader_get_u8(in, &mark, errp)) {
            return false;
        }
        if (mark == STREAM_EOF) {
            return check_all_loaded(registry, seen, errp) && check_description(in, errp);
        }
        if (mark != STREAM_SECTION_FULL) {
            error_set(errp, "the stream goes on with 0x%02x where a device's section was expected",
                      mark);
            return false;
        }
        if (!load_section(registry, in, seen, errp)) {
            return false;
        }
    }
}
