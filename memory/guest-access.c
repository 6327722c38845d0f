/*
 * The only way by which a device touches guest RAM: checked copies, and iovecs for I/O.
 *
 * A chunk's count is one 32-bit word: its top bit says that the chunk is being moved, the others
 * count the accesses under way. An access adds one and, finding the top bit, takes it back and waits.
 * A claim succeeds only on a word that is zero. So neither side needs a lock in the common case.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/guest-access.h"

#include "memory/base-guard.h"

#include <string.h>

#define CHUNK_CLAIMED (UINT32_C(1) << 31)

static void chunk_wait(RamBlock *block, uint64_t chunk)
{
    g_mutex_lock(&block->access_mutex);
    while (__atomic_load_n(&block->in_flight[chunk], __ATOMIC_SEQ_CST) & CHUNK_CLAIMED) {
        g_cond_wait(&block->access_cond, &block->access_mutex);
    }
    g_mutex_unlock(&block->access_mutex);
}

void ram_access_begin(RamBlock *block, uint64_t offset, uint64_t len)
{
    uint64_t last = (offset + len - 1) >> RAM_CHUNK_SHIFT;

    for (uint64_t chunk = offset >> RAM_CHUNK_SHIFT; chunk <= last; chunk++) {
        uint32_t *word = &block->in_flight[chunk];

        while (__atomic_fetch_add(word, 1, __ATOMIC_SEQ_CST) & CHUNK_CLAIMED) {
            __atomic_fetch_sub(word, 1, __ATOMIC_SEQ_CST);
            chunk_wait(block, chunk);
        }
    }
}

void ram_access_end(RamBlock *block, uint64_t offset, uint64_t len)
{
    uint64_t last = (offset + len - 1) >> RAM_CHUNK_SHIFT;

    for (uint64_t chunk = offset >> RAM_CHUNK_SHIFT; chunk <= last; chunk++) {
        __atomic_fetch_sub(&block->in_flight[chunk], 1, __ATOMIC_SEQ_CST);
    }
}

bool ram_chunk_try_claim(RamBlock *block, uint64_t chunk)
{
    uint32_t idle = 0;

    return __atomic_compare_exchange_n(&block->in_flight[chunk], &idle, CHUNK_CLAIMED, false,
                                       __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

bool ram_chunk_is_idle(const RamBlock *block, uint64_t chunk)
{
    return __atomic_load_n(&block->in_flight[chunk], __ATOMIC_SEQ_CST) == 0;
}

void ram_chunk_unclaim(RamBlock *block, uint64_t chunk)
{
    g_mutex_lock(&block->access_mutex);
    __atomic_fetch_and(&block->in_flight[chunk], ~CHUNK_CLAIMED, __ATOMIC_SEQ_CST);
    g_cond_broadcast(&block->access_cond);
    g_mutex_unlock(&block->access_mutex);
}

/* RAM at @gpa and how much of @len lies in the same range; false = not RAM or not allowed. */
static bool find_ram(AddressMap *map, uint64_t gpa, size_t len, bool write, RamBlock **ret_block,
                     uint64_t *ret_offset, size_t *ret_len)
{
    AddressRange range;
    uint64_t skip;

    if (!address_map_find(map, gpa, &range) || range.kind != ADDRESS_RAM ||
        (write && range.readonly)) {
        return false;
    }
    skip = gpa - range.base;
    *ret_block = range.block;
    *ret_offset = range.block_offset + skip;
    *ret_len = MIN((uint64_t)len, range.size - skip);
    return true;
}

static bool is_lost(const RamBlock *block)
{
    return block->list && ram_list_is_lost(block->list);
}

bool guest_read(AddressMap *map, uint64_t gpa, void *buf, size_t len)
{
    uint8_t *to = buf;

    while (len > 0) {
        RamBlock *block;
        uint64_t offset;
        size_t n;

        if (!find_ram(map, gpa, len, false, &block, &offset, &n)) {
            return false;
        }
        ram_access_begin(block, offset, n);
        memcpy(to, block->host + offset, n);
        ram_access_end(block, offset, n);
        if (is_lost(block)) {
            return false;
        }
        gpa += n;
        to += n;
        len -= n;
    }
    return true;
}

/* Copies from @from, or fills with @value when that is NULL. */
static bool guest_store(AddressMap *map, uint64_t gpa, const uint8_t *from, uint8_t value,
                        size_t len)
{
    while (len > 0) {
        RamBlock *block;
        uint64_t offset;
        size_t n;

        if (!find_ram(map, gpa, len, true, &block, &offset, &n)) {
            return false;
        }
        ram_access_begin(block, offset, n);
        if (from) {
            memcpy(block->host + offset, from, n);
            from += n;
        } else {
            memset(block->host + offset, value, n);
        }
        ram_access_end(block, offset, n);
        if (is_lost(block)) {
            return false;
        }
        gpa += n;
        len -= n;
    }
    return true;
}

bool guest_write(AddressMap *map, uint64_t gpa, const void *buf, size_t len)
{
    return guest_store(map, gpa, buf, 0, len);
}

bool guest_fill(AddressMap *map, uint64_t gpa, uint8_t value, size_t len)
{
    return guest_store(map, gpa, NULL, value, len);
}

bool guest_read_le16(AddressMap *map, uint64_t gpa, uint16_t *ret_value)
{
    uint16_t value;

    if (!guest_read(map, gpa, &value, sizeof(value))) {
        return false;
    }
    *ret_value = GUINT16_FROM_LE(value);
    return true;
}

bool guest_read_le32(AddressMap *map, uint64_t gpa, uint32_t *ret_value)
{
    uint32_t value;

    if (!guest_read(map, gpa, &value, sizeof(value))) {
        return false;
    }
    *ret_value = GUINT32_FROM_LE(value);
    return true;
}

bool guest_read_le64(AddressMap *map, uint64_t gpa, uint64_t *ret_value)
{
    uint64_t value;

    if (!guest_read(map, gpa, &value, sizeof(value))) {
        return false;
    }
    *ret_value = GUINT64_FROM_LE(value);
    return true;
}

bool guest_write_le16(AddressMap *map, uint64_t gpa, uint16_t value)
{
    uint16_t le = GUINT16_TO_LE(value);

    return guest_write(map, gpa, &le, sizeof(le));
}

bool guest_write_le32(AddressMap *map, uint64_t gpa, uint32_t value)
{
    uint32_t le = GUINT32_TO_LE(value);

    return guest_write(map, gpa, &le, sizeof(le));
}

bool guest_write_le64(AddressMap *map, uint64_t gpa, uint64_t value)
{
    uint64_t le = GUINT64_TO_LE(value);

    return guest_write(map, gpa, &le, sizeof(le));
}

bool guest_map_iov(AddressMap *map, uint64_t gpa, size_t len, bool for_write, struct iovec *iov,
                   unsigned max, unsigned *ret_count)
{
    unsigned count = 0;

    while (len > 0) {
        RamBlock *block;
        uint64_t offset;
        size_t n;

        if (count == max || !find_ram(map, gpa, len, for_write, &block, &offset, &n)) {
            guest_unmap_iov(map, iov, count);
            return false;
        }
        ram_access_begin(block, offset, n);
        iov[count].iov_base = block->host + offset;
        iov[count].iov_len = n;
        count++;
        gpa += n;
        len -= n;
    }
    *ret_count = count;
    return true;
}

void guest_unmap_iov(AddressMap *map, const struct iovec *iov, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        uint64_t offset;
        RamBlock *block = address_map_block_of_host(map, iov[i].iov_base, &offset);

        g_assert(block);
        ram_access_end(block, offset, iov[i].iov_len);
    }
}

bool guest_iov_fault(AddressMap *map, const struct iovec *iov, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        uint64_t offset;
        RamBlock *block = address_map_block_of_host(map, iov[i].iov_base, &offset);

        if (block && block->list &&
            ram_list_check_files(block->list, "a system call was refused guest RAM (EFAULT)")) {
            return true;
        }
    }
    return false;
}
