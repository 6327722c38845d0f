/*
 * A dump as an ELF core file.
 *
 * Memory is told in segments that follow one another without a gap. A segment's bytes in the file end where only zeros
 * follow for a while, up to its length in memory: the ELF specification says that the rest is zero. So a dump
 * takes no more room than the guest has used, through a pipe too. Readers search segments one by one, so there are
 * never more than about 4096.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <elf.h>
#include <string.h>

#include "dump/format.h"
#include "util/units.h"

#define PAGE UINT64_C(4096)
#define MAX_GAPS 4096

/* In bytes. The first @filled bytes are in the file. */
typedef struct Segment {
    uint64_t address;
    uint64_t length;
    uint64_t filled;
} Segment;

/* --- Segments --- */

typedef struct SegmentList {
    GArray *segments;
    uint64_t gap; /* zeros of at least this length are left out of the file */
} SegmentList;

static void end_segment(SegmentList *list, uint64_t end)
{
    Segment *last = &g_array_index(list->segments, Segment, list->segments->len - 1);

    last->length = end - last->address;
}

static void begin_segment(SegmentList *list, uint64_t address)
{
    Segment segment = { .address = address };

    g_array_append_val(list->segments, segment);
}

/* The pieces of one range; returns the index of the first that is not. */
static guint cut_range(SegmentList *list, const DumpRange *r, const GArray *pieces, guint at)
{
    begin_segment(list, r->address);
    for (; at < pieces->len; at++) {
        const DumpPiece *p = &g_array_index(pieces, DumpPiece, at);
        Segment *last = &g_array_index(list->segments, Segment, list->segments->len - 1);

        if (p->address >= r->address + r->length) {
            break;
        }
        if (p->address - (last->address + last->filled) >= list->gap) {
            end_segment(list, p->address);
            begin_segment(list, p->address);
            last = &g_array_index(list->segments, Segment, list->segments->len - 1);
        }
        last->filled = p->address + p->length - last->address;
    }
    end_segment(list, r->address + r->length);
    return at;
}

static GArray *make_segments(const DumpMap *map)
{
    SegmentList list = { .segments = g_array_new(FALSE, FALSE, sizeof(Segment)),
                         .gap = MAX(MiB, map->total / MAX_GAPS) };
    guint at = 0;

    for (guint i = 0; i < map->ranges->len; i++) {
        at = cut_range(&list, &g_array_index(map->ranges, DumpRange, i), map->pieces, at);
    }
    return list.segments;
}

/* --- Headers --- */

static void put_elf_header(GByteArray *out, unsigned n_headers)
{
    Elf64_Ehdr e = {
        .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
        .e_type = ET_CORE,
        .e_machine = EM_X86_64,
        .e_version = EV_CURRENT,
        .e_phoff = sizeof(e),
        .e_ehsize = sizeof(e),
        .e_phentsize = sizeof(Elf64_Phdr),
        .e_phnum = n_headers,
    };

    g_byte_array_append(out, (const guint8 *)&e, sizeof(e));
}

static void put_program_header(GByteArray *out, const Elf64_Phdr *header)
{
    g_byte_array_append(out, (const guint8 *)header, sizeof(*header));
}

/* Everything before the first byte of memory, which begins on a page. */
static GByteArray *make_headers(const GArray *segments, const GByteArray *notes)
{
    unsigned n = segments->len + 1;
    uint64_t notes_at = sizeof(Elf64_Ehdr) + n * sizeof(Elf64_Phdr);
    uint64_t at = ROUND_UP(notes_at + notes->len, PAGE);
    GByteArray *out = g_byte_array_new();
    Elf64_Phdr note = {
        .p_type = PT_NOTE, .p_offset = notes_at, .p_filesz = notes->len, .p_memsz = notes->len
    };
    guint header_end;

    put_elf_header(out, n);
    put_program_header(out, &note);
    for (guint i = 0; i < segments->len; i++) {
        const Segment *s = &g_array_index(segments, Segment, i);
        Elf64_Phdr load = { .p_type = PT_LOAD,
                            .p_flags = PF_R | PF_W | PF_X,
                            .p_offset = at,
                            .p_paddr = s->address,
                            .p_filesz = s->filled,
                            .p_memsz = s->length };

        put_program_header(out, &load);
        at += s->filled;
    }
    g_byte_array_append(out, notes->data, notes->len);
    header_end = out->len;
    g_byte_array_set_size(out, ROUND_UP(header_end, PAGE));
    memset(out->data + header_end, 0, out->len - header_end);
    return out;
}

/* --- Memory --- */

/* *at, the index of the first piece of the segment, is moved to that of the next one. */
static bool write_segment(DumpOutput *out, const DumpContents *c, const Segment *s, guint *at,
                          GError **errp)
{
    const GArray *pieces = c->map->pieces;
    uint64_t cursor = s->address, end = s->address + s->filled;

    for (; cursor < end; (*at)++) {
        const DumpPiece *p = &g_array_index(pieces, DumpPiece, *at);

        if (!dump_output_zeros(out, p->address - cursor, errp) ||
            !dump_output_piece(out, p, c->completed, errp)) {
            return false;
        }
        dump_count(c, p->address - cursor);
        cursor = p->address + p->length;
    }
    dump_count(c, s->length - s->filled);
    return true;
}

bool dump_write_elf(DumpOutput *out, const DumpContents *contents, GError **errp)
{
    g_autoptr(GArray) segments = make_segments(contents->map);
    g_autoptr(GByteArray) headers = make_headers(segments, contents->notes);
    guint at = 0;

    if (!dump_output_write(out, headers->data, headers->len, errp)) {
        return false;
    }
    for (guint i = 0; i < segments->len; i++) {
        if (!write_segment(out, contents, &g_array_index(segments, Segment, i), &at, errp)) {
            return false;
        }
    }
    return true;
}
