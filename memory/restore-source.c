/*
 * Where the data of a base layer lies: by its bitmap of pages present, or by the holes of the file.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/restore-internal.h"

#include "memory/ram-base.h"
#include "util/units.h"

#include <errno.h>
#include <unistd.h>

#define PAGE UINT64_C(4096)
#define WORD_BITS (8 * sizeof(unsigned long))

/* The first page at or after @from, below @end, whose bit is @set; @end = none. */
static uint64_t find_page(const unsigned long *bits, uint64_t from, uint64_t end, bool set)
{
    while (from < end) {
        unsigned long word = bits[from / WORD_BITS];

        word = (set ? word : ~word) >> (from % WORD_BITS);
        if (word) {
            return MIN(end, from + __builtin_ctzl(word));
        }
        from = ROUND_DOWN(from, WORD_BITS) + WORD_BITS;
    }
    return end;
}

static bool walk_bitmap(const RestoreBlock *rb, SourceRunFunc fn, void *opaque, GError **errp)
{
    uint64_t pages = rb->block->size / PAGE;
    uint64_t at = 0;

    while (at < pages) {
        uint64_t data = find_page(rb->present, at, pages, true);
        uint64_t end = find_page(rb->present, data, pages, false);

        if (data > at && !fn(at * PAGE, (data - at) * PAGE, false, opaque, errp)) {
            return false;
        }
        if (end > data && !fn(data * PAGE, (end - data) * PAGE, true, opaque, errp)) {
            return false;
        }
        at = end;
    }
    return true;
}

bool source_next_data(const RestoreLayer *layer, const RestoreBlock *rb, uint64_t at,
                      uint64_t *ret_from, uint64_t *ret_end)
{
    int fd = ram_base_fd(layer->base);
    uint64_t size = rb->block->size;
    off_t data, hole;

    if (at >= size) {
        return false;
    }
    data = lseek(fd, rb->pages_offset + at, SEEK_DATA);
    if (data < 0 && errno == ENXIO) {
        return false;
    }
    if (data < 0) {
        *ret_from = at;
        *ret_end = size;
        return true;
    }
    hole = lseek(fd, data, SEEK_HOLE);
    *ret_from = MAX(at, ROUND_DOWN((uint64_t)data - rb->pages_offset, PAGE));
    *ret_end = hole < 0 ? size : MIN(size, ROUND_UP((uint64_t)hole - rb->pages_offset, PAGE));
    return *ret_from < size;
}

static bool walk_holes(const RestoreLayer *layer, const RestoreBlock *rb, SourceRunFunc fn,
                       void *opaque, GError **errp)
{
    uint64_t at = 0, from, end;

    while (source_next_data(layer, rb, at, &from, &end)) {
        if (from > at && !fn(at, from - at, false, opaque, errp)) {
            return false;
        }
        if (!fn(from, end - from, true, opaque, errp)) {
            return false;
        }
        at = end;
    }
    return at >= rb->block->size || fn(at, rb->block->size - at, false, opaque, errp);
}

bool source_walk(const RestoreLayer *layer, const RestoreBlock *rb, SourceRunFunc fn, void *opaque,
                 GError **errp)
{
    return rb->present ? walk_bitmap(rb, fn, opaque, errp)
                       : walk_holes(layer, rb, fn, opaque, errp);
}

bool source_walk_stale(const RestoreLayer *layer, const RestoreBlock *rb, SourceRunFunc fn,
                       void *opaque, GError **errp)
{
    uint64_t at = 0, from, end;

    while (rb->present && source_next_data(layer, rb, at, &from, &end)) {
        uint64_t page = from / PAGE, last = end / PAGE;

        while ((page = find_page(rb->present, page, last, false)) < last) {
            uint64_t stop = find_page(rb->present, page, last, true);

            if (!fn(page * PAGE, (stop - page) * PAGE, false, opaque, errp)) {
                return false;
            }
            page = stop;
        }
        at = end;
    }
    return true;
}
