/*
 * Where unchanged pages of a copy-on-write block come from: runs of data in the files it maps.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "migration/base-data.h"

#include <errno.h>
#include <unistd.h>

#include "memory/base-guard.h"
#include "migration/stream.h"
#include "util/units.h"

#define PAGE ((uint64_t)STREAM_PAGE_SIZE)

/* The mapping that has offset, or the next one; NULL: none. */
static const RamMapping *find_mapping(const RamBlock *block, uint64_t offset)
{
    guint low = 0, high;

    if (block->kind != RAM_FILE_PRIVATE || !block->mappings) {
        return NULL;
    }
    high = block->mappings->len;
    while (low < high) {
        guint mid = (low + high) / 2;
        const RamMapping *map = g_ptr_array_index(block->mappings, mid);

        if (map->offset + map->length <= offset) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low < block->mappings->len ? g_ptr_array_index(block->mappings, low) : NULL;
}

/* The first data of the file behind [from, to) of one mapping. */
static bool next_in_file(const RamMapping *map, uint64_t from, uint64_t to, BaseRun *ret_run)
{
    uint64_t shift = map->file_offset - map->offset;
    int fd = ram_base_fd(map->base);
    off_t data = lseek(fd, from + shift, SEEK_DATA), hole;
    BaseRun run = { .from = from, .to = to, .fd = fd };

    if (data < 0 && errno == ENXIO) {
        return false;
    }
    if (data >= 0) {
        if ((uint64_t)data - shift >= to) {
            return false;
        }
        run.from = MAX(from, ROUND_DOWN((uint64_t)data - shift, PAGE));
        hole = lseek(fd, data, SEEK_HOLE);
        if (hole > data) {
            run.to = MIN(to, ROUND_UP((uint64_t)hole - shift, PAGE));
        }
    }
    run.file_offset = run.from + shift;
    *ret_run = run;
    return true;
}

bool base_data_next(const RamBlock *block, uint64_t from, uint64_t to, BaseRun *ret_run)
{
    while (from < to) {
        const RamMapping *map = find_mapping(block, from);
        uint64_t end;

        if (!map || map->offset > from) {
            /* Detached since the scan: the memory there has the same contents. */
            *ret_run = (BaseRun){ .from = from, .to = map ? MIN(map->offset, to) : to, .fd = -1 };
            return true;
        }
        end = MIN(map->offset + map->length, to);
        if (next_in_file(map, from, end, ret_run)) {
            return true;
        }
        from = end;
    }
    return false;
}
