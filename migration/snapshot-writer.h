/*
 * Writing a snapshot file: RAM pages by one of two layouts, everything else around them, the
 * closing part with the checksum last.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MIGRATION_SNAPSHOT_WRITER_H
#define COWBIRD_MIGRATION_SNAPSHOT_WRITER_H

#include <glib.h>
#include <json-c/json.h>
#include <stdbool.h>

#include "migration/publish.h"
#include "migration/ram-delta.h"
#include "migration/ram-plan.h"
#include "migration/snapshot-info.h"
#include "migration/stream.h"
#include "migration/workers.h"

/* What was captured before RAM is read. */
typedef struct CapturedState {
    SnapshotInfo info;        /* length, tail_length and crc are filled in by the writer */
    StreamConfig config;      /* mapped_ram as the layout is */
    GByteArray *devices;      /* sections of all devices */
    json_object *description; /* of the device state */
} CapturedState;

void captured_state_clear(CapturedState *state);

/*
 * Append the section "snapshot", the devices and the description to out; length_before and
 * crc_before are of all that comes before. Completes state->info.
 */
void captured_state_put(CapturedState *state, GByteArray *out, uint64_t length_before,
                        uint32_t crc_before);

typedef struct SnapshotWrite {
    PublishTarget *target;
    RamList *ram;
    const RamPlan *plan;
    TransferControl *control;
    unsigned threads;
    bool reflink; /* may share extents with the base */
} SnapshotWrite;

/* One run of bytes between page data, and its place in the file. */
typedef struct FileSegment {
    uint64_t offset;
    GByteArray *bytes;
} FileSegment;

/* The parts outside RAM in file order; the last one is still open while pages are written. */
typedef struct FileSegments {
    GArray *list; /* of FileSegment */
} FileSegments;

void file_segments_init(FileSegments *segments);
void file_segments_clear(FileSegments *segments);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(FileSegments, file_segments_clear)
/* Begin a segment; its bytes are owned by the list. */
GByteArray *file_segments_open(FileSegments *segments, uint64_t offset);
/* File offset after the last byte. */
uint64_t file_segments_end(const FileSegments *segments);
/*
 * RAM is written: append the closing part to the last segment and write all segments, the last one
 * once everything else is safe on disk.
 */
bool file_segments_write(FileSegments *segments, PublishTarget *target, CapturedState *state,
                         GError **errp);

/*
 * RAM with every page at its place. Adds the heads of the blocks to segments and leaves the one
 * after the last page open, the RAM section being closed in it.
 */
bool ram_mapped_write(const SnapshotWrite *w, FileSegments *segments, GError **errp);

/* RAM as an increment over parent; the same rules. */
bool ram_delta_write(const SnapshotWrite *w, const SnapshotParent *parent, FileSegments *segments,
                     GError **errp);

/* The whole file; parent NULL: a full snapshot. Does not publish. state->info is completed. */
bool snapshot_write(const SnapshotWrite *w, CapturedState *state, const SnapshotParent *parent,
                    GError **errp);

#endif
