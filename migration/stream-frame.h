/*
 * A sequential stream around its RAM section, read: the head of the stream, and what comes after RAM.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MIGRATION_STREAM_FRAME_H
#define COWBIRD_MIGRATION_STREAM_FRAME_H

#include <glib.h>

#include "migration/ram-pages-input.h"
#include "migration/snapshot-info.h"
#include "migration/stream.h"

/* Up to the head of the RAM section, which tells what kind of stream it is. */
typedef struct StreamHead {
    StreamConfig config;
    StreamSection section;
} StreamHead;

void stream_head_clear(StreamHead *head);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(StreamHead, stream_head_clear)

/* The stream must be of this machine type, and sequential. ret_head is to be cleared on failure too. */
bool stream_frame_read_head(PageInput *in, const char *machine_type, StreamHead *ret_head,
                            GError **errp);

/* The footer of a section of RAM. */
bool stream_frame_read_footer(PageInput *in, GError **errp);

/*
 * The section "snapshot" and all after it, which become the caller's: devices, end, description. The
 * checksum has been verified on success. *ret_tail is NULL or owned by the caller on failure too.
 */
bool stream_frame_read_end(PageInput *in, SnapshotInfo *ret_info, GByteArray **ret_tail,
                           GError **errp);

#endif
