/*
 * The least that an eager restore can cost: threads read part of a file into memory with huge pages. Ends with
 * a byte to descriptor 9.
 *
 *     floor-copy FILE OFFSET LENGTH
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#define TICK_FD 9
#define SEGMENT (UINT64_C(4) << 20)
#define HUGE_PAGE (UINT64_C(2) << 20)
#define THREADS_MAX 8

static int fd;
static uint8_t *memory;
static uint64_t offset, length;
static uint64_t next; /* atomic */

static void *copy(void *unused)
{
    uint64_t at;

    while ((at = __atomic_fetch_add(&next, SEGMENT, __ATOMIC_RELAXED)) < length) {
        uint64_t n = length - at < SEGMENT ? length - at : SEGMENT;

        for (uint64_t done = 0; done < n;) {
            ssize_t got = pread(fd, memory + at + done, n - done, (off_t)(offset + at + done));

            if (got <= 0) {
                perror("pread");
                exit(1);
            }
            done += (uint64_t)got;
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS_MAX];
    int n = get_nprocs() < THREADS_MAX ? get_nprocs() : THREADS_MAX;
    uint8_t *space;

    if (argc != 4) {
        fputs("usage: floor-copy FILE OFFSET LENGTH\n", stderr);
        return 2;
    }
    fd = open(argv[1], O_RDONLY | O_CLOEXEC);
    offset = strtoull(argv[2], NULL, 0);
    length = strtoull(argv[3], NULL, 0);
    space = mmap(NULL, length + HUGE_PAGE, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fd < 0 || space == MAP_FAILED) {
        perror(argv[1]);
        return 1;
    }
    memory = (uint8_t *)(((uintptr_t)space + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1));
    madvise(memory, length, MADV_HUGEPAGE);
    for (int i = 1; i < n; i++) {
        pthread_create(&threads[i], NULL, copy, NULL);
    }
    copy(NULL);
    for (int i = 1; i < n; i++) {
        pthread_join(threads[i], NULL);
    }
    if (write(TICK_FD, ".", 1) != 1) {
        perror("tick");
        return 1;
    }
    pause();
    return 0;
}
