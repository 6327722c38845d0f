/*
 * The section "ram-released" of a snapshot, in both directions.
 *
 * Big-endian: be32 number of blocks that have released chunks; of each its name (8-bit length), be32
 * number of runs, and of each run be64 offset in the block and be64 length. A run is whole chunks of
 * 2 MiB; the last chunk of a block may be short.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "migration/ram-released.h"

#include <inttypes.h>

#include "migration/stream.h"
#include "util/error.h"
#include "util/units.h"

#define RUN_SIZE 16u
#define NAME_MAX_SIZE 256u

static bool has_runs(const ReleasedBlock *block)
{
    return block->runs && block->runs->len > 0;
}

static void put_block(GByteArray *out, const ReleasedBlock *block)
{
    byte_array_put_counted_string(out, block->name);
    byte_array_put_be32(out, block->runs->len);
    for (guint i = 0; i < block->runs->len; i++) {
        const RestoreExtent *run = &g_array_index(block->runs, RestoreExtent, i);

        byte_array_put_be64(out, run->offset);
        byte_array_put_be64(out, run->length);
    }
}

void ram_released_put(GByteArray *out, const ReleasedBlock *blocks, unsigned n)
{
    uint32_t count = 0;

    for (unsigned i = 0; i < n; i++) {
        count += has_runs(&blocks[i]);
    }
    if (count == 0) {
        return;
    }
    stream_put_section(out, STREAM_SECTION_FULL, STREAM_SECTION_ID_RELEASED,
                       RAM_RELEASED_SECTION_NAME, 0, RAM_RELEASED_SECTION_VERSION);
    byte_array_put_be32(out, count);
    for (unsigned i = 0; i < n; i++) {
        if (has_runs(&blocks[i])) {
            put_block(out, &blocks[i]);
        }
    }
    stream_put_footer(out, STREAM_SECTION_ID_RELEASED);
}

uint64_t ram_released_max_size(const SnapshotFile *file)
{
    /* A run and the gap after it are two chunks at least. */
    uint64_t runs = DIV_ROUND_UP(snapshot_file_ram_size(file), 2 * RAM_CHUNK_SIZE);

    return sizeof(uint32_t) + RUN_SIZE * (runs + file->blocks->len) +
           (uint64_t)(NAME_MAX_SIZE + sizeof(uint32_t)) * file->blocks->len;
}

/* --- Reading --- */

/* Bytes of [from, to) that the extents have. */
static uint64_t bytes_in(const GArray *extents, uint64_t from, uint64_t to)
{
    uint64_t bytes = 0;

    for (guint i = 0; i < extents->len; i++) {
        const RestoreExtent *e = &g_array_index(extents, RestoreExtent, i);
        uint64_t start = MAX(from, e->offset), end = MIN(to, e->offset + e->length);

        bytes += end > start ? end - start : 0;
    }
    return bytes;
}

/* Of a full snapshot every page is known. */
static bool is_told_whole(const SnapshotBlock *block, const RestoreExtent *run)
{
    uint64_t end = run->offset + run->length;

    return !block->extents ||
           bytes_in(block->extents, run->offset, end) + bytes_in(block->zeros, run->offset, end) ==
               run->length;
}

static bool is_chunks(const SnapshotBlock *block, const RestoreExtent *run, uint64_t after)
{
    uint64_t end = run->offset + run->length;

    return run->length > 0 && run->offset >= after && run->offset < block->length &&
           run->length <= block->length - run->offset && run->offset % RAM_CHUNK_SIZE == 0 &&
           (end % RAM_CHUNK_SIZE == 0 || end == block->length);
}

static bool get_runs(ByteReader *in, SnapshotBlock *block, uint32_t n, GError **errp)
{
    uint64_t after = 0;

    for (uint32_t i = 0; i < n; i++) {
        RestoreExtent run = { 0 };

        if (!byte_reader_get_be64(in, &run.offset, errp) ||
            !byte_reader_get_be64(in, &run.length, errp)) {
            return false;
        }
        if (!is_chunks(block, &run, after) || !is_told_whole(block, &run)) {
            error_set(errp,
                      "RAM block '%s' has a bad run of released chunks: offset %" PRIu64
                      ", length %" PRIu64,
                      block->name, run.offset, run.length);
            return false;
        }
        after = run.offset + run.length + 1;
        g_array_append_val(block->released, run);
    }
    return true;
}

static bool get_block(ByteReader *in, SnapshotFile *file, GError **errp)
{
    g_autofree char *name = NULL;
    SnapshotBlock *block;
    uint32_t n;

    if (!byte_reader_get_counted_string(in, &name, errp) || !byte_reader_get_be32(in, &n, errp)) {
        return false;
    }
    block = snapshot_file_block(file, name);
    if (!block || block->released || n == 0 || n > byte_reader_left(in) / RUN_SIZE) {
        error_set(errp, "the section '%s' is damaged at RAM block '%s'", RAM_RELEASED_SECTION_NAME,
                  name);
        return false;
    }
    block->released = g_array_sized_new(FALSE, FALSE, sizeof(RestoreExtent), n);
    return get_runs(in, block, n, errp);
}

bool ram_released_get(ByteReader *in, uint32_t version, SnapshotFile *file, GError **errp)
{
    uint32_t n;

    if (version != RAM_RELEASED_SECTION_VERSION) {
        error_set(errp, "the section '%s' has version %u; only %d is supported",
                  RAM_RELEASED_SECTION_NAME, version, RAM_RELEASED_SECTION_VERSION);
        return false;
    }
    if (!byte_reader_get_be32(in, &n, errp)) {
        return false;
    }
    if (n == 0 || n > file->blocks->len) {
        error_set(errp, "the section '%s' claims %u RAM blocks", RAM_RELEASED_SECTION_NAME, n);
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!get_block(in, file, errp)) {
            return false;
        }
    }
    return true;
}
