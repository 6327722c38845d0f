/*
 * What a sequential stream is read from: a pipe or socket, read once and in order, or a regular file, in
 * which pages can be passed over.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MIGRATION_RAM_PAGES_INPUT_H
#define COWBIRD_MIGRATION_RAM_PAGES_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vmstate/reader.h"

typedef struct PageInput {
    int fd;               /* borrowed */
    bool is_file;         /* regular: read by offset, its position does not matter */
    uint64_t file_pos;    /* in a file: where the next bytes for the buffer are */
    uint64_t file_size;   /* in a file */
    const int *cancelled; /* atomic */
    uint8_t *buf;
    size_t pos, len; /* what of buf has not been taken */
    bool at_end;
    uint64_t length; /* bytes taken so far */
    uint32_t crc;    /* of those that are not pages */
} PageInput;

/* start: where the stream begins; of a file only. */
bool page_input_init(PageInput *in, int fd, uint64_t start, const int *cancelled, GError **errp);
void page_input_clear(PageInput *in);

/* The next n bytes, or all there are, ready to be parsed. n is at most 64 KiB. */
bool page_input_peek(PageInput *in, size_t n, ByteReader *ret_reader, GError **errp);
/* What was parsed is over; it counts into the checksum. */
void page_input_consume(PageInput *in, const ByteReader *reader);

/* Bytes that do not count into the checksum. */
bool page_input_take(PageInput *in, uint8_t *to, uint64_t len, GError **errp);
/* The same, passed over: they stay in the file, at *ret_file_offset. Of a file only. */
bool page_input_skip(PageInput *in, uint64_t len, uint64_t *ret_file_offset, GError **errp);

#endif
