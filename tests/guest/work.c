/*
 * Work on pages: fill, verify, hash, touch, random reads, churn.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "tests/guest/guest.h"
#include "tests/guest/pages.h"

/* Processors take 2 MiB pieces of the address space in turn. */
#define SHARE_PAGES 512

typedef struct SharedWork {
    const Work *work;
    WorkResult results[MAX_CPUS];
} SharedWork;

static uint64_t *page_at(uint64_t number)
{
    return (uint64_t *)(number * TEST_PAGE_SIZE);
}

static void work_on_page(const Work *work, uint64_t number, WorkResult *result)
{
    uint64_t *page = page_at(number);

    result->pages++;
    switch (work->kind) {
    case WORK_WRITE:
        page_write(page, work->seed, number);
        break;
    case WORK_VERIFY:
        if (!page_is(page, work->seed, number)) {
            if (result->wrong++ == 0) {
                result->first_wrong = number * TEST_PAGE_SIZE;
            }
        }
        break;
    case WORK_HASH:
        result->hash += page_hash_in_range(page, number);
        break;
    case WORK_TOUCH:
        result->hash += *(volatile uint64_t *)page;
        break;
    }
}

bool work_clip(unsigned i, uint64_t start, uint64_t length, uint64_t *ret_first, uint64_t *ret_end)
{
    const MemoryRange *range = memory_map_usable(i);
    uint64_t end = start + length < start ? UINT64_MAX : start + length;
    uint64_t from = range->start > start ? range->start : start;
    uint64_t to = range->end < end ? range->end : end;

    *ret_first = (from + TEST_PAGE_SIZE - 1) / TEST_PAGE_SIZE;
    *ret_end = to / TEST_PAGE_SIZE;
    return *ret_first < *ret_end;
}

static void work_share(unsigned cpu, unsigned count, void *opaque)
{
    SharedWork *shared = opaque;
    const Work *work = shared->work;
    uint64_t origin = work->start / TEST_PAGE_SIZE, first, end;
    WorkResult result = { 0 };

    for (unsigned i = 0; i < memory_map_usable_count(); i++) {
        if (!work_clip(i, work->start, work->length, &first, &end)) {
            continue;
        }
        for (uint64_t n = first; n < end; n++) {
            bool chosen = ((n - origin) % work->step == 0) != work->others;

            if (chosen && (count == 1 || n / SHARE_PAGES % count == cpu)) {
                work_on_page(work, n, &result);
            }
        }
    }
    shared->results[cpu] = result;
}

static void add_result(WorkResult *sum, const WorkResult *part)
{
    if (part->wrong > 0 && (sum->wrong == 0 || part->first_wrong < sum->first_wrong)) {
        sum->first_wrong = part->first_wrong;
    }
    sum->pages += part->pages;
    sum->wrong += part->wrong;
    sum->hash += part->hash;
}

WorkResult work_run(const Work *work, unsigned cpus)
{
    static SharedWork shared;
    WorkResult sum = { 0 };

    shared.work = work;
    cpus_run(cpus, work_share, &shared);
    for (unsigned cpu = 0; cpu < cpus; cpu++) {
        add_result(&sum, &shared.results[cpu]);
    }
    return sum;
}

void work_print_hashes(uint64_t start, uint64_t length)
{
    uint64_t first, end;

    for (unsigned i = 0; i < memory_map_usable_count(); i++) {
        if (!work_clip(i, start, length, &first, &end)) {
            continue;
        }
        for (uint64_t n = first; n < end; n++) {
            serial_put_hex(n * TEST_PAGE_SIZE);
            serial_put(" ");
            serial_put_hex(page_hash(page_at(n)));
            serial_put("\n");
        }
    }
}

/* The index of the seed that the page was written from; `count` if it is none of them. */
static unsigned classify_page(uint64_t number, const uint64_t *seeds, unsigned count)
{
    const uint64_t *page = page_at(number);

    for (unsigned i = 0; i < count; i++) {
        uint64_t first = seeds[i] != 0 ? page_mix(page_start(seeds[i], number)) : 0;

        if (page[0] == first && page_is(page, seeds[i], number)) {
            return i;
        }
    }
    return count;
}

static void print_class(uint64_t pages, unsigned class, const uint64_t *seeds, unsigned count)
{
    if (pages == 0) {
        return;
    }
    serial_put(" ");
    serial_put_unsigned(pages);
    serial_put("*");
    if (class == count) {
        serial_put("?");
    } else {
        serial_put_unsigned(seeds[class]);
    }
}

void work_classify(uint64_t start, uint64_t length, const uint64_t *seeds, unsigned count)
{
    uint64_t first, end, pages = 0;
    unsigned class = 0;

    for (unsigned i = 0; i < memory_map_usable_count(); i++) {
        if (!work_clip(i, start, length, &first, &end)) {
            continue;
        }
        for (uint64_t n = first; n < end; n++) {
            unsigned now = classify_page(n, seeds, count);

            if (now != class) {
                print_class(pages, class, seeds, count);
                class = now;
                pages = 0;
            }
            pages++;
        }
    }
    print_class(pages, class, seeds, count);
}

uint64_t work_random_reads(uint64_t start, uint64_t length, uint64_t count, uint64_t seed)
{
    uint64_t sum = 0, pages = length / TEST_PAGE_SIZE;

    for (uint64_t i = 0; pages > 0 && i < count; i++) {
        uint64_t number = start / TEST_PAGE_SIZE + page_mix(seed + i * PAGE_STRIDE) % pages;

        sum += *(volatile uint64_t *)page_at(number);
    }
    return sum;
}

static uint64_t churn_round(uint64_t first, uint64_t end, uint64_t round)
{
    uint64_t wrong = 0;

    for (uint64_t n = first; n < end; n++) {
        wrong += round > 1 && !page_is(page_at(n), round - 1, n);
        page_write(page_at(n), round, n);
    }
    return wrong;
}

void work_churn(uint64_t start, uint64_t length, uint64_t *ret_rounds, uint64_t *ret_wrong)
{
    uint64_t rounds = 0, wrong = 0, first = start / TEST_PAGE_SIZE;

    do {
        wrong += churn_round(first, first + length / TEST_PAGE_SIZE, ++rounds);
    } while (!serial_has_news());
    *ret_rounds = rounds;
    *ret_wrong = wrong;
}
