/*
 * The section "snapshot": who a snapshot is, what it depends on, and the checksum over it.
 *
 * It stands between RAM and the device state, so that a reader knows the length of all that
 * follows before it has to understand it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MIGRATION_SNAPSHOT_INFO_H
#define COWBIRD_MIGRATION_SNAPSHOT_INFO_H

#include <glib.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

#include "util/uuid.h"
#include "vmstate/reader.h"

#define SNAPSHOT_SECTION_NAME "snapshot"
#define SNAPSHOT_SECTION_VERSION 1
#define SNAPSHOT_CPU_DIGEST_LEN 32

typedef struct SnapshotInfo {
    Uuid uuid;
    Uuid parent_uuid;                            /* null UUID: restored from no snapshot */
    uint64_t parent_length;                      /* of the parent's stream in bytes */
    uint32_t sequence;                           /* 0 without parent, else the parent's plus 1 */
    uint64_t created_us;                         /* microseconds since 1970, UTC */
    uint8_t kernel[65];                          /* release of the host's kernel, padded with NUL */
    uint32_t page_size;                          /* of the host */
    uint8_t cpu_digest[SNAPSHOT_CPU_DIGEST_LEN]; /* zeros: unknown */
    uint64_t length;      /* of this stream in bytes, from its magic to the end */
    uint64_t tail_length; /* bytes after this section */
    uint32_t crc; /* CRC-32C of all bytes outside RAM pages and padding, these four being zero */
} SnapshotInfo;

/* A new UUID, the time and the host's kernel; the rest is zero. */
void snapshot_info_init(SnapshotInfo *info);

/* The whole section, head and footer included. */
void snapshot_info_put(GByteArray *out, SnapshotInfo *info);

/* Bytes that the section takes, which do not depend on its contents. */
size_t snapshot_info_size(void);

/* Fill in the CRC of a section whose first byte after the footer is at `end`. */
void snapshot_info_set_crc(uint8_t *end, uint32_t crc);

/*
 * Read what follows the section's head. ret_crc_pos: where in the reader's data the four bytes of
 * the CRC are.
 */
bool snapshot_info_get(ByteReader *in, uint32_t version, SnapshotInfo *ret_info,
                       size_t *ret_crc_pos, GError **errp);

/* The section's entry in the JSON description. Owned by the caller. */
json_object *snapshot_info_describe(SnapshotInfo *info);

#endif
