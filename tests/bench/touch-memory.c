/*
 * Writes so much memory once and ends: the first use of host memory may be many times slower than the second.
 *
 *     touch-memory MIB
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define MiB (UINT64_C(1) << 20)
#define PAGE 4096

int main(int argc, char **argv)
{
    uint64_t length = argc == 2 ? strtoull(argv[1], NULL, 0) * MiB : 0;
    volatile uint8_t *memory = mmap(NULL, length, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (memory == MAP_FAILED) {
        perror("touch-memory");
        return 1;
    }
    madvise((void *)memory, length, MADV_HUGEPAGE);
    for (uint64_t at = 0; at < length; at += PAGE) {
        memory[at] = 1;
    }
    return 0;
}
