/*
 * Files that are mapped with nothing to guard them: when RAM is detached from them, who waits for it, and
 * what may happen meanwhile.
 *
 * The writer that stays open keeps a lease from being had, the folder has no reflink.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/guest-access.h"
#include "memory/pagemap.h"
#include "tests/unit/guard-fixture.h"

static bool drain_restore(Fixture *f)
{
    g_autoptr(GError) err = NULL;
    bool ok;

    f->offset = MiB;
    f->fd = fixture_file(fixture_plain_folder(), f->offset + RAM_BYTES, &f->path);
    fixture_fill_file(f->fd, f->offset, RAM_BYTES, 1);
    fixture_new_block(f, RAM_BYTES);
    fixture_open_base(f);
    ok = fixture_restore(f, RESTORE_AUTO, &err);
    g_assert_no_error(err);
    return ok;
}

static void drain_init(Fixture *f)
{
    g_assert_true(drain_restore(f));
    g_assert_cmpint(f->block->kind, ==, RAM_FILE_PRIVATE);
    g_assert_true(ram_list_is_draining(f->list));
    g_assert_cmpint(ram_list_guard_state(f->list), ==, BASE_GUARD_DRAINING);
}

static void drain_clear(Fixture *f)
{
    close(f->fd);
    fixture_clear(f);
}

static void run_for(unsigned ms)
{
    gint64 end = g_get_monotonic_time() + ms * G_TIME_SPAN_MILLISECOND;

    while (g_get_monotonic_time() < end) {
        if (!g_main_context_iteration(NULL, FALSE)) {
            g_usleep(200);
        }
    }
}

static void note_error(void *opaque, const GError *error)
{
    g_assert_nonnull(error);
    *(unsigned *)opaque += 1;
}

/* --- The end of a drain --- */

static void test_drain_by_itself(void)
{
    Fixture f = { 0 };
    DetachStats stats;

    drain_init(&f);
    g_assert_false(ram_list_detach_stats(f.list, &stats));
    write_some(&f);
    fixture_run_until(is_detached, &f, 20);
    g_assert_cmpstr(f.notes.reason, ==, "drain");
    g_assert_false(f.notes.reflink);
    g_assert_false(ram_list_is_draining(f.list));
    g_assert_cmpint(ram_list_guard_state(f.list), ==, BASE_GUARD_DETACHED);
    g_assert_cmpint(ftruncate(f.fd, 0), ==, 0);
    check_memory(&f);
    g_assert_cmpuint(fixture_count_vmas(f.block), <=, 3);
    g_assert_true(ram_list_detach_stats(f.list, &stats));
    g_assert_cmpuint(stats.chunks, ==, RAM_BYTES / CHUNK);
    g_assert_cmpuint(stats.chunks_left, ==, 0);
    g_assert_false(stats.active);
    g_assert_cmpuint(stats.pauses, >, 0);
    drain_clear(&f);
}

/* Who waits is told once all is moved; who asks later is told at once. */
static void test_those_who_wait(void)
{
    Fixture f = { 0 };
    unsigned first = 0, second = 0;

    drain_init(&f);
    write_some(&f);
    ram_list_finish_drain(f.list, note_done, &first);
    ram_list_finish_drain(f.list, note_done, &second);
    g_assert_cmpuint(first + second, ==, 0);
    fixture_run_until(is_one, &first, 20);
    g_assert_cmpuint(second, ==, 1);
    g_assert_cmpint(ftruncate(f.fd, 0), ==, 0);
    check_memory(&f);
    ram_list_finish_drain(f.list, note_done, &second);
    g_assert_cmpuint(second, ==, 2);
    drain_clear(&f);
}

static void test_nothing_to_wait_for(void)
{
    RamList *list = ram_list_new();
    unsigned done = 0;

    g_assert_false(ram_list_is_draining(list));
    ram_list_finish_drain(list, note_done, &done);
    g_assert_cmpuint(done, ==, 1);
    ram_list_free(list);
}

/* The guard goes while somebody waits: before and after the drain has begun. */
static void test_end_of_the_program(void)
{
    for (unsigned begun = 0; begun < 2; begun++) {
        Fixture f = { 0 };
        unsigned failed = 0;

        drain_init(&f);
        ram_list_finish_drain(f.list, note_error, &failed);
        if (begun) {
            g_main_context_iteration(NULL, FALSE);
        }
        ram_list_free(f.list);
        g_assert_cmpuint(failed, ==, 1);
        g_assert_cmpuint(f.notes.no_memory, ==, 0);
        f.list = ram_list_new();
        drain_clear(&f);
    }
}

/* --- I/O, saves --- */

/* T48: waiting goes on until the I/O has ended, and what it wrote is there. */
static void t48_io_during_a_drain(void)
{
    Fixture f = { 0 };
    g_autoptr(AddressMap) map = address_map_new("memory", 36);
    struct iovec iov[2];
    unsigned n, done = 0;

    drain_init(&f);
    address_map_add_ram(map, 0, f.block, 0, RAM_BYTES, false, NULL);
    g_assert_true(guest_map_iov(map, 5 * CHUNK, FIXTURE_PAGE, true, iov, 2, &n));
    ram_list_finish_drain(f.list, note_done, &done);
    run_for(300);
    g_assert_cmpuint(done, ==, 0);
    fixture_stamp(iov[0].iov_base, 5 * CHUNK / FIXTURE_PAGE, 9);
    guest_unmap_iov(map, iov, n);
    fixture_run_until(is_one, &done, 20);
    g_assert_cmpint(ftruncate(f.fd, 0), ==, 0);
    g_assert_true(fixture_is_stamped(f.block->host + 5 * CHUNK, 5 * CHUNK / FIXTURE_PAGE, 9));
    drain_clear(&f);
}

/* A save that reads the file: those who wait for RAM alone are told, the file is let go afterwards. */
static void test_drain_during_a_save(void)
{
    Fixture f = { 0 };
    unsigned done = 0, whole = 0;

    drain_init(&f);
    write_some(&f);
    ram_list_hold_files(f.list);
    ram_list_finish_drain(f.list, note_done, &done);
    fixture_run_until(is_one, &done, 20);
    g_assert_cmpuint(f.notes.detached, ==, 0);
    g_assert_false(ram_list_is_draining(f.list));
    g_assert_true(ram_list_check_read(f.list, NULL));
    g_assert_true(
        base_guard_detach_all(ram_list_guard(f.list), "requested", note_done, &whole, NULL));
    g_assert_cmpint(ftruncate(f.fd, 0), ==, 0);
    g_assert_false(ram_list_check_read(f.list, NULL));
    check_memory(&f);
    g_assert_cmpuint(whole, ==, 0);
    ram_list_release_files(f.list);
    fixture_run_until(is_one, &whole, 20);
    g_assert_cmpuint(f.notes.detached, ==, 1);
    g_assert_cmpuint(f.notes.lost, ==, 0);
    drain_clear(&f);
}

/* --- The file --- */

static void test_unlinked_before(void)
{
    Fixture f = { 0 };
    DetachStats stats;
    unsigned done = 0;

    drain_init(&f);
    unlink(f.path);
    g_assert_false(ram_list_is_draining(f.list));
    g_assert_cmpint(ram_list_guard_state(f.list), ==, BASE_GUARD_UNLINKED);
    ram_list_finish_drain(f.list, note_done, &done);
    g_assert_cmpuint(done, ==, 1);
    run_for(200);
    g_assert_false(ram_list_detach_stats(f.list, &stats));
    g_assert_cmpint(f.block->kind, ==, RAM_FILE_PRIVATE);
    drain_clear(&f);
}

/* A file that had no name from the start, as a memfd, is with whoever made it. */
static void test_never_linked(void)
{
    Fixture f = { .offset = MiB };
    g_autoptr(GError) err = NULL;

    f.fd = fixture_file(fixture_plain_folder(), f.offset + RAM_BYTES, &f.path);
    fixture_fill_file(f.fd, f.offset, RAM_BYTES, 1);
    unlink(f.path);
    fixture_new_block(&f, RAM_BYTES);
    f.base = ram_base_open(f.fd, NULL, NULL, &err);
    g_assert_no_error(err);
    g_assert_true(fixture_restore(&f, RESTORE_AUTO, &err));
    g_assert_cmpint(ram_list_guard_state(f.list), ==, BASE_GUARD_DRAINING);
    write_some(&f);
    fixture_run_until(is_detached, &f, 20);
    g_assert_cmpint(ftruncate(f.fd, 0), ==, 0);
    check_memory(&f);
    drain_clear(&f);
}

typedef struct Rebuilt {
    const Fixture *f;
    uint8_t *ram;
} Rebuilt;

static bool rebuild(const PageRange *range, void *opaque)
{
    Rebuilt *r = opaque;

    if (range->kind == PAGE_DATA) {
        memcpy(r->ram + range->offset, r->f->block->host + range->offset, range->length);
    } else if (range->kind == PAGE_ZERO) {
        memset(r->ram + range->offset, 0, range->length);
    }
    return true;
}

/* An increment over the file is memory as it is. */
static void check_increment(const Fixture *f)
{
    g_autofree uint8_t *ram = g_malloc(RAM_BYTES);
    g_autoptr(PagemapScanner) scanner = pagemap_scanner_new(PAGEMAP_AUTO, NULL);
    Rebuilt r = { f, ram };

    g_assert_cmpint(pread(f->fd, ram, RAM_BYTES, f->offset), ==, RAM_BYTES);
    g_assert_true(pagemap_scan_block(scanner, f->block, rebuild, &r, NULL, NULL));
    g_assert_cmpint(memcmp(ram, f->block->host, RAM_BYTES), ==, 0);
}

/* Part has moved; the rest may depend on a file that nobody can open. */
static void test_unlinked_during(void)
{
    Fixture f = { 0 };
    g_autoptr(AddressMap) map = address_map_new("memory", 36);
    struct iovec iov[2];
    unsigned n, done = 0;

    drain_init(&f);
    write_some(&f);
    address_map_add_ram(map, 0, f.block, 0, RAM_BYTES, false, NULL);
    g_assert_true(guest_map_iov(map, 5 * CHUNK, FIXTURE_PAGE, true, iov, 2, &n));
    ram_list_finish_drain(f.list, note_done, &done);
    run_for(200);
    unlink(f.path);
    fixture_run_until(is_one, &done, 20);
    guest_unmap_iov(map, iov, n);
    g_assert_cmpint(ram_list_guard_state(f.list), ==, BASE_GUARD_UNLINKED);
    g_assert_cmpuint(f.notes.detached + f.notes.lost, ==, 0);
    g_assert_cmpint(f.block->kind, ==, RAM_FILE_PRIVATE);
    g_assert_true(f.block->report.increment_possible);
    check_memory(&f);
    check_increment(&f);
    drain_clear(&f);
}

/* Somebody writes to it: pages that were not read yet may be wrong. */
static void test_written_during(void)
{
    Fixture f = { 0 };
    unsigned done = 0;

    drain_init(&f);
    g_usleep(20000); /* of a clock that ticks every 4 ms or so */
    fixture_write_page(f.fd, f.offset + RAM_BYTES - FIXTURE_PAGE, 1, 8);
    ram_list_finish_drain(f.list, note_done, &done);
    fixture_run_until(is_lost, &f, 20);
    fixture_run_until(is_one, &done, 20);
    g_assert_cmpuint(f.notes.detached, ==, 0);
    g_assert_false(ram_list_is_draining(f.list));
    drain_clear(&f);
}

static void test_truncated_during(void)
{
    Fixture f = { 0 };
    unsigned done = 0;

    drain_init(&f);
    ram_list_finish_drain(f.list, note_done, &done);
    g_assert_cmpint(ftruncate(f.fd, f.offset + 3 * CHUNK), ==, 0);
    fixture_run_until(is_one, &done, 20);
    fixture_run_until(is_lost_or_detached, &f, 20);
    g_assert_cmpuint(f.notes.lost, ==, 1);
    drain_clear(&f);
}

/* The same without a lease for a detach on request: since it began. */
static void test_written_during_a_detach_without_lease(void)
{
    Fixture f = { 0 };
    unsigned failed = 0;

    drain_init(&f);
    g_assert_true(
        base_guard_detach_all(ram_list_guard(f.list), "requested", note_error, &failed, NULL));
    g_usleep(20000);
    fixture_write_page(f.fd, f.offset + RAM_BYTES - FIXTURE_PAGE, 1, 8);
    fixture_run_until(is_one, &failed, 20);
    fixture_run_until(is_lost, &f, 20);
    drain_clear(&f);
}

/* A restore that is refused leaves no file in use, and nothing is drained. */
static void test_refused_restore(void)
{
    Fixture f = { .offset = MiB };
    RestoreLayer layer;
    RestoreRequest request = {
        .mode = RESTORE_AUTO, .refuse_copy = true, .layers = &layer, .n_layers = 1
    };
    RestoreBlock blocks[2];
    MemoryControl control = fixture_control(&f.notes);
    g_autoptr(GError) err = NULL;
    RamBlock *pinned;
    struct stat st;

    f.fd = fixture_file(fixture_plain_folder(), f.offset + RAM_BYTES, &f.path);
    fixture_new_block(&f, RAM_BYTES / 2);
    pinned = ram_list_add(f.list, ram_block_new_anonymous("pinned", RAM_BYTES / 2, NULL), NULL);
    pinned->mem_lock = true;
    fixture_open_base(&f);
    blocks[0] = (RestoreBlock){ .block = f.block, .pages_offset = MiB };
    blocks[1] = (RestoreBlock){ .block = pinned, .pages_offset = MiB + RAM_BYTES / 2 };
    layer = (RestoreLayer){ .base = f.base, .blocks = blocks, .n_blocks = 2 };
    g_assert_false(restore_ram(f.list, &request, &control, &err));
    g_assert_nonnull(err);
    run_for(200);
    g_assert_cmpuint(f.notes.detached, ==, 0);
    g_assert_false(ram_list_is_draining(f.list));
    g_assert_cmpint(fstat(f.fd, &st), ==, 0);
    g_assert_false(ram_list_uses_file(f.list, st.st_dev, st.st_ino));
    drain_clear(&f);
}

/* --- A chain: its base is leased, only the increment over it is drained --- */

#define DELTA_AT (6 * CHUNK)
#define DELTA_BYTES (4 * CHUNK)
#define DELTA_PAGE(n) \
    ((n) >= DELTA_AT / FIXTURE_PAGE && (n) < (DELTA_AT + DELTA_BYTES) / FIXTURE_PAGE)

typedef struct Chain {
    Fixture f; /* with the base's file */
    RamBase *delta;
    char *delta_path;
    int delta_fd;
} Chain;

static void chain_init(Chain *c)
{
    Fixture *f = &c->f;
    RestoreExtent extent = { .offset = DELTA_AT, .length = DELTA_BYTES };
    RestoreBlock below = { .pages_offset = MiB };
    RestoreBlock above = { .extents = &extent, .n_extents = 1 };
    RestoreLayer layers[] = { { .blocks = &below, .n_blocks = 1 },
                              { .blocks = &above, .n_blocks = 1 } };
    RestoreRequest request = { .fallback = true, .layers = layers, .n_layers = 2 };
    MemoryControl control = fixture_control(&f->notes);
    g_autoptr(GError) err = NULL;

    f->fd = fixture_file(fixture_plain_folder(), MiB + RAM_BYTES, &f->path);
    fixture_fill_file(f->fd, MiB, RAM_BYTES, 1);
    close(f->fd);
    c->delta_fd = fixture_file(fixture_plain_folder(), DELTA_BYTES, &c->delta_path);
    for (uint64_t at = 0; at < DELTA_BYTES; at += FIXTURE_PAGE) {
        fixture_write_page(c->delta_fd, at, (DELTA_AT + at) / FIXTURE_PAGE, 4);
    }
    fixture_new_block(f, RAM_BYTES);
    fixture_open_base(f);
    c->delta = ram_base_open(c->delta_fd, c->delta_path, NULL, &err);
    g_assert_no_error(err);
    below.block = above.block = f->block;
    layers[0].base = f->base;
    layers[1].base = c->delta;
    g_assert_true(restore_ram(f->list, &request, &control, &err));
    g_assert_true(ram_base_is_leased(f->base));
    g_assert_true(ram_list_is_draining(f->list));
}

static void chain_check(const Chain *c)
{
    for (uint64_t i = 0; i < PAGES; i++) {
        const uint8_t *page = c->f.block->host + i * FIXTURE_PAGE;

        g_assert_true(fixture_is_stamped(page, i, is_written(i) ? 2 : (DELTA_PAGE(i) ? 4 : 1)));
    }
}

static void chain_clear(Chain *c)
{
    fixture_clear(&c->f);
    ram_base_unref(c->delta);
    close(c->delta_fd);
    unlink(c->delta_path);
    g_free(c->delta_path);
}

static void test_chain_drains_the_increment_only(void)
{
    Chain c = { 0 };
    DetachStats stats;
    unsigned done = 0;

    chain_init(&c);
    write_some(&c.f);
    ram_list_finish_drain(c.f.list, note_done, &done);
    fixture_run_until(is_one, &done, 20);
    g_assert_true(ram_list_detach_stats(c.f.list, &stats));
    g_assert_cmpuint(stats.chunks, ==, DELTA_BYTES / CHUNK);
    g_assert_cmpint(ram_list_guard_state(c.f.list), ==, BASE_GUARD_LEASE);
    g_assert_cmpint(c.f.block->kind, ==, RAM_FILE_PRIVATE);
    g_assert_cmpint(ftruncate(c.delta_fd, 0), ==, 0);
    chain_check(&c);
    chain_clear(&c);
}

/* Somebody wants to write the base while the increment is drained: both come to their end. */
static void test_lease_broken_during_a_drain(void)
{
    Chain c = { 0 };
    g_autoptr(AddressMap) map = address_map_new("memory", 36);
    struct iovec iov[2];
    unsigned n, done = 0;
    pid_t child;

    chain_init(&c);
    write_some(&c.f);
    address_map_add_ram(map, 0, c.f.block, 0, RAM_BYTES, false, NULL);
    g_assert_true(guest_map_iov(map, DELTA_AT, FIXTURE_PAGE, false, iov, 2, &n));
    ram_list_finish_drain(c.f.list, note_done, &done);
    run_for(50);
    child = start_writer(c.f.path, O_WRONLY | O_TRUNC);
    run_for(200);
    g_assert_cmpuint(c.f.notes.detached, ==, 0);
    guest_unmap_iov(map, iov, n);
    fixture_run_until(is_one, &done, 20);
    g_assert_cmpint(ftruncate(c.delta_fd, 0), ==, 0);
    while (c.f.notes.detached < 2) {
        run_for(10);
    }
    end_writer(child);
    g_assert_cmpstr(c.f.notes.reason, ==, "lease-broken");
    g_assert_cmpuint(c.f.notes.paused, ==, 0);
    g_assert_cmpuint(c.f.notes.lost + c.f.notes.no_memory, ==, 0);
    chain_check(&c);
    chain_clear(&c);
}

#define LEASE_BREAK_TIME "/proc/sys/fs/lease-break-time"

/*
 * A save holds the drained increment's file, so nothing moves away from the base, until the kernel lets its writer
 * go. What the guest still maps of it then is another's: that is told, never taken for the guest's.
 */
static void test_lease_runs_out_behind_a_save(void)
{
    g_autofree char *before = NULL;
    Chain c = { 0 };
    unsigned done = 0;
    pid_t child;

    g_file_get_contents(LEASE_BREAK_TIME, &before, NULL, NULL);
    if (!before || !g_file_set_contents_full(LEASE_BREAK_TIME, "2", -1, G_FILE_SET_CONTENTS_NONE,
                                             0644, NULL)) {
        g_test_skip("fs.lease-break-time cannot be set here");
        return;
    }
    chain_init(&c);
    write_some(&c.f);
    ram_list_hold_files(c.f.list);
    ram_list_finish_drain(c.f.list, note_done, &done);
    fixture_run_until(is_one, &done, 20);
    child = start_writer(c.f.path, O_WRONLY);
    run_for(2500);
    end_writer(child);
    ram_list_release_files(c.f.list);
    while (c.f.notes.lost == 0 && c.f.notes.detached < 2) {
        run_for(10);
    }
    g_file_set_contents_full(LEASE_BREAK_TIME, before, -1, G_FILE_SET_CONTENTS_NONE, 0644, NULL);
    g_assert_cmpuint(c.f.notes.lost, ==, 1);
    chain_clear(&c);
}

/* --- Memory that the guest gives back --- */

static void test_released_during(void)
{
    Fixture f = { 0 };
    g_autoptr(AddressMap) map = address_map_new("memory", 36);
    DiscardRequest request = { .why = DISCARD_REPORTED, .policy = DISCARD_POLICY_REMAP };
    DiscardResult result;
    struct iovec iov[2];
    unsigned n, done = 0;

    drain_init(&f);
    write_some(&f);
    address_map_add_ram(map, 0, f.block, 0, RAM_BYTES, false, NULL);
    /* Chunks 2 and 3 are released after they have moved, 5, which cannot move, before it does. */
    g_assert_true(guest_map_iov(map, 5 * CHUNK, FIXTURE_PAGE, true, iov, 2, &n));
    ram_list_finish_drain(f.list, note_done, &done);
    run_for(200);
    g_assert_true(discard_range(f.block, 2 * CHUNK, 2 * CHUNK, &request, &result, NULL));
    g_assert_cmpuint(result.released, ==, 2 * CHUNK);
    guest_unmap_iov(map, iov, n);
    g_assert_true(discard_range(f.block, 5 * CHUNK, CHUNK, &request, &result, NULL));
    g_assert_cmpuint(result.released, ==, CHUNK);
    fixture_run_until(is_one, &done, 20);
    g_assert_cmpint(ftruncate(f.fd, 0), ==, 0);
    for (uint64_t page = 0; page < PAGES; page++) {
        const uint8_t *at = f.block->host + page * FIXTURE_PAGE;
        uint64_t chunk = page * FIXTURE_PAGE / CHUNK;

        if (chunk == 2 || chunk == 3 || chunk == 5) {
            g_assert_true(fixture_is_zero(at));
        } else {
            g_assert_true(fixture_is_stamped(at, page, is_written(page) ? 2 : 1));
        }
    }
    drain_clear(&f);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/memory/drain/by-itself", test_drain_by_itself);
    g_test_add_func("/memory/drain/those-who-wait", test_those_who_wait);
    g_test_add_func("/memory/drain/nothing-to-wait-for", test_nothing_to_wait_for);
    g_test_add_func("/memory/drain/end-of-the-program", test_end_of_the_program);
    g_test_add_func("/memory/drain/t48_io_during_a_drain", t48_io_during_a_drain);
    g_test_add_func("/memory/drain/during-a-save", test_drain_during_a_save);
    g_test_add_func("/memory/drain/unlinked-before", test_unlinked_before);
    g_test_add_func("/memory/drain/never-linked", test_never_linked);
    g_test_add_func("/memory/drain/unlinked-during", test_unlinked_during);
    g_test_add_func("/memory/drain/written-during", test_written_during);
    g_test_add_func("/memory/drain/written-during-a-detach",
                    test_written_during_a_detach_without_lease);
    g_test_add_func("/memory/drain/refused-restore", test_refused_restore);
    g_test_add_func("/memory/drain/truncated-during", test_truncated_during);
    g_test_add_func("/memory/drain/chain", test_chain_drains_the_increment_only);
    g_test_add_func("/memory/drain/lease-broken-during", test_lease_broken_during_a_drain);
    g_test_add_func("/memory/drain/lease-runs-out-behind-a-save",
                    test_lease_runs_out_behind_a_save);
    g_test_add_func("/memory/drain/released-during", test_released_during);
    return g_test_run();
}
