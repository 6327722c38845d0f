/*
 * For tests of the file under a running clone: the writer of the file, a child process, and what the
 * clone has written.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_TESTS_UNIT_GUARD_FIXTURE_H
#define COWBIRD_TESTS_UNIT_GUARD_FIXTURE_H

#include "memory/chunk-map.h"
#include "memory/discard.h"
#include "memory/restore.h"
#include "tests/unit/memory-fixture.h"

#include <signal.h>
#include <sys/prctl.h>

#define RAM_BYTES (32 * MiB)
#define PAGES (RAM_BYTES / FIXTURE_PAGE)
#define CHUNK RAM_CHUNK_SIZE

/* Opens the file with @flags in a child (and is held up there), then overwrites all of it with 0xee. */
static inline pid_t start_writer(const char *path, int flags)
{
    pid_t child = fork();

    if (child == 0) {
        uint8_t buffer[65536];
        int fd = open(path, flags);

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        memset(buffer, 0xee, sizeof(buffer));
        for (unsigned i = 0; fd >= 0 && i < 600 && !(flags & O_TRUNC); i++) {
            if (write(fd, buffer, sizeof(buffer)) < 0) {
                _exit(2);
            }
        }
        _exit(fd < 0);
    }
    g_assert_cmpint(child, >, 0);
    return child;
}

static inline void end_writer(pid_t child)
{
    int status;

    g_assert_cmpint(waitpid(child, &status, 0), ==, child);
    g_assert_true(WIFEXITED(status));
    g_assert_cmpint(WEXITSTATUS(status), ==, 0);
}

static inline bool is_detached(void *opaque)
{
    return ((Fixture *)opaque)->notes.detached > 0;
}

static inline bool is_lost(void *opaque)
{
    return ((Fixture *)opaque)->notes.lost > 0;
}

static inline bool is_lost_or_detached(void *opaque)
{
    return is_lost(opaque) || is_detached(opaque);
}

static inline bool has_no_memory(void *opaque)
{
    return ((Fixture *)opaque)->notes.no_memory > 0;
}

static inline bool is_written(uint64_t page)
{
    return page % 11 == 3 || (page >= 2000 && page < 2600);
}

static inline void write_some(Fixture *f)
{
    for (uint64_t i = 0; i < PAGES; i++) {
        if (is_written(i)) {
            fixture_stamp(f->block->host + i * FIXTURE_PAGE, i, 2);
        }
    }
}

static inline void check_memory(const Fixture *f)
{
    for (uint64_t i = 0; i < PAGES; i++) {
        const uint8_t *page = f->block->host + i * FIXTURE_PAGE;

        g_assert_true(fixture_is_stamped(page, i, is_written(i) ? 2 : 1));
    }
}

static inline bool is_lease_broken(void *opaque)
{
    return ram_list_guard_state(opaque) == BASE_GUARD_DRAINING;
}

static inline void note_done(void *opaque, const GError *error)
{
    g_assert_no_error(error);
    *(unsigned *)opaque += 1;
}

static inline void note_nothing(void *opaque, const GError *error)
{
}

static inline bool is_one(void *opaque)
{
    return *(unsigned *)opaque == 1;
}

#endif
