/*
 * The least that new memory can cost whoever writes it: every word of so much new anonymous memory, by a process, in pages of
 * 4 KiB as the RAM of a guest has them. Prints cycles of the time stamp counter.
 *
 *     floor-touch MIB
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <x86intrin.h>

#define MiB (UINT64_C(1) << 20)

int main(int argc, char **argv)
{
    uint64_t length = argc == 2 ? strtoull(argv[1], NULL, 0) * MiB : 0;
    uint64_t *memory = mmap(NULL, length, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    uint64_t x = 88172645463325252u, start;

    if (memory == MAP_FAILED) {
        perror("floor-touch");
        return 1;
    }
    madvise(memory, length, MADV_NOHUGEPAGE);
    start = __rdtsc();
    for (uint64_t i = 0; i < length / sizeof(*memory); i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        memory[i] = x;
    }
    printf("%llu\n", __rdtsc() - start);
    return 0;
}
