/*
 * Watching the writes to memory that is being copied: what was taken last, in any order of passes, is what the
 * memory holds in the end, page by page, whoever wrote it and whatever became of its mapping.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/discard.h"
#include "memory/staging.h"
#include "memory/write-watch.h"
#include "tests/unit/memory-fixture.h"

#define RAM_BYTES (32 * MiB)
#define PAGES (RAM_BYTES / FIXTURE_PAGE)
#define PASSES 12
#define PASS_US 20000

/* A stream's reader: a copy of each page, as it was when it was sent last. */
typedef struct Copy {
    RamBlock *block;
    WriteWatch *watch;
    uint8_t *pages;
    uint64_t taken; /* pages told by the last pass */
} Copy;

static bool copy_range(const PageRange *range, void *opaque)
{
    Copy *copy = opaque;

    memcpy(copy->pages + range->offset, copy->block->host + range->offset, range->length);
    copy->taken += range->length / FIXTURE_PAGE;
    return true;
}

/* Notes first, copies afterwards, as the passes of a save do. */
static bool note_range(const PageRange *range, void *opaque)
{
    g_array_append_val((GArray *)opaque, *range);
    return true;
}

static void take(Copy *copy)
{
    g_autoptr(GArray) ranges = g_array_new(FALSE, FALSE, sizeof(PageRange));
    g_autoptr(GError) err = NULL;

    copy->taken = 0;
    g_assert_true(write_watch_take(copy->watch, copy->block, note_range, ranges, &err));
    g_assert_no_error(err);
    for (guint i = 0; i < ranges->len; i++) {
        copy_range(&g_array_index(ranges, PageRange, i), copy);
    }
}

/* False: this kernel has no such watch. */
static bool copy_begin(Copy *copy, RamList *list, RamBlock *block)
{
    g_autoptr(GError) err = NULL;
    PageRange all = { .length = block->size };

    *copy = (Copy){ .block = block, .watch = write_watch_new(list, &err) };
    if (!copy->watch) {
        g_test_skip(err->message);
        return false;
    }
    copy->pages = g_malloc(block->size);
    copy_range(&all, copy);
    return true;
}

static void copy_check(const Copy *copy)
{
    uint64_t stale = 0;

    for (uint64_t i = 0; i < PAGES; i++) {
        uint64_t at = i * FIXTURE_PAGE;

        stale += memcmp(copy->pages + at, copy->block->host + at, FIXTURE_PAGE) != 0;
    }
    g_assert_cmpuint(stale, ==, 0);
}

static void copy_end(Copy *copy)
{
    write_watch_free(copy->watch);
    g_free(copy->pages);
}

/* --- Writers --- */

typedef struct Writer {
    RamBlock *block;
    GMutex lock; /* held while it writes: whoever has it has paused the guest */
    gint ends;
    uint64_t written;
    GThread *thread;
} Writer;

/* Stores, system calls that write, and reads, which must not count as anything else. */
static void write_page(Writer *w, GRand *rand, int fd)
{
    uint8_t *page = w->block->host + g_rand_int_range(rand, 0, PAGES) * FIXTURE_PAGE;
    volatile uint8_t seen;

    switch (w->written++ % 4) {
    case 0:
        g_assert_cmpint(pread(fd, page, FIXTURE_PAGE, 0), ==, FIXTURE_PAGE);
        return;
    case 1:
        memset(page, 0, FIXTURE_PAGE);
        return;
    case 2:
        seen = *page;
        (void)seen;
        return;
    default:
        *(uint64_t *)(page + 8 * g_rand_int_range(rand, 0, 512)) = w->written;
    }
}

static gpointer writer_thread(gpointer opaque)
{
    g_autoptr(GRand) rand = g_rand_new_with_seed(5);
    int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    Writer *w = opaque;

    while (!g_atomic_int_get(&w->ends)) {
        g_mutex_lock(&w->lock);
        for (unsigned i = 0; i < 16; i++) {
            write_page(w, rand, fd);
        }
        g_mutex_unlock(&w->lock);
        g_usleep(100);
    }
    close(fd);
    return NULL;
}

static void writer_begin(Writer *w, RamBlock *block)
{
    *w = (Writer){ .block = block };
    g_mutex_init(&w->lock);
    w->thread = g_thread_new("writer", writer_thread, w);
}

static void writer_end(Writer *w)
{
    g_atomic_int_set(&w->ends, 1);
    g_thread_join(w->thread);
    g_mutex_clear(&w->lock);
}

/* Passes beside a writer; between them what a test wants to happen to the memory. */
static void run_passes(Copy *copy, void (*between)(Writer *w, unsigned pass, void *opaque),
                       void *opaque)
{
    Writer w;

    writer_begin(&w, copy->block);
    for (unsigned pass = 0; pass < PASSES; pass++) {
        g_usleep(PASS_US);
        take(copy);
        if (between) {
            between(&w, pass, opaque);
        }
    }
    writer_end(&w);
    take(copy);
    copy_check(copy);
    take(copy);
}

/* --- Tests --- */

static void init_dense(Fixture *f)
{
    fixture_new_block(f, RAM_BYTES);
    ram_block_hint_hugepages(f->block);
    for (uint64_t i = 0; i < PAGES / 2; i++) {
        fixture_stamp(f->block->host + i * FIXTURE_PAGE, i, 3);
    }
}

/* Huge pages, pages that are not there yet, and page tables of zero pages. */
static void test_anonymous(void)
{
    Fixture f = { 0 };
    Copy copy;

    init_dense(&f);
    if (copy_begin(&copy, f.list, f.block)) {
        run_passes(&copy, NULL, NULL);
        /* Nobody has written since. */
        g_assert_cmpuint(copy.taken, ==, 0);
        copy_end(&copy);
    }
    fixture_clear(&f);
}

/* With chunks that were released before and are anonymous memory in the midst of the file's. */
static void test_copy_on_write(void)
{
    DiscardRequest request = { .why = DISCARD_REPORTED, .policy = DISCARD_POLICY_REMAP };
    DiscardResult result;
    Fixture f = { 0 };
    Copy copy;

    fixture_init(&f, NULL, RAM_BYTES);
    for (uint64_t i = 0; i < PAGES; i += 3) {
        fixture_stamp(f.block->host + i * FIXTURE_PAGE, i, 4);
    }
    g_assert_true(
        discard_range(f.block, 2 * RAM_CHUNK_SIZE, 3 * RAM_CHUNK_SIZE, &request, &result, NULL));
    if (copy_begin(&copy, f.list, f.block)) {
        run_passes(&copy, NULL, NULL);
        g_assert_cmpuint(copy.taken, ==, 0);
        copy_end(&copy);
    }
    fixture_clear(&f);
}

/* One save after another, the first given up at any point. */
static void test_again(void)
{
    Fixture f = { 0 };
    Copy copy;

    fixture_init(&f, NULL, RAM_BYTES);
    for (unsigned i = 0; i < 4; i++) {
        Writer w;

        if (!copy_begin(&copy, f.list, f.block)) {
            break;
        }
        writer_begin(&w, f.block);
        g_usleep(PASS_US);
        if (i % 2) {
            take(&copy);
        }
        writer_end(&w);
        copy_end(&copy);
        if (copy_begin(&copy, f.list, f.block)) {
            run_passes(&copy, NULL, NULL);
            copy_end(&copy);
        }
    }
    fixture_clear(&f);
}

typedef struct Move {
    Staging *staging;
    PagemapScanner *scanner;
    unsigned from_pass;
} Move;

/* A detach: the guest stands while the chunks of this pass are moved. */
static void move_chunks(Writer *w, unsigned pass, void *opaque)
{
    GError *err = NULL;
    Move *move = opaque;
    uint64_t bytes;

    if (pass < move->from_pass || pass >= move->from_pass + 4) {
        return;
    }
    for (uint64_t chunk = pass - move->from_pass; chunk < ram_block_chunks(w->block); chunk += 4) {
        g_assert_true(staging_fill(move->staging, chunk, move->scanner, &err));
        g_mutex_lock(&w->lock);
        g_assert_true(staging_move(move->staging, chunk, move->scanner, &bytes, &err));
        g_mutex_unlock(&w->lock);
    }
}

/* The mappings that are watched give way to others; then comes a second save, of all that moved. */
static void test_detached_meanwhile(void)
{
    g_autoptr(PagemapScanner) scanner = pagemap_scanner_new(PAGEMAP_AUTO, NULL);
    g_autoptr(GPtrArray) bases = g_ptr_array_new();
    CloneSet set = { .bases = bases };
    Fixture f = { 0 };
    Copy copy;

    fixture_init(&f, fixture_plain_folder(), RAM_BYTES);
    g_ptr_array_add(bases, f.base);
    if (copy_begin(&copy, f.list, f.block)) {
        Move move = { .staging = staging_new(f.block, &set, NULL),
                      .scanner = scanner,
                      .from_pass = 3 };

        run_passes(&copy, move_chunks, &move);
        copy_end(&copy);
        staging_free(move.staging);
        g_assert_true(copy_begin(&copy, f.list, f.block));
        run_passes(&copy, NULL, NULL);
        g_assert_cmpuint(copy.taken, ==, 0);
        copy_end(&copy);
    }
    fixture_clear(&f);
}

/* More runs than one call of the kernel tells. */
static void test_many_runs(void)
{
    Fixture f = { 0 };
    Copy copy;

    init_dense(&f);
    if (copy_begin(&copy, f.list, f.block)) {
        for (uint64_t i = 0; i < PAGES; i += 2) {
            f.block->host[i * FIXTURE_PAGE + i % FIXTURE_PAGE]++;
        }
        take(&copy);
        g_assert_cmpuint(copy.taken, >=, PAGES / 2);
        copy_check(&copy);
        for (uint64_t i = 1; i < PAGES; i += 7) {
            f.block->host[i * FIXTURE_PAGE]++;
        }
        take(&copy);
        g_assert_cmpuint(copy.taken, ==, (PAGES + 5) / 7);
        copy_check(&copy);
        copy_end(&copy);
    }
    fixture_clear(&f);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/memory/write-watch/anonymous", test_anonymous);
    g_test_add_func("/memory/write-watch/copy-on-write", test_copy_on_write);
    g_test_add_func("/memory/write-watch/again", test_again);
    g_test_add_func("/memory/write-watch/detached-meanwhile", test_detached_meanwhile);
    g_test_add_func("/memory/write-watch/many-runs", test_many_runs);
    return g_test_run();
}
