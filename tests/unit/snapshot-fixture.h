/*
 * For tests of snapshot files: guest RAM without a guest, saved and restored below the level of
 * MigrationState.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_TESTS_UNIT_SNAPSHOT_FIXTURE_H
#define COWBIRD_TESTS_UNIT_SNAPSHOT_FIXTURE_H

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memory/base-guard.h"
#include "memory/restore.h"
#include "migration/chain.h"
#include "migration/publish.h"
#include "migration/snapshot-file.h"
#include "migration/snapshot-writer.h"
#include "util/error.h"
#include "util/json.h"
#include "util/units.h"

#define TEST_MACHINE "pc-test"

/* A folder for one test, on a real file system where possible. */
static inline char *fixture_folder(void)
{
    g_autofree char *template = g_strdup("/var/tmp/cowbird-unit-XXXXXX");

    g_assert_nonnull(g_mkdtemp(template));
    return g_steal_pointer(&template);
}

static inline void fixture_remove_folder(const char *folder)
{
    g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
    const char *name;

    while (dir && (name = g_dir_read_name(dir))) {
        g_autofree char *path = g_build_filename(folder, name, NULL);

        g_unlink(path);
    }
    g_rmdir(folder);
}

/* Two blocks, so that nothing depends on there being one: "pc.ram" and "rom". */
static inline RamList *fixture_ram(uint64_t size)
{
    RamList *ram = ram_list_new();

    g_assert_nonnull(ram_list_add(ram, ram_block_new_anonymous("pc.ram", size, NULL), NULL));
    g_assert_nonnull(ram_list_add(ram, ram_block_new_anonymous("rom", 64 * KiB, NULL), NULL));
    return ram;
}

/* Every n-th page gets contents that depend on seed and place. */
static inline void fixture_write(RamList *ram, unsigned every, uint32_t seed)
{
    for (unsigned i = 0; i < ram_list_count(ram); i++) {
        RamBlock *block = ram_list_get(ram, i);

        for (uint64_t page = seed % every; page < block->size / 4096; page += every) {
            uint64_t *words = (uint64_t *)(block->host + page * 4096);

            for (unsigned k = 0; k < 512; k++) {
                words[k] = (uint64_t)seed << 32 | (page * 512 + k + i + 1);
            }
        }
    }
}

/* What RAM holds, to compare with later. */
static inline GByteArray *fixture_copy(RamList *ram)
{
    GByteArray *copy = g_byte_array_new();

    for (unsigned i = 0; i < ram_list_count(ram); i++) {
        g_byte_array_append(copy, ram_list_get(ram, i)->host, ram_list_get(ram, i)->size);
    }
    return copy;
}

static inline void fixture_assert_same(RamList *ram, const GByteArray *want)
{
    guint pos = 0;

    for (unsigned i = 0; i < ram_list_count(ram); i++) {
        const RamBlock *block = ram_list_get(ram, i);

        for (uint64_t page = 0; page < block->size; page += 4096, pos += 4096) {
            if (memcmp(block->host + page, want->data + pos, 4096) != 0) {
                g_error("block %s differs at offset 0x%" PRIx64, block->name, page);
            }
        }
    }
    g_assert_cmpuint(pos, ==, want->len);
}

/* Some bytes that stand for device state: one section, EOF, description. */
static inline void fixture_state(CapturedState *state, bool mapped)
{
    snapshot_info_init(&state->info);
    state->config = (StreamConfig){ .machine_type = g_strdup(TEST_MACHINE), .mapped_ram = mapped };
    state->devices = g_byte_array_new();
    stream_put_section(state->devices, STREAM_SECTION_FULL, STREAM_SECTION_ID_FIRST_DEVICE, "test",
                       0, 1);
    byte_array_put_be64(state->devices, 0x0123456789abcdef);
    stream_put_footer(state->devices, STREAM_SECTION_ID_FIRST_DEVICE);
    state->description = json_object_new_object();
    json_object_object_add(state->description, "configuration",
                           stream_describe_config(&state->config));
    json_object_object_add(state->description, "devices", json_object_new_array());
}

typedef struct FixtureSave {
    RamList *ram;
    const char *path;
    uint64_t start;
    const SnapshotFile *parent; /* NULL: full */
    bool direct;
    unsigned threads;
    uint64_t written_bytes; /* result */
    SnapshotInfo info;      /* result */
} FixtureSave;

static inline bool fixture_save(FixtureSave *f, GError **errp)
{
    g_autoptr(PagemapScanner) scanner = pagemap_scanner_new(PAGEMAP_AUTO, errp);
    g_autoptr(PublishTarget) target = NULL;
    SnapshotParent parent = { 0 };
    CapturedState state = { 0 };
    TransferControl control;
    RamPlan plan;
    bool ok;

    g_assert_nonnull(scanner);
    target = publish_new_path(f->path, f->start, f->direct, errp);
    if (!target) {
        return false;
    }
    if (f->parent) {
        parent = (SnapshotParent){ .uuid = f->parent->info.uuid,
                                   .length = f->parent->info.length,
                                   .start = f->parent->start,
                                   .path = g_path_get_basename(f->parent->path) };
    }
    fixture_state(&state, !f->parent);
    transfer_control_init(&control, 0);
    ok = ram_plan_scan(&plan, f->ram, scanner, errp);
    if (ok) {
        SnapshotWrite w = { .target = target,
                            .ram = f->ram,
                            .plan = &plan,
                            .control = &control,
                            .threads = f->threads ? f->threads : 2,
                            .reflink = true };

        ok = snapshot_write(&w, &state, f->parent ? &parent : NULL, errp) &&
             publish_commit(target, errp);
        f->written_bytes = control.written_bytes;
        f->info = state.info;
        ram_plan_clear(&plan);
    }
    captured_state_clear(&state);
    snapshot_parent_clear(&parent);
    transfer_control_clear(&control);
    return ok;
}

static inline SnapshotFile *fixture_open(const char *path, GError **errp)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    g_assert_cmpint(fd, >=, 0);
    return snapshot_file_open(fd, path, 0, errp);
}

/* Fill ram from a chain in this mode. */
static inline bool fixture_restore(RamList *ram, const SnapshotChain *chain, RestoreMode mode,
                                   GError **errp)
{
    g_autofree RestoreLayer *layers = g_new0(RestoreLayer, chain->files->len);
    MemoryControl control = { 0 };
    RestoreRequest request = {
        .mode = mode, .fallback = true, .layers = layers, .n_layers = chain->files->len
    };
    bool ok;

    for (guint i = 0; i < chain->files->len; i++) {
        const SnapshotFile *file = g_ptr_array_index(chain->files, i);

        layers[i].base = ram_base_open(file->fd, file->path, &file->info.uuid, errp);
        layers[i].n_blocks = file->blocks->len;
        layers[i].blocks = g_new0(RestoreBlock, file->blocks->len);
        for (guint k = 0; k < file->blocks->len; k++) {
            SnapshotBlock *b = g_ptr_array_index(file->blocks, k);
            RestoreBlock *to = &layers[i].blocks[k];

            to->block = ram_list_find(ram, b->name);
            to->pages_offset = b->pages_offset;
            to->present = b->bitmap ? snapshot_block_present(b) : NULL;
            if (b->extents) {
                to->extents = (const RestoreExtent *)(void *)b->extents->data;
                to->n_extents = b->extents->len;
                to->zeros = (const RestoreExtent *)(void *)b->zeros->data;
                to->n_zeros = b->zeros->len;
            }
            if (b->released && i + 1 == chain->files->len) {
                to->released = (const RestoreExtent *)(void *)b->released->data;
                to->n_released = b->released->len;
            }
        }
    }
    ok = restore_ram(ram, &request, &control, errp);
    for (guint i = 0; i < chain->files->len; i++) {
        ram_base_unref(layers[i].base);
        g_free(layers[i].blocks);
    }
    return ok;
}

#endif
