/*
 * The table loader's script: allocate, add pointers, add checksums.
 *
 * Source: the format that QEMU publishes and SeaBIOS and OVMF read ("romfile_loader").
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/i386/acpi-loader.h"

#include <string.h>

#include "util/le.h"

#define COMMAND_BYTES 128
#define NAME_BYTES 56

enum { ALLOCATE = 1, ADD_POINTER = 2, ADD_CHECKSUM = 3, WRITE_POINTER = 4 };
enum { ZONE_HIGH = 1, ZONE_FSEG = 2 };

static const struct {
    const char *name;
    uint32_t align;
    uint8_t zone;
} blobs[ACPI_BLOBS] = {
    [ACPI_RSDP] = { ACPI_FILE_RSDP, 16, ZONE_FSEG },
    [ACPI_TABLES] = { ACPI_FILE_TABLES, 64, ZONE_HIGH },
    [ACPI_VMGENID] = { ACPI_FILE_VMGENID, 4096, ZONE_HIGH },
};

static uint8_t *add_command(GByteArray *script, uint32_t command)
{
    guint at = script->len;

    g_byte_array_set_size(script, at + COMMAND_BYTES);
    memset(script->data + at, 0, COMMAND_BYTES);
    put_le32(script->data + at, command);
    return script->data + at;
}

static void put_name(uint8_t *command, unsigned n, const char *name)
{
    g_strlcpy((char *)command + 4 + n * NAME_BYTES, name, NAME_BYTES);
}

static void allocate(GByteArray *script, AcpiBlob blob)
{
    uint8_t *p = add_command(script, ALLOCATE);

    put_name(p, 0, blobs[blob].name);
    put_le32(p + 60, blobs[blob].align);
    p[64] = blobs[blob].zone;
}

static void add_pointer(GByteArray *script, const AcpiLink *link)
{
    uint8_t *p = add_command(script, ADD_POINTER);

    put_name(p, 0, blobs[link->blob].name);
    put_name(p, 1, blobs[link->target].name);
    put_le32(p + 116, link->offset);
    p[120] = link->size;
}

static void add_checksum(GByteArray *script, const AcpiChecksum *sum)
{
    uint8_t *p = add_command(script, ADD_CHECKSUM);

    put_name(p, 0, blobs[sum->blob].name);
    put_le32(p + 60, sum->offset);
    put_le32(p + 64, sum->start);
    put_le32(p + 68, sum->length);
}

/* Firmware tells us where it has put the GUID. */
static void write_pointer(GByteArray *script)
{
    uint8_t *p = add_command(script, WRITE_POINTER);

    put_name(p, 0, ACPI_FILE_VMGENID_ADDRESS);
    put_name(p, 1, ACPI_FILE_VMGENID);
    put_le32(p + 120, ACPI_VMGENID_OFFSET);
    p[124] = 8;
}

static GByteArray *make_script(const AcpiTables *tables)
{
    GByteArray *script = g_byte_array_new();

    for (unsigned i = 0; i < ACPI_BLOBS; i++) {
        if (tables->blobs[i]->len) {
            allocate(script, i);
        }
    }
    for (guint i = 0; i < tables->links->len; i++) {
        add_pointer(script, &g_array_index(tables->links, AcpiLink, i));
    }
    for (guint i = 0; i < tables->checksums->len; i++) {
        add_checksum(script, &g_array_index(tables->checksums, AcpiChecksum, i));
    }
    if (tables->blobs[ACPI_VMGENID]->len) {
        write_pointer(script);
    }
    return script;
}

bool acpi_loader_add_files(FwCfg *fw_cfg, const AcpiTables *tables,
                           void (*vmgenid_placed)(void *opaque, const uint8_t *data, size_t len),
                           void *opaque, GError **errp)
{
    g_autoptr(GByteArray) script = make_script(tables);
    static const uint8_t nowhere[8];

    for (unsigned i = 0; i < ACPI_BLOBS; i++) {
        const GByteArray *blob = tables->blobs[i];

        if (blob->len && !fw_cfg_add_file(fw_cfg, blobs[i].name, blob->data, blob->len, errp)) {
            return false;
        }
    }
    if (tables->blobs[ACPI_VMGENID]->len &&
        !fw_cfg_add_writable_file(fw_cfg, ACPI_FILE_VMGENID_ADDRESS, nowhere, sizeof(nowhere),
                                  vmgenid_placed, opaque, errp)) {
        return false;
    }
    return fw_cfg_add_file(fw_cfg, ACPI_FILE_LOADER, script->data, script->len, errp);
}
