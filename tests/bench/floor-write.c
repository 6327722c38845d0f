/*
 * The least that writing so much memory can cost: writes of 8 MiB past the page cache, and fsync. Prints microseconds.
 *
 *     floor-write FILE MIB
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MiB (UINT64_C(1) << 20)
#define WRITE_SIZE (8 * MiB)

static int64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Memory with contents that no file system or disk can compress. */
static uint8_t *noise(uint64_t length)
{
    uint64_t *words =
        mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t x = 88172645463325252u;

    if (words == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    for (uint64_t i = 0; i < length / sizeof(*words); i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        words[i] = x;
    }
    return (uint8_t *)words;
}

static int write_all(const char *path, const uint8_t *from, uint64_t length)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_DIRECT | O_CLOEXEC, 0600);

    if (fd < 0) {
        return -1;
    }
    for (uint64_t at = 0; at < length; at += WRITE_SIZE) {
        uint64_t n = length - at < WRITE_SIZE ? length - at : WRITE_SIZE;

        if (pwrite(fd, from + at, n, (off_t)at) != (ssize_t)n) {
            return -1;
        }
    }
    return fsync(fd) < 0 ? -1 : close(fd);
}

int main(int argc, char **argv)
{
    uint64_t length;
    uint8_t *from;
    int64_t start;

    if (argc != 3) {
        fputs("usage: floor-write FILE MIB\n", stderr);
        return 2;
    }
    length = strtoull(argv[2], NULL, 0) * MiB;
    from = noise(length);
    start = now_us();
    if (write_all(argv[1], from, length) < 0) {
        perror(argv[1]);
        return 1;
    }
    printf("%lld\n", (long long)(now_us() - start));
    return 0;
}
