/*
 * A snapshot in a regular file: checked and taken apart into what it promises, nothing restored.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "migration/snapshot-file.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "migration/ram-delta-reader.h"
#include "migration/ram-released.h"
#include "migration/segment-reader.h"
#include "util/error.h"
#include "util/io.h"
#include "util/units.h"

#define MAPPED_RAM_VERSION 1
#define MAPPED_RAM_ALIGN MiB
#define BLOCKS_MAX 4096
/* The longest piece of the form that is parsed without asking for more bytes. */
#define PIECE_MAX (20 * KiB)

static void snapshot_block_free(SnapshotBlock *block)
{
    g_free(block->name);
    g_free(block->present);
    g_clear_pointer(&block->bitmap, g_byte_array_unref);
    g_clear_pointer(&block->extents, g_array_unref);
    g_clear_pointer(&block->zeros, g_array_unref);
    g_clear_pointer(&block->released, g_array_unref);
    g_free(block);
}

SnapshotFile *snapshot_file_new(int fd, const char *path, uint64_t start)
{
    SnapshotFile *file = g_new0(SnapshotFile, 1);

    file->fd = fd;
    file->path = g_strdup(path);
    file->start = start;
    file->blocks = g_ptr_array_new_with_free_func((GDestroyNotify)snapshot_block_free);
    return file;
}

void snapshot_file_free(SnapshotFile *file)
{
    if (!file) {
        return;
    }
    close_fd(&file->fd);
    g_free(file->path);
    stream_config_clear(&file->config);
    snapshot_parent_clear(&file->parent);
    g_ptr_array_unref(file->blocks);
    g_clear_pointer(&file->tail, g_byte_array_unref);
    g_free(file);
}

SnapshotBlock *snapshot_file_block(const SnapshotFile *file, const char *name)
{
    for (guint i = 0; i < file->blocks->len; i++) {
        SnapshotBlock *block = g_ptr_array_index(file->blocks, i);

        if (strcmp(block->name, name) == 0) {
            return block;
        }
    }
    return NULL;
}

uint64_t snapshot_file_ram_size(const SnapshotFile *file)
{
    uint64_t size = 0;

    for (guint i = 0; i < file->blocks->len; i++) {
        size += ((SnapshotBlock *)g_ptr_array_index(file->blocks, i))->length;
    }
    return size;
}

const char *snapshot_kind_name(SnapshotKind kind)
{
    static const char *const names[] = { "full", "incremental", "sequential" };

    return names[kind];
}

SnapshotBlock *snapshot_file_add_block(SnapshotFile *file)
{
    SnapshotBlock *block = g_new0(SnapshotBlock, 1);

    g_ptr_array_add(file->blocks, block);
    return block;
}

bool snapshot_file_check_block_name(const SnapshotFile *file, const SnapshotBlock *block,
                                    GError **errp)
{
    if (block->name[0] == '\0' || snapshot_file_block(file, block->name) != block) {
        error_set(errp, "the snapshot has RAM block '%s' twice or without a name", block->name);
        return false;
    }
    return true;
}

bool snapshot_block_check_machine(const SnapshotBlock *block, RamList *ram, GError **errp)
{
    const RamBlock *ours = ram_list_find(ram, block->name);

    if (!ours || ours->size != block->length) {
        error_set(errp,
                  "the snapshot has a RAM block '%s' of %" PRIu64 " bytes; this machine has "
                  "%s of %" PRIu64 " bytes; start it with the same -m",
                  block->name, block->length, ours ? "one" : "none", ours ? ours->size : 0);
        return false;
    }
    return true;
}

/* --- RAM at fixed offsets --- */

typedef struct MappedHead {
    uint32_t version;
    uint64_t page_size;
    uint64_t bitmap_offset;
    uint64_t pages_offset;
} MappedHead;

static bool get_mapped_head(ByteReader *in, MappedHead *h, GError **errp)
{
    return byte_reader_get_be32(in, &h->version, errp) &&
           byte_reader_get_be64(in, &h->page_size, errp) &&
           byte_reader_get_be64(in, &h->bitmap_offset, errp) &&
           byte_reader_get_be64(in, &h->pages_offset, errp);
}

static uint64_t bitmap_size(const SnapshotBlock *block)
{
    return DIV_ROUND_UP(snapshot_block_pages(block), 64) * 8;
}

static bool check_mapped_head(const SegmentReader *r, const SnapshotBlock *block,
                              const MappedHead *h, GError **errp)
{
    if (h->version != MAPPED_RAM_VERSION || h->page_size != STREAM_PAGE_SIZE) {
        error_set(errp,
                  "RAM block '%s' has a mapped-ram header of version %u with pages of %" PRIu64
                  " bytes; only version %d with %u is supported",
                  block->name, h->version, h->page_size, MAPPED_RAM_VERSION, STREAM_PAGE_SIZE);
        return false;
    }
    if (block->length == 0 || block->length % STREAM_PAGE_SIZE ||
        block->length > SNAPSHOT_BLOCK_MAX || h->bitmap_offset != segment_tell(r) ||
        h->pages_offset % MAPPED_RAM_ALIGN || h->pages_offset > r->file_size ||
        h->pages_offset < h->bitmap_offset + bitmap_size(block) ||
        block->length > r->file_size - h->pages_offset) {
        error_set(errp,
                  "RAM block '%s' does not fit the file or is damaged: length %" PRIu64
                  ", bitmap at %" PRIu64 ", pages at %" PRIu64 ", file of %" PRIu64 " bytes",
                  block->name, block->length, h->bitmap_offset, h->pages_offset, r->file_size);
        return false;
    }
    return true;
}

/* The segment's bytes are kept as they are: most readers never look at the bitmap. */
static bool get_bitmap(SegmentReader *r, SnapshotBlock *block, GError **errp)
{
    uint64_t size = bitmap_size(block), pages = snapshot_block_pages(block), last;

    if (!segment_fill(r, size, errp)) {
        return false;
    }
    block->bitmap_pos = r->in.pos;
    if (!byte_reader_skip(&r->in, size, errp)) {
        return false;
    }
    memcpy(&last, r->buf->data + block->bitmap_pos + size - sizeof(last), sizeof(last));
    if (pages % 64 && GUINT64_FROM_LE(last) >> (pages % 64)) {
        error_set(errp, "the bitmap of RAM block '%s' has pages after the block's end",
                  block->name);
        return false;
    }
    return true;
}

const unsigned long *snapshot_block_present(SnapshotBlock *block)
{
    if (!block->present) {
        block->present = g_memdup2(block->bitmap->data + block->bitmap_pos, bitmap_size(block));
    }
    return block->present;
}

static bool get_mapped_block(SnapshotFile *file, SegmentReader *r, GError **errp)
{
    SnapshotBlock *block = snapshot_file_add_block(file);
    MappedHead head;

    if (!segment_fill(r, PIECE_MAX, errp) ||
        !byte_reader_get_counted_string(&r->in, &block->name, errp) ||
        !byte_reader_get_be64(&r->in, &block->length, errp) ||
        !get_mapped_head(&r->in, &head, errp) ||
        !snapshot_file_check_block_name(file, block, errp) ||
        !check_mapped_head(r, block, &head, errp) || !get_bitmap(r, block, errp) ||
        !segment_check_padding(r, segment_tell(r), head.pages_offset, errp)) {
        return false;
    }
    block->pages_offset = head.pages_offset;
    block->bitmap = segment_close_keep(r);
    return segment_open(r, head.pages_offset + block->length, errp);
}

static bool get_eos(SegmentReader *r, GError **errp)
{
    uint64_t word;

    if (!byte_reader_get_be64(&r->in, &word, errp)) {
        return false;
    }
    if (word != RAM_FLAG_EOS) {
        error_set(errp, "the RAM section does not end where it should (0x%016" PRIx64 " found)",
                  word);
        return false;
    }
    return true;
}

/* START has heads and pages of all blocks, END nothing: with fixed offsets there are no parts. */
static bool get_mapped_ram(SnapshotFile *file, SegmentReader *r, uint32_t id, GError **errp)
{
    uint64_t word, total, seen = 0;
    uint8_t mark;

    if (!byte_reader_get_be64(&r->in, &word, errp)) {
        return false;
    }
    total = word & ~RAM_FLAG_MASK;
    if ((word & RAM_FLAG_MASK) != RAM_FLAG_MEM_SIZE || total == 0) {
        error_set(errp, "the RAM section does not begin with the size of RAM");
        return false;
    }
    while (seen < total && file->blocks->len < BLOCKS_MAX) {
        if (!get_mapped_block(file, r, errp)) {
            return false;
        }
        seen += ((SnapshotBlock *)g_ptr_array_index(file->blocks, file->blocks->len - 1))->length;
    }
    if (seen != total) {
        error_set(errp,
                  "the RAM blocks of the snapshot have %" PRIu64 " bytes, announced were %" PRIu64,
                  seen, total);
        return false;
    }
    if (!get_eos(r, errp) || !stream_get_footer(&r->in, id, errp) ||
        !byte_reader_get_u8(&r->in, &mark, errp)) {
        return false;
    }
    if (mark != STREAM_SECTION_END) {
        error_set(errp, "the RAM section goes on with 0x%02x instead of its end", mark);
        return false;
    }
    return stream_get_section_more(&r->in, id, errp) && get_eos(r, errp) &&
           stream_get_footer(&r->in, id, errp);
}

/* --- RAM as an increment --- */

static bool get_delta_block(SnapshotFile *file, SegmentReader *r, uint64_t *data_pos, GError **errp)
{
    SnapshotBlock *block = snapshot_file_add_block(file);
    uint32_t n_extents, n_zeros;

    return segment_fill(r, PIECE_MAX, errp) &&
           ram_delta_get_block_head(&r->in, block, &n_extents, &n_zeros, errp) &&
           snapshot_file_check_block_name(file, block, errp) &&
           segment_fill(r, (uint64_t)RAM_DELTA_EXTENT_SIZE * ((uint64_t)n_extents + n_zeros),
                        errp) &&
           ram_delta_get_block_extents(&r->in, block, n_extents, n_zeros, data_pos, errp);
}

/* Where the packed data begins in the file. */
static bool find_delta_data(const SnapshotFile *file, const SegmentReader *r,
                            const RamDeltaHead *head, uint64_t *ret_pos, GError **errp)
{
    uint64_t room = r->file_size - file->start;

    if (head->data_offset > room || head->data_length > room - head->data_offset) {
        error_set(errp,
                  "the increment's data at %" PRIu64 ", length %" PRIu64
                  ", is not inside the file, which has %" PRIu64 " bytes from there on",
                  head->data_offset, head->data_length, room);
        return false;
    }
    *ret_pos = file->start + head->data_offset;
    return true;
}

static bool get_delta_blocks(SnapshotFile *file, SegmentReader *r, const RamDeltaHead *head,
                             uint64_t data_start, GError **errp)
{
    uint64_t pos = data_start;

    for (uint32_t i = 0; i < head->n_blocks; i++) {
        if (!get_delta_block(file, r, &pos, errp)) {
            return false;
        }
    }
    if (pos - data_start != head->data_length || segment_tell(r) > data_start) {
        error_set(errp, "the extents of the increment do not match its data");
        return false;
    }
    return true;
}

static bool get_delta(SnapshotFile *file, SegmentReader *r, const StreamSection *section,
                      GError **errp)
{
    RamDeltaHead head = { 0 };
    uint64_t pos;

    if (!ram_delta_get_head(&r->in, section->version, &head, errp)) {
        snapshot_parent_clear(&head.parent);
        return false;
    }
    file->parent = head.parent;
    if (!find_delta_data(file, r, &head, &pos, errp) ||
        !get_delta_blocks(file, r, &head, pos, errp) ||
        !segment_check_padding(r, segment_tell(r), pos, errp)) {
        return false;
    }
    segment_close(r);
    return segment_open(r, pos + head.data_length, errp) &&
           stream_get_footer(&r->in, section->id, errp);
}

/* --- The whole --- */

/* The head of the next whole section. */
static bool get_section_head(SegmentReader *r, StreamSection *ret_section, GError **errp)
{
    uint8_t mark;

    if (!segment_fill(r, PIECE_MAX, errp) || !byte_reader_get_u8(&r->in, &mark, errp)) {
        return false;
    }
    if (mark != STREAM_SECTION_FULL) {
        error_set(errp, "the stream goes on with 0x%02x instead of the section '%s'", mark,
                  SNAPSHOT_SECTION_NAME);
        return false;
    }
    return stream_get_section(&r->in, mark, ret_section, errp);
}

/* The section "ram-released", if there is one; *section: the one after it. */
static bool get_released(SnapshotFile *file, SegmentReader *r, StreamSection *section,
                         GError **errp)
{
    if (strcmp(section->idstr, RAM_RELEASED_SECTION_NAME) != 0) {
        return true;
    }
    return segment_fill(r, ram_released_max_size(file), errp) &&
           ram_released_get(&r->in, section->version, file, errp) &&
           stream_get_footer(&r->in, section->id, errp) && get_section_head(r, section, errp);
}

/* The sections after RAM up to "snapshot", and all that follows; the checksum is complete then. */
static bool get_tail(SnapshotFile *file, SegmentReader *r, GError **errp)
{
    StreamSection section;
    size_t crc_pos;

    if (!get_section_head(r, &section, errp) || !get_released(file, r, &section, errp)) {
        return false;
    }
    if (strcmp(section.idstr, SNAPSHOT_SECTION_NAME) != 0) {
        error_set(errp, "the stream has the section '%s' where '%s' was expected", section.idstr,
                  SNAPSHOT_SECTION_NAME);
        return false;
    }
    if (!snapshot_info_get(&r->in, section.version, &file->info, &crc_pos, errp) ||
        !stream_get_footer(&r->in, section.id, errp)) {
        return false;
    }
    memset(r->buf->data + crc_pos, 0, sizeof(file->info.crc));
    if (file->info.tail_length > r->file_size - segment_tell(r)) {
        error_set(errp, "the snapshot is cut off: its end is missing or has not been written");
        return false;
    }
    if (!segment_fill(r, file->info.tail_length, errp)) {
        return false;
    }
    file->tail = g_byte_array_sized_new(file->info.tail_length);
    g_byte_array_append(file->tail, r->in.data + r->in.pos, file->info.tail_length);
    r->in.pos += file->info.tail_length;
    file->end = segment_tell(r);
    segment_close(r);
    return true;
}

static bool check_whole(const SnapshotFile *file, const SegmentReader *r, GError **errp)
{
    if (r->crc != file->info.crc) {
        error_set(errp, "the snapshot is damaged: its checksum is 0x%08x, its contents have 0x%08x",
                  file->info.crc, r->crc);
        return false;
    }
    if (file->end - file->start != file->info.length) {
        error_set(errp, "the snapshot is damaged: it claims %" PRIu64 " bytes and has %" PRIu64,
                  file->info.length, file->end - file->start);
        return false;
    }
    return true;
}

static bool get_ram(SnapshotFile *file, SegmentReader *r, GError **errp)
{
    StreamSection section;
    uint8_t mark;

    if (!stream_get_header(&r->in, &file->config, errp) ||
        !byte_reader_get_u8(&r->in, &mark, errp)) {
        return false;
    }
    if (mark != STREAM_SECTION_START && mark != STREAM_SECTION_FULL) {
        error_set(errp, "the stream begins with 0x%02x instead of a section", mark);
        return false;
    }
    if (!stream_get_section(&r->in, mark, &section, errp)) {
        return false;
    }
    if (mark == STREAM_SECTION_FULL && strcmp(section.idstr, RAM_DELTA_SECTION_NAME) == 0) {
        file->kind = SNAPSHOT_INCREMENTAL;
        return get_delta(file, r, &section, errp);
    }
    if (mark != STREAM_SECTION_START || strcmp(section.idstr, RAM_SECTION_NAME) != 0 ||
        section.version !=
            (file->config.mapped_ram ? RAM_SECTION_VERSION : RAM_SECTION_VERSION_RUNS)) {
        error_set(errp, "the stream begins with the section '%s', version %u, instead of RAM",
                  section.idstr, section.version);
        return false;
    }
    file->kind = file->config.mapped_ram ? SNAPSHOT_FULL : SNAPSHOT_SEQUENTIAL;
    return file->kind == SNAPSHOT_SEQUENTIAL || get_mapped_ram(file, r, section.id, errp);
}

static bool parse(SnapshotFile *file, uint64_t file_size, GError **errp)
{
    g_auto(SegmentReader) r = { 0 };

    segment_reader_init(&r, file->fd, file_size);
    if (!segment_open(&r, file->start, errp) || !get_ram(file, &r, errp)) {
        return false;
    }
    return file->kind == SNAPSHOT_SEQUENTIAL ||
           (get_tail(file, &r, errp) && check_whole(file, &r, errp));
}

SnapshotFile *snapshot_file_probe(int fd, const char *path, uint64_t start, GError **errp)
{
    g_autoptr(SnapshotFile) file = snapshot_file_new(fd, path, start);
    struct stat st;

    if (fstat(fd, &st) < 0) {
        error_set_errno(errp, errno, "cannot look at snapshot '%s'", path ? path : "(fd)");
        return NULL;
    }
    if (!S_ISREG(st.st_mode)) {
        error_set(errp, "snapshot '%s' is not a regular file", path ? path : "(fd)");
        return NULL;
    }
    if (start > (uint64_t)st.st_size || !parse(file, st.st_size, errp)) {
        if (errp && !*errp) {
            error_set(errp, "it ends before offset %" PRIu64, start);
        }
        g_prefix_error(errp, "snapshot '%s': ", path ? path : "(fd)");
        return NULL;
    }
    return g_steal_pointer(&file);
}

SnapshotFile *snapshot_file_open(int fd, const char *path, uint64_t start, GError **errp)
{
    g_autoptr(SnapshotFile) file = snapshot_file_probe(fd, path, start, errp);

    if (file && file->kind == SNAPSHOT_SEQUENTIAL) {
        error_set(errp,
                  "snapshot '%s' is a sequential stream without fixed offsets; load it with "
                  "-incoming and save it again to a file",
                  path ? path : "(fd)");
        return NULL;
    }
    return g_steal_pointer(&file);
}
