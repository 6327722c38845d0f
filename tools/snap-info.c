/*
 * cowbird-snap info and check.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "tools/snap.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#include "migration/flatten.h"
#include "util/json.h"

static uint64_t present_pages(SnapshotBlock *b)
{
    const unsigned long *present = snapshot_block_present(b);
    uint64_t count = 0;

    for (uint64_t i = 0; i < (snapshot_block_pages(b) + 63) / 64; i++) {
        count += __builtin_popcountl(present[i]);
    }
    return count;
}

static uint64_t extent_bytes(const GArray *extents)
{
    uint64_t bytes = 0;

    for (guint i = 0; i < extents->len; i++) {
        bytes += g_array_index(extents, RestoreExtent, i).length;
    }
    return bytes;
}

static json_object *block_json(SnapshotBlock *b)
{
    json_object *o = json_object_new_object();

    json_add_str(o, "name", b->name);
    json_add_uint(o, "size", b->length);
    if (b->bitmap) {
        json_add_uint(o, "pages-offset", b->pages_offset);
        json_add_uint(o, "data-pages", present_pages(b));
    } else {
        json_add_uint(o, "data-pages", extent_bytes(b->extents) / STREAM_PAGE_SIZE);
        json_add_uint(o, "zero-pages", extent_bytes(b->zeros) / STREAM_PAGE_SIZE);
        json_add_uint(o, "extents", b->extents->len);
        json_add_uint(o, "zero-extents", b->zeros->len);
    }
    return o;
}

static void add_uuid(json_object *o, const char *key, const Uuid *uuid)
{
    char text[UUID_TEXT_LEN + 1];

    uuid_format(uuid, text);
    json_add_str(o, key, text);
}

static void add_parent(json_object *o, const SnapshotFile *file)
{
    json_object *parent = json_object_new_object();

    add_uuid(parent, "uuid", &file->parent.uuid);
    json_add_uint(parent, "length", file->parent.length);
    json_add_uint(parent, "offset", file->parent.start);
    json_add_str(parent, "path", file->parent.path);
    json_object_object_add(o, "parent", parent);
}

static char *time_text(uint64_t us)
{
    g_autoptr(GDateTime) utc = g_date_time_new_from_unix_utc(us / G_USEC_PER_SEC);

    return utc ? g_date_time_format(utc, "%Y-%m-%dT%H:%M:%SZ") : g_strdup("unknown");
}

static char *digest_text(const SnapshotInfo *info)
{
    GString *text = g_string_new(NULL);

    for (size_t i = 0; i < sizeof(info->cpu_digest); i++) {
        g_string_append_printf(text, "%02x", info->cpu_digest[i]);
    }
    return g_string_free(text, FALSE);
}

static json_object *device_names(const SnapshotFile *file)
{
    json_object *names = json_object_new_array(), *devices;
    g_autoptr(json_object) description = NULL;
    size_t len;

    if (snapshot_tail_split(file->tail, &len, &description, NULL) &&
        json_object_object_get_ex(description, "devices", &devices) &&
        json_object_is_type(devices, json_type_array)) {
        for (size_t i = 0; i < json_object_array_length(devices); i++) {
            const char *name = json_get_str(json_object_array_get_idx(devices, i), "name");

            if (name && g_strcmp0(name, SNAPSHOT_SECTION_NAME) != 0) {
                json_object_array_add(names, json_object_new_string(name));
            }
        }
    }
    return names;
}

static json_object *info_json(const SnapshotFile *file)
{
    json_object *o = json_object_new_object(), *blocks = json_object_new_array();
    g_autofree char *created = time_text(file->info.created_us);
    g_autofree char *digest = digest_text(&file->info);
    struct stat st = { 0 };

    fstat(file->fd, &st);
    json_add_str(o, "file", file->path);
    json_add_str(o, "kind", snapshot_kind_name(file->kind));
    add_uuid(o, "uuid", &file->info.uuid);
    json_add_uint(o, "sequence", file->info.sequence);
    if (file->kind == SNAPSHOT_INCREMENTAL) {
        add_parent(o, file);
    }
    json_add_str(o, "created", created);
    json_add_str(o, "machine", file->config.machine_type);
    json_add_str(o, "host-kernel", (const char *)file->info.kernel);
    json_add_uint(o, "host-page-size", file->info.page_size);
    json_add_str(o, "cpu-digest", digest);
    json_add_uint(o, "offset", file->start);
    json_add_uint(o, "length", file->info.length);
    json_add_uint(o, "disk-usage", (uint64_t)st.st_blocks * 512);
    json_add_uint(o, "device-state-bytes", file->tail->len);
    for (guint i = 0; i < file->blocks->len; i++) {
        json_object_array_add(blocks, block_json(g_ptr_array_index(file->blocks, i)));
    }
    json_object_object_add(o, "ram", blocks);
    json_object_object_add(o, "devices", device_names(file));
    return o;
}

/* One line a member; arrays and objects on lines of their own, indented. */
static void print_plain(json_object *o, int indent)
{
    json_object_object_foreach(o, key, value)
    {
        if (json_object_is_type(value, json_type_object)) {
            printf("%*s%s:\n", indent, "", key);
            print_plain(value, indent + 2);
        } else if (json_object_is_type(value, json_type_array)) {
            printf("%*s%s:\n", indent, "", key);
            for (size_t i = 0; i < json_object_array_length(value); i++) {
                json_object *item = json_object_array_get_idx(value, i);

                printf("%*s- %s\n", indent + 2, "",
                       json_object_is_type(item, json_type_string)
                           ? json_object_get_string(item)
                           : json_object_to_json_string_ext(item, JSON_C_TO_STRING_SPACED));
            }
        } else {
            printf("%*s%s: %s\n", indent, "", key, json_object_get_string(value));
        }
    }
}

int snap_info(const SnapOptions *o, GError **errp)
{
    g_autoptr(SnapshotFile) file = snap_open(o, o->files[0], errp);
    g_autoptr(json_object) info = NULL;

    if (!file) {
        return -1;
    }
    info = info_json(file);
    if (o->json) {
        snap_print_json(info);
    } else {
        print_plain(info, 0);
    }
    return SNAP_OK;
}

int snap_check(const SnapOptions *o, GError **errp)
{
    g_autoptr(SnapshotChain) chain = snap_open_chain(o, o->files[0], errp);
    g_autoptr(json_object) list = json_object_new_array();

    if (!chain) {
        return -1;
    }
    for (guint i = chain->files->len; i-- > 0;) {
        const SnapshotFile *file = g_ptr_array_index(chain->files, i);
        g_autofree char *uuid = uuid_to_string(&file->info.uuid);

        if (o->json) {
            json_object_array_add(list, info_json(file));
        } else if (!o->quiet) {
            printf("%s: ok (%s, %s, %" PRIu64 " bytes)\n", file->path,
                   snapshot_kind_name(file->kind), uuid, file->info.length);
        }
    }
    if (o->json) {
        snap_print_json(list);
    }
    return SNAP_OK;
}
