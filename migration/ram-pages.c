/*
 * A sequential stream, written: RAM as runs of pages, for pipes and sockets.
 *
 * Each run has a head in front: its offset and flags, the name of its block if that is another one than
 * before, its length. Heads are collected in a buffer and go out together with the pages, which are not
 * copied.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "migration/ram-pages.h"

#include "memory/base-guard.h"
#include "migration/base-data.h"
#include "migration/stream-output.h"
#include "util/crc32c.h"
#include "util/error.h"
#include "util/units.h"
#include "util/zero-page.h"

#define BATCH_RUNS 256
#define BATCH_BYTES (UINT64_C(1) * MiB)
/* The longest head: 64-bit word, name of a block, number of pages. */
#define HEAD_MAX (8u + 1 + 255 + 4)
/* What is put in one piece without a look at the batch, besides a head. */
#define START_MAX (64 * KiB)

struct RamPagesStream {
    RamPagesWrite w;
    StreamOutput out;
    uint64_t length; /* bytes put so far */
    uint32_t crc;
    const RamBlock *last; /* that the last word named */
    GByteArray *words;    /* what is not a page, of the batch */
    struct iovec iov[2 * BATCH_RUNS + 1];
    int n_iov;
    guint word_start; /* of the words not yet in iov */
    uint64_t batch_bytes;
    bool again; /* zero pages are put too */
};

/* --- Output --- */

/* Words put since the last page become an element; they must not move any more. */
static void seal_words(RamPagesStream *s)
{
    guint len = s->words->len - s->word_start;

    if (len) {
        s->iov[s->n_iov++] =
            (struct iovec){ .iov_base = s->words->data + s->word_start, .iov_len = len };
        s->crc = crc32c(s->crc, s->words->data + s->word_start, len);
        s->word_start = s->words->len;
        s->batch_bytes += len;
    }
}

static bool flush(RamPagesStream *s, GError **errp)
{
    bool ok;

    seal_words(s);
    ok = transfer_control_wait(s->w.control, s->batch_bytes, errp) &&
         stream_output_put(&s->out, s->iov, s->n_iov, errp);
    s->length += s->batch_bytes;
    s->batch_bytes = 0;
    s->n_iov = 0;
    s->word_start = 0;
    g_byte_array_set_size(s->words, 0);
    return ok;
}

/* --- Pages --- */

static void put_head(RamPagesStream *s, const RamBlock *block, uint64_t offset, uint64_t length,
                     unsigned flags)
{
    bool same = s->last == block;

    byte_array_put_be64(s->words, offset | flags | RAM_FLAG_RUN | (same ? RAM_FLAG_CONTINUE : 0));
    if (!same) {
        byte_array_put_counted_string(s->words, block->name);
        s->last = block;
    }
    byte_array_put_be32(s->words, length / STREAM_PAGE_SIZE);
}

/* The arrays are large enough for one more: elements of iov stay valid. */
static bool batch_is_full(const RamPagesStream *s)
{
    return s->batch_bytes >= BATCH_BYTES || s->n_iov + 2 >= (int)G_N_ELEMENTS(s->iov) ||
           s->words->len >= BATCH_RUNS * HEAD_MAX;
}

static bool put_pages(RamPagesStream *s, RamBlock *block, uint64_t from, uint64_t to, GError **errp)
{
    put_head(s, block, from, to - from, 0);
    seal_words(s);
    s->iov[s->n_iov++] = (struct iovec){ .iov_base = block->host + from, .iov_len = to - from };
    s->batch_bytes += to - from;
    transfer_count(&s->w.control->normal_pages, (to - from) / STREAM_PAGE_SIZE);
    return !batch_is_full(s) || flush(s, errp);
}

static bool put_zeros(RamPagesStream *s, RamBlock *block, uint64_t from, uint64_t to, GError **errp)
{
    transfer_count(&s->w.control->zero_pages, (to - from) / STREAM_PAGE_SIZE);
    /* At first all memory of the reader is zero. */
    if (!s->again) {
        return true;
    }
    put_head(s, block, from, to - from, RAM_FLAG_ZERO);
    return !batch_is_full(s) || flush(s, errp);
}

/* The end of the pages from `from` on that are all zero, or all not; at the limit at the latest. */
static uint64_t run_end(const RamBlock *block, uint64_t from, uint64_t to, bool *ret_zero)
{
    uint64_t end = from + STREAM_PAGE_SIZE;

    *ret_zero = page_is_zero(block->host + from);
    to = MIN(to, ROUND_DOWN(from, RAM_RUN_MAX) + RAM_RUN_MAX);
    while (end < to && page_is_zero(block->host + end) == *ret_zero) {
        end += STREAM_PAGE_SIZE;
    }
    return end;
}

static bool put_run(RamPagesStream *s, RamBlock *block, uint64_t from, uint64_t to, GError **errp)
{
    while (from < to) {
        bool zero;
        uint64_t end = run_end(block, from, to, &zero);

        if (!(zero ? put_zeros : put_pages)(s, block, from, end, errp)) {
            return false;
        }
        transfer_count(&s->w.control->done_bytes, end - from);
        from = end;
    }
    return true;
}

/* Unchanged pages, from the mapping; holes of the base are left out. */
static bool put_unchanged(RamPagesStream *s, RamBlock *block, uint64_t from, uint64_t to,
                          GError **errp)
{
    while (from < to) {
        BaseRun run;
        bool more;

        g_rw_lock_reader_lock(&block->layout);
        more = base_data_next(block, from, to, &run);
        g_rw_lock_reader_unlock(&block->layout);
        if (!more) {
            break;
        }
        transfer_count(&s->w.control->done_bytes, run.from - from);
        if (!put_run(s, block, run.from, run.to, errp)) {
            return false;
        }
        from = run.to;
    }
    transfer_count(&s->w.control->done_bytes, to - from);
    return true;
}

static bool put_block(RamPagesStream *s, const RamPlanBlock *plan, GError **errp)
{
    RamBlock *block = plan->block;
    uint64_t pos = 0;

    for (guint i = 0; i < plan->ranges->len; i++) {
        const PageRange *r = &g_array_index(plan->ranges, PageRange, i);
        uint64_t end = r->offset + r->length;

        if (!put_unchanged(s, block, pos, r->offset, errp)) {
            return false;
        }
        if (r->kind != PAGE_ZERO && !put_run(s, block, r->offset, end, errp)) {
            return false;
        }
        pos = end;
    }
    return put_unchanged(s, block, pos, block->size, errp);
}

/* --- The parts of the stream --- */

static void put_start(RamPagesStream *s, const StreamConfig *config)
{
    RamList *ram = s->w.ram;

    stream_put_header(s->words, config);
    stream_put_section(s->words, STREAM_SECTION_START, STREAM_SECTION_ID_RAM, RAM_SECTION_NAME, 0,
                       RAM_SECTION_VERSION_RUNS);
    byte_array_put_be64(s->words, ram_list_total(ram) | RAM_FLAG_MEM_SIZE);
    for (unsigned i = 0; i < ram_list_count(ram); i++) {
        byte_array_put_counted_string(s->words, ram_list_get(ram, i)->name);
        byte_array_put_be64(s->words, ram_list_get(ram, i)->size);
    }
    byte_array_put_be64(s->words, RAM_FLAG_EOS);
    stream_put_footer(s->words, STREAM_SECTION_ID_RAM);
}

static bool end_section(RamPagesStream *s, GError **errp)
{
    byte_array_put_be64(s->words, RAM_FLAG_EOS);
    stream_put_footer(s->words, STREAM_SECTION_ID_RAM);
    return flush(s, errp);
}

/* Everything after RAM is known: its length and checksum stand in front of it. */
static bool put_tail(RamPagesStream *s, CapturedState *state, GError **errp)
{
    g_autoptr(GByteArray) tail = g_byte_array_new();
    struct iovec iov;

    captured_state_put(state, tail, s->length, s->crc);
    iov = (struct iovec){ .iov_base = tail->data, .iov_len = tail->len };
    return stream_output_put(&s->out, &iov, 1, errp);
}

/* --- The stream --- */

void ram_pages_free(RamPagesStream *stream)
{
    if (stream) {
        g_byte_array_unref(stream->words);
        g_free(stream);
    }
}

RamPagesStream *ram_pages_open(const RamPagesWrite *w, const StreamConfig *config, GError **errp)
{
    g_autoptr(RamPagesStream) s = g_new0(RamPagesStream, 1);

    s->w = *w;
    /* Never grows while elements of iov point into it: a batch has at most this. */
    s->words = g_byte_array_sized_new((BATCH_RUNS + 1) * HEAD_MAX + START_MAX);
    if (!stream_output_init(&s->out, w->fd, w->control, errp)) {
        return NULL;
    }
    put_start(s, config);
    return flush(s, errp) ? g_steal_pointer(&s) : NULL;
}

bool ram_pages_put_all(RamPagesStream *s, const RamPlan *plan, GError **errp)
{
    /* These are not looked at: who watches the progress sees what takes time. */
    transfer_count(&s->w.control->done_bytes, plan->stats.zero_pages * STREAM_PAGE_SIZE);
    stream_put_section_more(s->words, STREAM_SECTION_PART, STREAM_SECTION_ID_RAM);
    for (unsigned i = 0; i < plan->n_blocks; i++) {
        if (!put_block(s, &plan->blocks[i], errp)) {
            return false;
        }
    }
    return end_section(s, errp);
}

bool ram_pages_put_again(RamPagesStream *s, const RamPlan *plan, GError **errp)
{
    s->again = true;
    stream_put_section_more(s->words, STREAM_SECTION_PART, STREAM_SECTION_ID_RAM);
    for (unsigned i = 0; i < plan->n_blocks; i++) {
        const GArray *ranges = plan->blocks[i].ranges;

        for (guint k = 0; k < ranges->len; k++) {
            const PageRange *r = &g_array_index(ranges, PageRange, k);

            if (!put_run(s, plan->blocks[i].block, r->offset, r->offset + r->length, errp)) {
                return false;
            }
        }
    }
    return end_section(s, errp);
}

bool ram_pages_finish(RamPagesStream *s, CapturedState *state, GError **errp)
{
    stream_put_section_more(s->words, STREAM_SECTION_END, STREAM_SECTION_ID_RAM);
    return end_section(s, errp) && ram_list_check_read(s->w.ram, errp) && put_tail(s, state, errp);
}

bool ram_pages_write(const RamPagesWrite *w, CapturedState *state, GError **errp)
{
    g_autoptr(RamPagesStream) s = ram_pages_open(w, &state->config, errp);

    return s && ram_pages_put_all(s, w->plan, errp) && ram_pages_finish(s, state, errp);
}
