/*
 * Random chains of snapshots, restored, changed, scanned and restored again, against a model that knows for
 * each page what it must hold.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/discard.h"
#include "memory/pagemap.h"
#include "memory/restore.h"
#include "tests/unit/memory-fixture.h"

#define RAM_BYTES (11 * MiB)
#define PAGES (RAM_BYTES / FIXTURE_PAGE)
#define CHUNK_PAGES (RAM_CHUNK_SIZE / FIXTURE_PAGE)
#define LAYERS_MAX 5
#define ROUNDS 12

/* Contents of each page: the seed of its stamp, 0 = zero. */
typedef uint32_t Model[PAGES];

typedef struct Layer {
    char *path;
    RamBase *base;
    unsigned long *present; /* base only; may be NULL */
    GArray *extents, *zeros;
} Layer;

typedef struct Chain {
    Layer layers[LAYERS_MAX];
    unsigned n;
    uint64_t pages_offset;
    Model model;
    uint32_t next_seed;
    const char *folder; /* NULL: that for temporary files */
} Chain;

static bool chance(unsigned percent)
{
    return g_test_rand_int_range(0, 100) < (int)percent;
}

/* A run of pages: mostly short, sometimes of chunks. */
static void random_run(uint64_t *ret_first, uint64_t *ret_end)
{
    uint64_t first = g_test_rand_int_range(0, PAGES);
    uint64_t length = chance(70) ? g_test_rand_int_range(1, 9) : g_test_rand_int_range(1, 1400);

    *ret_first = chance(30) ? first / CHUNK_PAGES * CHUNK_PAGES : first;
    *ret_end = MIN(PAGES, *ret_first + length);
}

static void layer_open(Layer *layer)
{
    int fd = open(layer->path, O_RDONLY | O_CLOEXEC);
    GError *err = NULL;

    layer->base = ram_base_open(fd, layer->path, NULL, &err);
    g_assert_no_error(err);
    close(fd);
}

/* Runs of data and of holes; with a bitmap some pages are stale: data in the file, bit clear. */
static void make_base(Chain *c)
{
    Layer *layer = &c->layers[0];
    bool bitmap = chance(50);
    int fd;

    c->pages_offset = MiB;
    fd = fixture_file(c->folder, c->pages_offset + RAM_BYTES, &layer->path);
    if (bitmap) {
        layer->present = g_malloc0(ROUND_UP(PAGES, 64) / 8);
    }
    for (uint64_t at = 0; at < PAGES;) {
        uint64_t first, end;
        bool data = chance(60), stale = bitmap && chance(30);
        uint32_t seed = c->next_seed++;

        random_run(&first, &end);
        end = MIN(PAGES, at + (end - first) * 4);
        for (; at < end; at++) {
            if (data) {
                fixture_write_page(fd, c->pages_offset + at * FIXTURE_PAGE, at, seed);
            }
            if (data && !stale) {
                c->model[at] = seed;
                if (bitmap) {
                    layer->present[at / 64] |= 1ul << (at % 64);
                }
            }
        }
    }
    close(fd);
    layer_open(layer);
    c->n = 1;
}

static void append_extent(GArray *extents, uint64_t first, uint64_t end, uint64_t file_offset)
{
    RestoreExtent extent = { .offset = first * FIXTURE_PAGE,
                             .length = (end - first) * FIXTURE_PAGE,
                             .file_offset = file_offset };

    g_array_append_val(extents, extent);
}

static Layer *new_layer(Chain *c, int *ret_fd)
{
    Layer *layer = &c->layers[c->n++];

    layer->extents = g_array_new(FALSE, FALSE, sizeof(RestoreExtent));
    layer->zeros = g_array_new(FALSE, FALSE, sizeof(RestoreExtent));
    *ret_fd = fixture_file(c->folder, 0, &layer->path);
    return layer;
}

/* A delta of random extents and zero extents, ascending. */
static void make_delta(Chain *c)
{
    int fd;
    Layer *layer = new_layer(c, &fd);
    uint64_t at = 0, place = chance(80) ? 4096 : 4096 + 512;

    while (at < PAGES) {
        uint64_t first, end;
        uint32_t seed = c->next_seed++;

        random_run(&first, &end);
        first = at + g_test_rand_int_range(0, 300);
        end = MIN(PAGES, first + (end > first ? MIN(end - first, 900) : 3));
        if (first >= PAGES) {
            break;
        }
        if (chance(30)) {
            append_extent(layer->zeros, first, end, 0);
            seed = 0;
        } else {
            append_extent(layer->extents, first, end, place);
        }
        for (at = first; at < end; at++) {
            c->model[at] = seed;
            if (seed) {
                fixture_write_page(fd, place, at, seed);
                place += FIXTURE_PAGE;
            }
        }
    }
    close(fd);
    layer_open(layer);
}

static void chain_clear(Chain *c)
{
    for (unsigned i = 0; i < c->n; i++) {
        Layer *layer = &c->layers[i];

        ram_base_unref(layer->base);
        unlink(layer->path);
        g_free(layer->path);
        g_free(layer->present);
        g_clear_pointer(&layer->extents, g_array_unref);
        g_clear_pointer(&layer->zeros, g_array_unref);
    }
}

static void restore_chain(const Chain *c, Fixture *f, RestoreMode mode)
{
    RestoreBlock rbs[LAYERS_MAX] = { 0 };
    RestoreLayer layers[LAYERS_MAX];
    RestoreRequest request = { .mode = mode,
                               .fallback = true,
                               .layers = layers,
                               .n_layers = c->n,
                               .threads = 2,
                               .direct_io = chance(30) };
    MemoryControl control = fixture_control(&f->notes);
    GError *err = NULL;

    fixture_new_block(f, RAM_BYTES);
    for (unsigned i = 0; i < c->n; i++) {
        const Layer *layer = &c->layers[i];

        rbs[i].block = f->block;
        rbs[i].pages_offset = c->pages_offset;
        rbs[i].present = layer->present;
        if (layer->extents) {
            rbs[i].extents = (void *)layer->extents->data;
            rbs[i].n_extents = layer->extents->len;
            rbs[i].zeros = (void *)layer->zeros->data;
            rbs[i].n_zeros = layer->zeros->len;
        }
        layers[i] = (RestoreLayer){ .base = layer->base, .blocks = &rbs[i], .n_blocks = 1 };
    }
    g_assert_true(restore_ram(f->list, &request, &control, &err));
    g_assert_no_error(err);
}

static void check_model(const Chain *c, const Fixture *f)
{
    for (uint64_t i = 0; i < PAGES; i++) {
        const uint8_t *page = f->block->host + i * FIXTURE_PAGE;

        if (c->model[i] ? !fixture_is_stamped(page, i, c->model[i]) : !fixture_is_zero(page)) {
            g_error("page %" G_GUINT64_FORMAT " is not of seed %u", i, c->model[i]);
        }
    }
}

/* The guest writes, zeroes and gives memory back; the balloon takes some. */
static void run_guest(Chain *c, Fixture *f)
{
    DiscardRequest reported = { .why = DISCARD_REPORTED };
    DiscardResult result;

    for (unsigned step = 0; step < 60; step++) {
        uint64_t first, end;
        unsigned what = g_test_rand_int_range(0, 10);
        uint32_t seed = what < 6 ? c->next_seed++ : 0;

        random_run(&first, &end);
        if (what == 9) {
            first = first / CHUNK_PAGES * CHUNK_PAGES;
            end = MIN(PAGES, first + CHUNK_PAGES);
            g_assert_true(discard_range(f->block, first * FIXTURE_PAGE,
                                        (end - first) * FIXTURE_PAGE, &reported, &result, NULL));
            g_assert_cmpuint(result.released, ==, (end - first) * FIXTURE_PAGE);
        }
        for (uint64_t i = first; i < end; i++) {
            uint8_t *page = f->block->host + i * FIXTURE_PAGE;

            c->model[i] = seed;
            if (seed) {
                fixture_stamp(page, i, seed);
            } else if (what != 9) {
                memset(page, 0, FIXTURE_PAGE);
            }
        }
    }
}

typedef struct Saver {
    Layer *layer;
    const RamBlock *block;
    int fd;
    uint64_t place;
} Saver;

static bool save_range(const PageRange *range, void *opaque)
{
    Saver *s = opaque;
    uint64_t first = range->offset / FIXTURE_PAGE;
    uint64_t end = first + range->length / FIXTURE_PAGE;

    if (range->kind == PAGE_ZERO) {
        append_extent(s->layer->zeros, first, end, 0);
        return true;
    }
    append_extent(s->layer->extents, first, end, s->place);
    g_assert_cmpint(pwrite(s->fd, s->block->host + range->offset, range->length, s->place), ==,
                    range->length);
    s->place += range->length;
    return true;
}

/* What an increment holds, by this way of scanning; returns the data pages. */
static uint64_t save_increment(Chain *c, Fixture *f, PagemapScanner *scanner)
{
    Saver s = { .block = f->block, .place = 8192 };
    PagemapStats stats = { 0 };
    GError *err = NULL;

    s.layer = new_layer(c, &s.fd);
    pagemap_scan_block(scanner, f->block, save_range, &s, &stats, &err);
    g_assert_no_error(err);
    close(s.fd);
    layer_open(s.layer);
    return stats.data_pages;
}

static void one_round(PagemapScanner *scanner, RestoreMode mode)
{
    g_autofree Chain *c = g_new0(Chain, 1);
    unsigned deltas = g_test_rand_int_range(0, 3);
    Fixture f = { 0 }, again = { 0 };

    c->next_seed = 1;
    make_base(c);
    for (unsigned i = 0; i < deltas; i++) {
        make_delta(c);
    }
    restore_chain(c, &f, RESTORE_COPY_ON_WRITE);
    check_model(c, &f);
    run_guest(c, &f);
    check_model(c, &f);
    save_increment(c, &f, scanner);
    restore_chain(c, &again, mode);
    check_model(c, &again);
    ram_list_free(again.list);
    ram_list_free(f.list);
    chain_clear(c);
}

static void run_rounds(gconstpointer way)
{
    g_autoptr(GError) err = NULL;
    g_autoptr(PagemapScanner) scanner = pagemap_scanner_new(GPOINTER_TO_INT(way), &err);

    if (!scanner) {
        g_test_skip(err->message);
        return;
    }
    for (unsigned i = 0; i < ROUNDS; i++) {
        one_round(scanner, i % 2 ? RESTORE_COPY : RESTORE_COPY_ON_WRITE);
    }
}

static void note_done(void *opaque, const GError *error)
{
    g_assert_no_error(error);
    *(bool *)opaque = true;
}

static bool is_true(void *opaque)
{
    return *(bool *)opaque;
}

/* A chain is detached from all its files; they may go then. */
static void detach_chain(const char *folder, bool want_reflink)
{
    for (unsigned i = 0; i < ROUNDS / 2; i++) {
        g_autofree Chain *c = g_new0(Chain, 1);
        Fixture f = { 0 };
        bool done = false;

        c->folder = folder;
        c->next_seed = 1;
        make_base(c);
        make_delta(c);
        make_delta(c);
        restore_chain(c, &f, RESTORE_COPY_ON_WRITE);
        run_guest(c, &f);
        g_assert_true(
            base_guard_detach_all(ram_list_guard(f.list), "requested", note_done, &done, NULL));
        fixture_run_until(is_true, &done, 30);
        g_assert_cmpint(f.notes.reflink, ==, want_reflink);
        for (unsigned k = 0; k < c->n; k++) {
            g_assert_cmpint(truncate(c->layers[k].path, 0), ==, 0);
        }
        check_model(c, &f);
        run_guest(c, &f);
        check_model(c, &f);
        ram_list_free(f.list);
        g_free(f.notes.reason);
        chain_clear(c);
    }
}

static void test_detach_chain(void)
{
    detach_chain(fixture_plain_folder(), false);
}

static void test_detach_chain_reflink(void)
{
    FixtureXfs xfs;

    if (!fixture_mount_xfs(&xfs)) {
        g_test_skip("no XFS file system can be mounted here");
        return;
    }
    detach_chain(xfs.folder, true);
    fixture_unmount_xfs(&xfs);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_data_func("/memory/chain/t23_scan", GINT_TO_POINTER(PAGEMAP_SCAN_IOCTL), run_rounds);
    g_test_add_data_func("/memory/chain/t23_bit61", GINT_TO_POINTER(PAGEMAP_BIT61), run_rounds);
    g_test_add_data_func("/memory/chain/t23_kpageflags", GINT_TO_POINTER(PAGEMAP_KPAGEFLAGS),
                         run_rounds);
    g_test_add_func("/memory/chain/detach", test_detach_chain);
    g_test_add_func("/memory/chain/detach-reflink", test_detach_chain_reflink);
    return g_test_run();
}
