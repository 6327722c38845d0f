/*
 * Zero memory put in the place of part of a block.
 *
 * Two neighbouring mappings become one only when they have the same anon_vma, the kernel's record of whose
 * pages are inside. Each mapping gets one of its own with the first page written to it, so plain
 * mmap() over chunks that are used in between ends in a mapping for nearly every chunk (measured: 4.7
 * times the number of runs). Therefore a block has an area of its size, never used but for one page after
 * its end, that gave it an anon_vma. Parts of it are moved over the block at equal offsets with
 * MREMAP_DONTUNMAP (mremap(2), Linux 5.7), which leaves the area as it is. All flags were set before, so it
 * is one system call where mmap() needs four.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/zero-area.h"

#include "util/log.h"

#include <errno.h>
#include <sys/mman.h>

/* One page behind the block's size is written, so the area is never moved as a whole. */
static uint64_t area_size(const RamBlock *block)
{
    return block->size + block->page_size;
}

static bool prepare_area(RamBlock *block, uint8_t *area, GError **errp)
{
    uint64_t size = area_size(block);

    if (mmap(area, size, PROT_READ | PROT_WRITE,
             ram_block_private_flags(block) | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != area) {
        return false;
    }
    /* Refused by kernels without huge pages. */
    (void)madvise(area, size, MADV_NOHUGEPAGE);
    if (!ram_block_apply_policy_at(block, area, size, errp)) {
        return false;
    }
    area[block->size] = 1;
    return true;
}

static bool need_area(RamBlock *block)
{
    g_autoptr(GError) why = NULL;
    uint8_t *area;

    if (block->zero_area || block->no_zero_area) {
        return block->zero_area != NULL;
    }
    area = ram_reserve_address_space(area_size(block), RAM_CHUNK_SIZE, &why);
    if (area && !prepare_area(block, area, &why)) {
        munmap(area, area_size(block));
        area = NULL;
    }
    if (!area) {
        log_printf(LOG_MEMORY, "ram_zero_area: block=%s none: %s", block->name,
                   why ? why->message : "no memory");
    }
    block->zero_area = area;
    block->no_zero_area = area == NULL;
    return area != NULL;
}

static bool move_zeros(RamBlock *block, uint64_t offset, uint64_t length)
{
    void *at = block->host + offset;

    return need_area(block) && mremap(block->zero_area + offset, length, length,
                                      MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, at) == at;
}

static bool map_zeros(RamBlock *block, uint64_t offset, uint64_t length)
{
    void *at = block->host + offset;

    if (mmap(at, length, PROT_READ | PROT_WRITE,
             ram_block_private_flags(block) | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != at) {
        return false;
    }
    (void)madvise(at, length, MADV_NOHUGEPAGE);
    return ram_block_apply_policy(block, offset, length, NULL);
}

bool zero_area_map(RamBlock *block, uint64_t offset, uint64_t length, bool *ret_merges)
{
    *ret_merges = move_zeros(block, offset, length);
    return *ret_merges || map_zeros(block, offset, length);
}

void zero_area_free(RamBlock *block)
{
    if (block->zero_area) {
        munmap(block->zero_area, area_size(block));
        block->zero_area = NULL;
    }
}
