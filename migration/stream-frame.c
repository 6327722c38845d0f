/*
 * A sequential stream around its RAM section, read: the head of the stream, and what comes after RAM.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "migration/stream-frame.h"

#include <inttypes.h>
#include <string.h>

#include "util/crc32c.h"
#include "util/error.h"
#include "util/units.h"

/* Header with all its subsections and the head of the first section. */
#define HEADER_MAX (20 * KiB)
/* Device state is small; a stream that claims more is damaged. */
#define TAIL_MAX (256 * MiB)

void stream_head_clear(StreamHead *head)
{
    stream_config_clear(&head->config);
}

bool stream_frame_read_head(PageInput *in, const char *machine_type, StreamHead *ret_head,
                            GError **errp)
{
    ByteReader reader;
    uint8_t mark;

    if (!page_input_peek(in, HEADER_MAX, &reader, errp) ||
        !stream_get_header(&reader, &ret_head->config, errp) ||
        !byte_reader_get_u8(&reader, &mark, errp) ||
        !stream_get_section(&reader, mark, &ret_head->section, errp)) {
        return false;
    }
    if (ret_head->config.mapped_ram) {
        error_set(errp, "this is a snapshot file with fixed offsets; give the file itself "
                        "(file:PATH or an fd of it), not a pipe or socket");
        return false;
    }
    if (strcmp(ret_head->config.machine_type, machine_type) != 0) {
        error_set(errp, "the state is of a machine '%s', this one is '%s'",
                  ret_head->config.machine_type, machine_type);
        return false;
    }
    page_input_consume(in, &reader);
    return true;
}

bool stream_frame_read_footer(PageInput *in, GError **errp)
{
    ByteReader reader;

    if (!page_input_peek(in, 5, &reader, errp) ||
        !stream_get_footer(&reader, STREAM_SECTION_ID_RAM, errp)) {
        return false;
    }
    page_input_consume(in, &reader);
    return true;
}

static bool read_info(PageInput *in, SnapshotInfo *ret_info, GError **errp)
{
    StreamSection section;
    ByteReader reader;
    size_t crc_pos;
    uint8_t mark;

    if (!page_input_peek(in, KiB, &reader, errp) || !byte_reader_get_u8(&reader, &mark, errp) ||
        !stream_get_section(&reader, mark, &section, errp)) {
        return false;
    }
    if (mark != STREAM_SECTION_FULL || strcmp(section.idstr, SNAPSHOT_SECTION_NAME) != 0) {
        error_set(errp, "the stream has the section '%s' where '%s' was expected", section.idstr,
                  SNAPSHOT_SECTION_NAME);
        return false;
    }
    if (!snapshot_info_get(&reader, section.version, ret_info, &crc_pos, errp) ||
        !stream_get_footer(&reader, section.id, errp)) {
        return false;
    }
    memset(in->buf + in->pos + crc_pos, 0, sizeof(ret_info->crc));
    page_input_consume(in, &reader);
    return true;
}

static bool check_whole(const PageInput *in, const SnapshotInfo *info, GError **errp)
{
    if (in->crc != info->crc || in->length != info->length) {
        error_set(errp,
                  "the stream is damaged: checksum 0x%08x instead of 0x%08x, %" PRIu64
                  " bytes instead of %" PRIu64,
                  in->crc, info->crc, in->length, info->length);
        return false;
    }
    return true;
}

bool stream_frame_read_end(PageInput *in, SnapshotInfo *ret_info, GByteArray **ret_tail,
                           GError **errp)
{
    if (!read_info(in, ret_info, errp)) {
        return false;
    }
    if (ret_info->tail_length > TAIL_MAX) {
        error_set(errp, "the stream claims %" PRIu64 " bytes of device state",
                  ret_info->tail_length);
        return false;
    }
    *ret_tail = g_byte_array_new();
    g_byte_array_set_size(*ret_tail, ret_info->tail_length);
    if (!page_input_take(in, (*ret_tail)->data, ret_info->tail_length, errp)) {
        return false;
    }
    in->crc = crc32c(in->crc, (*ret_tail)->data, ret_info->tail_length);
    return check_whole(in, ret_info, errp);
}
