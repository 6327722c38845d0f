/*
 * Reading the parts of a snapshot file that lie between its page data, with a checksum over them.
 *
 * A segment is a run of bytes from one place in the file on; it grows while it is parsed and counts
 * into the checksum up to where parsing stopped.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MIGRATION_SEGMENT_READER_H
#define COWBIRD_MIGRATION_SEGMENT_READER_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "vmstate/reader.h"

typedef struct SegmentReader {
    int fd; /* borrowed */
    uint64_t file_size;
    uint64_t start;  /* file offset of the segment */
    GByteArray *buf; /* what of it has been read */
    ByteReader in;   /* over buf; moved by whoever parses */
    uint32_t crc;    /* of all segments closed so far */
} SegmentReader;

void segment_reader_init(SegmentReader *r, int fd, uint64_t file_size);
void segment_reader_clear(SegmentReader *r);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(SegmentReader, segment_reader_clear)

/* Begin a segment at a file offset. */
bool segment_open(SegmentReader *r, uint64_t offset, GError **errp);

/*
 * Have the next n bytes in r->in, or as many as the file has: what is missing is the parser's to
 * notice. Pointers into r->in.data are invalid afterwards.
 */
bool segment_fill(SegmentReader *r, uint64_t n, GError **errp);

/* File offset of the next byte to parse. */
static inline uint64_t segment_tell(const SegmentReader *r)
{
    return r->start + r->in.pos;
}

/* The segment ends at the next byte to parse. */
void segment_close(SegmentReader *r);

/* The same, and the bytes from the segment's start on become the caller's. */
GByteArray *segment_close_keep(SegmentReader *r);

/* All bytes of [from, to) are zero; holes are not read. */
bool segment_check_padding(const SegmentReader *r, uint64_t from, uint64_t to, GError **errp);

#endif
