/*
 * page-oracle: checks pages of a file on the host against what the test guest writes, or prints their hash as the guest does.
 *
 *   page-oracle verify SEED FILE OFFSET ADDRESS LENGTH [STEP [others]]
 *   page-oracle hash FILE OFFSET ADDRESS LENGTH
 *
 * ADDRESS is the guest-physical address of the byte at OFFSET. Prints the guest's own reply; exit status 1 if a page is wrong.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/guest/pages.h"

typedef struct Region {
    const uint8_t *data;
    uint64_t address, length;
} Region;

static void die(const char *what, const char *name)
{
    fprintf(stderr, "page-oracle: %s '%s': %s\n", what, name, strerror(errno));
    exit(2);
}

/* Maps the whole file, since `offset` need not be a multiple of the page size. */
static Region map_region(char **argument)
{
    Region region = { NULL, strtoull(argument[2], NULL, 0), strtoull(argument[3], NULL, 0) };
    uint64_t offset = strtoull(argument[1], NULL, 0);
    struct stat st;
    void *map;
    int fd = open(argument[0], O_RDONLY | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &st) < 0) {
        die("cannot open", argument[0]);
    }
    if (offset + region.length > (uint64_t)st.st_size) {
        errno = ERANGE;
        die("region beyond the end of", argument[0]);
    }
    map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        die("cannot map", argument[0]);
    }
    close(fd);
    region.data = (const uint8_t *)map + offset;
    return region;
}

static int verify(uint64_t seed, Region region, uint64_t step, bool others)
{
    uint64_t pages = 0, wrong = 0, first_wrong = 0, words[TEST_PAGE_WORDS];

    for (uint64_t i = 0; i < region.length / TEST_PAGE_SIZE; i++) {
        uint64_t number = region.address / TEST_PAGE_SIZE + i;

        if ((i % step == 0) == others) {
            continue;
        }
        pages++;
        memcpy(words, region.data + i * TEST_PAGE_SIZE, TEST_PAGE_SIZE);
        if (!page_is(words, seed, number) && wrong++ == 0) {
            first_wrong = number * TEST_PAGE_SIZE;
        }
    }
    printf("pages=%" PRIu64 " wrong=%" PRIu64 " first=0x%" PRIx64 "\n", pages, wrong, first_wrong);
    return wrong > 0;
}

static int hash(Region region)
{
    uint64_t sum = 0, words[TEST_PAGE_WORDS];

    for (uint64_t i = 0; i < region.length / TEST_PAGE_SIZE; i++) {
        memcpy(words, region.data + i * TEST_PAGE_SIZE, TEST_PAGE_SIZE);
        sum += page_hash_in_range(words, region.address / TEST_PAGE_SIZE + i);
    }
    printf("pages=%" PRIu64 " hash=0x%" PRIx64 "\n", region.length / TEST_PAGE_SIZE, sum);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc >= 7 && strcmp(argv[1], "verify") == 0) {
        uint64_t step = argc > 7 ? strtoull(argv[7], NULL, 0) : 1;

        return verify(strtoull(argv[2], NULL, 0), map_region(argv + 3), step > 0 ? step : 1,
                      argc > 8);
    }
    if (argc == 6 && strcmp(argv[1], "hash") == 0) {
        return hash(map_region(argv + 2));
    }
    fprintf(stderr, "usage: page-oracle verify SEED FILE OFFSET ADDRESS LENGTH [STEP [others]]\n"
                    "       page-oracle hash FILE OFFSET ADDRESS LENGTH\n");
    return 2;
}
