/*
 * How many memory mappings a balloon makes of a guest's RAM: random inflate, deflate and report operations
 * on a block that is mapped copy-on-write from a file, with pages written in between, as the balloon device does
 * them. Every page has a known content, which is checked.
 *
 *     balloon-vmas [OPERATIONS [SEED]]
 *
 * One line: "ratio=R vmas=V runs=N blocks=B operations=O checks=C seed=S". The ratio is mappings / (runs + blocks + 1),
 * the most seen in checks after every 100 operations, and vmas and runs are of that check. A run is a
 * longest sequence of chunks that are all released or all not. Exit status 1: a page was wrong.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/discard.h"
#include "memory/inflate-map.h"
#include "memory/restore.h"
#include "memory/vma-budget.h"
#include "util/units.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RAM_BYTES (2 * GiB)
#define PAGE UINT64_C(4096)
#define PAGES (RAM_BYTES / PAGE)
#define CHUNK_PAGES (RAM_CHUNK_SIZE / PAGE)
#define CHUNKS (RAM_BYTES / RAM_CHUNK_SIZE)
/* As many pages as a driver tells of at once. */
#define BATCH 256
#define OPERATIONS 100000
#define CHECK_EVERY 100
/* One page in so many is data in the file. */
#define FILE_DATA 16

/* What a page holds: the seed of its contents, or one of these. */
enum { HOLDS_ZERO, HOLDS_FILE, HOLDS_ANYTHING, HOLDS_SEED };

typedef struct World {
    RamList *list;
    RamBlock *block;
    InflateMap *inflated;
    GRand *rand;
    uint32_t *holds;
    bool *in_balloon;
    uint32_t next_seed;
} World;

G_NORETURN static void die(const char *what, const GError *err)
{
    fprintf(stderr, "balloon-vmas: %s: %s\n", what, err ? err->message : g_strerror(errno));
    exit(1);
}

/* --- Contents --- */

static uint64_t word_of(uint64_t page, uint32_t seed)
{
    return (page + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)seed << 17;
}

static uint64_t word_in_file(uint64_t page)
{
    return page % FILE_DATA ? 0 : word_of(page, HOLDS_FILE);
}

static uint64_t *words_at(const World *w, uint64_t page)
{
    return (uint64_t *)(void *)(w->block->host + page * PAGE);
}

static void write_page(World *w, uint64_t page)
{
    uint32_t seed = w->next_seed++;

    words_at(w, page)[0] = words_at(w, page)[511] = word_of(page, seed);
    w->holds[page] = seed;
}

static void check_page(const World *w, uint64_t page)
{
    const uint64_t *words = words_at(w, page);
    uint32_t holds = w->holds[page];
    uint64_t want = holds == HOLDS_ZERO   ? 0
                    : holds == HOLDS_FILE ? word_in_file(page)
                                          : word_of(page, holds);

    if (holds != HOLDS_ANYTHING && (words[0] != want || words[511] != want)) {
        fprintf(stderr, "balloon-vmas: page %" G_GUINT64_FORMAT " is wrong, not of seed %u\n", page,
                holds);
        exit(1);
    }
}

static void set_pages(World *w, uint64_t first, uint64_t n, uint32_t holds)
{
    for (uint64_t page = first; page < first + n; page++) {
        w->holds[page] = holds;
    }
}

/* --- The guest --- */

static int open_file(void)
{
    char path[] = "/var/tmp/cowbird-balloon-vmas-XXXXXX";
    int fd = mkstemp(path);
    uint64_t words[PAGE / 8] = { 0 };
    int again;

    if (fd < 0 || ftruncate(fd, RAM_BYTES) < 0) {
        die(path, NULL);
    }
    for (uint64_t page = 0; page < PAGES; page += FILE_DATA) {
        words[0] = words[511] = word_in_file(page);
        if (pwrite(fd, words, PAGE, page * PAGE) != (ssize_t)PAGE) {
            die(path, NULL);
        }
    }
    again = open(path, O_RDONLY | O_CLOEXEC);
    close(fd);
    unlink(path);
    return again;
}

static void world_init(World *w, uint32_t seed)
{
    RestoreBlock rb = { 0 };
    RestoreLayer layer = { .blocks = &rb, .n_blocks = 1 };
    RestoreRequest request = { .mode = RESTORE_COPY_ON_WRITE, .layers = &layer, .n_layers = 1 };
    GError *err = NULL;
    int fd = open_file();

    w->block = ram_block_new_anonymous("pc.ram", RAM_BYTES, &err);
    w->list = ram_list_new();
    layer.base = ram_base_open(fd, "balloon-vmas", NULL, &err);
    close(fd);
    if (!w->block || !layer.base) {
        die("cannot make RAM", err);
    }
    rb.block = ram_list_add(w->list, w->block, &err);
    if (!restore_ram(w->list, &request, NULL, &err)) {
        die("cannot restore", err);
    }
    ram_base_unref(layer.base);
    w->inflated = inflate_map_new();
    w->rand = g_rand_new_with_seed(seed);
    w->holds = g_new0(uint32_t, PAGES);
    w->in_balloon = g_new0(bool, PAGES);
    w->next_seed = HOLDS_SEED;
    set_pages(w, 0, PAGES, HOLDS_FILE);
}

static void world_clear(World *w)
{
    inflate_map_free(w->inflated);
    ram_list_free(w->list);
    g_rand_free(w->rand);
    g_free(w->holds);
    g_free(w->in_balloon);
}

static uint64_t release(World *w, uint64_t first, uint64_t n, DiscardWhy why)
{
    DiscardRequest request = { .why = why };
    DiscardResult result;
    GError *err = NULL;

    if (!discard_range(w->block, first * PAGE, n * PAGE, &request, &result, &err)) {
        die("cannot release", err);
    }
    return result.released;
}

static void inflate(World *w, uint64_t first, uint64_t n)
{
    for (uint64_t page = first; page < first + n; page++) {
        uint64_t chunk = page / CHUNK_PAGES * CHUNK_PAGES;

        if (w->in_balloon[page]) {
            continue;
        }
        w->in_balloon[page] = true;
        w->holds[page] = HOLDS_ANYTHING;
        if (inflate_map_set(w->inflated, w->block, page) &&
            release(w, chunk, CHUNK_PAGES, DISCARD_INFLATED) == RAM_CHUNK_SIZE) {
            set_pages(w, chunk, CHUNK_PAGES, HOLDS_ZERO);
        }
    }
}

static void deflate(World *w, uint64_t first, uint64_t n)
{
    for (uint64_t page = first; page < first + n; page++) {
        inflate_map_clear(w->inflated, w->block, page);
        w->in_balloon[page] = false;
    }
}

/* Only memory that is free and not in the balloon is reported. */
static void report(World *w, uint64_t chunk)
{
    uint64_t first = chunk * CHUNK_PAGES;

    for (uint64_t page = first; page < first + CHUNK_PAGES; page++) {
        if (w->in_balloon[page]) {
            return;
        }
    }
    if (release(w, first, CHUNK_PAGES, DISCARD_REPORTED) == RAM_CHUNK_SIZE) {
        set_pages(w, first, CHUNK_PAGES, HOLDS_ZERO);
    }
}

static uint64_t below(World *w, uint64_t end)
{
    return g_rand_int_range(w->rand, 0, end);
}

/* A batch of pages anywhere, or the two batches of a whole chunk. */
static void random_pages(World *w, void (*fn)(World *, uint64_t, uint64_t))
{
    if (below(w, 2)) {
        uint64_t first = below(w, PAGES), n = 1 + below(w, BATCH);

        fn(w, first, MIN(PAGES - first, n));
    } else {
        uint64_t first = below(w, CHUNKS) * CHUNK_PAGES;

        fn(w, first, BATCH);
        fn(w, first + BATCH, BATCH);
    }
}

static void random_operation(World *w)
{
    switch (below(w, 3)) {
    case 0:
        random_pages(w, inflate);
        break;
    case 1:
        random_pages(w, deflate);
        break;
    default:
        report(w, below(w, CHUNKS));
    }
    for (unsigned i = 0; i < 2; i++) {
        uint64_t page = below(w, PAGES);

        check_page(w, page);
        if (!w->in_balloon[page]) {
            write_page(w, page);
        }
    }
}

/* --- Counting --- */

typedef struct Most {
    double ratio;
    uint64_t vmas, runs;
    unsigned checks;
} Most;

static void count(const World *w, Most *most)
{
    uint64_t vmas = vma_count_in(w->block->host, w->block->size), runs = 1;
    double ratio;

    for (uint64_t i = 1; i < CHUNKS; i++) {
        runs += chunk_map_test(w->block->released, i) != chunk_map_test(w->block->released, i - 1);
    }
    ratio = (double)vmas / (runs + ram_list_count(w->list) + 1);
    most->checks++;
    if (ratio > most->ratio) {
        most->ratio = ratio;
        most->vmas = vmas;
        most->runs = runs;
    }
}

int main(int argc, char **argv)
{
    unsigned operations = argc > 1 ? strtoul(argv[1], NULL, 10) : OPERATIONS;
    uint32_t seed = argc > 2 ? strtoul(argv[2], NULL, 10) : g_random_int();
    World w = { 0 };
    Most most = { 0 };

    fprintf(stderr, "balloon-vmas: seed %u\n", seed);
    world_init(&w, seed);
    for (unsigned i = 1; i <= operations; i++) {
        random_operation(&w);
        if (i % CHECK_EVERY == 0) {
            count(&w, &most);
        }
    }
    for (uint64_t page = 0; page < PAGES; page++) {
        check_page(&w, page);
    }
    printf("ratio=%.4f vmas=%" G_GUINT64_FORMAT " runs=%" G_GUINT64_FORMAT " blocks=%u "
           "operations=%u checks=%u seed=%u\n",
           most.ratio, most.vmas, most.runs, ram_list_count(w.list), operations, most.checks, seed);
    world_clear(&w);
    return 0;
}
