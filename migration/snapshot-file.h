/*
 * A snapshot in a regular file: checked and taken apart into what it promises, nothing restored.
 *
 * Every byte outside the page data is verified when the file is opened: form, lengths, padding and
 * checksum. Page data is not read.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MIGRATION_SNAPSHOT_FILE_H
#define COWBIRD_MIGRATION_SNAPSHOT_FILE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "memory/restore.h"
#include "migration/ram-delta.h"
#include "migration/snapshot-info.h"
#include "migration/stream.h"

typedef enum SnapshotKind {
    SNAPSHOT_FULL,        /* RAM at fixed offsets */
    SNAPSHOT_INCREMENTAL, /* packed pages over a parent */
    SNAPSHOT_SEQUENTIAL,  /* a stream that happens to be in a file; only its kind can be told */
} SnapshotKind;

/* Longer RAM blocks are refused, so that sums of offsets cannot overflow. */
#define SNAPSHOT_BLOCK_MAX (UINT64_C(1) << 48)

/* Of a full snapshot bitmap and pages_offset count, of an incremental one the extents. */
typedef struct SnapshotBlock {
    char *name;
    uint64_t length;
    uint64_t pages_offset;  /* absolute file offset of the first page */
    GByteArray *bitmap;     /* one bit a page, little-endian words; NULL in an incremental one */
    uint64_t bitmap_pos;    /* where in the array */
    unsigned long *present; /* made by snapshot_block_present() */
    GArray *extents;        /* of RestoreExtent, ascending */
    GArray *zeros;          /* of RestoreExtent without file_offset, ascending */
    GArray *released;       /* the same: chunks that were released; NULL: none */
} SnapshotBlock;

typedef struct SnapshotFile {
    int fd;     /* owned, readable; -1: what was read came by a pipe */
    char *path; /* NULL: unknown */
    uint64_t start;
    uint64_t end; /* first byte after the stream */
    SnapshotKind kind;
    StreamConfig config;
    SnapshotInfo info;
    SnapshotParent parent; /* of an incremental one */
    GPtrArray *blocks;     /* of SnapshotBlock */
    GByteArray *tail;      /* sections of the devices, EOF, description */
} SnapshotFile;

/*
 * Takes ownership of fd, also on failure. start: where the stream begins. path may be NULL and is
 * told in errors and used to find parents.
 */
SnapshotFile *snapshot_file_open(int fd, const char *path, uint64_t start, GError **errp);

/* The same, but a stream of kind SNAPSHOT_SEQUENTIAL is a success without any contents. */
SnapshotFile *snapshot_file_probe(int fd, const char *path, uint64_t start, GError **errp);

/* Without contents; for who fills it from elsewhere. Takes ownership of fd, which may be -1. */
SnapshotFile *snapshot_file_new(int fd, const char *path, uint64_t start);
SnapshotBlock *snapshot_file_add_block(SnapshotFile *file);
/* A name used twice would let one block's pages land in another's place. */
bool snapshot_file_check_block_name(const SnapshotFile *file, const SnapshotBlock *block,
                                    GError **errp);
/* The machine whose memory is @ram has such a block of that length. */
bool snapshot_block_check_machine(const SnapshotBlock *block, RamList *ram, GError **errp);

void snapshot_file_free(SnapshotFile *file);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SnapshotFile, snapshot_file_free)

/* NULL: no such block. */
SnapshotBlock *snapshot_file_block(const SnapshotFile *file, const char *name);

/* The bitmap as words, aligned; owned by the block. Not from several threads at once. */
const unsigned long *snapshot_block_present(SnapshotBlock *block);

uint64_t snapshot_file_ram_size(const SnapshotFile *file);
const char *snapshot_kind_name(SnapshotKind kind);

static inline uint64_t snapshot_block_pages(const SnapshotBlock *block)
{
    return block->length / STREAM_PAGE_SIZE;
}

#endif
