/*
 * One host mapping that holds guest RAM, and the list of all of them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/ram-block.h"

#include "memory/base-guard.h"
#include "memory/chunk-map.h"
#include "memory/vma-budget.h"
#include "memory/zero-area.h"
#include "util/error.h"
#include "util/units.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

/* A fixed array, since a signal handler walks it while the main thread may add a block. */
#define RAM_BLOCKS_MAX 512

struct RamList {
    RamBlock *blocks[RAM_BLOCKS_MAX];
    unsigned count; /* atomic: blocks below it are complete */
    BaseGuard *guard;
    VmaBudget vma_budget;
    gint discard_inhibited; /* atomic */
};

static void *map_aligned(uint64_t size, size_t align, int prot, GError **errp)
{
    uint64_t total = size + align;
    uint8_t *raw, *start, *end;

    if (size == 0 || total < size) {
        error_set(errp, "Cannot map %" G_GUINT64_FORMAT " bytes of guest RAM: invalid size", size);
        return NULL;
    }
    raw = mmap(NULL, total, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (raw == MAP_FAILED) {
        error_set_errno(errp, errno,
                        "Cannot map %" G_GUINT64_FORMAT " MiB of guest RAM; give the guest less "
                        "memory or check vm.overcommit_memory and the limits of the process",
                        size / MiB);
        return NULL;
    }
    start = (uint8_t *)ROUND_UP((uintptr_t)raw, align);
    end = start + size;
    if (start > raw) {
        munmap(raw, start - raw);
    }
    if (raw + total > end) {
        munmap(end, raw + total - end);
    }
    return start;
}

void *ram_reserve_address_space(uint64_t size, size_t align, GError **errp)
{
    return map_aligned(size, MAX(align, RAM_CHUNK_SIZE), PROT_NONE, errp);
}

RamBlock *ram_block_new_from_mapping(const char *name, void *host, uint64_t size, RamKind kind,
                                     int fd)
{
    RamBlock *block = g_new0(RamBlock, 1);

    block->name = g_strdup(name);
    block->host = host;
    block->size = size;
    block->page_size = sysconf(_SC_PAGESIZE);
    block->kind = kind;
    block->fd = fd;
    block->share = kind == RAM_SHARED;
    block->in_flight = g_new0(uint32_t, ram_block_chunks(block));
    g_rw_lock_init(&block->layout);
    g_mutex_init(&block->access_mutex);
    g_cond_init(&block->access_cond);
    return block;
}

RamBlock *ram_block_new_anonymous(const char *name, uint64_t size, GError **errp)
{
    g_autoptr(RamBlock) block = NULL;
    uint64_t page = sysconf(_SC_PAGESIZE);
    uint64_t bytes = ROUND_UP(size, page);
    void *host = map_aligned(bytes, RAM_CHUNK_SIZE, PROT_READ | PROT_WRITE, errp);

    if (!host) {
        return NULL;
    }
    block = ram_block_new_from_mapping(name, host, bytes, RAM_ANONYMOUS, -1);
    if (!ram_block_apply_policy(block, 0, bytes, errp)) {
        return NULL;
    }
    return g_steal_pointer(&block);
}

void ram_block_free(RamBlock *block)
{
    if (!block) {
        return;
    }
    if (block->host) {
        munmap(block->host, block->size);
    }
    if (block->fd >= 0) {
        close(block->fd);
    }
    if (block->mappings) {
        g_ptr_array_unref(block->mappings);
    }
    zero_area_free(block);
    chunk_map_free(block->released);
    g_free(block->in_flight);
    g_rw_lock_clear(&block->layout);
    g_mutex_clear(&block->access_mutex);
    g_cond_clear(&block->access_cond);
    g_free(block->report.reason);
    g_free(block->report.file);
    g_free(block->report.increment_obstacle);
    g_free(block->name);
    g_free(block);
}

bool ram_block_apply_policy(RamBlock *block, uint64_t offset, uint64_t length, GError **errp)
{
    return ram_block_apply_policy_at(block, block->host + offset, length, errp);
}

bool ram_block_apply_policy_at(RamBlock *block, void *start, uint64_t length, GError **errp)
{
    if (!block->dump && madvise(start, length, MADV_DONTDUMP) < 0) {
        error_set_errno(errp, errno, "RAM block '%s': cannot leave it out of core dumps",
                        block->name);
        return false;
    }
    if (madvise(start, length, MADV_DONTFORK) < 0) {
        error_set_errno(errp, errno, "RAM block '%s': cannot keep it out of child processes",
                        block->name);
        return false;
    }
    return true;
}

int ram_block_private_flags(const RamBlock *block)
{
    return MAP_PRIVATE | (block->reserve ? 0 : MAP_NORESERVE);
}

void ram_block_hint_hugepages(RamBlock *block)
{
    if (block->kind == RAM_ANONYMOUS && !block->hugetlb) {
        /* Only a hint: kernels without transparent huge pages refuse it. */
        (void)madvise(block->host, block->size, MADV_HUGEPAGE);
    }
}

uint64_t ram_block_chunks(const RamBlock *block)
{
    return DIV_ROUND_UP(block->size, RAM_CHUNK_SIZE);
}

void ram_mapping_free(RamMapping *mapping)
{
    ram_base_unref(mapping->base);
    g_free(mapping);
}

RamList *ram_list_new(void)
{
    return g_new0(RamList, 1);
}

void ram_list_free(RamList *list)
{
    if (!list) {
        return;
    }
    base_guard_free(list->guard);
    for (unsigned i = 0; i < list->count; i++) {
        ram_block_free(list->blocks[i]);
    }
    g_free(list);
}

RamBlock *ram_list_add(RamList *list, RamBlock *block, GError **errp)
{
    g_autoptr(RamBlock) owned = block;

    if (ram_list_find(list, block->name)) {
        error_set(errp, "There is a RAM block '%s' already", block->name);
        return NULL;
    }
    if (list->count == RAM_BLOCKS_MAX) {
        error_set(errp, "RAM block '%s': a machine has at most %d blocks", block->name,
                  RAM_BLOCKS_MAX);
        return NULL;
    }
    block->list = list;
    list->blocks[list->count] = g_steal_pointer(&owned);
    __atomic_store_n(&list->count, list->count + 1, __ATOMIC_RELEASE);
    return block;
}

RamBlock *ram_list_find(RamList *list, const char *name)
{
    for (unsigned i = 0; i < list->count; i++) {
        if (g_str_equal(list->blocks[i]->name, name)) {
            return list->blocks[i];
        }
    }
    return NULL;
}

unsigned ram_list_count(const RamList *list)
{
    return __atomic_load_n(&list->count, __ATOMIC_ACQUIRE);
}

RamBlock *ram_list_get(const RamList *list, unsigned i)
{
    return i < ram_list_count(list) ? list->blocks[i] : NULL;
}

uint64_t ram_list_total(const RamList *list)
{
    uint64_t total = 0;

    for (unsigned i = 0; i < ram_list_count(list); i++) {
        total += list->blocks[i]->size;
    }
    return total;
}

RamBlock *ram_list_find_host(const RamList *list, const void *host, uint64_t *ret_offset)
{
    for (unsigned i = 0; i < ram_list_count(list); i++) {
        RamBlock *block = list->blocks[i];
        uint64_t offset = (uintptr_t)host - (uintptr_t)block->host;

        if (offset < block->size) {
            *ret_offset = offset;
            return block;
        }
    }
    return NULL;
}

BaseGuard *ram_list_guard(const RamList *list)
{
    return list->guard;
}

void ram_list_set_guard(RamList *list, BaseGuard *guard)
{
    list->guard = guard;
}

VmaBudget *ram_list_vma_budget(RamList *list)
{
    return &list->vma_budget;
}

gint *ram_list_discard_inhibited(RamList *list)
{
    return &list->discard_inhibited;
}
