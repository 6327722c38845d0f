/*
 * For tests of released memory: one call that must succeed, and what a page of the block holds.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_TESTS_UNIT_DISCARD_FIXTURE_H
#define COWBIRD_TESTS_UNIT_DISCARD_FIXTURE_H

#include "memory/discard.h"
#include "tests/unit/memory-fixture.h"

#define CHUNK RAM_CHUNK_SIZE

static inline DiscardResult discard(Fixture *f, uint64_t offset, uint64_t length,
                                    const DiscardRequest *request)
{
    g_autoptr(GError) err = NULL;
    DiscardResult result;

    g_assert_true(discard_range(f->block, offset, length, request, &result, &err));
    g_assert_no_error(err);
    return result;
}

static inline bool page_is_zero(const Fixture *f, uint64_t offset)
{
    return fixture_is_zero(f->block->host + offset);
}

static inline bool page_is_snapshot(const Fixture *f, uint64_t offset)
{
    return fixture_is_stamped(f->block->host + offset, offset / FIXTURE_PAGE, 1);
}

static inline void write_page(Fixture *f, uint64_t offset)
{
    fixture_stamp(f->block->host + offset, offset / FIXTURE_PAGE, 2);
}

static inline bool page_is_written(const Fixture *f, uint64_t offset)
{
    return fixture_is_stamped(f->block->host + offset, offset / FIXTURE_PAGE, 2);
}

#endif
