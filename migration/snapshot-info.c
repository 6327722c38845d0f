/*
 * The section "snapshot": who a snapshot is, what it depends on, and the checksum over it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "migration/snapshot-info.h"

#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "migration/stream.h"
#include "util/error.h"
#include "util/json.h"
#include "vmstate/vmstate.h"

static const VMStateField snapshot_fields[] = {
    VMSTATE_BUFFER(uuid.data, SnapshotInfo),     VMSTATE_BUFFER(parent_uuid.data, SnapshotInfo),
    VMSTATE_UINT64(parent_length, SnapshotInfo), VMSTATE_UINT32(sequence, SnapshotInfo),
    VMSTATE_UINT64(created_us, SnapshotInfo),    VMSTATE_BUFFER(kernel, SnapshotInfo),
    VMSTATE_UINT32(page_size, SnapshotInfo),     VMSTATE_BUFFER(cpu_digest, SnapshotInfo),
    VMSTATE_UINT64(length, SnapshotInfo),        VMSTATE_UINT64(tail_length, SnapshotInfo),
    VMSTATE_UINT32(crc, SnapshotInfo),           VMSTATE_END_OF_LIST(),
};

static const VMStateDescription vmstate_snapshot = {
    .name = SNAPSHOT_SECTION_NAME,
    .version_id = SNAPSHOT_SECTION_VERSION,
    .minimum_version_id = SNAPSHOT_SECTION_VERSION,
    .fields = snapshot_fields,
};

void snapshot_info_init(SnapshotInfo *info)
{
    struct utsname host;

    *info = (SnapshotInfo){ .uuid = uuid_generate(),
                            .created_us = g_get_real_time(),
                            .page_size = sysconf(_SC_PAGESIZE) };
    if (uname(&host) == 0) {
        g_strlcpy((char *)info->kernel, host.release, sizeof(info->kernel));
    }
}

void snapshot_info_put(GByteArray *out, SnapshotInfo *info)
{
    stream_put_section(out, STREAM_SECTION_FULL, STREAM_SECTION_ID_SNAPSHOT, SNAPSHOT_SECTION_NAME,
                       0, SNAPSHOT_SECTION_VERSION);
    vmstate_save(out, &vmstate_snapshot, info);
    stream_put_footer(out, STREAM_SECTION_ID_SNAPSHOT);
}

size_t snapshot_info_size(void)
{
    g_autoptr(GByteArray) out = g_byte_array_new();
    SnapshotInfo info = { 0 };

    snapshot_info_put(out, &info);
    return out->len;
}

void snapshot_info_set_crc(uint8_t *end, uint32_t crc)
{
    const size_t footer_size = 5;
    uint32_t be = GUINT32_TO_BE(crc);

    memcpy(end - footer_size - sizeof(be), &be, sizeof(be));
}

bool snapshot_info_get(ByteReader *in, uint32_t version, SnapshotInfo *ret_info,
                       size_t *ret_crc_pos, GError **errp)
{
    SnapshotInfo info = { 0 };

    if (version != SNAPSHOT_SECTION_VERSION) {
        error_set(errp, "the section '%s' has version %u; only %d is supported",
                  SNAPSHOT_SECTION_NAME, version, SNAPSHOT_SECTION_VERSION);
        return false;
    }
    if (!vmstate_load(in, &vmstate_snapshot, &info, version, errp)) {
        return false;
    }
    if (info.kernel[sizeof(info.kernel) - 1] != '\0') {
        error_set(errp, "the section '%s' is damaged: the kernel's name does not end",
                  SNAPSHOT_SECTION_NAME);
        return false;
    }
    *ret_crc_pos = in->pos - sizeof(info.crc);
    *ret_info = info;
    return true;
}

json_object *snapshot_info_describe(SnapshotInfo *info)
{
    json_object *desc = vmstate_describe(&vmstate_snapshot, info);

    json_add_str(desc, "name", SNAPSHOT_SECTION_NAME);
    json_add_int(desc, "instance_id", 0);
    return desc;
}
