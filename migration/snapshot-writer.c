/*
 * Writing a snapshot file: everything around the RAM pages, the closing part last.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "migration/snapshot-writer.h"

#include "memory/base-guard.h"
#include "migration/ram-released.h"
#include "util/crc32c.h"
#include "util/error.h"
#include "util/io.h"

void captured_state_clear(CapturedState *state)
{
    stream_config_clear(&state->config);
    g_clear_pointer(&state->devices, g_byte_array_unref);
    g_clear_pointer(&state->description, json_object_put);
}

void file_segments_init(FileSegments *segments)
{
    segments->list = g_array_new(FALSE, FALSE, sizeof(FileSegment));
}

void file_segments_clear(FileSegments *segments)
{
    for (guint i = 0; segments->list && i < segments->list->len; i++) {
        g_byte_array_unref(g_array_index(segments->list, FileSegment, i).bytes);
    }
    g_clear_pointer(&segments->list, g_array_unref);
}

GByteArray *file_segments_open(FileSegments *segments, uint64_t offset)
{
    FileSegment s = { .offset = offset, .bytes = g_byte_array_new() };

    g_array_append_val(segments->list, s);
    return s.bytes;
}

static FileSegment *last_segment(const FileSegments *segments)
{
    return &g_array_index(segments->list, FileSegment, segments->list->len - 1);
}

uint64_t file_segments_end(const FileSegments *segments)
{
    const FileSegment *last = last_segment(segments);

    return last->offset + last->bytes->len;
}

void captured_state_put(CapturedState *state, GByteArray *out, uint64_t length_before,
                        uint32_t crc_before)
{
    g_autoptr(GByteArray) end = g_byte_array_new();
    SnapshotInfo *info = &state->info;
    guint start = out->len, info_end;

    stream_put_end(end, state->description);
    info->tail_length = (uint64_t)state->devices->len + end->len;
    info->length = length_before + snapshot_info_size() + info->tail_length;
    info->crc = 0;
    snapshot_info_put(out, info);
    info_end = out->len;
    g_byte_array_append(out, state->devices->data, state->devices->len);
    g_byte_array_append(out, end->data, end->len);
    info->crc = crc32c(crc_before, out->data + start, out->len - start);
    snapshot_info_set_crc(out->data + info_end, info->crc);
}

static uint32_t segments_crc(const FileSegments *segments)
{
    uint32_t crc = 0;

    for (guint i = 0; i < segments->list->len; i++) {
        const GByteArray *bytes = g_array_index(segments->list, FileSegment, i).bytes;

        crc = crc32c(crc, bytes->data, bytes->len);
    }
    return crc;
}

static bool write_segment(const FileSegment *s, const PublishTarget *target, GError **errp)
{
    return pwrite_full(target->fd, s->bytes->data, s->bytes->len, s->offset, errp);
}

/* Everything but the last segment, then that one when the rest is safe. */
bool file_segments_write(FileSegments *segments, PublishTarget *target, CapturedState *state,
                         GError **errp)
{
    captured_state_put(state, last_segment(segments)->bytes,
                       file_segments_end(segments) - target->start, segments_crc(segments));
    for (guint i = 0; i + 1 < segments->list->len; i++) {
        if (!write_segment(&g_array_index(segments->list, FileSegment, i), target, errp)) {
            return false;
        }
    }
    return publish_barrier(target, errp) && write_segment(last_segment(segments), target, errp);
}

static void put_released(const RamPlan *plan, FileSegments *segments)
{
    g_autofree ReleasedBlock *blocks = g_new0(ReleasedBlock, plan->n_blocks);

    for (unsigned i = 0; i < plan->n_blocks; i++) {
        blocks[i] = (ReleasedBlock){ .name = plan->blocks[i].block->name,
                                     .runs = plan->blocks[i].released };
    }
    ram_released_put(last_segment(segments)->bytes, blocks, plan->n_blocks);
}

bool snapshot_write(const SnapshotWrite *w, CapturedState *state, const SnapshotParent *parent,
                    GError **errp)
{
    g_auto(FileSegments) segments = { 0 };
    GByteArray *head;

    file_segments_init(&segments);
    head = file_segments_open(&segments, w->target->start);
    stream_put_header(head, &state->config);
    if (!(parent ? ram_delta_write(w, parent, &segments, errp)
                 : ram_mapped_write(w, &segments, errp))) {
        return false;
    }
    put_released(w->plan, &segments);
    return ram_list_check_read(w->ram, errp) && transfer_control_check(w->control, errp) &&
           file_segments_write(&segments, w->target, state, errp);
}
