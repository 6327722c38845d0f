/*
 * The mappings that releasing memory makes: they merge, they are limited, and they may fail (trap T8).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/vma-budget.h"
#include "tests/unit/discard-fixture.h"
#include "util/io.h"

#include <fcntl.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RAM_BYTES (128 * MiB)

/* --- Fault injection: this program's mmap64 and mremap take the place of libc's --- */

static struct {
    unsigned skip;   /* calls with MAP_FIXED that still succeed */
    unsigned fail;   /* calls after them that fail */
    bool leave_hole; /* as kernels before 6.12 do with vm.overcommit_memory=2 */
} fault;

static bool must_fail(int flags)
{
    if (!(flags & MAP_FIXED) || fault.fail == 0) {
        return false;
    }
    if (fault.skip > 0) {
        fault.skip--;
        return false;
    }
    fault.fail--;
    return true;
}

static void *fail_mapping(void *addr, size_t len)
{
    if (fault.leave_hole) {
        munmap(addr, len);
    }
    errno = ENOMEM;
    return MAP_FAILED;
}

void *mmap64(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
    if (must_fail(flags)) {
        return fail_mapping(addr, len);
    }
    return (void *)syscall(SYS_mmap, addr, len, prot, flags, fd, offset);
}

/* Only the form with a new address is used here. */
void *mremap(void *from, size_t old_len, size_t new_len, int flags, ...)
{
    va_list args;
    void *to;

    va_start(args, flags);
    to = va_arg(args, void *);
    va_end(args);
    if (must_fail((flags & MREMAP_FIXED) ? MAP_FIXED : 0)) {
        return fail_mapping(to, new_len);
    }
    return (void *)syscall(SYS_mremap, from, old_len, new_len, flags, to);
}

/* --- Helpers --- */

/* The area is made with the first release; later mappings are the ones that count. */
static void use_zero_area(Fixture *f)
{
    DiscardRequest reported = { .why = DISCARD_REPORTED };

    discard(f, 0, CHUNK, &reported);
}

static void check_flags(const void *host)
{
    g_autofree char *flags = fixture_vm_flags(host);

    g_assert_nonnull(strstr(flags, " dd "));
    g_assert_nonnull(strstr(flags, " dc "));
    g_assert_nonnull(strstr(flags, " nh "));
    g_assert_nonnull(strstr(flags, " nr "));
}

static bool write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0) {
        close(fd);
    }
    return ok;
}

/* --- Failures --- */

/* T08: a failed MAP_FIXED that leaves the old mapping: the chunk is left alone. */
static void t08_failed_mapping_is_left_alone(void)
{
    Fixture f = { 0 };
    DiscardRequest reported = { .why = DISCARD_REPORTED };
    DiscardResult result;

    fixture_init(&f, NULL, RAM_BYTES);
    use_zero_area(&f);
    write_page(&f, CHUNK);
    /* The move and the plain mapping. */
    fault.fail = 2;
    result = discard(&f, CHUNK, CHUNK, &reported);
    g_assert_cmpuint(fault.fail, ==, 0);
    g_assert_cmpuint(result.released, ==, 0);
    g_assert_false(chunk_map_test(f.block->released, 1));
    g_assert_true(page_is_written(&f, CHUNK));
    fixture_clear(&f);
}

/* T08: one that leaves a hole is repaired: with anonymous memory, else with the file. */
static void t08_hole_is_repaired(void)
{
    Fixture f = { 0 };
    DiscardRequest reported = { .why = DISCARD_REPORTED };

    fixture_init(&f, NULL, RAM_BYTES);
    use_zero_area(&f);
    fault.leave_hole = true;
    /* The move, the plain mapping; the second move succeeds. */
    fault.fail = 2;
    g_assert_cmpuint(discard(&f, CHUNK, CHUNK, &reported).released, ==, CHUNK);
    g_assert_true(page_is_zero(&f, CHUNK));
    g_assert_true(chunk_map_test(f.block->released, 1));

    write_page(&f, 3 * CHUNK);
    fault.fail = 4;
    g_assert_cmpuint(discard(&f, 3 * CHUNK, CHUNK, &reported).released, ==, 0);
    g_assert_cmpuint(fault.fail, ==, 0);
    g_assert_true(page_is_snapshot(&f, 3 * CHUNK));
    g_assert_false(chunk_map_test(f.block->released, 3));
    fault.leave_hole = false;
    fixture_clear(&f);
}

static bool told_lost(void *opaque)
{
    const Fixture *f = opaque;

    return f->notes.lost > 0;
}

/* T08: what cannot be repaired stops the VM: MemoryControl is told which bytes are gone. */
static void t08_hole_that_stays_stops_the_vm(void)
{
    Fixture f = { 0 };
    DiscardRequest reported = { .why = DISCARD_REPORTED };
    g_autoptr(GError) err = NULL;
    DiscardResult result;

    fixture_init(&f, NULL, RAM_BYTES);
    use_zero_area(&f);
    fault.leave_hole = true;
    fault.fail = 5;
    g_assert_false(discard_range(f.block, CHUNK, CHUNK, &reported, &result, &err));
    g_assert_cmpuint(fault.fail, ==, 0);
    g_assert_nonnull(strstr(err->message, "pc.ram"));
    fault.leave_hole = false;
    fixture_run_until(told_lost, &f, 5);
    g_assert_cmpuint(f.notes.lost_offset, ==, CHUNK);
    g_assert_true(ram_list_is_lost(f.list));
    fixture_clear(&f);
}

/* T02: a guest that was promised zeros does not get the snapshot's bytes where nothing else could be mapped. */
static void t02_hole_is_not_repaired_with_old_bytes(void)
{
    Fixture f = { 0 };
    DiscardRequest reported = { .why = DISCARD_REPORTED, .page_poison = true };
    g_autoptr(GError) err = NULL;
    DiscardResult result;

    fixture_init(&f, NULL, RAM_BYTES);
    use_zero_area(&f);
    fault.leave_hole = true;
    /* The move and the plain mapping, twice; the mapping of the file would succeed. */
    fault.fail = 4;
    g_assert_false(discard_range(f.block, CHUNK, CHUNK, &reported, &result, &err));
    g_assert_cmpuint(fault.fail, ==, 0);
    fault.leave_hole = false;
    fixture_run_until(told_lost, &f, 5);
    g_assert_true(ram_list_is_lost(f.list));
    fixture_clear(&f);
}

/* T08: without the area (its mapping failed) chunks are still released, one by one. */
static void t08_without_area(void)
{
    Fixture f = { 0 };
    DiscardRequest reported = { .why = DISCARD_REPORTED };

    fixture_init(&f, NULL, RAM_BYTES);
    fault.fail = 1;
    g_assert_cmpuint(discard(&f, CHUNK, CHUNK, &reported).remapped, ==, CHUNK);
    g_assert_true(f.block->no_zero_area);
    write_page(&f, CHUNK);
    g_assert_cmpuint(discard(&f, 2 * CHUNK, 2 * CHUNK, &reported).remapped, ==, 2 * CHUNK);
    g_assert_true(page_is_written(&f, CHUNK));
    g_assert_true(page_is_zero(&f, 2 * CHUNK));
    check_flags(f.block->host + 2 * CHUNK);
    fixture_clear(&f);
}

/* --- The budget --- */

/* Lines of mappings that are not RAM: every other page of another protection. */
static uint8_t *use_mappings(uint64_t count)
{
    uint64_t size = (count + 16) * FIXTURE_PAGE;
    uint8_t *pages = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    for (uint64_t i = 0; i < count; i += 2) {
        g_assert_cmpint(mprotect(pages + i * FIXTURE_PAGE, FIXTURE_PAGE, PROT_NONE), ==, 0);
    }
    return pages;
}

/*
 * T08: remapping stops at three quarters of the mappings a process may have; what takes no further
 * mapping goes on, and what is left alone is counted.
 */
static void t08_limit_of_mappings(void)
{
    Fixture f = { 0 };
    DiscardRequest reported = { .why = DISCARD_REPORTED };
    uint64_t left;
    uint8_t *pages;

    fixture_init(&f, NULL, RAM_BYTES);
    discard(&f, 0, CHUNK, &reported);
    left = vma_budget_left();
    pages = use_mappings(left);
    g_assert_cmpuint(vma_budget_left(), <, 20);
    ram_list_vma_budget(f.list)->count_again = 0;
    ram_list_vma_budget(f.list)->used = 0;
    g_assert_cmpuint(discard(&f, CHUNK, CHUNK, &reported).remapped, ==, CHUNK);
    for (unsigned i = 3; i < 64; i += 2) {
        discard(&f, i * CHUNK, CHUNK, &reported);
    }
    g_assert_cmpuint(f.block->discard.over_budget, >, 10 * CHUNK);
    g_assert_cmpuint(chunk_map_count(f.block->released) * CHUNK + f.block->discard.over_budget, ==,
                     33 * CHUNK);
    munmap(pages, (left + 16) * FIXTURE_PAGE);
    ram_list_vma_budget(f.list)->count_again = 0;
    g_assert_cmpuint(discard(&f, 63 * CHUNK, CHUNK, &reported).remapped, ==, CHUNK);
    fixture_clear(&f);
}

#define LIMIT_FILE "/proc/sys/vm/max_map_count"

/*
 * A child that writes @text to @path as soon as this process closes *ret_fd or ends, be it by SIGKILL. It keeps
 * the descriptors it was born with, hence also a lock on them, until it has done so.
 */
static pid_t start_watcher(const char *path, const char *text, int *ret_fd)
{
    int ends[2];
    pid_t child;

    g_assert_cmpint(pipe2(ends, O_CLOEXEC), ==, 0);
    child = fork();
    g_assert_cmpint(child, >=, 0);
    if (child == 0) {
        char byte;

        setsid();
        close(ends[1]);
        while (read(ends[0], &byte, 1) < 0 && errno == EINTR) {
        }
        _exit(!write_text(path, text));
    }
    close(ends[0]);
    *ret_fd = ends[1];
    return child;
}

/*
 * T08: the same with vm.max_map_count at 2,000, where that may be changed; always put back. It is the whole
 * machine's: whoever changes it holds a lock on it, or one test would put back what another one has set.
 */
static void t08_limit_of_2000(void)
{
    g_autofree char *before = NULL;
    g_auto(FdHandle) lock = open(LIMIT_FILE, O_RDONLY | O_CLOEXEC);
    int fd, status;
    pid_t watcher;

    g_assert_cmpint(flock(lock, LOCK_EX), ==, 0);
    g_assert_true(g_file_get_contents(LIMIT_FILE, &before, NULL, NULL));
    if (!write_text(LIMIT_FILE, before)) {
        g_test_skip("vm.max_map_count cannot be changed here");
        return;
    }
    watcher = start_watcher(LIMIT_FILE, before, &fd);
    g_assert_true(write_text(LIMIT_FILE, "2000"));
    g_test_trap_subprocess("/memory/mappings/t08_limit_of_mappings", 60 * G_USEC_PER_SEC, 0);
    close(fd);
    g_assert_cmpint(waitpid(watcher, &status, 0), ==, watcher);
    g_assert_cmpint(status, ==, 0);
    g_test_trap_assert_passed();
    g_test_trap_assert_stderr("*raise vm.max_map_count*");
}

static gint64 time_of_releases(Fixture *f, unsigned from, unsigned to)
{
    DiscardRequest reported = { .why = DISCARD_REPORTED };
    gint64 start = g_get_monotonic_time();

    for (unsigned i = from; i < to; i += 2) {
        discard(f, i * CHUNK, CHUNK, &reported);
    }
    return g_get_monotonic_time() - start;
}

#define MANY 30000

/* Tens of thousands of other mappings do not make each release read them all. */
static void test_cost_with_many_mappings(void)
{
    Fixture f = { 0 };
    gint64 count, few, many, start;
    uint8_t *pages;

    if (vma_budget_left() < MANY + 200) {
        g_test_skip("vm.max_map_count is too low for many mappings");
        return;
    }
    fixture_init(&f, NULL, RAM_BYTES);
    few = time_of_releases(&f, 1, 32);
    pages = use_mappings(MANY);
    start = g_get_monotonic_time();
    vma_budget_left();
    count = g_get_monotonic_time() - start;
    many = time_of_releases(&f, 33, 64);
    g_test_message("16 releases: %d us, with many mappings %d us; to count them %d us", (int)few,
                   (int)many, (int)count);
    g_assert_cmpint(many, <, 8 * count + 4 * few);
    munmap(pages, (MANY + 16) * FIXTURE_PAGE);
    fixture_clear(&f);
}

/* The map's runs, of equal bits. */
static unsigned count_runs(const RamBlock *block)
{
    unsigned runs = 1;

    for (uint64_t i = 1; i < ram_block_chunks(block); i++) {
        runs += chunk_map_test(block->released, i) != chunk_map_test(block->released, i - 1);
    }
    return runs;
}

/*
 * T08, T53: chunks released in any order, with pages written in between to chunks that have no released
 * neighbour, are one mapping a run.
 */
static void t08_written_neighbours_merge(void)
{
    Fixture f = { 0 };
    DiscardRequest reported = { .why = DISCARD_REPORTED };

    fixture_init(&f, NULL, RAM_BYTES);
    while (chunk_map_count(f.block->released) < ram_block_chunks(f.block)) {
        unsigned chunk = g_test_rand_int_range(0, RAM_BYTES / CHUNK);

        discard(&f, chunk * CHUNK, CHUNK, &reported);
        write_page(&f, chunk * CHUNK + FIXTURE_PAGE);
        write_page(&f, g_test_rand_int_range(0, RAM_BYTES / FIXTURE_PAGE) * FIXTURE_PAGE);
        g_assert_cmpuint(fixture_count_vmas(f.block), ==, count_runs(f.block));
    }
    g_assert_cmpuint(fixture_count_vmas(f.block), ==, 1);
    check_flags(f.block->host);
    fixture_clear(&f);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/memory/mappings/t08_written_neighbours_merge", t08_written_neighbours_merge);
    g_test_add_func("/memory/mappings/t08_failed_mapping_is_left_alone",
                    t08_failed_mapping_is_left_alone);
    g_test_add_func("/memory/mappings/t08_hole_is_repaired", t08_hole_is_repaired);
    g_test_add_func("/memory/mappings/t08_hole_that_stays_stops_the_vm",
                    t08_hole_that_stays_stops_the_vm);
    g_test_add_func("/memory/mappings/t02_hole_is_not_repaired_with_old_bytes",
                    t02_hole_is_not_repaired_with_old_bytes);
    g_test_add_func("/memory/mappings/t08_without_area", t08_without_area);
    g_test_add_func("/memory/mappings/t08_limit_of_mappings", t08_limit_of_mappings);
    g_test_add_func("/memory/mappings/t08_limit_of_2000", t08_limit_of_2000);
    g_test_add_func("/memory/mappings/cost-with-many-mappings", test_cost_with_many_mappings);
    return g_test_run();
}
