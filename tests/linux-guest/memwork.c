/*
 * What runs in the user space of a test guest: counting, and writing and checking memory.
 *
 *   memwork count FILE           for ever: keep a number in FILE and add one, ten times a second
 *   memwork blob MIB SEED        write MIB to standard output
 *   memwork hold MIB SEED        leave a process behind that has filled MIB
 *   memwork ask                  let that process check all of it; prints "hold ok" or what is wrong
 *   memwork once MIB SEED        write every word of MIB, in huge pages where the kernel has them, and
 *                                check every word
 *   memwork work PROCS MIB SEED  PROCS processes at once, each with MIB: write every word, check
 *                                every word, again and again with other seeds
 *
 * Linked statically: the guest has no libraries. System calls, page faults and new pages are slow
 * where the guest's kernel is emulated: they are few, and the work is done on little memory many
 * times.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pattern.h"

#define ANSWER "/tmp/hold.answer" /* a named pipe */
#define PID "/tmp/hold.pid"
#define ROUNDS 128
#define WORDS_PER_MIB (1048576 / sizeof(uint64_t))

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

/* Serve SIGUSR1 for ever: check the memory and tell whoever reads the pipe. */
static void serve(const uint64_t *mem, size_t words, uint64_t seed, const sigset_t *set)
{
    int sig;

    while (sigwait(set, &sig) == 0) {
        size_t bad = check(mem, words, seed);
        FILE *out = fopen(ANSWER, "w");

        if (bad == words) {
            fprintf(out, "hold ok\n");
        } else {
            fprintf(out, "hold wrong at word %zu: %016llx\n", bad, (unsigned long long)mem[bad]);
        }
        fclose(out);
    }
}

static int hold(size_t words, uint64_t seed)
{
    uint64_t *mem;
    sigset_t set;
    int ready[2];
    char byte;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    if (pipe(ready) < 0 || mkfifo(ANSWER, 0600) < 0) {
        perror("memwork: hold");
        return 1;
    }
    if (fork() == 0) {
        FILE *pid = fopen(PID, "w");

        fprintf(pid, "%d\n", getpid());
        fclose(pid);
        mem = region(words);
        fill(mem, words, seed);
        byte = write(ready[1], "", 1) == 1;
        serve(mem, words, seed, &set);
        _exit(1);
    }
    close(ready[1]);
    return read(ready[0], &byte, 1) != 1;
}

static int ask(void)
{
    FILE *file = fopen(PID, "r");
    char line[128];
    int pid;

    if (!file || fscanf(file, "%d", &pid) != 1 || kill(pid, SIGUSR1) < 0) {
        perror("memwork: ask");
        return 1;
    }
    file = fopen(ANSWER, "r");
    if (!file || !fgets(line, sizeof(line), file)) {
        perror("memwork: ask");
        return 1;
    }
    fputs(line, stdout);
    return strcmp(line, "hold ok\n") != 0;
}

static int count(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    char text[32];

    for (unsigned long n = 1;; n++) {
        int len = snprintf(text, sizeof(text), "%010lu\n", n);

        if (pwrite(fd, text, len, 0) != len) {
            perror("memwork: count");
            return 1;
        }
        usleep(100000);
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

static int once(size_t words, uint64_t seed)
{
    uint64_t *mem = region(words);
    size_t bad;

    madvise(mem, words * sizeof(uint64_t), MADV_HUGEPAGE);
    fill(mem, words, seed);
    bad = check(mem, words, seed);
    printf("memwork: %s\n", bad == words ? "right" : "wrong");
    return bad != words;
}

static int work_one(size_t words, uint64_t seed)
{
    uint64_t *mem = region(words);

    for (uint64_t round = 0; round < ROUNDS; round++) {
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
            _exit(work_one(words, (seed * 100 + (uint64_t)i) * ROUNDS));
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
    if (argc == 2 && strcmp(argv[1], "ask") == 0) {
        return ask();
    }
    if (argc == 4 && strcmp(argv[1], "once") == 0) {
        return once(strtoul(argv[2], NULL, 0) * WORDS_PER_MIB, strtoull(argv[3], NULL, 0));
    }
    if (argc == 5 && strcmp(argv[1], "work") == 0) {
        return work(atoi(argv[2]), strtoul(argv[3], NULL, 0) * WORDS_PER_MIB,
                    strtoull(argv[4], NULL, 0));
    }
    fprintf(stderr, "usage: memwork count FILE | blob MIB SEED | hold MIB SEED | ask | "
                    "once MIB SEED | work PROCS MIB SEED\n");
    return 2;
}
