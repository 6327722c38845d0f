/*
 * Memory that comes and goes in a test guest, every word of it checked.
 *
 *   memchurn HELD BLOCKS SEED LEAST    until SIGTERM, but not before LEAST rounds
 *
 * HELD MiB stay filled throughout. Beside them up to BLOCKS blocks of 2 MiB (huge pages where the
 * kernel has them) and as many of 16 small pages are allocated, checked to be zero, filled, checked,
 * rewritten and freed at random. Now and then all blocks are freed for long enough that the kernel
 * reports the free pages to its host. At the end everything is checked once more and a line is
 * printed: "churn: ROUNDS rounds, CHECKED pages checked, WRONG wrong"; each wrong page has a line of
 * its own before. The status is 1 if there was one.
 *
 * With init_on_free=1 the kernel does not clear pages that it hands out but relies on what free
 * memory holds: the check for zeros is then one of the host.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pattern.h"

#define HUGE 0x200000ul
#define PAGE 4096ul
#define SMALL (16 * PAGE)
#define WORDS (PAGE / sizeof(uint64_t))
#define MAX_BLOCKS 256
#define ROUNDS_TO_REST 12
#define REST 3 /* seconds; Linux 6.1 reports free pages after two */

typedef struct Block {
    void *map; /* NULL = not allocated */
    size_t map_size;
    uint64_t *mem;
    size_t size;
    uint64_t seed;
} Block;

typedef struct Churn {
    Block blocks[2 * MAX_BLOCKS + 1]; /* the last is the one that is held */
    size_t n_blocks;
    uint64_t random;
    uint64_t seed;
    unsigned long rounds, checked, wrong;
} Churn;

static volatile sig_atomic_t stop;

static void on_term(int sig)
{
    (void)sig;
    stop = 1;
}

static uint64_t next_random(Churn *c)
{
    c->random ^= c->random << 13;
    c->random ^= c->random >> 7;
    c->random ^= c->random << 17;
    return c->random;
}

static void report(Churn *c, const char *what, size_t page, const uint64_t *mem)
{
    c->wrong++;
    printf("churn: round %lu, %s page %zu of %p: %016llx %016llx\n", c->rounds, what, page,
           (const void *)mem, (unsigned long long)mem[page * WORDS],
           (unsigned long long)mem[page * WORDS + 1]);
    fflush(stdout);
}

static void check_zero(Churn *c, const Block *b)
{
    for (size_t page = 0; page < b->size / PAGE; page++) {
        uint64_t any = 0;

        for (size_t i = 0; i < WORDS; i++) {
            any |= b->mem[page * WORDS + i];
        }
        c->checked++;
        if (any) {
            report(c, "new", page, b->mem);
        }
    }
}

static void check(Churn *c, const Block *b)
{
    for (size_t page = 0; page < b->size / PAGE; page++) {
        uint64_t any = 0;

        for (size_t i = page * WORDS; i < (page + 1) * WORDS; i++) {
            any |= b->mem[i] ^ word(b->seed, i);
        }
        c->checked++;
        if (any) {
            report(c, "filled", page, b->mem);
        }
    }
}

static void fill(Churn *c, Block *b)
{
    b->seed = c->seed++;
    for (size_t i = 0; i < b->size / sizeof(uint64_t); i++) {
        b->mem[i] = word(b->seed, i);
    }
}

/* False when the kernel has no room for more mappings. */
static bool allocate(Block *b, size_t size)
{
    bool huge = size % HUGE == 0;

    b->map_size = huge ? size + HUGE : size;
    b->map = mmap(NULL, b->map_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (b->map == MAP_FAILED) {
        b->map = NULL;
        return false;
    }
    b->size = size;
    b->mem = b->map;
    if (huge) {
        b->mem = (uint64_t *)(((uintptr_t)b->map + HUGE - 1) & ~(HUGE - 1));
        madvise(b->mem, size, MADV_HUGEPAGE);
    }
    return true;
}

static void release(Churn *c, Block *b)
{
    check(c, b);
    munmap(b->map, b->map_size);
    b->map = NULL;
}

static void one(Churn *c, Block *b, size_t size)
{
    if (!b->map) {
        if (allocate(b, size)) {
            check_zero(c, b);
            fill(c, b);
        }
    } else if (next_random(c) % 3 == 0) {
        check(c, b);
        fill(c, b);
    } else {
        release(c, b);
    }
}

static void rest(Churn *c)
{
    for (size_t i = 0; i < 2 * c->n_blocks; i++) {
        if (c->blocks[i].map && next_random(c) % 8 != 0) {
            release(c, &c->blocks[i]);
        }
    }
    sleep(REST);
}

static int churn(Churn *c, size_t held, unsigned long least)
{
    Block *hold = &c->blocks[2 * c->n_blocks];

    if (held > 0) {
        if (!allocate(hold, held)) {
            perror("memchurn: mmap");
            return 1;
        }
        fill(c, hold);
    }
    while (!stop || c->rounds < least) {
        size_t i = next_random(c) % (2 * c->n_blocks);

        one(c, &c->blocks[i], i < c->n_blocks ? HUGE : SMALL);
        if (++c->rounds % ROUNDS_TO_REST == 0) {
            if (hold->map) {
                check(c, hold);
            }
            rest(c);
        }
    }
    for (size_t i = 0; i <= 2 * c->n_blocks; i++) {
        if (c->blocks[i].map) {
            release(c, &c->blocks[i]);
        }
    }
    printf("churn: %lu rounds, %lu pages checked, %lu wrong\n", c->rounds, c->checked, c->wrong);
    return c->wrong != 0;
}

int main(int argc, char **argv)
{
    static Churn c;

    if (argc == 5) {
        c.n_blocks = strtoul(argv[2], NULL, 0);
        c.seed = strtoull(argv[3], NULL, 0) << 20;
        c.random = c.seed + 88172645463325252ull;
    }
    if (c.n_blocks == 0 || c.n_blocks > MAX_BLOCKS) {
        fprintf(stderr, "usage: memchurn HELD-MIB BLOCKS SEED LEAST (1 to %d blocks)\n",
                MAX_BLOCKS);
        return 2;
    }
    signal(SIGTERM, on_term);
    return churn(&c, strtoul(argv[1], NULL, 0) << 20, strtoul(argv[4], NULL, 0));
}
