/*
 * A sequential stream, read: pages go to their places or, of a file, are noted; the rest is checked and
 * kept.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "migration/ram-pages.h"

#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#include "util/error.h"
#include "util/units.h"
#include "util/zero-page.h"

/* A 64-bit word, a name, the number of pages of a run or the length of a block. */
#define HEAD_MAX (8u + 1 + 255 + 8)
/* From this length on memory is dense: huge pages make it faster to fill. */
#define LONG_RUN MiB

typedef struct PageSource {
    RamPagesRead *r;
    PageInput *in;
    RamBlock *block; /* that the last head named */
    bool hinted;     /* the block has had its hint */
} PageSource;

/* --- Head of the RAM section --- */

static bool check_section(const StreamSection *section, GError **errp)
{
    if (section->mark != STREAM_SECTION_START || strcmp(section->idstr, RAM_SECTION_NAME) != 0 ||
        section->version != RAM_SECTION_VERSION_RUNS || section->id != STREAM_SECTION_ID_RAM) {
        error_set(errp, "the stream begins with the section '%s', version %u, instead of RAM",
                  section->idstr, section->version);
        return false;
    }
    return true;
}

static bool read_block_head(PageSource *s, uint64_t *ret_length, GError **errp)
{
    g_autofree char *name = NULL;
    const RamBlock *block;
    uint64_t length;
    ByteReader in;

    if (!page_input_peek(s->in, HEAD_MAX, &in, errp) ||
        !byte_reader_get_counted_string(&in, &name, errp) ||
        !byte_reader_get_be64(&in, &length, errp)) {
        return false;
    }
    block = ram_list_find(s->r->ram, name);
    if (!block || block->size != length) {
        error_set(errp,
                  "the state has a RAM block '%s' of %" PRIu64 " bytes; this machine has %s of "
                  "%" PRIu64 " bytes; start it with the same -m",
                  name, length, block ? "one" : "none", block ? block->size : 0);
        return false;
    }
    page_input_consume(s->in, &in);
    *ret_length = length;
    return true;
}

static bool read_word(PageSource *s, uint64_t *ret_word, GError **errp)
{
    ByteReader in;

    if (!page_input_peek(s->in, 8, &in, errp) || !byte_reader_get_be64(&in, ret_word, errp)) {
        return false;
    }
    page_input_consume(s->in, &in);
    return true;
}

static bool expect_word(PageSource *s, uint64_t want, GError **errp)
{
    uint64_t word;

    if (!read_word(s, &word, errp)) {
        return false;
    }
    if (word != want) {
        error_set(errp, "the RAM section has 0x%" PRIx64 " where 0x%" PRIx64 " was expected", word,
                  want);
        return false;
    }
    return true;
}

static bool read_start(PageSource *s, GError **errp)
{
    uint64_t total = ram_list_total(s->r->ram), word, length, seen = 0;

    if (!read_word(s, &word, errp)) {
        return false;
    }
    if (word != (total | RAM_FLAG_MEM_SIZE)) {
        error_set(errp,
                  "the state has %" PRIu64 " bytes of RAM, this machine has %" PRIu64
                  "; start it with the same -m",
                  word & ~RAM_FLAG_MASK, total);
        return false;
    }
    while (seen < total) {
        if (!read_block_head(s, &length, errp)) {
            return false;
        }
        seen += length;
    }
    return expect_word(s, RAM_FLAG_EOS, errp) && stream_frame_read_footer(s->in, errp);
}

/* --- Pages --- */

/* One run; flags tell of what kind. */
typedef struct RunHead {
    unsigned flags;
    uint64_t offset;
    uint64_t length;
} RunHead;

static bool check_run(const PageSource *s, const RunHead *head, GError **errp)
{
    unsigned flags = head->flags & ~(RAM_FLAG_CONTINUE | RAM_FLAG_ZERO);

    if (flags != RAM_FLAG_RUN || !s->block || head->length == 0 || head->offset >= s->block->size ||
        head->length > s->block->size - head->offset) {
        error_set(errp,
                  "the RAM section is damaged: 0x%016" PRIx64 " is no run of %" PRIu64
                  " bytes of block '%s'",
                  head->offset | head->flags, head->length, s->block ? s->block->name : "(none)");
        return false;
    }
    return true;
}

static bool read_run_head(PageSource *s, RunHead *ret_head, GError **errp)
{
    g_autofree char *name = NULL;
    uint32_t pages = 0;
    ByteReader in;
    uint64_t word;

    if (!page_input_peek(s->in, HEAD_MAX, &in, errp) || !byte_reader_get_be64(&in, &word, errp)) {
        return false;
    }
    if (!(word & (RAM_FLAG_EOS | RAM_FLAG_CONTINUE))) {
        if (!byte_reader_get_counted_string(&in, &name, errp)) {
            return false;
        }
        s->block = ram_list_find(s->r->ram, name);
        s->hinted = false;
    }
    if (word != RAM_FLAG_EOS && !byte_reader_get_be32(&in, &pages, errp)) {
        return false;
    }
    page_input_consume(s->in, &in);
    *ret_head = (RunHead){ .flags = word & RAM_FLAG_MASK,
                           .offset = word & ~RAM_FLAG_MASK,
                           .length = (uint64_t)pages * STREAM_PAGE_SIZE };
    return word == RAM_FLAG_EOS || check_run(s, ret_head, errp);
}

/* Writing zeros to pages that are zero would only use memory. */
static void clear_pages(RamBlock *block, uint64_t from, uint64_t length)
{
    for (uint64_t pos = from; pos < from + length; pos += STREAM_PAGE_SIZE) {
        if (!page_is_zero(block->host + pos)) {
            memset(block->host + pos, 0, STREAM_PAGE_SIZE);
        }
    }
}

static bool note_run(PageSource *s, const RunHead *head, GError **errp)
{
    PackedRun run = { .block = s->block, .offset = head->offset, .length = head->length };

    run.zero = head->flags & RAM_FLAG_ZERO;
    if (!run.zero && !page_input_skip(s->in, run.length, &run.file_offset, errp)) {
        return false;
    }
    g_array_append_val(s->r->runs, run);
    return true;
}

static bool fill_run(PageSource *s, const RunHead *head, GError **errp)
{
    if (head->flags & RAM_FLAG_ZERO) {
        clear_pages(s->block, head->offset, head->length);
        return true;
    }
    if (head->length >= LONG_RUN && !s->hinted) {
        ram_block_hint_hugepages(s->block);
        s->hinted = true;
    }
    return page_input_take(s->in, s->block->host + head->offset, head->length, errp);
}

static bool read_runs(PageSource *s, GError **errp)
{
    RunHead head;

    while (read_run_head(s, &head, errp)) {
        if (head.flags == RAM_FLAG_EOS) {
            return stream_frame_read_footer(s->in, errp);
        }
        if (!(s->r->runs ? note_run : fill_run)(s, &head, errp)) {
            return false;
        }
    }
    return false;
}

/* PART sections may come any number of times, END once. */
static bool read_parts(PageSource *s, GError **errp)
{
    for (;;) {
        ByteReader in;
        uint8_t mark;

        if (!page_input_peek(s->in, 5, &in, errp) || !byte_reader_get_u8(&in, &mark, errp)) {
            return false;
        }
        if (mark != STREAM_SECTION_PART && mark != STREAM_SECTION_END) {
            error_set(errp, "the stream goes on with 0x%02x instead of RAM", mark);
            return false;
        }
        if (!stream_get_section_more(&in, STREAM_SECTION_ID_RAM, errp)) {
            return false;
        }
        page_input_consume(s->in, &in);
        if (!read_runs(s, errp)) {
            return false;
        }
        if (mark == STREAM_SECTION_END) {
            return true;
        }
    }
}

/* --- The whole --- */

/* Whatever was in the blocks before must not shine through where no page comes. */
static void clear_block(RamBlock *block)
{
    if (block->kind == RAM_ANONYMOUS && madvise(block->host, block->size, MADV_DONTNEED) == 0) {
        return;
    }
    clear_pages(block, 0, block->size);
}

static bool read_all(PageSource *s, GError **errp)
{
    RamPagesRead *r = s->r;

    if (!read_start(s, errp)) {
        return false;
    }
    for (unsigned i = 0; !r->runs && i < ram_list_count(r->ram); i++) {
        clear_block(ram_list_get(r->ram, i));
    }
    return read_parts(s, errp) && stream_frame_read_end(s->in, &r->info, &r->tail, errp);
}

bool ram_pages_read(RamPagesRead *r, PageInput *in, const StreamSection *section, GError **errp)
{
    PageSource s = { .r = r, .in = in };

    if (!check_section(section, errp)) {
        return false;
    }
    if (in->is_file) {
        r->runs = g_array_new(FALSE, FALSE, sizeof(PackedRun));
    }
    return read_all(&s, errp);
}
