/*
 * Memory that the guest gave back, through chains of snapshots: it is zero, it is anonymous again after a
 * restore, and what is written to it later is data (traps T4, T5, T7).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/discard.h"
#include "memory/vma-budget.h"
#include "migration/chain-map.h"
#include "migration/flatten.h"
#include "migration/ram-released.h"
#include "qapi/qapi-types.h"
#include "tests/unit/snapshot-fixture.h"
#include "tests/unit/xfs-fixture.h"
#include "util/io.h"

#include <sys/mman.h>

G_DEFINE_AUTOPTR_CLEANUP_FUNC(RamList, ram_list_free)

/* The last chunk is short. */
#define RAM_SIZE (19 * MiB)
#define CHUNK RAM_CHUNK_SIZE
#define PAGE UINT64_C(4096)

static char *path_in(const char *folder, const char *name)
{
    return g_build_filename(folder, name, NULL);
}

static void save(RamList *ram, const char *path, const char *parent_path)
{
    g_autoptr(SnapshotFile) parent = parent_path ? fixture_open(parent_path, NULL) : NULL;
    FixtureSave f = { .ram = ram, .path = path, .parent = parent };
    g_autoptr(GError) err = NULL;

    fixture_save(&f, &err);
    g_assert_no_error(err);
}

static SnapshotChain *open_chain(const char *path)
{
    g_autoptr(FdStore) fds = fd_store_new();
    g_autoptr(GError) err = NULL;
    SnapshotFile *tip = fixture_open(path, &err);
    SnapshotChain *chain = tip ? snapshot_chain_open(tip, NULL, fds, &err) : NULL;

    g_assert_no_error(err);
    return chain;
}

static RamList *restore(const char *path, RestoreMode mode)
{
    g_autoptr(SnapshotChain) chain = open_chain(path);
    g_autoptr(GError) err = NULL;
    RamList *ram = fixture_ram(RAM_SIZE);

    fixture_restore(ram, chain, mode, &err);
    g_assert_no_error(err);
    return ram;
}

static RamBlock *main_block(const RamList *ram)
{
    return ram_list_get(ram, 0);
}

static void release(RamList *ram, uint64_t first, uint64_t n)
{
    DiscardRequest request = { .why = DISCARD_REPORTED };
    DiscardResult result;

    g_assert_true(
        discard_range(main_block(ram), first * CHUNK, n * CHUNK, &request, &result, NULL));
    g_assert_cmpuint(result.remapped, >, 0);
}

static void put_page(RamList *ram, uint64_t offset, uint8_t value)
{
    memset(main_block(ram)->host + offset, value, PAGE);
}

/* The chunks of the map as text, "0110000000". */
static char *map_text(const RamList *ram)
{
    GString *text = g_string_new(NULL);

    for (uint64_t i = 0; i < ram_block_chunks(main_block(ram)); i++) {
        g_string_append_c(text, '0' + chunk_map_test(main_block(ram)->released, i));
    }
    return g_string_free(text, FALSE);
}

static void assert_map(const RamList *ram, const char *want)
{
    g_autofree char *got = map_text(ram);

    g_assert_cmpstr(got, ==, want);
}

static PagemapStats scan(RamList *ram)
{
    g_autoptr(PagemapScanner) scanner = pagemap_scanner_new(PAGEMAP_AUTO, NULL);
    RamPlan plan;
    PagemapStats stats;

    g_assert_true(ram_plan_scan(&plan, ram, scanner, NULL));
    stats = plan.stats;
    ram_plan_clear(&plan);
    return stats;
}

static void check_flat(const char *folder, const char *tip, const GByteArray *want,
                       const char *want_map)
{
    g_autofree char *path = path_in(folder, "flat");
    g_autoptr(PublishTarget) target = publish_new_path(path, 0, false, NULL);
    g_autoptr(SnapshotChain) chain = open_chain(tip);
    g_autoptr(GError) err = NULL;
    g_autoptr(RamList) copied = NULL;
    g_autoptr(RamList) mapped = NULL;

    snapshot_flatten(chain, target, NULL, NULL, &err);
    g_assert_no_error(err);
    copied = restore(path, RESTORE_COPY);
    fixture_assert_same(copied, want);
    mapped = restore(path, RESTORE_COPY_ON_WRITE);
    fixture_assert_same(mapped, want);
    assert_map(mapped, want_map);
}

/* What cowbird-snap map and compare go by. */
static void check_chain_map(const char *tip, RamList *ram)
{
    g_autoptr(SnapshotChain) chain = open_chain(tip);
    const RamBlock *block = main_block(ram);
    g_autoptr(GArray) runs =
        chain_map_block((SnapshotFile *const *)chain->files->pdata, chain->files->len, block->name);

    for (guint k = 0; k < runs->len; k++) {
        const ChainRun *run = &g_array_index(runs, ChainRun, k);
        g_autofree uint8_t *bytes = g_malloc0(run->length);

        if (run->kind == CHAIN_RUN_DATA) {
            g_assert_true(pread_full(run->file->fd, bytes, run->length, run->file_offset, NULL));
        }
        g_assert_true(memcmp(bytes, block->host + run->offset, run->length) == 0);
    }
}

/* Restored both ways: the same memory; mapped, the same map. */
static void check_restores(const char *path, const GByteArray *want, const char *want_map)
{
    g_autoptr(RamList) copied = restore(path, RESTORE_COPY);
    g_autoptr(RamList) mapped = restore(path, RESTORE_COPY_ON_WRITE);

    fixture_assert_same(copied, want);
    fixture_assert_same(mapped, want);
    assert_map(mapped, want_map);
}

/* full <- released <- partly written again <- nothing: right page by page at every step. */
static void t05_released_in_a_chain(void)
{
    g_autofree char *folder = fixture_folder(), *full = path_in(folder, "full");
    g_autofree char *one = path_in(folder, "one"), *two = path_in(folder, "two");
    g_autofree char *three = path_in(folder, "three");
    g_autoptr(RamList) ram = fixture_ram(RAM_SIZE);
    g_autoptr(RamList) first = NULL;
    g_autoptr(RamList) second = NULL;
    g_autoptr(RamList) third = NULL;
    g_autoptr(GByteArray) after_one = NULL;
    g_autoptr(GByteArray) after_two = NULL;

    fixture_write(ram, 1, 1);
    save(ram, full, NULL);

    first = restore(full, RESTORE_COPY_ON_WRITE);
    release(first, 2, 3);
    release(first, 9, 1);
    assert_map(first, "0011100001");
    save(first, one, full);
    after_one = fixture_copy(first);
    check_restores(one, after_one, "0011100001");
    check_chain_map(one, first);

    second = restore(one, RESTORE_COPY_ON_WRITE);
    for (uint64_t i = 0; i < 20; i++) {
        put_page(second, 3 * CHUNK + i * 7 * PAGE, 0x40 + i);
    }
    put_page(second, 9 * CHUNK, 0x77);
    release(second, 6, 1);
    save(second, two, one);
    after_two = fixture_copy(second);
    check_restores(two, after_two, "0011101001");
    check_chain_map(two, second);
    /* Chunk 3 and 9 have data: a restored full snapshot maps the file there. */
    check_flat(folder, two, after_two, "0010101000");

    third = restore(two, RESTORE_COPY_ON_WRITE);
    save(third, three, two);
    check_restores(three, after_two, "0011101001");
    fixture_remove_folder(folder);
}

/* Of a restored released chunk the next increment says zero, or data where it was written; never unchanged. */
static void t05_restored_chunk_is_zero_not_unchanged(void)
{
    g_autofree char *folder = fixture_folder(), *full = path_in(folder, "full");
    g_autofree char *one = path_in(folder, "one");
    g_autoptr(RamList) ram = fixture_ram(RAM_SIZE);
    g_autoptr(RamList) clone = NULL;
    g_autoptr(RamList) again = NULL;
    PagemapStats stats;

    fixture_write(ram, 1, 1);
    save(ram, full, NULL);
    clone = restore(full, RESTORE_COPY_ON_WRITE);
    release(clone, 4, 2);
    save(clone, one, full);
    again = restore(one, RESTORE_COPY_ON_WRITE);
    stats = scan(again);
    g_assert_cmpuint(stats.zero_pages, ==, 2 * CHUNK / PAGE);
    g_assert_cmpuint(stats.data_pages, ==, 0);
    put_page(again, 4 * CHUNK + 5 * PAGE, 9);
    stats = scan(again);
    g_assert_cmpuint(stats.data_pages, ==, 1);
    g_assert_cmpuint(stats.zero_pages, ==, 2 * CHUNK / PAGE - 1);
    fixture_remove_folder(folder);
}

/* Bytes that a file has on disk. */
static uint64_t disk_bytes(const char *path)
{
    struct stat st;

    g_assert_cmpint(stat(path, &st), ==, 0);
    return st.st_blocks * UINT64_C(512);
}

/* A full snapshot of a clone has holes there, also where it shares the base's extents. */
static void check_full_of_clone(const char *folder)
{
    g_autofree char *base = path_in(folder, "base"), *full = path_in(folder, "full");
    g_autoptr(RamList) ram = fixture_ram(RAM_SIZE);
    g_autoptr(RamList) clone = NULL;
    g_autoptr(RamList) again = NULL;
    g_autoptr(GByteArray) want = NULL;

    fixture_write(ram, 1, 1);
    save(ram, base, NULL);
    clone = restore(base, RESTORE_COPY_ON_WRITE);
    release(clone, 1, 4);
    put_page(clone, 3 * CHUNK + PAGE, 3);
    want = fixture_copy(clone);
    save(clone, full, NULL);
    check_restores(full, want, "0110100000");
    g_assert_cmpuint(disk_bytes(full), <, RAM_SIZE - 4 * CHUNK + MiB);
    again = restore(full, RESTORE_COPY_ON_WRITE);
    g_assert_cmpuint(scan(again).zero_pages, ==, 3 * CHUNK / PAGE);
    g_assert_cmpint(unlink(base), ==, 0);
    g_assert_cmpint(unlink(full), ==, 0);
}

static void test_full_of_clone(void)
{
    g_autofree char *folder = fixture_folder();

    check_full_of_clone(folder);
    fixture_remove_folder(folder);
}

static void test_full_of_clone_reflink(void)
{
    FixtureXfs r;

    if (!fixture_mount_xfs(&r)) {
        g_test_skip("no XFS can be mounted here");
        return;
    }
    check_full_of_clone(r.folder);
    fixture_unmount_xfs(&r);
}

/* Too few mappings for anonymous chunks: zeros are written instead, and nothing is wrong. */
static void test_restore_over_budget(void)
{
    g_autofree char *folder = fixture_folder(), *full = path_in(folder, "full");
    g_autofree char *one = path_in(folder, "one");
    g_autoptr(RamList) ram = fixture_ram(RAM_SIZE);
    g_autoptr(RamList) clone = NULL;
    g_autoptr(RamList) again = NULL;
    g_autoptr(GByteArray) want = NULL;
    g_autoptr(SnapshotChain) chain = NULL;

    fixture_write(ram, 1, 1);
    save(ram, full, NULL);
    clone = restore(full, RESTORE_COPY_ON_WRITE);
    release(clone, 4, 2);
    put_page(clone, 4 * CHUNK + 5 * PAGE, 9);
    want = fixture_copy(clone);
    save(clone, one, full);
    again = fixture_ram(RAM_SIZE);
    ram_list_vma_budget(again)->count_again = G_MAXINT64; /* counted: nothing is left */
    chain = open_chain(one);
    g_assert_true(fixture_restore(again, chain, RESTORE_COPY_ON_WRITE, NULL));
    fixture_assert_same(again, want);
    assert_map(again, "0000000000");
    fixture_remove_folder(folder);
}

/* A punched shared block is saved as it reads. */
static void test_shared_block(void)
{
    g_autofree char *folder = fixture_folder(), *full = path_in(folder, "full");
    g_autoptr(RamList) ram = ram_list_new();
    g_autoptr(RamList) again = NULL;
    g_autoptr(GByteArray) want = NULL;
    int fd = memfd_create("shared", MFD_CLOEXEC);
    DiscardRequest request = { .why = DISCARD_REPORTED };
    DiscardResult result;
    RamBlock *block;

    g_assert_cmpint(ftruncate(fd, RAM_SIZE), ==, 0);
    block = ram_block_new_from_mapping(
        "pc.ram", mmap(NULL, RAM_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), RAM_SIZE,
        RAM_SHARED, fd);
    g_assert_nonnull(ram_list_add(ram, block, NULL));
    g_assert_nonnull(ram_list_add(ram, ram_block_new_anonymous("rom", 64 * KiB, NULL), NULL));
    fixture_write(ram, 1, 1);
    g_assert_true(discard_range(block, CHUNK + PAGE, 2 * CHUNK, &request, &result, NULL));
    g_assert_cmpuint(result.released, ==, 2 * CHUNK);
    put_page(ram, 2 * CHUNK, 0);
    put_page(ram, 2 * CHUNK + PAGE, 5);
    want = fixture_copy(ram);
    save(ram, full, NULL);
    g_assert_cmpuint(disk_bytes(full), <, RAM_SIZE - 2 * CHUNK + MiB);
    check_restores(full, want, "0000000000");
    again = restore(full, RESTORE_COPY);
    fixture_assert_same(again, want);
    fixture_remove_folder(folder);
}

/* --- Sections that nobody should believe --- */

/* A file with one block of three chunks and a half; an increment tells of pages of its second chunk. */
static SnapshotFile *bare_file(bool increment, uint64_t told)
{
    SnapshotFile *file = g_new0(SnapshotFile, 1);
    SnapshotBlock *block = g_new0(SnapshotBlock, 1);
    RestoreExtent data = { .offset = CHUNK, .length = PAGE };
    RestoreExtent zero = { .offset = CHUNK + PAGE, .length = told };

    block->name = g_strdup("pc.ram");
    block->length = 7 * MiB;
    file->blocks = g_ptr_array_new();
    g_ptr_array_add(file->blocks, block);
    if (increment) {
        block->extents = g_array_new(FALSE, FALSE, sizeof(RestoreExtent));
        block->zeros = g_array_new(FALSE, FALSE, sizeof(RestoreExtent));
        g_array_append_val(block->extents, data);
        g_array_append_val(block->zeros, zero);
    }
    return file;
}

static void bare_file_free(SnapshotFile *file)
{
    SnapshotBlock *block = file->blocks->pdata[0];

    g_clear_pointer(&block->extents, g_array_unref);
    g_clear_pointer(&block->zeros, g_array_unref);
    g_clear_pointer(&block->released, g_array_unref);
    g_free(block->name);
    g_free(block);
    g_ptr_array_unref(file->blocks);
    g_free(file);
}

/* Reads the body of a section with these runs of a block. */
static bool get_runs(SnapshotFile *file, const char *name, const RestoreExtent *runs, guint n)
{
    g_autoptr(GByteArray) out = g_byte_array_new();
    g_autoptr(GError) err = NULL;
    ByteReader in;
    bool ok;

    byte_array_put_be32(out, 1);
    byte_array_put_counted_string(out, name);
    byte_array_put_be32(out, n);
    for (guint i = 0; i < n; i++) {
        byte_array_put_be64(out, runs[i].offset);
        byte_array_put_be64(out, runs[i].length);
    }
    in = byte_reader_init(out->data, out->len);
    ok = ram_released_get(&in, RAM_RELEASED_SECTION_VERSION, file, &err);
    g_assert_true(ok == (err == NULL));
    bare_file_free(file);
    return ok;
}

static void test_bad_sections(void)
{
    static const RestoreExtent good[] = { { .offset = 0, .length = CHUNK },
                                          { .offset = 2 * CHUNK, .length = 3 * MiB } };
    static const RestoreExtent second = { .offset = CHUNK, .length = CHUNK };
    static const RestoreExtent bad[][2] = {
        { { .offset = PAGE, .length = CHUNK } },
        { { .offset = 0, .length = CHUNK - PAGE } },
        { { .offset = 0, .length = 0 } },
        { { .offset = 0, .length = 8 * MiB } },
        { { .offset = 8 * MiB, .length = CHUNK } },
        { { .offset = CHUNK, .length = UINT64_MAX - CHUNK + 1 } },
        { { .offset = UINT64_MAX - CHUNK + 1, .length = CHUNK } },
    };
    static const RestoreExtent touching[] = { { .offset = 0, .length = CHUNK },
                                              { .offset = CHUNK, .length = CHUNK } };
    static const RestoreExtent backwards[] = { { .offset = 2 * CHUNK, .length = CHUNK },
                                               { .offset = 0, .length = CHUNK } };

    g_assert_true(get_runs(bare_file(false, 0), "pc.ram", good, 2));
    g_assert_false(get_runs(bare_file(false, 0), "pc.rom", good, 2));
    g_assert_false(get_runs(bare_file(false, 0), "pc.ram", good, 0));
    g_assert_false(get_runs(bare_file(false, 0), "pc.ram", touching, 2));
    g_assert_false(get_runs(bare_file(false, 0), "pc.ram", backwards, 2));
    for (guint i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_assert_false(get_runs(bare_file(false, 0), "pc.ram", bad[i], 1));
    }
    /* An increment must tell every page of a released chunk. */
    g_assert_true(get_runs(bare_file(true, CHUNK - PAGE), "pc.ram", &second, 1));
    g_assert_false(get_runs(bare_file(true, CHUNK - 2 * PAGE), "pc.ram", &second, 1));
}

/*
 * T9: a remap under userfaultfd would end its registration. Released memory has no way around that yet, so the mode
 * must not be offered.
 */
static void t09_on_demand_is_not_offered(void)
{
    g_assert_cmpint(qapi_enum_find(&qapi_type_RamRestoreMode, "copy-on-write"), >=, 0);
    g_assert_cmpint(qapi_enum_find(&qapi_type_RamRestoreMode, "on-demand"), <, 0);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/snapshot-released/t05_released_in_a_chain", t05_released_in_a_chain);
    g_test_add_func("/snapshot-released/t05_restored_chunk_is_zero_not_unchanged",
                    t05_restored_chunk_is_zero_not_unchanged);
    g_test_add_func("/snapshot-released/full-of-clone", test_full_of_clone);
    g_test_add_func("/snapshot-released/full-of-clone-reflink", test_full_of_clone_reflink);
    g_test_add_func("/snapshot-released/restore-over-budget", test_restore_over_budget);
    g_test_add_func("/snapshot-released/shared-block", test_shared_block);
    g_test_add_func("/snapshot-released/t09_on_demand_is_not_offered",
                    t09_on_demand_is_not_offered);
    g_test_add_func("/snapshot-released/bad-sections", test_bad_sections);
    return g_test_run();
}
