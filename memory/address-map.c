/*
 * What lies where in an address space of the guest, and the dispatch of its accesses.
 *
 * Two sorted arrays: `work`, which the add and remove functions change, and `live`, which accesses
 * are dispatched by. The outermost commit makes `live` a copy of `work` and tells the listeners the
 * difference. Readers copy the range they need under a read lock that they do not keep, since a
 * device's register may change the map.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/address-map.h"

#include "memory/guest-access.h"
#include "util/error.h"
#include "util/units.h"

#include <string.h>

#define ACCESS_MAX 8

struct AddressMap {
    char *name;
    unsigned bits;
    GArray *work; /* of AddressRange, ascending; main thread only */
    GArray *live; /* the same; under lock */
    GRWLock lock;
    unsigned depth;
    GArray *listeners; /* of AddressMapListener */
    GPtrArray *blocks; /* every RamBlock ever shown; under lock */
};

static AddressRange *range_at(GArray *ranges, guint i)
{
    return &g_array_index(ranges, AddressRange, i);
}

/* Index of the first range that ends after @addr. */
static guint range_search(GArray *ranges, uint64_t addr)
{
    guint low = 0, high = ranges->len;

    while (low < high) {
        guint mid = low + (high - low) / 2;
        const AddressRange *range = range_at(ranges, mid);

        if (range->base + (range->size - 1) < addr) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

AddressMap *address_map_new(const char *name, unsigned bits)
{
    AddressMap *map = g_new0(AddressMap, 1);

    map->name = g_strdup(name);
    map->bits = bits;
    map->work = g_array_new(FALSE, FALSE, sizeof(AddressRange));
    map->live = g_array_new(FALSE, FALSE, sizeof(AddressRange));
    map->listeners = g_array_new(FALSE, FALSE, sizeof(AddressMapListener));
    map->blocks = g_ptr_array_new();
    g_rw_lock_init(&map->lock);
    return map;
}

void address_map_free(AddressMap *map)
{
    if (!map) {
        return;
    }
    g_array_unref(map->work);
    g_array_unref(map->live);
    g_array_unref(map->listeners);
    g_ptr_array_unref(map->blocks);
    g_rw_lock_clear(&map->lock);
    g_free(map->name);
    g_free(map);
}

static const char *range_name(const AddressRange *range)
{
    return range->kind == ADDRESS_RAM ? range->block->name : range->name;
}

static bool check_width(AddressMap *map, const AddressRange *range, GError **errp)
{
    uint64_t last = range->base + range->size - 1;

    if (range->size == 0 || last < range->base || (map->bits < 64 && last >> map->bits)) {
        error_set(errp,
                  "%s: range of '%s' at 0x%" G_GINT64_MODIFIER "x, size 0x%" G_GINT64_MODIFIER
                  "x, does not fit an address of %u bits",
                  map->name, range_name(range), range->base, range->size, map->bits);
        return false;
    }
    return true;
}

static bool range_insert(AddressMap *map, const AddressRange *range, GError **errp)
{
    guint i;

    if (!check_width(map, range, errp)) {
        return false;
    }
    i = range_search(map->work, range->base);
    if (i < map->work->len) {
        const AddressRange *next = range_at(map->work, i);

        if (next->base <= range->base + (range->size - 1)) {
            error_set(errp,
                      "%s: range of '%s' at 0x%" G_GINT64_MODIFIER "x, size 0x%" G_GINT64_MODIFIER
                      "x, overlaps that of '%s' at 0x%" G_GINT64_MODIFIER
                      "x, size 0x%" G_GINT64_MODIFIER "x",
                      map->name, range_name(range), range->base, range->size, range_name(next),
                      next->base, next->size);
            return false;
        }
    }
    address_map_begin(map);
    g_array_insert_val(map->work, i, *range);
    address_map_commit(map);
    return true;
}

bool address_map_add_ram(AddressMap *map, uint64_t base, RamBlock *block, uint64_t block_offset,
                         uint64_t size, bool readonly, GError **errp)
{
    AddressRange range = {
        .base = base,
        .size = size,
        .kind = ADDRESS_RAM,
        .block = block,
        .block_offset = block_offset,
        .readonly = readonly,
    };

    if (block_offset > block->size || size > block->size - block_offset ||
        (base | block_offset | size) % 4096) {
        error_set(errp,
                  "%s: RAM at 0x%" G_GINT64_MODIFIER "x, size 0x%" G_GINT64_MODIFIER
                  "x, is not a run of whole pages of RAM block '%s'",
                  map->name, base, size, block->name);
        return false;
    }
    g_rw_lock_writer_lock(&map->lock);
    if (!g_ptr_array_find(map->blocks, block, NULL)) {
        g_ptr_array_add(map->blocks, block);
    }
    g_rw_lock_writer_unlock(&map->lock);
    return range_insert(map, &range, errp);
}

bool address_map_add_io(AddressMap *map, uint64_t base, uint64_t size, const char *name,
                        const IoOps *ops, void *opaque, GError **errp)
{
    AddressRange range = {
        .base = base,
        .size = size,
        .kind = ADDRESS_IO,
        .name = g_intern_string(name),
        .ops = ops,
        .opaque = opaque,
    };

    return range_insert(map, &range, errp);
}

void address_map_remove(AddressMap *map, uint64_t base)
{
    guint i = range_search(map->work, base);

    if (i < map->work->len && range_at(map->work, i)->base == base) {
        address_map_begin(map);
        g_array_remove_index(map->work, i);
        address_map_commit(map);
    }
}

static bool range_equal(const AddressRange *a, const AddressRange *b)
{
    return a->base == b->base && a->size == b->size && a->kind == b->kind && a->block == b->block &&
           a->block_offset == b->block_offset && a->readonly == b->readonly && a->name == b->name &&
           a->ops == b->ops && a->opaque == b->opaque;
}

/* What is only in @old and only in @new; both are sorted. */
static void range_diff(GArray *old, GArray *new, GArray *removed, GArray *added)
{
    guint i = 0, k = 0;

    while (i < old->len || k < new->len) {
        const AddressRange *a = i < old->len ? range_at(old, i) : NULL;
        const AddressRange *b = k < new->len ? range_at(new, k) : NULL;

        if (a && b && range_equal(a, b)) {
            i++;
            k++;
        } else if (a && (!b || a->base <= b->base)) {
            g_array_append_val(removed, *a);
            i++;
        } else {
            g_array_append_val(added, *b);
            k++;
        }
    }
}

void address_map_begin(AddressMap *map)
{
    map->depth++;
}

void address_map_commit(AddressMap *map)
{
    g_autoptr(GArray) removed = NULL, added = NULL;

    g_assert(map->depth > 0);
    if (--map->depth > 0) {
        return;
    }
    removed = g_array_new(FALSE, FALSE, sizeof(AddressRange));
    added = g_array_new(FALSE, FALSE, sizeof(AddressRange));
    range_diff(map->live, map->work, removed, added);

    g_rw_lock_writer_lock(&map->lock);
    g_array_set_size(map->live, 0);
    if (map->work->len) {
        g_array_append_vals(map->live, map->work->data, map->work->len);
    }
    g_rw_lock_writer_unlock(&map->lock);

    if (removed->len == 0 && added->len == 0) {
        return;
    }
    for (guint i = 0; i < map->listeners->len; i++) {
        const AddressMapListener *l = &g_array_index(map->listeners, AddressMapListener, i);

        l->commit(l->opaque, (void *)removed->data, removed->len, (void *)added->data, added->len);
    }
}

void address_map_add_listener(AddressMap *map, const AddressMapListener *listener)
{
    g_array_append_val(map->listeners, *listener);
    if (map->live->len) {
        listener->commit(listener->opaque, NULL, 0, (void *)map->live->data, map->live->len);
    }
}

void address_map_remove_listener(AddressMap *map, void *opaque)
{
    for (guint i = map->listeners->len; i-- > 0;) {
        if (g_array_index(map->listeners, AddressMapListener, i).opaque == opaque) {
            g_array_remove_index(map->listeners, i);
        }
    }
}

bool address_map_find(AddressMap *map, uint64_t addr, AddressRange *ret_range)
{
    bool found = false;
    guint i;

    g_rw_lock_reader_lock(&map->lock);
    i = range_search(map->live, addr);
    if (i < map->live->len && range_at(map->live, i)->base <= addr) {
        *ret_range = *range_at(map->live, i);
        found = true;
    }
    g_rw_lock_reader_unlock(&map->lock);
    return found;
}

bool address_map_is_ram(AddressMap *map, uint64_t addr)
{
    AddressRange range;

    return address_map_find(map, addr, &range) && range.kind == ADDRESS_RAM;
}

RamBlock *address_map_block_of_host(AddressMap *map, const void *host, uint64_t *ret_offset)
{
    RamBlock *found = NULL;

    g_rw_lock_reader_lock(&map->lock);
    for (guint i = 0; i < map->blocks->len && !found; i++) {
        RamBlock *block = map->blocks->pdata[i];
        uint64_t offset = (uintptr_t)host - (uintptr_t)block->host;

        if (offset < block->size) {
            *ret_offset = offset;
            found = block;
        }
    }
    g_rw_lock_reader_unlock(&map->lock);
    return found;
}

unsigned address_map_count(AddressMap *map)
{
    unsigned count;

    g_rw_lock_reader_lock(&map->lock);
    count = map->live->len;
    g_rw_lock_reader_unlock(&map->lock);
    return count;
}

/* --- Dispatch --- */

/* The next piece of an access to registers: @size bytes at @offset, served by one call. */
typedef struct IoPiece {
    uint64_t offset; /* of the call */
    unsigned size;   /* of the call */
    unsigned skip;   /* bytes of the call before the piece */
    unsigned len;    /* bytes of the piece */
} IoPiece;

static IoPiece io_piece(const IoOps *ops, uint64_t offset, unsigned len)
{
    unsigned min = ops->min_size ? ops->min_size : 1;
    unsigned max = ops->max_size ? ops->max_size : ACCESS_MAX;
    unsigned size = max;
    IoPiece piece;

    while (size > 1 && (size > len || offset % size)) {
        size /= 2;
    }
    if (size >= min) {
        return (IoPiece){ .offset = offset, .size = size, .len = size };
    }
    piece.offset = ROUND_DOWN(offset, min);
    piece.size = min;
    piece.skip = offset - piece.offset;
    piece.len = MIN(len, min - piece.skip);
    return piece;
}

static void io_read(const AddressRange *range, uint64_t offset, uint8_t *data, unsigned len)
{
    while (len > 0) {
        IoPiece piece = io_piece(range->ops, offset, len);
        uint64_t value = range->ops->read(range->opaque, piece.offset, piece.size);

        value = GUINT64_TO_LE(value >> (8 * piece.skip));
        memcpy(data, &value, piece.len);
        offset += piece.len;
        data += piece.len;
        len -= piece.len;
    }
}

static void io_write(const AddressRange *range, uint64_t offset, const uint8_t *data, unsigned len)
{
    while (len > 0) {
        IoPiece piece = io_piece(range->ops, offset, len);
        uint64_t value = 0;

        memcpy(&value, data, piece.len);
        value = GUINT64_FROM_LE(value) << (8 * piece.skip);
        range->ops->write(range->opaque, piece.offset, value, piece.size);
        offset += piece.len;
        data += piece.len;
        len -= piece.len;
    }
}

static void ram_access(const AddressRange *range, uint64_t offset, uint8_t *data, unsigned len,
                       bool write)
{
    uint64_t at = range->block_offset + offset;

    ram_access_begin(range->block, at, len);
    if (!write) {
        memcpy(data, range->block->host + at, len);
    } else if (!range->readonly) {
        memcpy(range->block->host + at, data, len);
    }
    ram_access_end(range->block, at, len);
}

/* Bytes from @addr that lie in one range, or in none. */
static unsigned access_piece(AddressMap *map, uint64_t addr, unsigned len, AddressRange *ret_range,
                             bool *ret_found)
{
    *ret_found = address_map_find(map, addr, ret_range);
    if (!*ret_found) {
        /* An access that begins in nothing and ends in something is rare: byte by byte. */
        return 1;
    }
    return MIN((uint64_t)len, ret_range->size - (addr - ret_range->base));
}

bool address_map_read(AddressMap *map, uint64_t addr, void *data, unsigned len)
{
    uint8_t *bytes = data;
    bool all = true;

    while (len > 0) {
        AddressRange range;
        bool found;
        unsigned n = access_piece(map, addr, len, &range, &found);

        if (!found) {
            memset(bytes, 0xff, n);
            all = false;
        } else if (range.kind == ADDRESS_RAM) {
            ram_access(&range, addr - range.base, bytes, n, false);
        } else {
            io_read(&range, addr - range.base, bytes, n);
        }
        addr += n;
        bytes += n;
        len -= n;
    }
    return all;
}

bool address_map_write(AddressMap *map, uint64_t addr, const void *data, unsigned len)
{
    const uint8_t *bytes = data;
    bool all = true;

    while (len > 0) {
        AddressRange range;
        bool found;
        unsigned n = access_piece(map, addr, len, &range, &found);

        if (!found) {
            all = false;
        } else if (range.kind == ADDRESS_RAM) {
            ram_access(&range, addr - range.base, (uint8_t *)bytes, n, true);
        } else {
            io_write(&range, addr - range.base, bytes, n);
        }
        addr += n;
        bytes += n;
        len -= n;
    }
    return all;
}
