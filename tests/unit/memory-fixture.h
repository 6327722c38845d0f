/*
 * What the tests of memory/ share: files of stamped pages, blocks restored from them, a control that
 * notes what it is told, and ways to wait for the main loop.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_TESTS_UNIT_MEMORY_FIXTURE_H
#define COWBIRD_TESTS_UNIT_MEMORY_FIXTURE_H

#include "memory/base-guard.h"
#include "memory/ram-block.h"
#include "memory/restore.h"
#include "tests/unit/xfs-fixture.h"
#include "util/units.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define FIXTURE_PAGE UINT64_C(4096)

/* Contents of a page that nothing else has: its number and a seed in every eighth byte. */
static inline void fixture_stamp(uint8_t *page, uint64_t number, uint64_t seed)
{
    uint64_t *words = (uint64_t *)page;

    for (unsigned i = 0; i < FIXTURE_PAGE / 8; i++) {
        words[i] = (number + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ seed << 32 ^ i;
    }
}

static inline bool fixture_is_stamped(const uint8_t *page, uint64_t number, uint64_t seed)
{
    uint8_t want[FIXTURE_PAGE];

    fixture_stamp(want, number, seed);
    return memcmp(page, want, FIXTURE_PAGE) == 0;
}

static inline bool fixture_is_zero(const uint8_t *page)
{
    static const uint8_t zeros[FIXTURE_PAGE];

    return memcmp(page, zeros, FIXTURE_PAGE) == 0;
}

/* An open file of @size bytes in @folder (NULL: the folder for temporary files), a hole throughout. */
static inline int fixture_file(const char *folder, uint64_t size, char **ret_path)
{
    char *path = g_build_filename(folder ? folder : g_get_tmp_dir(), "cowbird-test-XXXXXX", NULL);
    int fd = g_mkstemp_full(path, O_RDWR | O_CLOEXEC, 0600);

    g_assert_cmpint(fd, >=, 0);
    g_assert_cmpint(ftruncate(fd, size), ==, 0);
    *ret_path = path;
    return fd;
}

/* A folder whose file system has no reflink: NULL (that for temporary files), else the tmpfs of POSIX. */
static inline const char *fixture_plain_folder(void)
{
    g_autofree char *from_path = NULL, *to_path = NULL;
    int from = fixture_file(NULL, 65536, &from_path);
    int to = fixture_file(NULL, 0, &to_path);
    bool reflink = ioctl(to, FICLONE, from) == 0;

    close(from);
    close(to);
    unlink(from_path);
    unlink(to_path);
    return reflink ? "/dev/shm" : NULL;
}

static inline void fixture_write_page(int fd, uint64_t offset, uint64_t number, uint64_t seed)
{
    uint8_t page[FIXTURE_PAGE];

    fixture_stamp(page, number, seed);
    g_assert_cmpint(pwrite(fd, page, FIXTURE_PAGE, offset), ==, FIXTURE_PAGE);
}

/* Stamps every page of @fd from @offset on. */
static inline void fixture_fill_file(int fd, uint64_t offset, uint64_t size, uint64_t seed)
{
    g_autofree uint8_t *buffer = g_malloc(MiB);
    uint64_t number = 0;

    for (uint64_t at = 0; at < size; at += MiB) {
        uint64_t n = MIN(MiB, size - at);

        for (uint64_t k = 0; k < n; k += FIXTURE_PAGE) {
            fixture_stamp(buffer + k, number++, seed);
        }
        g_assert_cmpint(pwrite(fd, buffer, n, offset + at), ==, n);
    }
}

/* --- A control that takes notes --- */

typedef struct FixtureNotes {
    unsigned paused, pauses;
    unsigned lost, no_memory, detached;
    bool reflink;
    gint64 pause_began, longest_pause;
    char *reason;
    uint64_t lost_offset;
} FixtureNotes;

static inline void fixture_pause(void *opaque)
{
    FixtureNotes *notes = opaque;

    if (notes->paused++ == 0) {
        notes->pause_began = g_get_monotonic_time();
    }
    notes->pauses++;
}

static inline void fixture_resume(void *opaque)
{
    FixtureNotes *notes = opaque;

    g_assert_cmpuint(notes->paused, >, 0);
    if (--notes->paused == 0) {
        notes->longest_pause =
            MAX(notes->longest_pause, g_get_monotonic_time() - notes->pause_began);
    }
}

static inline void fixture_lost(void *opaque, const char *reason, RamBlock *block, uint64_t offset,
                                const char *file)
{
    FixtureNotes *notes = opaque;

    notes->lost++;
    notes->lost_offset = offset;
}

static inline void fixture_no_memory(void *opaque, const char *reason, const char *file)
{
    FixtureNotes *notes = opaque;

    notes->no_memory++;
    g_free(notes->reason);
    notes->reason = g_strdup(reason);
}

static inline void fixture_detached(void *opaque, const char *file, const char *reason,
                                    bool reflink, uint64_t bytes)
{
    FixtureNotes *notes = opaque;

    notes->detached++;
    notes->reflink = reflink;
    g_free(notes->reason);
    notes->reason = g_strdup(reason);
}

static inline MemoryControl fixture_control(FixtureNotes *notes)
{
    return (MemoryControl){
        .pause = fixture_pause,
        .resume = fixture_resume,
        .lost = fixture_lost,
        .no_memory = fixture_no_memory,
        .detached = fixture_detached,
        .opaque = notes,
    };
}

/* --- One restored block --- */

typedef struct Fixture {
    RamList *list;
    RamBlock *block;
    RamBase *base;
    char *path;
    int fd;
    uint64_t offset; /* of the pages in the file */
    FixtureNotes notes;
} Fixture;

static inline void fixture_new_block(Fixture *f, uint64_t size)
{
    GError *err = NULL;
    RamBlock *block = ram_block_new_anonymous("pc.ram", size, &err);

    g_assert_no_error(err);
    f->list = ram_list_new();
    f->block = ram_list_add(f->list, block, &err);
    g_assert_no_error(err);
}

static inline void fixture_open_base(Fixture *f)
{
    GError *err = NULL;
    int fd = open(f->path, O_RDONLY | O_CLOEXEC);

    f->base = ram_base_open(fd, f->path, NULL, &err);
    g_assert_no_error(err);
    close(fd);
}

/* Layer 0 only. */
static inline bool fixture_restore(Fixture *f, RestoreMode mode, GError **errp)
{
    RestoreBlock rb = { .block = f->block, .pages_offset = f->offset };
    RestoreLayer layer = { .base = f->base, .blocks = &rb, .n_blocks = 1 };
    RestoreRequest request = { .mode = mode, .fallback = true, .layers = &layer, .n_layers = 1 };
    MemoryControl control = fixture_control(&f->notes);

    return restore_ram(f->list, &request, &control, errp);
}

/* A block of @size bytes mapped copy-on-write from a file full of stamps (seed 1). */
static inline void fixture_init(Fixture *f, const char *folder, uint64_t size)
{
    GError *err = NULL;

    f->offset = MiB;
    f->fd = fixture_file(folder, f->offset + size, &f->path);
    fixture_fill_file(f->fd, f->offset, size, 1);
    close(f->fd); /* no lease while a writer is there */
    f->fd = -1;
    fixture_new_block(f, size);
    fixture_open_base(f);
    fixture_restore(f, RESTORE_COPY_ON_WRITE, &err);
    g_assert_no_error(err);
    g_assert_cmpint(f->block->kind, ==, RAM_FILE_PRIVATE);
}

static inline void fixture_clear(Fixture *f)
{
    ram_list_free(f->list);
    ram_base_unref(f->base);
    if (f->path) {
        unlink(f->path);
    }
    g_free(f->path);
    g_free(f->notes.reason);
    memset(f, 0, sizeof(*f));
}

/* Runs the main loop until @done says so; fails after @seconds. */
static inline void fixture_run_until(bool (*done)(void *opaque), void *opaque, unsigned seconds)
{
    gint64 end = g_get_monotonic_time() + seconds * G_USEC_PER_SEC;

    while (!done(opaque)) {
        g_assert_cmpint(g_get_monotonic_time(), <, end);
        if (!g_main_context_iteration(NULL, FALSE)) {
            g_usleep(200);
        }
    }
}

/* Lines of /proc/self/maps inside a block. */
static inline unsigned fixture_count_vmas(const RamBlock *block)
{
    g_autofree char *maps = NULL;
    g_auto(GStrv) lines = NULL;
    unsigned count = 0;

    g_assert_true(g_file_get_contents("/proc/self/maps", &maps, NULL, NULL));
    lines = g_strsplit(maps, "\n", 0);
    for (unsigned i = 0; lines[i]; i++) {
        uint64_t start = g_ascii_strtoull(lines[i], NULL, 16);

        count += lines[i][0] && start >= (uintptr_t)block->host &&
                 start < (uintptr_t)block->host + block->size;
    }
    return count;
}

/* VmFlags of the mapping at @host, such as " rd wr mr mw me dc dd "; owned by the caller. */
static inline char *fixture_vm_flags(const void *host)
{
    g_autofree char *smaps = NULL;
    g_auto(GStrv) lines = NULL;
    bool inside = false;

    g_assert_true(g_file_get_contents("/proc/self/smaps", &smaps, NULL, NULL));
    lines = g_strsplit(smaps, "\n", 0);
    for (unsigned i = 0; lines[i]; i++) {
        char *dash = strchr(lines[i], '-');

        if (dash && g_ascii_isxdigit(lines[i][0]) && g_ascii_isxdigit(dash[1])) {
            uint64_t start = g_ascii_strtoull(lines[i], NULL, 16);
            uint64_t end = g_ascii_strtoull(dash + 1, NULL, 16);

            inside = (uintptr_t)host >= start && (uintptr_t)host < end;
        } else if (inside && g_str_has_prefix(lines[i], "VmFlags:")) {
            return g_strdup(lines[i] + strlen("VmFlags:"));
        }
    }
    return g_strdup("");
}

#endif
