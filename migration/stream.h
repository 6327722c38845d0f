/*
 * The outer form of a migration stream: magic, configuration, section heads and footers.
 *
 * The form is QEMU's published one (docs/devel/migration in its manual): all numbers are
 * big-endian, strings carry a length in front and no NUL.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MIGRATION_STREAM_H
#define COWBIRD_MIGRATION_STREAM_H

#include <glib.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

#include "vmstate/reader.h"

#define STREAM_MAGIC 0x5145564du /* "QEVM" */
#define STREAM_VERSION 3

/* First byte of every part of the stream. */
typedef enum StreamMark {
    STREAM_EOF = 0x00,
    STREAM_SECTION_START = 0x01,
    STREAM_SECTION_PART = 0x02,
    STREAM_SECTION_END = 0x03,
    STREAM_SECTION_FULL = 0x04,
    STREAM_VMDESCRIPTION = 0x06,
    STREAM_CONFIGURATION = 0x07,
    STREAM_SECTION_FOOTER = 0x7e,
} StreamMark;

/* Low bits of the 64-bit words of the RAM section; the rest is a page-aligned number. */
#define RAM_FLAG_ZERO 0x02u
#define RAM_FLAG_MEM_SIZE 0x04u
#define RAM_FLAG_PAGE 0x08u
#define RAM_FLAG_EOS 0x10u
#define RAM_FLAG_CONTINUE 0x20u
#define RAM_FLAG_RUN 0x400u
#define RAM_FLAG_MASK UINT64_C(0xfff)

#define RAM_SECTION_NAME "ram"
/* At fixed offsets, and as a run of pages. */
#define RAM_SECTION_VERSION 4
#define RAM_SECTION_VERSION_RUNS 5

/* Pages of guest RAM in files and streams, whatever the host's page size is. */
#define STREAM_PAGE_SIZE 4096u

/* Section numbers are free in the form; ours are fixed up to the first device. */
enum {
    STREAM_SECTION_ID_RELEASED = 1,
    STREAM_SECTION_ID_RAM = 2,
    STREAM_SECTION_ID_SNAPSHOT = 3,
    STREAM_SECTION_ID_FIRST_DEVICE = 4,
};

/* The configuration section. */
typedef struct StreamConfig {
    char *machine_type; /* owned */
    bool mapped_ram;    /* the RAM section lies at fixed offsets */
} StreamConfig;

void stream_config_clear(StreamConfig *config);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(StreamConfig, stream_config_clear)

/* The head of a START or FULL section. */
typedef struct StreamSection {
    StreamMark mark;
    uint32_t id;
    char idstr[256];
    uint32_t instance_id;
    uint32_t version;
} StreamSection;

void stream_put_header(GByteArray *out, const StreamConfig *config);
void stream_put_section(GByteArray *out, StreamMark mark, uint32_t id, const char *idstr,
                        uint32_t instance_id, uint32_t version);
/* PART and END sections name only their number. */
void stream_put_section_more(GByteArray *out, StreamMark mark, uint32_t id);
void stream_put_footer(GByteArray *out, uint32_t id);
/* EOF and, after it, the JSON description of the device state. */
void stream_put_end(GByteArray *out, json_object *description);

/* JSON of the configuration section, for the description. Owned by the caller. */
json_object *stream_describe_config(const StreamConfig *config);

bool stream_get_header(ByteReader *in, StreamConfig *ret_config, GError **errp);
/* Reads what follows a mark already read. */
bool stream_get_section(ByteReader *in, StreamMark mark, StreamSection *ret_section, GError **errp);
bool stream_get_section_more(ByteReader *in, uint32_t want_id, GError **errp);
bool stream_get_footer(ByteReader *in, uint32_t want_id, GError **errp);

#endif
