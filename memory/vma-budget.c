/*
 * Memory mappings (VMAs) that this process may still make.
 *
 * The kernel tells their number only as the lines of /proc/self/maps, which takes some 10 ms for tens of
 * thousands of them. So it is counted seldom, and what is done in between is added up.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/vma-budget.h"

#include "util/io.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The kernel's default of vm.max_map_count, should it not be readable. */
#define MAX_MAP_COUNT 65530
/* Between two counts pass so many times what the last one took. */
#define REST_FACTOR 100

/* Lines of /proc/self/maps; those of them that begin in [start, end). */
static bool count_lines(uint64_t start, uint64_t end, uint64_t *ret_all, uint64_t *ret_inside)
{
    g_auto(FdHandle) fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    char buf[16384], address[17] = "";
    size_t digits = 0;
    ssize_t got = -1;

    *ret_all = *ret_inside = 0;
    while (fd >= 0 && (got = read(fd, buf, sizeof(buf))) > 0) {
        for (const char *p = buf; p < buf + got; p++) {
            if (*p == '\n') {
                uint64_t at = strtoull(address, NULL, 16);

                *ret_all += 1;
                *ret_inside += at >= start && at < end;
                memset(address, 0, sizeof(address));
                digits = 0;
            } else if (digits < sizeof(address) - 1) {
                /* What follows the start of the mapping ends the number. */
                address[digits++] = *p;
            }
        }
    }
    return got == 0;
}

static uint64_t limit_of_kernel(void)
{
    g_autofree char *text = NULL;
    uint64_t limit = MAX_MAP_COUNT;

    if (g_file_get_contents("/proc/sys/vm/max_map_count", &text, NULL, NULL)) {
        limit = g_ascii_strtoull(text, NULL, 10);
    }
    return limit / 4 * 3;
}

/* Where /proc cannot be read nothing is left: to guess could end the process. */
static void count_now(VmaBudget *budget)
{
    gint64 start = g_get_monotonic_time(), end;
    uint64_t inside;

    budget->limit = limit_of_kernel();
    if (!count_lines(0, 0, &budget->used, &inside)) {
        budget->used = budget->limit;
    }
    end = g_get_monotonic_time();
    budget->count_again = end + (end - start) * REST_FACTOR;
}

bool vma_budget_take(VmaBudget *budget, int growth)
{
    if (growth <= 0) {
        budget->used -= MIN(budget->used, (uint64_t)-growth);
        return true;
    }
    if (g_get_monotonic_time() >= budget->count_again) {
        count_now(budget);
    }
    if (budget->used + growth > budget->limit) {
        return false;
    }
    budget->used += growth;
    return true;
}

uint64_t vma_budget_left(void)
{
    VmaBudget budget = { 0 };

    count_now(&budget);
    return budget.limit - MIN(budget.limit, budget.used);
}

uint64_t vma_count_in(const void *start, uint64_t length)
{
    uint64_t all, inside;

    count_lines((uintptr_t)start, (uintptr_t)start + length, &all, &inside);
    return inside;
}
