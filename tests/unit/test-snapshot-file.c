/*
 * Snapshot files: what is written is read, and nothing damaged is accepted.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "tests/unit/snapshot-fixture.h"

#include <sys/mman.h>

#include "util/io.h"

G_DEFINE_AUTOPTR_CLEANUP_FUNC(RamList, ram_list_free)

#define RAM_SIZE (4 * MiB)

typedef struct Saved {
    char *folder, *path;
    RamList *ram;
    FixtureSave save;
} Saved;

static void saved_new(Saved *s, unsigned every)
{
    g_autoptr(GError) err = NULL;

    s->folder = fixture_folder();
    s->path = g_build_filename(s->folder, "snapshot", NULL);
    s->ram = fixture_ram(RAM_SIZE);
    fixture_write(s->ram, every, 7);
    s->save = (FixtureSave){ .ram = s->ram, .path = s->path };
    fixture_save(&s->save, &err);
    g_assert_no_error(err);
}

static void saved_clear(Saved *s)
{
    ram_list_free(s->ram);
    fixture_remove_folder(s->folder);
    g_free(s->folder);
    g_free(s->path);
}

/* A private copy that can be damaged and reopened at once. */
static int copy_of(const char *path, uint64_t *ret_size)
{
    int fd = memfd_create("copy", MFD_CLOEXEC);
    g_autofree char *data = NULL;
    gsize len;

    g_assert_true(g_file_get_contents(path, &data, &len, NULL));
    g_assert_cmpint(ftruncate(fd, len), ==, 0);
    for (gsize pos = 0; pos < len; pos += 4096) {
        gsize n = MIN(4096, len - pos);

        if (data[pos] || memcmp(data + pos, data + pos + 1, n - 1) != 0) {
            g_assert_true(pwrite_full(fd, data + pos, n, pos, NULL));
        }
    }
    *ret_size = len;
    return fd;
}

static bool accepted(int fd)
{
    g_autoptr(GError) err = NULL;
    g_autoptr(SnapshotFile) file = snapshot_file_open(dup(fd), NULL, 0, &err);

    g_assert_true((file == NULL) == (err != NULL));
    return file != NULL;
}

/* Byte ranges outside page data, from the file itself. */
static GArray *outside_ram(const SnapshotFile *file, uint64_t size)
{
    GArray *ranges = g_array_new(FALSE, FALSE, sizeof(RestoreExtent));
    uint64_t pos = 0;

    for (guint i = 0; i <= file->blocks->len; i++) {
        const SnapshotBlock *b = i < file->blocks->len ? g_ptr_array_index(file->blocks, i) : NULL;
        RestoreExtent e = { .offset = pos, .length = (b ? b->pages_offset : size) - pos };

        g_array_append_val(ranges, e);
        pos = b ? b->pages_offset + b->length : size;
    }
    return ranges;
}

static void test_round_trip(void)
{
    g_autoptr(SnapshotFile) file = NULL;
    g_autoptr(GError) err = NULL;
    SnapshotBlock *block;
    Saved s;

    saved_new(&s, 3);
    file = fixture_open(s.path, &err);
    g_assert_no_error(err);
    g_assert_cmpstr(file->config.machine_type, ==, TEST_MACHINE);
    g_assert_cmpint(file->kind, ==, SNAPSHOT_FULL);
    g_assert_true(uuid_equal(&file->info.uuid, &s.save.info.uuid));
    g_assert_cmpuint(file->blocks->len, ==, 2);
    block = snapshot_file_block(file, "pc.ram");
    g_assert_cmpuint(block->length, ==, RAM_SIZE);
    g_assert_cmpuint(block->pages_offset % MiB, ==, 0);
    for (uint64_t page = 0; page < RAM_SIZE / 4096; page++) {
        uint8_t buf[4096];
        bool present = snapshot_block_present(block)[page / 64] >> page % 64 & 1;

        g_assert_true(present == (page % 3 == 7 % 3));
        g_assert_true(pread_full(file->fd, buf, 4096, block->pages_offset + page * 4096, NULL));
        g_assert_cmpmem(buf, 4096, ram_list_get(s.ram, 0)->host + page * 4096, 4096);
    }
    saved_clear(&s);
}

static void test_zero_pages_are_holes(void)
{
    struct stat st;
    Saved s;

    saved_new(&s, 1000);
    g_assert_cmpint(stat(s.path, &st), ==, 0);
    g_assert_cmpuint(st.st_blocks * 512, <, 256 * KiB);
    g_assert_cmpuint(st.st_size, >, RAM_SIZE);
    g_assert_cmpuint(st.st_mode & 0777, ==, 0600);
    saved_clear(&s);
}

static void test_truncated(void)
{
    g_autoptr(SnapshotFile) file = NULL;
    uint64_t size;
    Saved s;
    int fd;

    saved_new(&s, 64);
    file = fixture_open(s.path, NULL);
    fd = copy_of(s.path, &size);
    g_assert_true(accepted(fd));
    /* From the end down, so that the copy needs no repair. Page data in larger steps. */
    for (uint64_t len = size; len > 0;) {
        uint64_t tail = file->end - len < 4096 || len < 8192 ? 1 : 1021;

        len -= MIN(len, tail);
        g_assert_cmpint(ftruncate(fd, len), ==, 0);
        g_assert_false(accepted(fd));
    }
    close(fd);
    saved_clear(&s);
}

static void damage(int fd, uint64_t offset, uint8_t value, bool flip)
{
    uint8_t old, new;

    g_assert_true(pread_full(fd, &old, 1, offset, NULL));
    new = flip ? old ^ value : value;
    if (new != old) {
        g_assert_true(pwrite_full(fd, &new, 1, offset, NULL));
        if (accepted(fd)) {
            g_error("damage at offset %" PRIu64 " is not noticed: 0x%02x for 0x%02x", offset, new,
                    old);
        }
        g_assert_true(pwrite_full(fd, &old, 1, offset, NULL));
    }
}

/* One bit, and values that make lengths and offsets extreme. */
static void damage_range(int fd, uint64_t from, uint64_t to, uint64_t step)
{
    for (uint64_t pos = from; pos < to; pos += step) {
        damage(fd, pos, 1u << pos % 8, true);
        damage(fd, pos, 0x00, false);
        damage(fd, pos, 0xff, false);
        damage(fd, pos, 0x7f, false);
    }
}

static void test_damaged(void)
{
    g_autoptr(SnapshotFile) file = NULL;
    g_autoptr(GArray) ranges = NULL;
    uint64_t size;
    Saved s;
    int fd;

    saved_new(&s, 64);
    file = fixture_open(s.path, NULL);
    fd = copy_of(s.path, &size);
    ranges = outside_ram(file, size);
    for (guint i = 0; i < ranges->len; i++) {
        RestoreExtent e = g_array_index(ranges, RestoreExtent, i);
        uint64_t end = e.offset + e.length;

        damage_range(fd, e.offset, MIN(e.offset + 1024, end), 1);
        damage_range(fd, e.offset + 1024, end, end == size ? 1 : 7919);
    }
    g_assert_true(accepted(fd));
    close(fd);
    saved_clear(&s);
}

static void test_page_data_is_not_checked(void)
{
    g_autoptr(SnapshotFile) file = NULL;
    SnapshotBlock *block;
    uint64_t size;
    Saved s;
    int fd;

    saved_new(&s, 1);
    file = fixture_open(s.path, NULL);
    block = snapshot_file_block(file, "pc.ram");
    fd = copy_of(s.path, &size);
    g_assert_true(pwrite_full(fd, "x", 1, block->pages_offset, NULL));
    g_assert_true(accepted(fd));
    close(fd);
    saved_clear(&s);
}

static void test_offset(void)
{
    g_autofree char *folder = fixture_folder(), *data = NULL;
    g_autofree char *path = g_build_filename(folder, "with-header", NULL);
    g_autoptr(RamList) ram = NULL;
    g_autoptr(SnapshotFile) file = NULL;
    g_autoptr(GError) err = NULL;
    FixtureSave save;

    ram = fixture_ram(RAM_SIZE);
    fixture_write(ram, 2, 1);
    g_assert_true(g_file_set_contents(path, "header of somebody else", -1, NULL));
    save = (FixtureSave){ .ram = ram, .path = path, .start = 68653 };
    fixture_save(&save, &err);
    g_assert_no_error(err);
    file = snapshot_file_open(open(path, O_RDONLY | O_CLOEXEC), path, 68653, &err);
    g_assert_no_error(err);
    g_assert_cmpuint(snapshot_file_block(file, "rom")->pages_offset % MiB, ==, 0);
    g_assert_true(g_file_get_contents(path, &data, NULL, NULL));
    g_assert_cmpstr(data, ==, "header of somebody else");
    fixture_remove_folder(folder);
}

static void test_wrong_offset(void)
{
    g_autoptr(GError) err = NULL;
    Saved s;

    saved_new(&s, 3);
    g_assert_null(snapshot_file_open(open(s.path, O_RDONLY), s.path, 1, &err));
    g_assert_nonnull(strstr(err->message, "not a migration stream"));
    g_clear_error(&err);
    g_assert_null(snapshot_file_open(open(s.path, O_RDONLY), s.path, UINT64_MAX, &err));
    g_assert_nonnull(err);
    saved_clear(&s);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/snapshot-file/round-trip", test_round_trip);
    g_test_add_func("/snapshot-file/zero-pages-are-holes", test_zero_pages_are_holes);
    g_test_add_func("/snapshot-file/t41-truncated", test_truncated);
    g_test_add_func("/snapshot-file/t41-damaged", test_damaged);
    g_test_add_func("/snapshot-file/page-data-is-not-checked", test_page_data_is_not_checked);
    g_test_add_func("/snapshot-file/offset", test_offset);
    g_test_add_func("/snapshot-file/wrong-offset", test_wrong_offset);
    return g_test_run();
}
