/*
 * Making one full snapshot out of a chain, without a virtual machine.
 *
 * The base's pages are shared as extents where the file system can; then what the increments
 * changed is copied over, and what they made zero becomes a hole.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "migration/flatten.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "migration/chain-map.h"
#include "migration/mapped-layout.h"
#include "migration/ram-released.h"
#include "util/error.h"
#include "util/io.h"
#include "util/json.h"
#include "util/units.h"

#define COPY_SIZE (4 * MiB)

typedef struct Flatten {
    const SnapshotChain *chain;
    PublishTarget *target;
    FlattenProgress progress;
    void *opaque;
    uint64_t done, total;
    uint8_t *buf; /* COPY_SIZE */
} Flatten;

bool snapshot_tail_split(const GByteArray *tail, size_t *ret_devices_len,
                         json_object **ret_description, GError **errp)
{
    const size_t head = 6; /* EOF, mark, be32 length */

    /* JSON has no NUL in it: the last place whose length reaches the end is the one. */
    for (size_t pos = tail->len; pos-- > 0;) {
        const uint8_t *p = tail->data + pos;
        uint32_t len;

        if (tail->len - pos < head || p[0] != STREAM_EOF || p[1] != STREAM_VMDESCRIPTION) {
            continue;
        }
        memcpy(&len, p + 2, sizeof(len));
        if (GUINT32_FROM_BE(len) == tail->len - pos - head) {
            *ret_description =
                json_parse_text((const char *)p + head, tail->len - pos - head, errp);
            *ret_devices_len = pos;
            return *ret_description != NULL;
        }
    }
    error_set(errp, "the snapshot has no description of its device state");
    return false;
}

/* --- RAM --- */

static void tell(Flatten *f, uint64_t bytes)
{
    f->done += bytes;
    if (f->progress) {
        f->progress(f->opaque, f->done, f->total);
    }
}

/* The base's whole region at once; false where the file system cannot. */
static bool share_base(const Flatten *f, const MappedRegion *r)
{
    const SnapshotFile *base = g_ptr_array_index(f->chain->files, 0);
    struct file_clone_range range = { .src_fd = base->fd,
                                      .src_offset =
                                          snapshot_file_block(base, r->name)->pages_offset,
                                      .src_length = r->size,
                                      .dest_offset = r->pages_offset };

    return r->size >= MiB && ioctl(f->target->fd, FICLONERANGE, &range) == 0;
}

static bool copy_bytes(Flatten *f, int fd, uint64_t from, uint64_t to, uint64_t len, GError **errp)
{
    while (len) {
        size_t n = MIN(len, COPY_SIZE);
        loff_t in = from, out = to;
        ssize_t copied = copy_file_range(fd, &in, f->target->fd, &out, n, 0);

        if (copied > 0) {
            n = copied;
        } else if (!pread_full(fd, f->buf, n, from, errp) ||
                   !pwrite_full(f->target->fd, f->buf, n, to, errp)) {
            return false;
        }
        from += n;
        to += n;
        len -= n;
        tell(f, n);
    }
    return true;
}

static bool put_run(Flatten *f, MappedRegion *r, const ChainRun *run, bool shared, GError **errp)
{
    const SnapshotFile *base = g_ptr_array_index(f->chain->files, 0);
    uint64_t to = r->pages_offset + run->offset;

    mapped_region_set(r, run->offset, run->offset + run->length, run->kind == CHAIN_RUN_DATA);
    if (run->kind == CHAIN_RUN_DATA && !(shared && run->file == base)) {
        return copy_bytes(f, run->file->fd, run->file_offset, to, run->length, errp);
    }
    if (run->kind == CHAIN_RUN_ZERO && shared &&
        fallocate(f->target->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, to, run->length) < 0) {
        error_set_errno(errp, errno, "cannot make a hole in the new snapshot");
        return false;
    }
    tell(f, run->length);
    return true;
}

static bool put_region(Flatten *f, MappedRegion *r, GError **errp)
{
    g_autoptr(GArray) runs = chain_map_block((SnapshotFile *const *)f->chain->files->pdata,
                                             f->chain->files->len, r->name);
    bool shared = share_base(f, r);

    for (guint i = 0; i < runs->len; i++) {
        if (!put_run(f, r, &g_array_index(runs, ChainRun, i), shared, errp)) {
            return false;
        }
    }
    return true;
}

static bool put_ram(Flatten *f, FileSegments *segments, GError **errp)
{
    const SnapshotFile *tip = snapshot_chain_tip(f->chain);
    unsigned n = tip->blocks->len;
    g_autofree MappedRegion *store = g_new0(MappedRegion, n);
    g_autofree MappedRegion **regions = g_new0(MappedRegion *, n);
    bool ok = true;

    for (unsigned i = 0; i < n; i++) {
        const SnapshotBlock *b = g_ptr_array_index(tip->blocks, i);

        store[i] = (MappedRegion){ .name = b->name, .size = b->length };
        regions[i] = &store[i];
    }
    mapped_layout_place(segments, regions, n);
    for (unsigned i = 0; ok && i < n; i++) {
        ok = put_region(f, regions[i], errp);
    }
    mapped_layout_finish(segments, regions, n);
    return ok;
}

/* --- The rest --- */

static bool take_state(const SnapshotFile *tip, CapturedState *state, GError **errp)
{
    size_t len;

    snapshot_info_init(&state->info);
    memcpy(state->info.cpu_digest, tip->info.cpu_digest, sizeof(state->info.cpu_digest));
    state->config =
        (StreamConfig){ .machine_type = g_strdup(tip->config.machine_type), .mapped_ram = true };
    if (!snapshot_tail_split(tip->tail, &len, &state->description, errp)) {
        return false;
    }
    state->devices = g_byte_array_new();
    g_byte_array_append(state->devices, tip->tail->data, len);
    json_object_object_add(state->description, "configuration",
                           stream_describe_config(&state->config));
    return true;
}

/* Where increments wrote to a chunk again the new base has the pages, and a restore sees that. */
static void put_released(const SnapshotFile *tip, FileSegments *segments)
{
    g_autofree ReleasedBlock *blocks = g_new0(ReleasedBlock, tip->blocks->len);
    const FileSegment *last = &g_array_index(segments->list, FileSegment, segments->list->len - 1);

    for (guint i = 0; i < tip->blocks->len; i++) {
        const SnapshotBlock *b = g_ptr_array_index(tip->blocks, i);

        blocks[i] = (ReleasedBlock){ .name = b->name, .runs = b->released };
    }
    ram_released_put(last->bytes, blocks, tip->blocks->len);
}

static bool write_all(Flatten *f, CapturedState *state, GError **errp)
{
    g_auto(FileSegments) segments = { 0 };
    GByteArray *head;

    file_segments_init(&segments);
    head = file_segments_open(&segments, f->target->start);
    stream_put_header(head, &state->config);
    if (!put_ram(f, &segments, errp)) {
        return false;
    }
    put_released(snapshot_chain_tip(f->chain), &segments);
    return file_segments_write(&segments, f->target, state, errp) &&
           publish_commit(f->target, errp);
}

bool snapshot_flatten(const SnapshotChain *chain, PublishTarget *target, FlattenProgress progress,
                      void *opaque, GError **errp)
{
    g_autofree uint8_t *buf = g_malloc(COPY_SIZE);
    CapturedState state = { 0 };
    Flatten f = { .chain = chain,
                  .target = target,
                  .progress = progress,
                  .opaque = opaque,
                  .total = snapshot_file_ram_size(snapshot_chain_tip(chain)),
                  .buf = buf };
    bool ok = take_state(snapshot_chain_tip(chain), &state, errp) && write_all(&f, &state, errp);

    captured_state_clear(&state);
    return ok;
}
