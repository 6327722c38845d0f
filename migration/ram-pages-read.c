/*
 * A sequential stream, read: pages go to their places, the rest is checked and kept.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "migration/ram-pages.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "migration/zero-page.h"
#include "util/crc32c.h"
#include "util/error.h"
#include "util/units.h"

#define BUFFER_SIZE (256 * KiB)
#define POLL_MS 50
/* Device state is small; a stream that claims more is damaged. */
#define TAIL_MAX (256 * MiB)

/* A name and a 64-bit word. */
#define WORD_MAX (8u + 1 + 255)
/* Header with all its subsections and the head of the first section. */
#define HEADER_MAX (20 * KiB)

typedef struct PageSource {
    RamPagesRead *r;
    uint8_t *buf;
    size_t pos, len;
    bool at_end;
    uint64_t length; /* bytes taken so far */
    uint32_t crc;    /* of those that are not pages */
    RamBlock *block; /* that the last word named */
} PageSource;

/* --- Input --- */

/* Reads once, behind what is in the buffer. */
static bool fill(PageSource *s, GError **errp)
{
    for (;;) {
        struct pollfd p = { .fd = s->r->fd, .events = POLLIN };
        ssize_t n;

        if (g_atomic_int_get(s->r->cancelled)) {
            error_set(errp, "the migration was cancelled");
            return false;
        }
        if (poll(&p, 1, POLL_MS) == 0) {
            continue;
        }
        n = read(s->r->fd, s->buf + s->len, BUFFER_SIZE - s->len);
        if (n >= 0) {
            s->len += n;
            s->at_end = n == 0;
            return true;
        }
        if (errno != EINTR && errno != EAGAIN) {
            error_set_errno(errp, errno, "cannot read the migration stream");
            return false;
        }
    }
}

/* The next n bytes, or all there are, ready to be parsed. */
static bool peek(PageSource *s, size_t n, ByteReader *ret_in, GError **errp)
{
    if (s->len - s->pos < n) {
        memmove(s->buf, s->buf + s->pos, s->len - s->pos);
        s->len -= s->pos;
        s->pos = 0;
    }
    while (s->len < n && !s->at_end) {
        if (!fill(s, errp)) {
            return false;
        }
    }
    *ret_in = byte_reader_init(s->buf + s->pos, s->len - s->pos);
    return true;
}

/* What was parsed is over; it counts into the checksum. */
static void consume(PageSource *s, const ByteReader *in)
{
    s->crc = crc32c(s->crc, in->data, in->pos);
    s->pos += in->pos;
    s->length += in->pos;
}

/* Bytes that do not count into the checksum. */
static bool take(PageSource *s, uint8_t *to, size_t len, GError **errp)
{
    while (len) {
        size_t n = MIN(len, s->len - s->pos);

        memcpy(to, s->buf + s->pos, n);
        s->pos += n;
        s->length += n;
        to += n;
        len -= n;
        if (len) {
            s->pos = s->len = 0;
            if (!fill(s, errp)) {
                return false;
            }
            if (s->at_end) {
                error_set(errp, "the migration stream is cut off after %" PRIu64 " bytes",
                          s->length);
                return false;
            }
        }
    }
    return true;
}

/* --- Head of the RAM section --- */

static bool read_header(PageSource *s, GError **errp)
{
    StreamSection section;
    ByteReader in;
    uint8_t mark;

    if (!peek(s, HEADER_MAX, &in, errp) || !stream_get_header(&in, &s->r->config, errp) ||
        !byte_reader_get_u8(&in, &mark, errp) || !stream_get_section(&in, mark, &section, errp)) {
        return false;
    }
    if (s->r->config.mapped_ram || strcmp(section.idstr, RAM_DELTA_SECTION_NAME) == 0) {
        error_set(errp, "this is a snapshot file with fixed offsets; give the file itself "
                        "(file:PATH or an fd of it), not a pipe or socket");
        return false;
    }
    if (mark != STREAM_SECTION_START || strcmp(section.idstr, RAM_SECTION_NAME) != 0 ||
        section.version != RAM_SECTION_VERSION || section.id != STREAM_SECTION_ID_RAM) {
        error_set(errp, "the stream begins with the section '%s', version %u, instead of RAM",
                  section.idstr, section.version);
        return false;
    }
    if (strcmp(s->r->config.machine_type, s->r->machine_type) != 0) {
        error_set(errp, "the state is of a machine '%s', this one is '%s'",
                  s->r->config.machine_type, s->r->machine_type);
        return false;
    }
    consume(s, &in);
    return true;
}

static bool read_block_head(PageSource *s, uint64_t *ret_length, GError **errp)
{
    g_autofree char *name = NULL;
    const RamBlock *block;
    uint64_t length;
    ByteReader in;

    if (!peek(s, WORD_MAX, &in, errp) || !byte_reader_get_counted_string(&in, &name, errp) ||
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
    consume(s, &in);
    *ret_length = length;
    return true;
}

static bool read_section_end(PageSource *s, GError **errp)
{
    ByteReader in;

    if (!peek(s, 5, &in, errp) || !stream_get_footer(&in, STREAM_SECTION_ID_RAM, errp)) {
        return false;
    }
    consume(s, &in);
    return true;
}

static bool read_word(PageSource *s, uint64_t *ret_word, GError **errp)
{
    ByteReader in;

    if (!peek(s, 8, &in, errp) || !byte_reader_get_be64(&in, ret_word, errp)) {
        return false;
    }
    consume(s, &in);
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
    return expect_word(s, RAM_FLAG_EOS, errp) && read_section_end(s, errp);
}

/* --- Pages --- */

static bool read_page_head(PageSource *s, uint64_t *ret_word, GError **errp)
{
    g_autofree char *name = NULL;
    ByteReader in;
    uint64_t word;

    if (!peek(s, WORD_MAX, &in, errp) || !byte_reader_get_be64(&in, &word, errp)) {
        return false;
    }
    if (!(word & (RAM_FLAG_EOS | RAM_FLAG_CONTINUE))) {
        if (!byte_reader_get_counted_string(&in, &name, errp)) {
            return false;
        }
        s->block = ram_list_find(s->r->ram, name);
    }
    consume(s, &in);
    *ret_word = word;
    return true;
}

static bool check_page(const PageSource *s, uint64_t word, GError **errp)
{
    unsigned flags = word & RAM_FLAG_MASK & ~RAM_FLAG_CONTINUE;

    if ((flags != RAM_FLAG_PAGE && flags != RAM_FLAG_ZERO) || !s->block ||
        (word & ~RAM_FLAG_MASK) >= s->block->size) {
        error_set(errp, "the RAM section is damaged: 0x%016" PRIx64 " is no page of block '%s'",
                  word, s->block ? s->block->name : "(none)");
        return false;
    }
    return true;
}

static bool read_zero_page(PageSource *s, uint8_t *page, GError **errp)
{
    ByteReader in;
    uint8_t fill_byte;

    if (!peek(s, 1, &in, errp) || !byte_reader_get_u8(&in, &fill_byte, errp)) {
        return false;
    }
    consume(s, &in);
    /* Writing zeros to a page that is zero would only use memory. */
    if (fill_byte || !page_is_zero(page)) {
        memset(page, fill_byte, STREAM_PAGE_SIZE);
    }
    return true;
}

static bool read_pages(PageSource *s, GError **errp)
{
    for (;;) {
        uint64_t word;
        uint8_t *page;

        if (!read_page_head(s, &word, errp)) {
            return false;
        }
        if (word == RAM_FLAG_EOS) {
            return read_section_end(s, errp);
        }
        if (!check_page(s, word, errp)) {
            return false;
        }
        page = s->block->host + (word & ~RAM_FLAG_MASK);
        if (!(word & RAM_FLAG_ZERO ? read_zero_page(s, page, errp)
                                   : take(s, page, STREAM_PAGE_SIZE, errp))) {
            return false;
        }
    }
}

/* PART sections may come any number of times, END once. */
static bool read_parts(PageSource *s, GError **errp)
{
    for (;;) {
        ByteReader in;
        uint8_t mark;

        if (!peek(s, 5, &in, errp) || !byte_reader_get_u8(&in, &mark, errp)) {
            return false;
        }
        if (mark != STREAM_SECTION_PART && mark != STREAM_SECTION_END) {
            error_set(errp, "the stream goes on with 0x%02x instead of RAM", mark);
            return false;
        }
        if (!stream_get_section_more(&in, STREAM_SECTION_ID_RAM, errp)) {
            return false;
        }
        consume(s, &in);
        if (!read_pages(s, errp)) {
            return false;
        }
        if (mark == STREAM_SECTION_END) {
            return true;
        }
    }
}

/* --- The end --- */

static bool read_info(PageSource *s, GError **errp)
{
    StreamSection section;
    ByteReader in;
    size_t crc_pos;
    uint8_t mark;

    if (!peek(s, KiB, &in, errp) || !byte_reader_get_u8(&in, &mark, errp) ||
        !stream_get_section(&in, mark, &section, errp)) {
        return false;
    }
    if (mark != STREAM_SECTION_FULL || strcmp(section.idstr, SNAPSHOT_SECTION_NAME) != 0) {
        error_set(errp, "the stream has the section '%s' where '%s' was expected", section.idstr,
                  SNAPSHOT_SECTION_NAME);
        return false;
    }
    if (!snapshot_info_get(&in, section.version, &s->r->info, &crc_pos, errp) ||
        !stream_get_footer(&in, section.id, errp)) {
        return false;
    }
    memset(s->buf + s->pos + crc_pos, 0, sizeof(s->r->info.crc));
    consume(s, &in);
    return true;
}

static bool read_tail(PageSource *s, GError **errp)
{
    const SnapshotInfo *info = &s->r->info;

    if (info->tail_length > TAIL_MAX) {
        error_set(errp, "the stream claims %" PRIu64 " bytes of device state", info->tail_length);
        return false;
    }
    s->r->tail = g_byte_array_new();
    g_byte_array_set_size(s->r->tail, info->tail_length);
    if (!take(s, s->r->tail->data, info->tail_length, errp)) {
        return false;
    }
    s->crc = crc32c(s->crc, s->r->tail->data, info->tail_length);
    if (s->crc != info->crc || s->length != info->length) {
        error_set(errp,
                  "the stream is damaged: checksum 0x%08x instead of 0x%08x, %" PRIu64
                  " bytes instead of %" PRIu64,
                  s->crc, info->crc, s->length, info->length);
        return false;
    }
    return true;
}

/* Whatever was in the blocks before must not shine through where no page comes. */
static void clear_block(RamBlock *block)
{
    if (block->kind == RAM_ANONYMOUS && madvise(block->host, block->size, MADV_DONTNEED) == 0) {
        return;
    }
    for (uint64_t pos = 0; pos < block->size; pos += STREAM_PAGE_SIZE) {
        if (!page_is_zero(block->host + pos)) {
            memset(block->host + pos, 0, STREAM_PAGE_SIZE);
        }
    }
}

static bool read_all(RamPagesRead *r, GError **errp)
{
    g_autofree uint8_t *buf = g_malloc(BUFFER_SIZE);
    PageSource s = { .r = r, .buf = buf };

    if (!read_header(&s, errp) || !read_start(&s, errp)) {
        return false;
    }
    for (unsigned i = 0; i < ram_list_count(r->ram); i++) {
        clear_block(ram_list_get(r->ram, i));
    }
    return read_parts(&s, errp) && read_info(&s, errp) && read_tail(&s, errp);
}

bool ram_pages_read(RamPagesRead *r, GError **errp)
{
    if (!read_all(r, errp)) {
        g_prefix_error(errp, "migration stream: ");
        return false;
    }
    return true;
}
