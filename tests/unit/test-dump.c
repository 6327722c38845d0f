/*
 * What the formats of dumps look like byte by byte: ELF headers, notes and segments, kdump's header and pages.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "dump/format.h"
#include "dump/notes.h"
#include "util/units.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE UINT64_C(4096)
#define NOTES "registers"

typedef struct Fixture {
    DumpMap map;
    DumpContents contents;
    GByteArray *notes;
    uint8_t *memory; /* two pages, not zero */
    uint64_t completed;
    char path[64];
    char *bytes; /* of the dump */
    gsize length;
} Fixture;

static void add_range(Fixture *f, uint64_t address, uint64_t length)
{
    DumpRange range = { .address = address, .length = length };

    g_array_append_val(f->map.ranges, range);
    f->map.total += length;
}

static void add_piece(Fixture *f, uint64_t address, uint64_t length)
{
    DumpPiece piece = { .address = address, .length = length, .host = f->memory, .fd = -1 };

    g_array_append_val(f->map.pieces, piece);
}

/* 4 MiB at 0 of which two pages are used, a hole, one used page at 8 MiB. */
static void set_up(Fixture *f, gconstpointer data)
{
    int fd;

    f->map.ranges = g_array_new(FALSE, FALSE, sizeof(DumpRange));
    f->map.pieces = g_array_new(FALSE, FALSE, sizeof(DumpPiece));
    f->memory = g_malloc(2 * PAGE);
    memset(f->memory, 0x5a, PAGE);
    memset(f->memory + PAGE, 0xa5, PAGE);
    add_range(f, 0, 4 * MiB);
    add_range(f, 8 * MiB, PAGE);
    add_piece(f, PAGE, PAGE);
    add_piece(f, 3 * MiB, 2 * PAGE);
    add_piece(f, 8 * MiB, PAGE);
    f->notes = g_byte_array_new();
    g_byte_array_append(f->notes, (const guint8 *)NOTES, sizeof(NOTES));
    f->contents = (DumpContents){
        .map = &f->map, .notes = f->notes, .n_cpus = 3, .completed = &f->completed
    };
    g_strlcpy(f->path, "/tmp/cowbird-test-dump-XXXXXX", sizeof(f->path));
    fd = mkstemp(f->path);
    g_assert_cmpint(fd, >=, 0);
    close(fd);
}

static void tear_down(Fixture *f, gconstpointer data)
{
    g_array_unref(f->map.ranges);
    g_array_unref(f->map.pieces);
    g_byte_array_unref(f->notes);
    g_free(f->memory);
    g_free(f->bytes);
    unlink(f->path);
}

static void write_dump(Fixture *f, bool (*write)(DumpOutput *, const DumpContents *, GError **))
{
    g_autofree char *protocol = g_strconcat("file:", f->path, NULL);
    g_autoptr(GError) err = NULL;
    FdStore *fds = fd_store_new();
    RamList *ram = ram_list_new();
    g_autoptr(DumpOutput) out = dump_output_open(protocol, fds, ram, &err);

    g_assert_no_error(err);
    g_assert_true(write(out, &f->contents, &err));
    g_assert_no_error(err);
    g_assert_true(dump_output_finish(out, &err));
    g_assert_true(g_file_get_contents(f->path, &f->bytes, &f->length, &err));
    ram_list_free(ram);
    fd_store_free(fds);
    g_assert_cmpuint(f->completed, ==, f->map.total);
}

/* --- ELF --- */

static void check_load(const Fixture *f, unsigned number, uint64_t address, uint64_t length,
                       uint64_t filled)
{
    const Elf64_Phdr *p = (const Elf64_Phdr *)(f->bytes + sizeof(Elf64_Ehdr)) + number;

    g_assert_cmpuint(p->p_type, ==, PT_LOAD);
    g_assert_cmpuint(p->p_paddr, ==, address);
    g_assert_cmpuint(p->p_memsz, ==, length);
    g_assert_cmpuint(p->p_filesz, ==, filled);
    g_assert_cmpuint(p->p_offset % PAGE, ==, 0);
    g_assert_cmpuint(p->p_offset + p->p_filesz, <=, f->length);
}

static void test_elf_headers(Fixture *f, gconstpointer data)
{
    const Elf64_Ehdr *e;
    const Elf64_Phdr *p;

    write_dump(f, dump_write_elf);
    e = (const Elf64_Ehdr *)f->bytes;
    p = (const Elf64_Phdr *)(f->bytes + e->e_phoff);
    g_assert_cmpmem(e->e_ident, SELFMAG, ELFMAG, SELFMAG);
    g_assert_cmpuint(e->e_type, ==, ET_CORE);
    g_assert_cmpuint(e->e_machine, ==, EM_X86_64);
    g_assert_cmpuint(e->e_phnum, ==, 4);
    g_assert_cmpuint(p->p_type, ==, PT_NOTE);
    g_assert_cmpmem(f->bytes + p->p_offset, p->p_filesz, NOTES, sizeof(NOTES));
    /* Almost 3 MiB of zeros are a gap: the segment before ends in the file where they begin. */
    check_load(f, 1, 0, 3 * MiB, 2 * PAGE);
    check_load(f, 2, 3 * MiB, MiB, 2 * PAGE);
    check_load(f, 3, 8 * MiB, PAGE, PAGE);
}

static void test_elf_memory(Fixture *f, gconstpointer data)
{
    static const char zeros[4096];
    const Elf64_Phdr *p;

    write_dump(f, dump_write_elf);
    p = (const Elf64_Phdr *)(f->bytes + sizeof(Elf64_Ehdr));
    g_assert_cmpmem(f->bytes + p[1].p_offset, PAGE, zeros, PAGE);
    g_assert_cmpmem(f->bytes + p[1].p_offset + PAGE, PAGE, f->memory, PAGE);
    g_assert_cmpmem(f->bytes + p[2].p_offset, 2 * PAGE, f->memory, 2 * PAGE);
    g_assert_cmpuint(f->length, ==, p[3].p_offset + PAGE);
}

static void test_notes_without_cpus(Fixture *f, gconstpointer data)
{
    g_autoptr(GError) err = NULL;
    g_autoptr(GByteArray) notes = dump_notes_new(NULL, &err);

    g_assert_no_error(err);
    g_assert_cmpuint(notes->len, ==, 0);
}

/* --- kdump --- */

static uint64_t big_endian(const char *at)
{
    uint64_t value;

    memcpy(&value, at, sizeof(value));
    return GUINT64_FROM_BE(value);
}

/* The file that the records of the flattened one make up, which is at most @size long. */
static uint8_t *unflatten(const Fixture *f, uint64_t size)
{
    uint8_t *out = g_malloc0(size);
    uint64_t at = 4096;

    g_assert_cmpstr(f->bytes, ==, "makedumpfile");
    g_assert_cmpuint(big_endian(f->bytes + 16), ==, 1);
    g_assert_cmpuint(big_endian(f->bytes + 24), ==, 1);
    while (big_endian(f->bytes + at) != UINT64_MAX) {
        uint64_t place = big_endian(f->bytes + at), length = big_endian(f->bytes + at + 8);

        g_assert_cmpuint(at + 16 + length, <=, f->length);
        g_assert_cmpuint(place + length, <=, size);
        memcpy(out + place, f->bytes + at + 16, length);
        at += 16 + length;
    }
    g_assert_cmpuint(at + 16, ==, f->length);
    return out;
}

static uint32_t number(const uint8_t *file, size_t at)
{
    uint32_t value;

    memcpy(&value, file + at, sizeof(value));
    return value;
}

static bool bit(const uint8_t *bitmap, unsigned pfn)
{
    return bitmap[pfn / 8] >> pfn % 8 & 1;
}

static void test_kdump_layout(Fixture *f, gconstpointer data)
{
    g_autofree uint8_t *file = NULL;
    const uint8_t *bitmap;

    write_dump(f, dump_write_kdump_zlib);
    file = unflatten(f, 4 * MiB);
    g_assert_cmpmem(file, 8, "KDUMP   ", 8);
    g_assert_cmpuint(number(file, 8), ==, 6);
    g_assert_cmpstr((const char *)file + 12 + 4 * 65, ==, "x86_64");
    g_assert_cmpuint(number(file, 428), ==, PAGE); /* block size */
    g_assert_cmpuint(number(file, 432), ==, 1);    /* blocks of the sub header */
    g_assert_cmpuint(number(file, 436), ==, 2);    /* blocks of both bitmaps */
    g_assert_cmpuint(number(file, 460), ==, 3);    /* CPUs */
    bitmap = file + 2 * PAGE;
    g_assert_true(bit(bitmap, 0) && bit(bitmap, 1023) && bit(bitmap, 2048));
    g_assert_false(bit(bitmap, 1024) || bit(bitmap, 2047) || bit(bitmap, 2049));
    g_assert_cmpmem(bitmap, PAGE, bitmap + PAGE, PAGE);
}

/* --- Where it goes --- */

static void test_bad_places(Fixture *f, gconstpointer data)
{
    static const char *const places[] = { "", "file", "tcp:1.2.3.4:5", "fd:missing",
                                          "file:/no/such/folder/f" };
    FdStore *fds = fd_store_new();
    RamList *ram = ram_list_new();

    for (size_t i = 0; i < G_N_ELEMENTS(places); i++) {
        g_autoptr(GError) err = NULL;

        g_assert_null(dump_output_open(places[i], fds, ram, &err));
        g_assert_nonnull(err);
    }
    ram_list_free(ram);
    fd_store_free(fds);
}

static void test_full_disk(Fixture *f, gconstpointer data)
{
    FdStore *fds = fd_store_new();
    RamList *ram = ram_list_new();
    g_autoptr(GError) err = NULL;
    g_autoptr(DumpOutput) out = dump_output_open("file:/dev/full", fds, ram, &err);

    g_assert_no_error(err);
    g_assert_false(dump_write_elf(out, &f->contents, &err));
    g_assert_nonnull(err);
    g_assert_nonnull(strstr(err->message, g_strerror(ENOSPC)));
    ram_list_free(ram);
    fd_store_free(fds);
}

#define ADD(path, func) g_test_add(path, Fixture, NULL, set_up, func, tear_down)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("/dump/elf/headers", test_elf_headers);
    ADD("/dump/elf/memory", test_elf_memory);
    ADD("/dump/notes/no-cpus", test_notes_without_cpus);
    ADD("/dump/kdump/layout", test_kdump_layout);
    ADD("/dump/output/bad-places", test_bad_places);
    ADD("/dump/output/full-disk", test_full_disk);
    return g_test_run();
}
