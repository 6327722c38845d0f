/*
 * Guest RAM out of snapshot files: modes, eligibility, layers, and what is refused.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/chunk-map.h"
#include "memory/pagemap.h"
#include "memory/restore.h"
#include "tests/unit/memory-fixture.h"

#define RAM_BYTES (16 * MiB)
#define CHUNK RAM_CHUNK_SIZE
#define PAGES (RAM_BYTES / FIXTURE_PAGE)

static void assert_all_stamped(const RamBlock *block, uint64_t seed)
{
    for (uint64_t i = 0; i < block->size / FIXTURE_PAGE; i++) {
        g_assert_true(fixture_is_stamped(block->host + i * FIXTURE_PAGE, i, seed));
    }
}

/* A full file and an empty block; nothing restored yet. */
static void prepare(Fixture *f, uint64_t pages_offset)
{
    f->offset = pages_offset;
    f->fd = fixture_file(NULL, f->offset + RAM_BYTES, &f->path);
    fixture_fill_file(f->fd, f->offset, RAM_BYTES, 1);
    close(f->fd);
    fixture_new_block(f, RAM_BYTES);
    fixture_open_base(f);
}

static void test_copy(void)
{
    Fixture f = { 0 };
    GError *err = NULL;

    prepare(&f, MiB);
    f.block->host[5] = 1; /* what was there before is gone */
    g_assert_true(fixture_restore(&f, RESTORE_COPY, &err));
    g_assert_no_error(err);
    g_assert_cmpint(f.block->kind, ==, RAM_ANONYMOUS);
    g_assert_cmpint(f.block->report.used, ==, RAM_RESTORE_USED_COPY);
    assert_all_stamped(f.block, 1);
    g_assert_false(f.block->report.increment_possible);
    g_assert_nonnull(f.block->report.increment_obstacle);
    fixture_clear(&f);
}

/* Pages at an odd place of the file can be copied, with and without O_DIRECT, and not be mapped. */
static void test_unaligned_pages(void)
{
    for (unsigned direct = 0; direct < 2; direct++) {
        Fixture f = { 0 };
        GError *err = NULL;
        RestoreBlock rb;
        RestoreLayer layer;
        RestoreRequest request = { .fallback = true, .direct_io = direct };

        prepare(&f, MiB + 17);
        rb = (RestoreBlock){ .block = f.block, .pages_offset = f.offset };
        layer = (RestoreLayer){ .base = f.base, .blocks = &rb, .n_blocks = 1 };
        request.layers = &layer;
        request.n_layers = 1;
        g_assert_true(restore_ram(f.list, &request, NULL, &err));
        g_assert_no_error(err);
        assert_all_stamped(f.block, 1);
        g_assert_cmpint(f.block->report.used, ==, RAM_RESTORE_USED_COPY);
        g_assert_nonnull(strstr(f.block->report.reason, "page-aligned"));
        fixture_clear(&f);
    }
}

static void test_copy_direct_io(void)
{
    Fixture f = { 0 };
    GError *err = NULL;
    RestoreBlock rb;
    RestoreLayer layer;
    RestoreRequest request = { .mode = RESTORE_COPY, .direct_io = true, .n_layers = 1 };

    prepare(&f, MiB);
    rb = (RestoreBlock){ .block = f.block, .pages_offset = f.offset };
    layer = (RestoreLayer){ .base = f.base, .blocks = &rb, .n_blocks = 1 };
    request.layers = &layer;
    g_assert_true(restore_ram(f.list, &request, NULL, &err));
    g_assert_no_error(err);
    assert_all_stamped(f.block, 1);
    fixture_clear(&f);
}

static void test_copy_on_write(void)
{
    Fixture f = { 0 };
    g_autofree char *flags = NULL;
    RestoreBlockInfo info;
    GError *err = NULL;

    fixture_init(&f, NULL, RAM_BYTES);
    assert_all_stamped(f.block, 1);
    g_assert_cmpint(f.block->report.used, ==, RAM_RESTORE_USED_COPY_ON_WRITE);
    g_assert_null(f.block->report.reason);
    g_assert_cmpstr(f.block->report.file, ==, f.path);
    g_assert_true(f.block->report.increment_possible);
    f.block->host[7 * FIXTURE_PAGE] = 1;
    g_assert_true(restore_query_block(f.block, &info, &err));
    g_assert_no_error(err);
    g_assert_cmpuint(info.private_pages, ==, 1);
    g_assert_cmpuint(info.resident_pages, ==, PAGES);
    flags = fixture_vm_flags(f.block->host);
    g_assert_null(strstr(flags, " hg"));
    g_assert_nonnull(strstr(flags, " dd "));
    g_assert_nonnull(strstr(flags, " dc "));
    g_assert_nonnull(strstr(flags, " nr "));
    fixture_clear(&f);
}

/* Two clones of one file: neither sees what the other writes, nor does the file. */
static void test_two_clones(void)
{
    Fixture f = { 0 }, g = { 0 };
    GError *err = NULL;
    uint8_t page[FIXTURE_PAGE];
    int fd;

    fixture_init(&f, NULL, RAM_BYTES);
    g.offset = f.offset;
    g.path = g_strdup(f.path);
    fixture_new_block(&g, RAM_BYTES);
    fixture_open_base(&g);
    g_assert_true(fixture_restore(&g, RESTORE_COPY_ON_WRITE, &err));
    fixture_stamp(f.block->host, 0, 2);
    fixture_stamp(g.block->host + FIXTURE_PAGE, 1, 3);
    g_assert_true(fixture_is_stamped(g.block->host, 0, 1));
    g_assert_true(fixture_is_stamped(f.block->host + FIXTURE_PAGE, 1, 1));
    fd = open(f.path, O_RDONLY | O_CLOEXEC);
    g_assert_cmpint(pread(fd, page, FIXTURE_PAGE, f.offset), ==, FIXTURE_PAGE);
    g_assert_true(fixture_is_stamped(page, 0, 1));
    close(fd);
    fixture_clear(&g);
    fixture_clear(&f);
}

/* --- Eligibility --- */

typedef struct Ineligible {
    const char *name;
    size_t flag; /* of a bool in RamBlock */
    const char *reason;
} Ineligible;

static const Ineligible ineligible[] = {
    { "share", offsetof(RamBlock, share), "shared" },
    { "hugetlb", offsetof(RamBlock, hugetlb), "hugetlb" },
    { "memfd", offsetof(RamBlock, memfd), "memfd" },
    { "prealloc", offsetof(RamBlock, prealloc), "preallocated" },
    { "mem_lock", offsetof(RamBlock, mem_lock), "locked" },
    { "numa_policy", offsetof(RamBlock, numa_policy), "NUMA" },
    { "merge", offsetof(RamBlock, merge), "KSM" },
    { "resizable", offsetof(RamBlock, resizable), "resized" },
    { "readonly", offsetof(RamBlock, readonly), "read-only" },
};

/* T47: what cannot be mapped is copied and says so; without fallback it is an error, nothing is touched. */
static void t47_ineligible_blocks(void)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(ineligible); i++) {
        static const RestoreMode modes[] = { RESTORE_AUTO, RESTORE_COPY_ON_WRITE };

        for (unsigned k = 0; k < G_N_ELEMENTS(modes); k++) {
            Fixture f = { 0 };
            g_autoptr(GError) err = NULL;

            prepare(&f, MiB);
            *(bool *)((char *)f.block + ineligible[i].flag) = true;
            g_assert_true(fixture_restore(&f, modes[k], &err));
            g_assert_no_error(err);
            g_assert_cmpint(f.block->report.used, ==, RAM_RESTORE_USED_COPY);
            g_assert_nonnull(strstr(f.block->report.reason, ineligible[i].reason));
            g_assert_cmpint(f.block->kind, ==, RAM_ANONYMOUS);
            assert_all_stamped(f.block, 1);
            fixture_clear(&f);
        }
    }
}

static void t47_no_fallback_is_an_error(void)
{
    Fixture f = { 0 };
    g_autoptr(GError) err = NULL;
    RestoreBlock rb;
    RestoreLayer layer;
    RestoreRequest request = { .mode = RESTORE_COPY_ON_WRITE, .n_layers = 1 };

    prepare(&f, MiB);
    f.block->merge = true;
    f.block->host[0] = 0x77;
    rb = (RestoreBlock){ .block = f.block, .pages_offset = f.offset };
    layer = (RestoreLayer){ .base = f.base, .blocks = &rb, .n_blocks = 1 };
    request.layers = &layer;
    g_assert_false(restore_ram(f.list, &request, NULL, &err));
    g_assert_nonnull(strstr(err->message, "pc.ram"));
    g_assert_nonnull(strstr(err->message, "KSM"));
    g_assert_nonnull(strstr(err->message, "ram-restore-fallback"));
    g_assert_cmphex(f.block->host[0], ==, 0x77);
    fixture_clear(&f);
}

/* A writer has the file open: `auto` copies and says why, copy-on-write maps (and warns). */
static void test_no_lease(void)
{
    static const RestoreMode modes[] = { RESTORE_AUTO, RESTORE_COPY_ON_WRITE };

    for (unsigned k = 0; k < G_N_ELEMENTS(modes); k++) {
        Fixture f = { 0 };
        g_autoptr(GError) err = NULL;
        int writer;

        prepare(&f, MiB);
        writer = open(f.path, O_WRONLY | O_CLOEXEC);
        g_assert_true(fixture_restore(&f, modes[k], &err));
        g_assert_no_error(err);
        if (modes[k] == RESTORE_AUTO && f.block->report.used == RAM_RESTORE_USED_COPY) {
            g_assert_nonnull(strstr(f.block->report.reason, "open for writing"));
        } else {
            g_assert_cmpint(f.block->report.used, ==, RAM_RESTORE_USED_COPY_ON_WRITE);
        }
        assert_all_stamped(f.block, 1);
        close(writer);
        fixture_clear(&f);
    }
}

/* --- Contents --- */

/* Holes are zero in every mode, over whatever the block had before. */
static void test_holes(void)
{
    static const RestoreMode modes[] = { RESTORE_COPY, RESTORE_COPY_ON_WRITE };

    for (unsigned k = 0; k < 3; k++) {
        Fixture f = { .offset = MiB };
        g_autoptr(GError) err = NULL;

        f.fd = fixture_file(NULL, f.offset + RAM_BYTES, &f.path);
        for (uint64_t i = 0; i < PAGES; i += 5) {
            fixture_write_page(f.fd, f.offset + i * FIXTURE_PAGE, i, 1);
        }
        close(f.fd);
        fixture_new_block(&f, RAM_BYTES);
        memset(f.block->host, 0x66, RAM_BYTES);
        f.block->prealloc = k == 2; /* must be overwritten, not dropped */
        fixture_open_base(&f);
        g_assert_true(fixture_restore(&f, modes[k % 2], &err));
        for (uint64_t i = 0; i < PAGES; i++) {
            const uint8_t *page = f.block->host + i * FIXTURE_PAGE;

            g_assert_true(i % 5 ? fixture_is_zero(page) : fixture_is_stamped(page, i, 1));
        }
        fixture_clear(&f);
    }
}

/* Pages whose bit is clear are zero though the file has bytes there (a foreign writer left them). */
static void test_stale_pages(void)
{
    static const RestoreMode modes[] = { RESTORE_COPY, RESTORE_COPY_ON_WRITE };

    for (unsigned k = 0; k < G_N_ELEMENTS(modes); k++) {
        Fixture f = { 0 };
        g_autoptr(GError) err = NULL;
        g_autofree unsigned long *bits = g_malloc0(PAGES / 8);
        RestoreBlock rb;
        RestoreLayer layer;
        RestoreRequest request = { .mode = modes[k], .fallback = true, .n_layers = 1 };

        prepare(&f, MiB);
        for (uint64_t i = 0; i < PAGES; i++) {
            /* Single pages, and all of the chunks 4 and 5. */
            if (i % 9 && (i < 2048 || i >= 3072)) {
                bits[i / 64] |= 1ul << (i % 64);
            }
        }
        rb = (RestoreBlock){ .block = f.block, .pages_offset = f.offset, .present = bits };
        layer = (RestoreLayer){ .base = f.base, .blocks = &rb, .n_blocks = 1 };
        request.layers = &layer;
        g_assert_true(restore_ram(f.list, &request, NULL, &err));
        g_assert_no_error(err);
        for (uint64_t i = 0; i < PAGES; i++) {
            const uint8_t *page = f.block->host + i * FIXTURE_PAGE;
            bool present = bits[i / 64] >> (i % 64) & 1;

            g_assert_true(present ? fixture_is_stamped(page, i, 1) : fixture_is_zero(page));
        }
        if (modes[k] == RESTORE_COPY_ON_WRITE) {
            g_assert_true(chunk_map_test(f.block->released, 4));
            g_assert_cmpuint(chunk_map_count(f.block->released), ==, 2);
        }
        fixture_clear(&f);
    }
}

/* --- Layers --- */

enum { DELTA_LARGE = 256, DELTA_SMALL = 3 };

/* An increment: a large extent, small ones, a zero extent with whole chunks, a small one. */
typedef struct Delta {
    char *path;
    RamBase *base;
    RestoreExtent extents[8];
    size_t n_extents;
    RestoreExtent zeros[2];
} Delta;

static void delta_add(Delta *d, int fd, uint64_t *at, uint64_t first, uint64_t pages, uint64_t seed)
{
    for (uint64_t i = 0; i < pages; i++) {
        fixture_write_page(fd, *at + i * FIXTURE_PAGE, first + i, seed);
    }
    d->extents[d->n_extents++] = (RestoreExtent){
        .offset = first * FIXTURE_PAGE,
        .length = pages * FIXTURE_PAGE,
        .file_offset = *at,
    };
    *at += pages * FIXTURE_PAGE;
}

static void delta_init(Delta *d, uint64_t skew, uint64_t seed)
{
    uint64_t at = 64 * KiB + skew;
    int fd = fixture_file(NULL, 0, &d->path);
    int readonly;

    delta_add(d, fd, &at, 5, DELTA_SMALL, seed);
    delta_add(d, fd, &at, 100, DELTA_LARGE, seed);
    delta_add(d, fd, &at, 1000 + seed, 1, seed);
    delta_add(d, fd, &at, 3500, DELTA_LARGE, seed);
    close(fd);
    d->zeros[0] = (RestoreExtent){ .offset = 20 * FIXTURE_PAGE, .length = 2 * FIXTURE_PAGE };
    d->zeros[1] = (RestoreExtent){ .offset = 2 * CHUNK - FIXTURE_PAGE,
                                   .length = 2 * CHUNK + 2 * FIXTURE_PAGE };
    readonly = open(d->path, O_RDONLY | O_CLOEXEC);
    d->base = ram_base_open(readonly, d->path, NULL, NULL);
    close(readonly);
}

static void delta_clear(Delta *d)
{
    ram_base_unref(d->base);
    unlink(d->path);
    g_free(d->path);
}

static bool in_extents(const RestoreExtent *e, size_t n, uint64_t page)
{
    for (size_t i = 0; i < n; i++) {
        if (page * FIXTURE_PAGE >= e[i].offset && page * FIXTURE_PAGE < e[i].offset + e[i].length) {
            return true;
        }
    }
    return false;
}

/* Base, then deltas of seeds 2 and 3: the last layer that has a page wins. */
static void check_layered(const RamBlock *block, const Delta *d, unsigned n)
{
    for (uint64_t i = 0; i < PAGES; i++) {
        const uint8_t *page = block->host + i * FIXTURE_PAGE;
        uint64_t seed = 1;
        bool zero = false;

        for (unsigned k = 0; k < n; k++) {
            if (in_extents(d[k].extents, d[k].n_extents, i)) {
                seed = k + 2;
                zero = false;
            } else if (in_extents(d[k].zeros, 2, i)) {
                zero = true;
            }
        }
        g_assert_true(zero ? fixture_is_zero(page) : fixture_is_stamped(page, i, seed));
    }
}

static bool sum_data(const PageRange *range, void *opaque)
{
    *(uint64_t *)opaque += range->kind == PAGE_DATA ? range->length / FIXTURE_PAGE : 0;
    return true;
}

static void layered(RestoreMode mode, uint64_t skew)
{
    Fixture f = { 0 };
    Delta deltas[2] = { 0 };
    RestoreBlock rbs[3];
    RestoreLayer layers[3];
    RestoreRequest request = { .mode = mode, .fallback = true, .layers = layers, .n_layers = 3 };
    g_autoptr(GError) err = NULL;
    g_autoptr(PagemapScanner) scanner = pagemap_scanner_new(PAGEMAP_AUTO, NULL);
    uint64_t data = 0;

    prepare(&f, MiB);
    rbs[0] = (RestoreBlock){ .block = f.block, .pages_offset = f.offset };
    layers[0] = (RestoreLayer){ .base = f.base, .blocks = &rbs[0], .n_blocks = 1 };
    for (unsigned k = 0; k < 2; k++) {
        Delta *d = &deltas[k];

        delta_init(d, skew, k + 2);
        rbs[k + 1] = (RestoreBlock){ .block = f.block,
                                     .extents = d->extents,
                                     .n_extents = d->n_extents,
                                     .zeros = d->zeros,
                                     .n_zeros = 2 };
        layers[k + 1] = (RestoreLayer){ .base = d->base, .blocks = &rbs[k + 1], .n_blocks = 1 };
    }
    g_assert_true(restore_ram(f.list, &request, NULL, &err));
    g_assert_no_error(err);
    check_layered(f.block, deltas, 2);
    if (mode == RESTORE_COPY_ON_WRITE) {
        g_assert_cmpint(f.block->kind, ==, RAM_FILE_PRIVATE);
        g_assert_cmpstr(f.block->report.file, ==, deltas[1].path);
        pagemap_scan_block(scanner, f.block, sum_data, &data, NULL, NULL);
        /* Large extents are mapped, unless they are misaligned: then they count as data. */
        if (skew) {
            g_assert_cmpuint(data, >=, 2 * DELTA_LARGE);
        } else {
            g_assert_cmpuint(data, <, DELTA_LARGE);
        }
    }
    fixture_clear(&f);
    for (unsigned k = 0; k < 2; k++) {
        delta_clear(&deltas[k]);
    }
}

static void test_layers(void)
{
    layered(RESTORE_COPY, 0);
    layered(RESTORE_COPY, 24);
    layered(RESTORE_COPY_ON_WRITE, 0);
    layered(RESTORE_COPY_ON_WRITE, 24);
}

/* --- Refused --- */

/* T41: a file shorter than the ranges it promises is an error in every mode. */
static void t41_short_file(void)
{
    static const RestoreMode modes[] = { RESTORE_AUTO, RESTORE_COPY, RESTORE_COPY_ON_WRITE };

    for (unsigned k = 0; k < G_N_ELEMENTS(modes); k++) {
        Fixture f = { 0 };
        g_autoptr(GError) err = NULL;

        prepare(&f, MiB);
        g_assert_cmpint(truncate(f.path, f.offset + RAM_BYTES - 1), ==, 0);
        g_assert_false(fixture_restore(&f, modes[k], &err));
        g_assert_nonnull(strstr(err->message, "too short"));
        g_assert_nonnull(strstr(err->message, f.path));
        fixture_clear(&f);
    }
}

static void expect_refused(RestoreExtent extent)
{
    Fixture f = { 0 };
    g_autoptr(GError) err = NULL;
    RestoreBlock rbs[2];
    RestoreLayer layers[2];
    RestoreRequest request = { .layers = layers, .n_layers = 2 };

    prepare(&f, MiB);
    rbs[0] = (RestoreBlock){ .block = f.block, .pages_offset = f.offset };
    rbs[1] = (RestoreBlock){ .block = f.block, .extents = &extent, .n_extents = 1 };
    for (unsigned i = 0; i < 2; i++) {
        layers[i] = (RestoreLayer){ .base = f.base, .blocks = &rbs[i], .n_blocks = 1 };
    }
    g_assert_false(restore_ram(f.list, &request, NULL, &err));
    g_assert_nonnull(err);
    fixture_clear(&f);
}

static void test_bad_extents(void)
{
    expect_refused((RestoreExtent){ .offset = 1, .length = 4096 });
    expect_refused((RestoreExtent){ .offset = 0, .length = 100 });
    expect_refused((RestoreExtent){ .offset = 0, .length = 0 });
    expect_refused((RestoreExtent){ .offset = RAM_BYTES, .length = 4096 });
    expect_refused((RestoreExtent){ .offset = 4096, .length = UINT64_MAX - 4095 });
    expect_refused(
        (RestoreExtent){ .offset = 0, .length = 4096, .file_offset = UINT64_MAX - 4095 });
    expect_refused((RestoreExtent){ .offset = 0, .length = 4096, .file_offset = 17 * MiB });
    expect_refused((RestoreExtent){ .offset = 0, .length = 4096, .file_offset = INT64_MAX });
}

static void test_not_a_regular_file(void)
{
    int fds[2];
    g_autoptr(GError) err = NULL;

    g_assert_cmpint(pipe(fds), ==, 0);
    g_assert_null(ram_base_open(fds[0], "a pipe", NULL, &err));
    g_assert_nonnull(strstr(err->message, "a pipe"));
    close(fds[0]);
    close(fds[1]);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/memory/restore/copy", test_copy);
    g_test_add_func("/memory/restore/copy-direct-io", test_copy_direct_io);
    g_test_add_func("/memory/restore/unaligned", test_unaligned_pages);
    g_test_add_func("/memory/restore/copy-on-write", test_copy_on_write);
    g_test_add_func("/memory/restore/two-clones", test_two_clones);
    g_test_add_func("/memory/restore/t47_ineligible_blocks", t47_ineligible_blocks);
    g_test_add_func("/memory/restore/t47_no_fallback_is_an_error", t47_no_fallback_is_an_error);
    g_test_add_func("/memory/restore/no-lease", test_no_lease);
    g_test_add_func("/memory/restore/holes", test_holes);
    g_test_add_func("/memory/restore/stale-pages", test_stale_pages);
    g_test_add_func("/memory/restore/layers", test_layers);
    g_test_add_func("/memory/restore/t41_short_file", t41_short_file);
    g_test_add_func("/memory/restore/bad-extents", test_bad_extents);
    g_test_add_func("/memory/restore/not-a-regular-file", test_not_a_regular_file);
    return g_test_run();
}
