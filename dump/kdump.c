/*
 * A dump in the compressed format of kdump, as makedumpfile writes it and crash reads it (described in makedumpfile's
 * IMPLEMENTATION and in crash's diskdump.h), version 6, pages compressed with zlib.
 *
 *   block 0          header
 *   block 1          sub header, then the ELF notes
 *   two bitmaps      which pages are RAM; which of them are in the file (all)
 *   descriptors      of each page that is in the file: where its data is
 *   data             all pages of zeros share one
 *
 * It is written in the flattened form: pieces of that file, each with its place in front, so that a pipe will do.
 * Numbers of the flattening are big-endian, those of the file little-endian.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <string.h>
#include <zlib.h>

#include "dump/format.h"
#include "util/error.h"
#include "util/units.h"
#include "util/zero-page.h"

#define BLOCK UINT64_C(4096) /* a page too */
#define BATCH 256            /* pages; one record of descriptors and one of data */
#define FLAT_SIGNATURE "makedumpfile"
#define FLAT_END UINT64_MAX
#define STATUS_ZLIB 1u
#define PAGE_ZLIB 1u
#define LEVEL_NO_ZEROS 1u

typedef struct FlatHeader {
    char signature[16];
    uint64_t type;
    uint64_t version;
    uint8_t pad[4096 - 32];
} FlatHeader;

typedef struct FlatRecord {
    uint64_t offset;
    uint64_t size;
} FlatRecord;

typedef struct KdumpHeader {
    char signature[8];
    uint32_t version;
    char sysname[65], nodename[65], release[65], os_version[65], machine[65], domain[65];
    uint8_t pad[6];
    uint64_t seconds, microseconds;
    uint32_t status;
    uint32_t block_size;
    uint32_t sub_header_blocks;
    uint32_t bitmap_blocks;
    uint32_t max_pfn; /* of old readers; the sub header has all of it */
    uint32_t total_ram_blocks;
    uint32_t device_blocks;
    uint32_t written_blocks;
    uint32_t current_cpu;
    uint32_t n_cpus;
} KdumpHeader;

typedef struct KdumpSubHeader {
    uint64_t phys_base;
    uint32_t dump_level;
    uint32_t split;
    uint64_t start_pfn, end_pfn;
    uint64_t vmcoreinfo_offset, vmcoreinfo_size;
    uint64_t notes_offset, notes_size;
    uint64_t eraseinfo_offset, eraseinfo_size;
    uint64_t start_pfn_64, end_pfn_64, max_pfn_64;
} KdumpSubHeader;

typedef struct PageDescriptor {
    uint64_t offset;
    uint32_t size;
    uint32_t flags;
    uint64_t page_flags;
} PageDescriptor;

G_STATIC_ASSERT(sizeof(FlatHeader) == 4096);
G_STATIC_ASSERT(offsetof(KdumpHeader, seconds) == 408);
G_STATIC_ASSERT(sizeof(KdumpHeader) == 464);
G_STATIC_ASSERT(sizeof(KdumpSubHeader) == 104);
G_STATIC_ASSERT(sizeof(PageDescriptor) == 24);

typedef struct KdumpWriter {
    DumpOutput *out;
    const DumpContents *contents;
    uint64_t max_pfn;
    uint64_t sub_header_blocks, bitmap_blocks;
    uint64_t next_descriptor, next_data; /* places in the file */
    PageDescriptor zero;                 /* of every page of zeros */
    unsigned n_pages;                    /* in the batch */
    PageDescriptor descriptors[BATCH];
    size_t data_length;
    uint8_t data[BATCH * BLOCK];
    uint8_t input[BATCH * BLOCK] __attribute__((aligned(8))); /* what is read from a file */
    z_stream zlib;
} KdumpWriter;

/* --- Flattening --- */

static bool put_record(KdumpWriter *w, uint64_t offset, const void *data, uint64_t size,
                       GError **errp)
{
    FlatRecord record = { GUINT64_TO_BE(offset), GUINT64_TO_BE(size) };

    return size == 0 || (dump_output_write(w->out, &record, sizeof(record), errp) &&
                         dump_output_write(w->out, data, size, errp));
}

static bool put_flat_header(KdumpWriter *w, GError **errp)
{
    FlatHeader header = { .signature = FLAT_SIGNATURE,
                          .type = GUINT64_TO_BE(UINT64_C(1)),
                          .version = GUINT64_TO_BE(UINT64_C(1)) };

    return dump_output_write(w->out, &header, sizeof(header), errp);
}

static bool put_flat_end(KdumpWriter *w, GError **errp)
{
    FlatRecord record = { FLAT_END, FLAT_END };

    return dump_output_write(w->out, &record, sizeof(record), errp);
}

/* --- Headers and bitmaps --- */

static void lay_out(KdumpWriter *w)
{
    const GArray *ranges = w->contents->map->ranges;
    const DumpRange *last = &g_array_index(ranges, DumpRange, ranges->len - 1);
    uint64_t notes = sizeof(KdumpSubHeader) + w->contents->notes->len;

    w->max_pfn = (last->address + last->length) / BLOCK;
    w->sub_header_blocks = DIV_ROUND_UP(notes, BLOCK);
    w->bitmap_blocks = 2 * DIV_ROUND_UP(w->max_pfn, BLOCK * 8);
    w->next_descriptor = (1 + w->sub_header_blocks + w->bitmap_blocks) * BLOCK;
    w->next_data = w->next_descriptor + w->contents->map->total / BLOCK * sizeof(PageDescriptor);
}

static bool put_header(KdumpWriter *w, GError **errp)
{
    uint64_t now = g_get_real_time();
    KdumpHeader header = {
        .version = 6,
        .machine = "x86_64",
        .seconds = now / G_USEC_PER_SEC,
        .microseconds = now % G_USEC_PER_SEC,
        .status = STATUS_ZLIB,
        .block_size = BLOCK,
        .sub_header_blocks = w->sub_header_blocks,
        .bitmap_blocks = w->bitmap_blocks,
        .max_pfn = MIN(w->max_pfn, UINT32_MAX),
        .n_cpus = w->contents->n_cpus,
    };
    KdumpSubHeader sub = {
        .dump_level = LEVEL_NO_ZEROS,
        .notes_offset = BLOCK + sizeof(sub),
        .notes_size = w->contents->notes->len,
        .max_pfn_64 = w->max_pfn,
    };

    memcpy(header.signature, "KDUMP   ", sizeof(header.signature));
    return put_record(w, 0, &header, sizeof(header), errp) &&
           put_record(w, BLOCK, &sub, sizeof(sub), errp) &&
           put_record(w, sub.notes_offset, w->contents->notes->data, sub.notes_size, errp);
}

static bool put_bitmaps(KdumpWriter *w, GError **errp)
{
    const GArray *ranges = w->contents->map->ranges;
    uint64_t size = w->bitmap_blocks / 2 * BLOCK, at = (1 + w->sub_header_blocks) * BLOCK;
    g_autofree uint8_t *bits = g_malloc0(size);

    for (guint i = 0; i < ranges->len; i++) {
        const DumpRange *r = &g_array_index(ranges, DumpRange, i);

        for (uint64_t pfn = r->address / BLOCK; pfn < (r->address + r->length) / BLOCK; pfn++) {
            bits[pfn / 8] |= 1u << (pfn % 8);
        }
    }
    return put_record(w, at, bits, size, errp) && put_record(w, at + size, bits, size, errp);
}

/* --- Pages --- */

static bool flush_batch(KdumpWriter *w, GError **errp)
{
    uint64_t size = w->n_pages * sizeof(PageDescriptor);

    if (!put_record(w, w->next_descriptor, w->descriptors, size, errp) ||
        !put_record(w, w->next_data, w->data, w->data_length, errp)) {
        return false;
    }
    w->next_descriptor += size;
    w->next_data += w->data_length;
    dump_count(w->contents, w->n_pages * BLOCK);
    w->n_pages = 0;
    w->data_length = 0;
    return true;
}

/* A page as it goes into the file, at the end of the batch's data; one that does not get smaller stays as it is. */
static PageDescriptor pack_page(KdumpWriter *w, const uint8_t *page)
{
    uint8_t *to = w->data + w->data_length;
    PageDescriptor d = { .offset = w->next_data + w->data_length, .size = BLOCK };

    w->zlib.next_in = (Bytef *)page;
    w->zlib.avail_in = BLOCK;
    w->zlib.next_out = to;
    w->zlib.avail_out = BLOCK - 1;
    if (deflateReset(&w->zlib) == Z_OK && deflate(&w->zlib, Z_FINISH) == Z_STREAM_END) {
        d.size = w->zlib.total_out;
        d.flags = PAGE_ZLIB;
    } else {
        memcpy(to, page, BLOCK);
    }
    w->data_length += d.size;
    return d;
}

static bool add_descriptor(KdumpWriter *w, PageDescriptor d, GError **errp)
{
    w->descriptors[w->n_pages++] = d;
    return w->n_pages < BATCH || flush_batch(w, errp);
}

static bool put_zero_pages(KdumpWriter *w, uint64_t length, GError **errp)
{
    for (; length > 0; length -= BLOCK) {
        if (!add_descriptor(w, w->zero, errp)) {
            return false;
        }
    }
    return true;
}

/* The data of the page of zeros is there before any page needs it. */
static bool put_zero_data(KdumpWriter *w, GError **errp)
{
    w->zero = pack_page(w, w->input);
    return flush_batch(w, errp);
}

/* A page that is lost with its file reads as something: dump.c looks for that before the dump is called whole. */
static bool put_piece(KdumpWriter *w, const DumpPiece *piece, GError **errp)
{
    for (uint64_t at = 0; at < piece->length; at += sizeof(w->input)) {
        uint64_t n = MIN(piece->length - at, sizeof(w->input));
        const uint8_t *bytes = dump_piece_read(piece, at, w->input, n, errp);

        if (!bytes) {
            return false;
        }
        for (const uint8_t *page = bytes; page < bytes + n; page += BLOCK) {
            if (!add_descriptor(w, page_is_zero(page) ? w->zero : pack_page(w, page), errp)) {
                return false;
            }
        }
    }
    return true;
}

static bool put_range(KdumpWriter *w, const DumpRange *r, guint *next, GError **errp)
{
    const GArray *pieces = w->contents->map->pieces;
    uint64_t cursor = r->address, end = r->address + r->length;

    for (; *next < pieces->len; (*next)++) {
        const DumpPiece *p = &g_array_index(pieces, DumpPiece, *next);

        if (p->address >= end) {
            break;
        }
        if (!put_zero_pages(w, p->address - cursor, errp) || !put_piece(w, p, errp)) {
            return false;
        }
        cursor = p->address + p->length;
    }
    return put_zero_pages(w, end - cursor, errp);
}

static bool put_all(KdumpWriter *w, GError **errp)
{
    const GArray *ranges = w->contents->map->ranges;
    guint next = 0;

    if (!put_flat_header(w, errp) || !put_header(w, errp) || !put_bitmaps(w, errp) ||
        !put_zero_data(w, errp)) {
        return false;
    }
    for (guint i = 0; i < ranges->len; i++) {
        if (!put_range(w, &g_array_index(ranges, DumpRange, i), &next, errp)) {
            return false;
        }
    }
    return flush_batch(w, errp) && put_flat_end(w, errp);
}

bool dump_write_kdump_zlib(DumpOutput *out, const DumpContents *contents, GError **errp)
{
    g_autofree KdumpWriter *w = g_new0(KdumpWriter, 1);
    bool ok;

    w->out = out;
    w->contents = contents;
    if (deflateInit(&w->zlib, Z_BEST_SPEED) != Z_OK) {
        error_set(errp, "zlib cannot compress the dump: %s",
                  w->zlib.msg ? w->zlib.msg : "no memory");
        return false;
    }
    lay_out(w);
    ok = put_all(w, errp);
    deflateEnd(&w->zlib);
    return ok;
}
