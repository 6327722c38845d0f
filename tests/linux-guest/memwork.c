/*
 * What runs in the user space of a test guest: counting, and writing and checking memory.
 *
 *   memwork count FILE           for ever: keep a number in FILE and add one, twenty times a second
 *   memwork blob MIB SEED        write MIB to standard output
 *   memwork hold MIB SEED        fill MIB, answer on standard output, then serve SIGUSR1: check all
 *                                of it and append "hold ok" or what is wrong to /tmp/hold
 *   memwork work PROCS MIB SEED  PROCS processes at once, each with MIB: write every page, check
 *                                every page, write again with another seed, check again
 *
 * Linked statically: the guest has no libraries. A word is made of seed and place, so that a page
 * of another clone, an old page or a zero page is noticed.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS_PER_MIB (1048576 / sizeof(uint64_t))

static uint64_t word(uint64_t seed, uint64_t i)
{
    uint64_t x = (seed << 40) + i;

    x ^= x >> 31;
    x *= 0x9e3779b97f4a7c15ull;
    return x ^ x >> 29;
}

static uint64_t *region(size_t words)
{
    void *p = mmap(NULL, words * sizeof(uint64_t), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED) {
        perror("memwork: mmap");
        exit(1);
    }
    return p;
}

static void fill(uint64_t *mem, size_t words, uint64_t seed)
{
    for (size_t i = 0; i < words; i++) {
        mem[i] = word(seed, i);
    }
}

/* Index of the first wrong word, or words. */
static size_t check(const uint64_t *mem, size_t words, uint64_t seed)
{
    for (size_t i = 0; i < words; i++) {
        if (mem[i] != word(seed, i)) {
            return i;
        }
    }
    return words;
}

static int hold(size_t words, uint64_t seed)
{
    uint64_t *mem = region(words);
    sigset_t set;
    int sig;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    fill(mem, words, seed);
    puts("memwork: holding");
    fflush(stdout);
    while (sigwait(&set, &sig) == 0) {
        FILE *out = fopen("/tmp/hold", "a");
        size_t bad = check(mem, words, seed);

        if (bad == words) {
            fprintf(out, "hold ok\n");
        } else {
            fprintf(out, "hold wrong at word %zu: %016llx\n", bad, (unsigned long long)mem[bad]);
        }
        fclose(out);
    }
    return 1;
}

static int count(const char *path)
{
    char temp[256], text[32];

    snprintf(temp, sizeof(temp), "%s.new", path);
    for (unsigned long n = 1;; n++) {
        /* A reader finds a whole number at any time. */
        int fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC, 0644);
        int len = snprintf(text, sizeof(text), "%lu\n", n);

        if (fd < 0 || write(fd, text, len) != len || close(fd) < 0 || rename(temp, path) < 0) {
            perror("memwork: count");
            return 1;
        }
        usleep(50000);
    }
}

static int blob(size_t mib, uint64_t seed)
{
    uint64_t *mem = region(WORDS_PER_MIB);

    for (size_t i = 0; i < mib; i++) {
        fill(mem, WORDS_PER_MIB, seed + i);
        if (fwrite(mem, sizeof(*mem), WORDS_PER_MIB, stdout) != WORDS_PER_MIB) {
            return 1;
        }
    }
    return fflush(stdout) != 0;
}

static int work_one(size_t words, uint64_t seed)
{
    uint64_t *mem = region(words);

    for (uint64_t round = 0; round < 2; round++) {
        size_t bad;

        fill(mem, words, seed + round);
        bad = check(mem, words, seed + round);
        if (bad != words) {
            printf("memwork: seed %llu: wrong at word %zu: %016llx\n", (unsigned long long)seed,
                   bad, (unsigned long long)mem[bad]);
            fflush(stdout);
            return 1;
        }
    }
    return 0;
}

static int work(int procs, size_t words, uint64_t seed)
{
    int failed = 0;

    for (int i = 0; i < procs; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            _exit(work_one(words, seed * 100 + 2 * (uint64_t)i));
        }
        failed += pid < 0;
    }
    for (int i = 0; i < procs; i++) {
        int status;

        failed += wait(&status) < 0 || status != 0;
    }
    printf("memwork: %d processes, %d failed\n", procs, failed);
    return failed != 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "count") == 0) {
        return count(argv[2]);
    }
    if (argc == 4 && strcmp(argv[1], "blob") == 0) {
        return blob(strtoul(argv[2], NULL, 0), strtoull(argv[3], NULL, 0));
    }
    if (argc == 4 && strcmp(argv[1], "hold") == 0) {
        return hold(strtoul(argv[2], NULL, 0) * WORDS_PER_MIB, strtoull(argv[3], NULL, 0));
    }
    if (argc == 5 && strcmp(argv[1], "work") == 0) {
        return work(atoi(argv[2]), strtoul(argv[3], NULL, 0) * WORDS_PER_MIB,
                    strtoull(argv[4], NULL, 0));
    }
    fprintf(stderr,
            "usage: memwork count FILE | blob MIB SEED | hold MIB SEED | work PROCS MIB SEED\n");
    return 2;
}
