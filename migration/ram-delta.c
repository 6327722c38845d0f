/*
 * The section "ram-delta" of an increment: its table, in both directions.
 *
 * Big-endian: be32 page size; parent: 16 bytes UUID, be64 length, be64 start, be32 length of the
 * path and the path; be64 data offset, counted from the start of the stream, be64 data length; be32 number of blocks; then of each
 * block its name, be64 length, be32 extents, be32 zero extents, and of each extent be64 offset and
 * be64 length. The data of all extents follows one another without gaps in the order of the table,
 * so no extent needs a file offset of its own.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "migration/ram-delta-reader.h"

#include <inttypes.h>
#include <string.h>

#include "migration/stream.h"
#include "util/error.h"
#include "util/units.h"

#define PATH_LEN_MAX 4096u
#define BLOCKS_MAX 4096u
/* Section head, fixed part of the table. */
#define FIXED_SIZE (14 + sizeof(RAM_DELTA_SECTION_NAME) + 4 + 16 + 8 + 8 + 4 + 8 + 8 + 4)

void snapshot_parent_clear(SnapshotParent *parent)
{
    g_clear_pointer(&parent->path, g_free);
}

static size_t path_len(const SnapshotParent *parent)
{
    return parent->path && strlen(parent->path) <= PATH_LEN_MAX ? strlen(parent->path) : 0;
}

uint64_t ram_delta_table_size(const RamDeltaTable *table)
{
    uint64_t size = FIXED_SIZE + path_len(table->parent);

    for (unsigned i = 0; i < table->n_blocks; i++) {
        const DeltaBlock *b = &table->blocks[i];

        size += 1 + strlen(b->name) + 8 + 4 + 4 +
                (uint64_t)RAM_DELTA_EXTENT_SIZE * (b->extents->len + b->zeros->len);
    }
    return size;
}

static void put_extents(GByteArray *out, const GArray *extents)
{
    for (guint i = 0; i < extents->len; i++) {
        const RestoreExtent *e = &g_array_index(extents, RestoreExtent, i);

        byte_array_put_be64(out, e->offset);
        byte_array_put_be64(out, e->length);
    }
}

/* Give each extent its place; returns where the data ends. */
static uint64_t place_extents(GArray *extents, uint64_t offset)
{
    for (guint i = 0; i < extents->len; i++) {
        RestoreExtent *e = &g_array_index(extents, RestoreExtent, i);

        e->file_offset = offset;
        offset += e->length;
    }
    return offset;
}

static void place_data(RamDeltaTable *table, uint64_t table_end)
{
    uint64_t end = table->data_offset = ROUND_UP(table_end, (uint64_t)RAM_DELTA_ALIGN);

    for (unsigned i = 0; i < table->n_blocks; i++) {
        end = place_extents(table->blocks[i].extents, end);
    }
    table->data_length = end - table->data_offset;
}

static void put_block(GByteArray *out, const DeltaBlock *block)
{
    byte_array_put_counted_string(out, block->name);
    byte_array_put_be64(out, block->length);
    byte_array_put_be32(out, block->extents->len);
    byte_array_put_be32(out, block->zeros->len);
    put_extents(out, block->extents);
    put_extents(out, block->zeros);
}

void ram_delta_put(GByteArray *out, uint64_t base, RamDeltaTable *table)
{
    const SnapshotParent *parent = table->parent;

    place_data(table, base + out->len + ram_delta_table_size(table));
    stream_put_section(out, STREAM_SECTION_FULL, STREAM_SECTION_ID_RAM, RAM_DELTA_SECTION_NAME, 0,
                       RAM_DELTA_SECTION_VERSION);
    byte_array_put_be32(out, STREAM_PAGE_SIZE);
    g_byte_array_append(out, parent->uuid.data, sizeof(parent->uuid.data));
    byte_array_put_be64(out, parent->length);
    byte_array_put_be64(out, parent->start);
    byte_array_put_be32(out, path_len(parent));
    g_byte_array_append(out, (const uint8_t *)parent->path, path_len(parent));
    byte_array_put_be64(out, table->data_offset - base);
    byte_array_put_be64(out, table->data_length);
    byte_array_put_be32(out, table->n_blocks);
    for (unsigned i = 0; i < table->n_blocks; i++) {
        put_block(out, &table->blocks[i]);
    }
}

static bool get_parent(ByteReader *in, SnapshotParent *ret_parent, GError **errp)
{
    SnapshotParent parent = { 0 };
    uint32_t len;

    if (!byte_reader_get_bytes(in, parent.uuid.data, sizeof(parent.uuid.data), errp) ||
        !byte_reader_get_be64(in, &parent.length, errp) ||
        !byte_reader_get_be64(in, &parent.start, errp) || !byte_reader_get_be32(in, &len, errp)) {
        return false;
    }
    if (len > PATH_LEN_MAX || len > byte_reader_left(in)) {
        error_set(errp, "the path of the parent snapshot, %u bytes, is too long or cut off", len);
        return false;
    }
    if (len) {
        parent.path = g_strndup((const char *)in->data + in->pos, len);
    }
    *ret_parent = parent;
    return byte_reader_skip(in, len, errp);
}

bool ram_delta_get_head(ByteReader *in, uint32_t version, RamDeltaHead *ret_head, GError **errp)
{
    uint32_t page_size;

    if (version != RAM_DELTA_SECTION_VERSION) {
        error_set(errp, "the section '%s' has version %u; only %d is supported",
                  RAM_DELTA_SECTION_NAME, version, RAM_DELTA_SECTION_VERSION);
        return false;
    }
    if (!byte_reader_get_be32(in, &page_size, errp)) {
        return false;
    }
    if (page_size != STREAM_PAGE_SIZE) {
        error_set(errp, "the increment has pages of %u bytes; only %u is supported", page_size,
                  STREAM_PAGE_SIZE);
        return false;
    }
    if (!get_parent(in, &ret_head->parent, errp) ||
        !byte_reader_get_be64(in, &ret_head->data_offset, errp) ||
        !byte_reader_get_be64(in, &ret_head->data_length, errp) ||
        !byte_reader_get_be32(in, &ret_head->n_blocks, errp)) {
        return false;
    }
    if (ret_head->n_blocks > BLOCKS_MAX) {
        error_set(errp, "the increment claims %u RAM blocks", ret_head->n_blocks);
        return false;
    }
    return true;
}

/* Extents must be ascending, page-aligned, inside the block and apart from one another. */
static bool get_extents(ByteReader *in, uint32_t n, const SnapshotBlock *block, GArray *ret,
                        GError **errp)
{
    uint64_t last_end = 0;

    g_array_set_size(ret, 0);
    for (uint32_t i = 0; i < n; i++) {
        RestoreExtent e = { 0 };

        if (!byte_reader_get_be64(in, &e.offset, errp) ||
            !byte_reader_get_be64(in, &e.length, errp)) {
            return false;
        }
        if (e.length == 0 || e.offset % STREAM_PAGE_SIZE || e.length % STREAM_PAGE_SIZE ||
            e.offset < last_end || e.offset > block->length ||
            e.length > block->length - e.offset) {
            error_set(errp,
                      "RAM block '%s' of the increment has a bad extent: offset %" PRIu64
                      ", length %" PRIu64,
                      block->name, e.offset, e.length);
            return false;
        }
        last_end = e.offset + e.length;
        g_array_append_val(ret, e);
    }
    return true;
}

static bool extents_disjoint(const GArray *a, const GArray *b)
{
    guint i = 0, j = 0;

    while (i < a->len && j < b->len) {
        const RestoreExtent *x = &g_array_index(a, RestoreExtent, i);
        const RestoreExtent *y = &g_array_index(b, RestoreExtent, j);

        if (x->offset + x->length <= y->offset) {
            i++;
        } else if (y->offset + y->length <= x->offset) {
            j++;
        } else {
            return false;
        }
    }
    return true;
}

bool ram_delta_get_block_head(ByteReader *in, SnapshotBlock *block, uint32_t *ret_n_extents,
                              uint32_t *ret_n_zeros, GError **errp)
{
    uint64_t pages;

    if (!byte_reader_get_counted_string(in, &block->name, errp) ||
        !byte_reader_get_be64(in, &block->length, errp) ||
        !byte_reader_get_be32(in, ret_n_extents, errp) ||
        !byte_reader_get_be32(in, ret_n_zeros, errp)) {
        return false;
    }
    pages = block->length / STREAM_PAGE_SIZE;
    if (block->length == 0 || block->length % STREAM_PAGE_SIZE ||
        block->length > SNAPSHOT_BLOCK_MAX || *ret_n_extents > pages || *ret_n_zeros > pages) {
        error_set(errp,
                  "RAM block '%s' of the increment is damaged: length %" PRIu64
                  ", %u extents, %u zero extents",
                  block->name, block->length, *ret_n_extents, *ret_n_zeros);
        return false;
    }
    return true;
}

bool ram_delta_get_block_extents(ByteReader *in, SnapshotBlock *block, uint32_t n_extents,
                                 uint32_t n_zeros, uint64_t *data_pos, GError **errp)
{
    block->extents = g_array_new(FALSE, FALSE, sizeof(RestoreExtent));
    block->zeros = g_array_new(FALSE, FALSE, sizeof(RestoreExtent));
    if (!get_extents(in, n_extents, block, block->extents, errp) ||
        !get_extents(in, n_zeros, block, block->zeros, errp)) {
        return false;
    }
    if (!extents_disjoint(block->extents, block->zeros)) {
        error_set(errp, "RAM block '%s' of the increment has pages that are both data and zero",
                  block->name);
        return false;
    }
    *data_pos = place_extents(block->extents, *data_pos);
    return true;
}
