/*
 * An increment that comes through a pipe or socket, read.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "migration/ram-delta-load.h"

#include <inttypes.h>
#include <string.h>

#include "migration/ram-delta-reader.h"
#include "util/crc32c.h"
#include "util/error.h"
#include "util/units.h"

/* The head of the section's body with a path of the greatest length; the head of a block. */
#define BODY_MAX (5 * KiB)
#define BLOCK_HEAD_MAX (1u + 255 + 16)

bool ram_delta_is_section(const StreamSection *section)
{
    return section->mark == STREAM_SECTION_FULL && section->id == STREAM_SECTION_ID_RAM &&
           strcmp(section->idstr, RAM_DELTA_SECTION_NAME) == 0;
}

static bool load_extents(PageInput *in, SnapshotBlock *block, uint32_t n_extents, uint32_t n_zeros,
                         uint64_t *data_pos, GError **errp)
{
    uint64_t size = (uint64_t)RAM_DELTA_EXTENT_SIZE * ((uint64_t)n_extents + n_zeros);
    g_autofree uint8_t *bytes = g_try_malloc(size);
    ByteReader reader = byte_reader_init(bytes, size);

    if (size && !bytes) {
        error_set(errp, "no memory for the %" PRIu64 " bytes of extents of RAM block '%s'", size,
                  block->name);
        return false;
    }
    if (size && !page_input_take(in, bytes, size, errp)) {
        return false;
    }
    in->crc = crc32c(in->crc, bytes, size);
    return ram_delta_get_block_extents(&reader, block, n_extents, n_zeros, data_pos, errp);
}

static bool load_block(PageInput *in, SnapshotFile *file, RamList *ram, uint64_t *data_pos,
                       GError **errp)
{
    SnapshotBlock *block = snapshot_file_add_block(file);
    uint32_t n_extents, n_zeros;
    ByteReader reader;

    if (!page_input_peek(in, BLOCK_HEAD_MAX, &reader, errp) ||
        !ram_delta_get_block_head(&reader, block, &n_extents, &n_zeros, errp) ||
        !snapshot_block_check_machine(block, ram, errp) ||
        !snapshot_file_check_block_name(file, block, errp)) {
        return false;
    }
    page_input_consume(in, &reader);
    return load_extents(in, block, n_extents, n_zeros, data_pos, errp);
}

/* Zeros up to where the data begins. */
static bool load_padding(PageInput *in, uint64_t data_offset, GError **errp)
{
    uint8_t padding[RAM_DELTA_ALIGN], any = 0;
    uint64_t length = data_offset - in->length;

    if (data_offset < in->length || length >= RAM_DELTA_ALIGN) {
        error_set(errp, "the increment's data is at %" PRIu64 ", its table ends at %" PRIu64,
                  data_offset, in->length);
        return false;
    }
    if (length && !page_input_take(in, padding, length, errp)) {
        return false;
    }
    for (uint64_t i = 0; i < length; i++) {
        any |= padding[i];
    }
    if (any) {
        error_set(errp, "the padding of the increment is damaged");
        return false;
    }
    return true;
}

static bool load_table(PageInput *in, SnapshotFile *file, const StreamSection *section,
                       RamList *ram, GError **errp)
{
    RamDeltaHead head = { 0 };
    ByteReader reader;
    uint64_t pos;
    bool ok;

    if (!page_input_peek(in, BODY_MAX, &reader, errp)) {
        return false;
    }
    ok = ram_delta_get_head(&reader, section->version, &head, errp);
    file->parent = head.parent;
    if (!ok) {
        return false;
    }
    page_input_consume(in, &reader);
    pos = head.data_offset;
    for (uint32_t i = 0; i < head.n_blocks; i++) {
        if (!load_block(in, file, ram, &pos, errp)) {
            return false;
        }
    }
    if (pos - head.data_offset != head.data_length) {
        error_set(errp, "the extents of the increment do not match its data");
        return false;
    }
    return load_padding(in, head.data_offset, errp);
}

SnapshotFile *ram_delta_load_table(PageInput *in, StreamHead *head, RamList *ram, GError **errp)
{
    g_autoptr(SnapshotFile) file = snapshot_file_new(-1, NULL, 0);

    file->kind = SNAPSHOT_INCREMENTAL;
    file->config = head->config;
    head->config = (StreamConfig){ 0 };
    return load_table(in, file, &head->section, ram, errp) ? g_steal_pointer(&file) : NULL;
}

bool ram_delta_load_pages(PageInput *in, const SnapshotFile *file, RamList *ram, GError **errp)
{
    for (guint i = 0; i < file->blocks->len; i++) {
        const SnapshotBlock *block = g_ptr_array_index(file->blocks, i);
        RamBlock *to = ram_list_find(ram, block->name);

        for (guint k = 0; k < block->extents->len; k++) {
            const RestoreExtent *e = &g_array_index(block->extents, RestoreExtent, k);

            if (!page_input_take(in, to->host + e->offset, e->length, errp)) {
                return false;
            }
        }
    }
    return true;
}
