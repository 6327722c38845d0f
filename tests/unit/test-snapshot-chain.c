/*
 * Increments: a chain of them equals what was in memory, and wrong parents are refused.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "tests/unit/snapshot-fixture.h"

#include <sys/mman.h>

#include "memory/discard.h"
#include "migration/chain-map.h"
#include "migration/flatten.h"
#include "util/io.h"

G_DEFINE_AUTOPTR_CLEANUP_FUNC(RamList, ram_list_free)

#define RAM_SIZE (8 * MiB)

static char *path_in(const char *folder, const char *name)
{
    return g_build_filename(folder, name, NULL);
}

static void save(RamList *ram, const char *path, const SnapshotFile *parent, FixtureSave *ret)
{
    g_autoptr(GError) err = NULL;

    *ret = (FixtureSave){ .ram = ram, .path = path, .parent = parent };
    fixture_save(ret, &err);
    g_assert_no_error(err);
}

static SnapshotChain *open_chain(const char *path, const GPtrArray *given, GError **errp)
{
    g_autoptr(FdStore) fds = fd_store_new();
    SnapshotFile *tip = fixture_open(path, errp);

    return tip ? snapshot_chain_open(tip, given, fds, errp) : NULL;
}

static RamList *restore(const char *path, RestoreMode mode)
{
    g_autoptr(GError) err = NULL;
    g_autoptr(SnapshotChain) chain = open_chain(path, NULL, &err);
    RamList *ram = fixture_ram(RAM_SIZE);

    g_assert_no_error(err);
    fixture_restore(ram, chain, mode, &err);
    g_assert_no_error(err);
    return ram;
}

/* One file that needs no other has the same memory. */
static void check_flat(const char *folder, const char *tip, const GByteArray *want)
{
    g_autofree char *path = path_in(folder, "flat");
    g_autoptr(PublishTarget) target = publish_new_path(path, 0, false, NULL);
    g_autoptr(GError) err = NULL;
    g_autoptr(SnapshotChain) chain = open_chain(tip, NULL, &err);
    g_autoptr(RamList) ram = NULL;

    g_assert_no_error(err);
    snapshot_flatten(chain, target, NULL, NULL, &err);
    g_assert_no_error(err);
    ram = restore(path, RESTORE_COPY);
    fixture_assert_same(ram, want);
}

/* Runs cover the block and tell what the pages hold. */
static void check_map(const char *tip, RamList *ram)
{
    g_autoptr(SnapshotChain) chain = open_chain(tip, NULL, NULL);

    for (unsigned i = 0; i < ram_list_count(ram); i++) {
        const RamBlock *block = ram_list_get(ram, i);
        g_autoptr(GArray) runs = chain_map_block((SnapshotFile *const *)chain->files->pdata,
                                                 chain->files->len, block->name);
        uint64_t pos = 0;

        for (guint k = 0; k < runs->len; k++) {
            const ChainRun *run = &g_array_index(runs, ChainRun, k);
            g_autofree uint8_t *bytes = g_malloc0(run->length);

            g_assert_cmpuint(run->offset, ==, pos);
            if (run->kind == CHAIN_RUN_DATA) {
                g_assert_true(
                    pread_full(run->file->fd, bytes, run->length, run->file_offset, NULL));
            }
            g_assert_true(memcmp(bytes, block->host + pos, run->length) == 0);
            pos += run->length;
        }
        g_assert_cmpuint(pos, ==, block->size);
    }
}

/* Each generation is a clone of the one before, writes, and is saved as an increment of it. */
static void check_chain(RestoreMode last_mode)
{
    g_autofree char *folder = fixture_folder(), *last = path_in(folder, "base");
    RamList *ram = fixture_ram(RAM_SIZE);
    g_autoptr(GByteArray) want = NULL;
    FixtureSave f;

    fixture_write(ram, 2, 1);
    save(ram, last, NULL, &f);
    for (unsigned i = 1; i <= 3; i++) {
        g_autofree char *name = g_strdup_printf("delta%u", i), *path = path_in(folder, name);
        g_autoptr(SnapshotFile) parent = fixture_open(last, NULL);

        ram_list_free(ram);
        ram = restore(last, RESTORE_COPY_ON_WRITE);
        fixture_write(ram, 40 * i, 11 * i);
        /* A page that becomes zero, and a released chunk with one page in it. */
        memset(ram_list_get(ram, 0)->host + (5 + i) * 4096, 0, 4096);
        if (i == 2) {
            bool done = false;

            g_assert_true(discard_remap_chunks(ram_list_get(ram, 0), 1, 1, &done, NULL));
            g_assert_true(done);
            ram_list_get(ram, 0)->host[3 * MiB] = 1;
        }
        save(ram, path, parent, &f);
        g_free(last);
        last = g_steal_pointer(&path);
    }
    want = fixture_copy(ram);
    check_map(last, ram);
    check_flat(folder, last, want);
    ram_list_free(ram);
    ram = restore(last, last_mode);
    fixture_assert_same(ram, want);
    ram_list_free(ram);
    fixture_remove_folder(folder);
}

static void test_three_increments(void)
{
    check_chain(RESTORE_COPY_ON_WRITE);
}

static void test_three_increments_copied(void)
{
    check_chain(RESTORE_COPY);
}

/* A full snapshot of a clone stands alone, whatever file system it is on. */
static void test_full_of_clone(void)
{
    g_autofree char *folder = fixture_folder(), *base = path_in(folder, "base");
    g_autofree char *full = path_in(folder, "full");
    g_autoptr(RamList) ram = fixture_ram(RAM_SIZE);
    g_autoptr(RamList) clone = NULL;
    g_autoptr(RamList) again = NULL;
    g_autoptr(GByteArray) want = NULL;
    struct stat st;
    FixtureSave f;

    fixture_write(ram, 100, 3);
    save(ram, base, NULL, &f);
    clone = restore(base, RESTORE_COPY_ON_WRITE);
    fixture_write(clone, 333, 5);
    memset(ram_list_get(clone, 0)->host + 3 * 4096, 0, 4096);
    want = fixture_copy(clone);
    save(clone, full, NULL, &f);
    g_assert_cmpint(unlink(base), ==, 0);
    again = restore(full, RESTORE_COPY_ON_WRITE);
    fixture_assert_same(again, want);
    g_assert_cmpint(stat(full, &st), ==, 0);
    g_assert_cmpuint(st.st_blocks * 512, <, 2 * MiB);
    fixture_remove_folder(folder);
}

static void test_increment_is_small(void)
{
    g_autofree char *folder = fixture_folder(), *base = path_in(folder, "base");
    g_autofree char *delta = path_in(folder, "delta");
    g_autoptr(RamList) ram = fixture_ram(RAM_SIZE);
    g_autoptr(RamList) clone = NULL;
    g_autoptr(SnapshotFile) parent = NULL;
    FixtureSave f;
    struct stat st;

    fixture_write(ram, 1, 3);
    save(ram, base, NULL, &f);
    parent = fixture_open(base, NULL);
    clone = restore(base, RESTORE_COPY_ON_WRITE);
    ram_list_get(clone, 0)->host[5 * MiB] ^= 1;
    save(clone, delta, parent, &f);
    g_assert_cmpint(stat(delta, &st), ==, 0);
    g_assert_cmpuint(st.st_size, <, 16 * KiB);
    fixture_remove_folder(folder);
}

/* base <- delta, and another full snapshot that is not the parent. */
typedef struct Pair {
    char *folder, *base, *delta, *other;
} Pair;

static void pair_new(Pair *p)
{
    g_autoptr(RamList) ram = fixture_ram(RAM_SIZE);
    g_autoptr(RamList) clone = NULL;
    g_autoptr(SnapshotFile) parent = NULL;
    FixtureSave f;

    p->folder = fixture_folder();
    p->base = path_in(p->folder, "base");
    p->delta = path_in(p->folder, "delta");
    p->other = path_in(p->folder, "other");
    fixture_write(ram, 5, 3);
    save(ram, p->base, NULL, &f);
    save(ram, p->other, NULL, &f);
    parent = fixture_open(p->base, NULL);
    clone = restore(p->base, RESTORE_COPY_ON_WRITE);
    fixture_write(clone, 50, 9);
    save(clone, p->delta, parent, &f);
}

static void pair_clear(Pair *p)
{
    fixture_remove_folder(p->folder);
    g_free(p->folder);
    g_free(p->base);
    g_free(p->delta);
    g_free(p->other);
}

static void assert_refused(const char *path, const GPtrArray *given, const char *text)
{
    g_autoptr(GError) err = NULL;

    g_assert_null(open_chain(path, given, &err));
    g_assert_nonnull(err);
    if (!strstr(err->message, text)) {
        g_error("'%s' is not in '%s'", text, err->message);
    }
}

static void test_missing_parent(void)
{
    Pair p;

    pair_new(&p);
    g_assert_cmpint(unlink(p.base), ==, 0);
    assert_refused(p.delta, NULL, "No such file");
    pair_clear(&p);
}

static void test_wrong_parent(void)
{
    Pair p;

    pair_new(&p);
    g_assert_cmpint(rename(p.other, p.base), ==, 0);
    assert_refused(p.delta, NULL, "rests on snapshot");
    pair_clear(&p);
}

static void test_parent_is_itself(void)
{
    Pair p;

    pair_new(&p);
    g_assert_cmpint(unlink(p.base), ==, 0);
    g_assert_cmpint(symlink(p.delta, p.base), ==, 0);
    assert_refused(p.delta, NULL, "rests on snapshot");
    pair_clear(&p);
}

static void test_given_parents(void)
{
    g_autoptr(GPtrArray) given = g_ptr_array_new();
    g_autofree char *moved = NULL;
    g_autoptr(SnapshotChain) chain = NULL;
    g_autoptr(GError) err = NULL;
    Pair p;

    pair_new(&p);
    moved = path_in(p.folder, "moved");
    g_assert_cmpint(rename(p.base, moved), ==, 0);
    g_ptr_array_add(given, p.other);
    assert_refused(p.delta, given, "not among the files of ram-parent");
    g_ptr_array_add(given, moved);
    chain = open_chain(p.delta, given, &err);
    g_assert_no_error(err);
    g_assert_cmpuint(chain->files->len, ==, 2);
    pair_clear(&p);
}

static void test_damaged_parent(void)
{
    Pair p;
    FILE *f;

    pair_new(&p);
    f = fopen(p.base, "r+");
    fseek(f, 40, SEEK_SET);
    fputc('x', f);
    fclose(f);
    assert_refused(p.delta, NULL, "");
    pair_clear(&p);
}

/* Every byte of an increment outside its page data. */
static void test_damaged_increment(void)
{
    g_autoptr(SnapshotFile) file = NULL;
    uint64_t data_from = UINT64_MAX, data_to = 0;
    g_autofree char *bytes = NULL;
    gsize size;
    int fd = memfd_create("copy", MFD_CLOEXEC);
    Pair p;

    pair_new(&p);
    file = fixture_open(p.delta, NULL);
    for (guint i = 0; i < file->blocks->len; i++) {
        const GArray *extents = ((SnapshotBlock *)g_ptr_array_index(file->blocks, i))->extents;

        for (guint k = 0; k < extents->len; k++) {
            const RestoreExtent *e = &g_array_index(extents, RestoreExtent, k);

            data_from = MIN(data_from, e->file_offset);
            data_to = MAX(data_to, e->file_offset + e->length);
        }
    }
    g_assert_true(g_file_get_contents(p.delta, &bytes, &size, NULL));
    g_assert_cmpint(write(fd, bytes, size), ==, size);
    for (gsize pos = 0; pos < size; pos++) {
        static const uint8_t masks[] = { 0x01, 0x80, 0xff };

        if (pos >= data_from && pos < data_to) {
            continue;
        }
        for (unsigned m = 0; m < G_N_ELEMENTS(masks); m++) {
            uint8_t bad = bytes[pos] ^ masks[m];
            g_autoptr(SnapshotFile) got = NULL;

            g_assert_cmpint(pwrite(fd, &bad, 1, pos), ==, 1);
            got = snapshot_file_open(dup(fd), NULL, 0, NULL);
            g_assert_null(got);
        }
        g_assert_cmpint(pwrite(fd, bytes + pos, 1, pos), ==, 1);
    }
    close(fd);
    pair_clear(&p);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/snapshot-chain/t05-three-increments", test_three_increments);
    g_test_add_func("/snapshot-chain/three-increments-copied", test_three_increments_copied);
    g_test_add_func("/snapshot-chain/full-of-clone", test_full_of_clone);
    g_test_add_func("/snapshot-chain/increment-is-small", test_increment_is_small);
    g_test_add_func("/snapshot-chain/missing-parent", test_missing_parent);
    g_test_add_func("/snapshot-chain/wrong-parent", test_wrong_parent);
    g_test_add_func("/snapshot-chain/parent-is-itself", test_parent_is_itself);
    g_test_add_func("/snapshot-chain/given-parents", test_given_parents);
    g_test_add_func("/snapshot-chain/damaged-parent", test_damaged_parent);
    g_test_add_func("/snapshot-chain/damaged-increment", test_damaged_increment);
    return g_test_run();
}
