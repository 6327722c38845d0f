/*
 * Making guest RAM independent of its file while the guest runs.
 *
 * The clone is a block and a thread that writes to it as a vCPU would; the writer of the file is a child
 * process.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/guest-access.h"
#include "memory/host-memory.h"
#include "memory/pagemap.h"
#include "tests/unit/guard-fixture.h"

/* --- Detaching --- */

/* A writer or truncater is held up until memory is independent of the file. */
static void detach_by_writer(const char *folder, int flags, bool want_reflink)
{
    Fixture f = { 0 };
    pid_t child;

    fixture_init(&f, folder, RAM_BYTES);
    g_assert_true(ram_base_is_leased(f.base));
    g_assert_cmpint(ram_list_guard_state(f.list), ==, BASE_GUARD_LEASE);
    write_some(&f);
    child = start_writer(f.path, flags);
    fixture_run_until(is_detached, &f, 20);
    end_writer(child);
    check_memory(&f);
    g_assert_cmpstr(f.notes.reason, ==, "lease-broken");
    g_assert_cmpuint(f.notes.lost, ==, 0);
    g_assert_cmpuint(f.notes.paused, ==, 0);
    g_assert_cmpint(f.notes.reflink, ==, want_reflink);
    g_assert_cmpint(f.block->report.increment_possible, ==, want_reflink);
    g_assert_cmpint(f.block->kind, ==, want_reflink ? RAM_FILE_PRIVATE : RAM_ANONYMOUS);
    g_assert_cmpint(ram_list_guard_state(f.list), ==,
                    want_reflink ? BASE_GUARD_CLONE : BASE_GUARD_DETACHED);
    g_test_message("longest pause %d us, %u pauses", (int)f.notes.longest_pause, f.notes.pauses);
    /* T53: the chunks are few mappings again. */
    g_test_message("%u mappings", fixture_count_vmas(f.block));
    g_assert_cmpuint(fixture_count_vmas(f.block), <=, 3);
    fixture_clear(&f);
}

static void test_detach_writer(void)
{
    detach_by_writer(fixture_plain_folder(), O_WRONLY, false);
}

static void t40b_detach_truncation(void)
{
    detach_by_writer(fixture_plain_folder(), O_WRONLY | O_TRUNC, false);
}

/* The policy of the block's mappings is kept. */
static void t46_policy_after_detach(void)
{
    Fixture f = { 0 };
    pid_t child;
    g_autofree char *flags = NULL;

    fixture_init(&f, fixture_plain_folder(), RAM_BYTES);
    child = start_writer(f.path, O_WRONLY);
    fixture_run_until(is_detached, &f, 20);
    end_writer(child);
    flags = fixture_vm_flags(f.block->host + CHUNK);
    g_assert_nonnull(strstr(flags, " dd "));
    g_assert_nonnull(strstr(flags, " dc "));
    fixture_clear(&f);
}

static void test_detach_reflink(void)
{
    FixtureXfs r;

    if (!fixture_mount_xfs(&r)) {
        g_test_skip("no XFS file system can be mounted here");
        return;
    }
    detach_by_writer(r.folder, O_WRONLY, true);
    detach_by_writer(r.folder, O_WRONLY | O_TRUNC, true);
    fixture_unmount_xfs(&r);
}

static bool note_data(const PageRange *range, void *opaque)
{
    bool *pages = opaque;

    g_assert_cmpint(range->kind, ==, PAGE_DATA);
    for (uint64_t at = 0; at < range->length; at += FIXTURE_PAGE) {
        pages[(range->offset + at) / FIXTURE_PAGE] = true;
    }
    return true;
}

/* After a detach to a clone the written pages still are the written ones. */
static void test_reflink_keeps_increments(void)
{
    Fixture f = { 0 };
    FixtureXfs r;
    g_autoptr(PagemapScanner) scanner = pagemap_scanner_new(PAGEMAP_AUTO, NULL);
    g_autofree bool *pages = g_new0(bool, PAGES);
    pid_t child;

    if (!fixture_mount_xfs(&r)) {
        g_test_skip("no XFS file system can be mounted here");
        return;
    }
    fixture_init(&f, r.folder, RAM_BYTES);
    write_some(&f);
    child = start_writer(f.path, O_WRONLY);
    fixture_run_until(is_detached, &f, 20);
    end_writer(child);
    g_assert_true(pagemap_scan_block(scanner, f.block, note_data, pages, NULL, NULL));
    for (uint64_t i = 0; i < PAGES; i++) {
        g_assert_cmpint(pages[i], ==, is_written(i));
    }
    fixture_clear(&f);
    fixture_unmount_xfs(&r);
}

/* `auto` without a lease maps a clone of its own. */
static void test_auto_maps_a_clone(void)
{
    Fixture f = { .offset = MiB };
    FixtureXfs r;
    g_autoptr(GError) err = NULL;
    uint8_t page[FIXTURE_PAGE] = { 0 };
    int writer;

    if (!fixture_mount_xfs(&r)) {
        g_test_skip("no XFS file system can be mounted here");
        return;
    }
    writer = fixture_file(r.folder, f.offset + RAM_BYTES, &f.path);
    fixture_fill_file(writer, f.offset, RAM_BYTES, 1);
    fixture_new_block(&f, RAM_BYTES);
    fixture_open_base(&f);
    g_assert_true(fixture_restore(&f, RESTORE_AUTO, &err));
    g_assert_no_error(err);
    g_assert_cmpint(f.block->report.used, ==, RAM_RESTORE_USED_COPY_ON_WRITE);
    g_assert_cmpint(ram_list_guard_state(f.list), ==, BASE_GUARD_CLONE);
    for (uint64_t i = 0; i < PAGES; i++) {
        g_assert_cmpint(pwrite(writer, page, FIXTURE_PAGE, f.offset + i * FIXTURE_PAGE), >, 0);
    }
    g_assert_cmpint(ftruncate(writer, 0), ==, 0);
    close(writer);
    write_some(&f);
    check_memory(&f);
    fixture_clear(&f);
    fixture_unmount_xfs(&r);
}

/* --- While the guest runs --- */

/* Writes page after page; stands while the control says so. */
typedef struct Vcpu {
    Fixture *f;
    GMutex running; /* held while it writes; the pause takes it */
    gint stop;
    uint64_t written; /* pages, going round */
} Vcpu;

static gpointer vcpu_thread(gpointer opaque)
{
    Vcpu *v = opaque;

    while (!g_atomic_int_get(&v->stop)) {
        g_mutex_lock(&v->running);
        for (unsigned i = 0; i < 16; i++) {
            uint64_t page = (v->written * 37) % PAGES;

            fixture_stamp(v->f->block->host + page * FIXTURE_PAGE, page, 3 + v->written / PAGES);
            v->written++;
        }
        g_mutex_unlock(&v->running);
    }
    return NULL;
}

static Vcpu *the_vcpu;

static void vcpu_pause(void *opaque)
{
    fixture_pause(opaque);
    if (((FixtureNotes *)opaque)->paused == 1) {
        g_mutex_lock(&the_vcpu->running);
    }
}

static void vcpu_resume(void *opaque)
{
    fixture_resume(opaque);
    if (((FixtureNotes *)opaque)->paused == 0) {
        g_mutex_unlock(&the_vcpu->running);
    }
}

/* Every write of the running guest survives the move. */
static void test_detach_under_a_running_guest(void)
{
    Fixture f = { 0 };
    Vcpu v = { .f = &f };
    MemoryControl control = fixture_control(&f.notes);
    BaseGuard *guard;
    GThread *thread;
    pid_t child;

    control.pause = vcpu_pause;
    control.resume = vcpu_resume;
    the_vcpu = &v;
    f.offset = MiB;
    f.fd = fixture_file(fixture_plain_folder(), f.offset + RAM_BYTES, &f.path);
    fixture_fill_file(f.fd, f.offset, RAM_BYTES, 1);
    close(f.fd);
    fixture_new_block(&f, RAM_BYTES);
    guard = base_guard_new(f.list, &control, NULL);
    ram_list_set_guard(f.list, guard);
    fixture_open_base(&f);
    g_assert_true(fixture_restore(&f, RESTORE_COPY_ON_WRITE, NULL));
    g_mutex_init(&v.running);
    thread = g_thread_new("vcpu", vcpu_thread, &v);
    child = start_writer(f.path, O_WRONLY);
    fixture_run_until(is_detached, &f, 30);
    end_writer(child);
    g_atomic_int_set(&v.stop, 1);
    g_thread_join(thread);
    g_test_message("longest pause %d us; guest wrote %d pages", (int)f.notes.longest_pause,
                   (int)v.written);
    for (uint64_t n = v.written > PAGES ? v.written - PAGES : 0; n < v.written; n++) {
        uint64_t page = (n * 37) % PAGES;

        g_assert_true(fixture_is_stamped(f.block->host + page * FIXTURE_PAGE, page, 3 + n / PAGES));
    }
    for (uint64_t n = v.written; n < PAGES; n++) {
        uint64_t page = (n * 37) % PAGES;

        g_assert_true(fixture_is_stamped(f.block->host + page * FIXTURE_PAGE, page, 1));
    }
    fixture_clear(&f);
    g_mutex_clear(&v.running);
}

/* T48: a chunk with I/O under way is put off, and what the I/O writes is there afterwards. */
static void t48_chunk_with_io_is_put_off(void)
{
    Fixture f = { 0 };
    g_autoptr(AddressMap) map = address_map_new("memory", 36);
    struct iovec iov[2];
    unsigned n;
    pid_t child;
    gint64 end;

    fixture_init(&f, fixture_plain_folder(), RAM_BYTES);
    address_map_add_ram(map, 0, f.block, 0, RAM_BYTES, false, NULL);
    g_assert_true(guest_map_iov(map, 5 * CHUNK, FIXTURE_PAGE, true, iov, 2, &n));
    child = start_writer(f.path, O_WRONLY);
    end = g_get_monotonic_time() + G_USEC_PER_SEC / 2;
    while (g_get_monotonic_time() < end) {
        g_main_context_iteration(NULL, FALSE);
    }
    g_assert_cmpuint(f.notes.detached, ==, 0);
    g_assert_cmpuint(chunk_map_count(f.block->released), ==, RAM_BYTES / CHUNK - 1);
    g_assert_false(chunk_map_test(f.block->released, 5));
    memset(iov[0].iov_base, 0x99, FIXTURE_PAGE);
    guest_unmap_iov(map, iov, n);
    fixture_run_until(is_detached, &f, 20);
    end_writer(child);
    g_assert_cmphex(f.block->host[5 * CHUNK + 17], ==, 0x99);
    g_assert_true(fixture_is_stamped(f.block->host + 5 * CHUNK + FIXTURE_PAGE,
                                     5 * CHUNK / FIXTURE_PAGE + 1, 1));
    fixture_clear(&f);
}

static bool stands(void *opaque)
{
    return ((Fixture *)opaque)->notes.paused > 0;
}

#define LEASE_BREAK_TIME "/proc/sys/fs/lease-break-time"

static bool set_lease_break_time(const char *seconds)
{
    int fd = open(LEASE_BREAK_TIME, O_WRONLY | O_CLOEXEC);
    bool ok = fd >= 0 && write(fd, seconds, strlen(seconds)) > 0;

    if (fd >= 0) {
        close(fd);
    }
    return ok;
}

/*
 * I/O that does not end keeps a chunk from being moved. From three quarters of the kernel's patience
 * on the guest stands; after it the writer goes on, and what may have changed counts as lost.
 */
static void test_time_runs_out(void)
{
    Fixture f = { 0 };
    g_autoptr(AddressMap) map = address_map_new("memory", 36);
    g_autofree char *before = NULL;
    struct iovec iov[1];
    unsigned n;
    pid_t child;
    gint64 began, stood;

    g_file_get_contents(LEASE_BREAK_TIME, &before, NULL, NULL);
    if (!before || !set_lease_break_time("2")) {
        g_test_skip("fs.lease-break-time cannot be set here");
        return;
    }
    fixture_init(&f, fixture_plain_folder(), RAM_BYTES);
    address_map_add_ram(map, 0, f.block, 0, RAM_BYTES, false, NULL);
    g_assert_true(guest_map_iov(map, 5 * CHUNK, FIXTURE_PAGE, true, iov, 1, &n));
    began = g_get_monotonic_time();
    child = start_writer(f.path, O_WRONLY);
    do {
        fixture_run_until(stands, &f, 10);
        g_usleep(1000);
        g_main_context_iteration(NULL, FALSE);
    } while (!stands(&f));
    stood = g_get_monotonic_time();
    g_assert_cmpint(stood - began, >, G_USEC_PER_SEC);
    end_writer(child); /* the kernel let it go */
    set_lease_break_time(before);
    guest_unmap_iov(map, iov, n);
    fixture_run_until(is_lost, &f, 10);
    g_assert_cmpuint(f.notes.detached, ==, 0);
    g_assert_cmpuint(f.notes.no_memory, ==, 0);
    fixture_clear(&f);
}

/*
 * A save holds the files for longer than the kernel has patience. All chunks were moved in time: that save reads what
 * may have changed and fails, the guest neither stands nor loses anything.
 */
static void test_time_runs_out_during_a_save(void)
{
    Fixture f = { 0 };
    g_autofree char *before = NULL;
    pid_t child;
    gint64 end;

    g_file_get_contents(LEASE_BREAK_TIME, &before, NULL, NULL);
    if (!before || !set_lease_break_time("2")) {
        g_test_skip("fs.lease-break-time cannot be set here");
        return;
    }
    fixture_init(&f, fixture_plain_folder(), RAM_BYTES);
    write_some(&f);
    ram_list_hold_files(f.list);
    child = start_writer(f.path, O_WRONLY);
    end = g_get_monotonic_time() + 5 * G_USEC_PER_SEC / 2;
    while (g_get_monotonic_time() < end) {
        g_main_context_iteration(NULL, FALSE);
    }
    end_writer(child); /* the kernel let it go */
    set_lease_break_time(before);
    end = g_get_monotonic_time() + G_USEC_PER_SEC / 4;
    while (g_get_monotonic_time() < end) {
        g_main_context_iteration(NULL, FALSE);
    }
    g_assert_false(ram_list_check_read(f.list, NULL));
    g_assert_cmpuint(f.notes.lost, ==, 0);
    g_assert_cmpuint(f.notes.paused, ==, 0);
    ram_list_release_files(f.list);
    fixture_run_until(is_lost_or_detached, &f, 20);
    g_assert_cmpuint(f.notes.lost, ==, 0);
    check_memory(&f);
    fixture_clear(&f);
}

static void test_detach_on_request(void)
{
    Fixture f = { 0 };
    g_autoptr(GError) err = NULL;
    unsigned done = 0, again = 0;

    fixture_init(&f, fixture_plain_folder(), RAM_BYTES);
    write_some(&f);
    g_assert_true(
        base_guard_detach_all(ram_list_guard(f.list), "requested", note_done, &done, &err));
    g_assert_cmpint(ram_list_guard_state(f.list), ==, BASE_GUARD_DRAINING);
    /* Who asks as well is told as well. */
    g_assert_true(
        base_guard_detach_all(ram_list_guard(f.list), "requested", note_done, &again, &err));
    fixture_run_until(is_one, &done, 20);
    fixture_run_until(is_one, &again, 1);
    g_assert_cmpstr(f.notes.reason, ==, "requested");
    g_assert_cmpint(truncate(f.path, 0), ==, 0);
    check_memory(&f);
    /* Again: there is nothing to do. */
    g_clear_error(&err);
    g_assert_true(
        base_guard_detach_all(ram_list_guard(f.list), "requested", note_done, &done, &err));
    g_assert_cmpuint(done, ==, 2);
    fixture_clear(&f);
}

static void note_error(void *opaque, const GError *error)
{
    g_assert_nonnull(error);
    *(unsigned *)opaque += 1;
}

static void test_detach_is_given_up_at_the_end(void)
{
    Fixture f = { 0 };
    unsigned failed = 0;

    fixture_init(&f, fixture_plain_folder(), RAM_BYTES);
    g_assert_true(
        base_guard_detach_all(ram_list_guard(f.list), "requested", note_error, &failed, NULL));
    g_assert_true(
        base_guard_detach_all(ram_list_guard(f.list), "requested", note_error, &failed, NULL));
    fixture_clear(&f);
    g_assert_cmpuint(failed, ==, 2);
}

/* The file is truncated while it is read for a detach: lost, and said so once. */
static void test_truncation_during_detach(void)
{
    Fixture f = { 0 };

    fixture_init(&f, fixture_plain_folder(), RAM_BYTES);
    g_assert_true(
        base_guard_detach_all(ram_list_guard(f.list), "requested", note_nothing, NULL, NULL));
    g_assert_cmpint(close(open(f.path, O_RDONLY | O_TRUNC)), ==, 0);
    fixture_run_until(is_lost_or_detached, &f, 20);
    g_assert_cmpuint(f.notes.lost + f.notes.detached, ==, 1);
    g_assert_cmpuint(f.notes.no_memory, ==, 0);
    g_assert_cmpuint(f.notes.paused, ==, 0);
    fixture_clear(&f);
}

/* Released chunks need no file, and stay zero. */
static void test_detach_leaves_released_chunks(void)
{
    Fixture f = { 0 };
    bool remapped;
    pid_t child;

    fixture_init(&f, fixture_plain_folder(), RAM_BYTES);
    g_assert_true(discard_remap_chunks(f.block, 3, 2, &remapped, NULL));
    child = start_writer(f.path, O_WRONLY);
    fixture_run_until(is_detached, &f, 20);
    end_writer(child);
    for (uint64_t at = 0; at < RAM_BYTES; at += FIXTURE_PAGE) {
        bool released = at >= 3 * CHUNK && at < 5 * CHUNK;
        const uint8_t *page = f.block->host + at;

        g_assert_true(released ? fixture_is_zero(page)
                               : fixture_is_stamped(page, at / FIXTURE_PAGE, 1));
    }
    g_assert_cmpint(f.block->kind, ==, RAM_ANONYMOUS);
    fixture_clear(&f);
}

/* --- Too little memory --- */

#define CGROUP "/sys/fs/cgroup/memory/cowbird-test"

static bool enter_small_cgroup(uint64_t limit)
{
    g_autofree char *text = g_strdup_printf("%" G_GUINT64_FORMAT, limit);
    g_autofree char *pid = g_strdup_printf("%d", getpid());
    struct {
        const char *path, *text;
    } writes[] = {
        { CGROUP "/memory.limit_in_bytes", text },
        { CGROUP "/cgroup.procs", pid },
    };

    mkdir(CGROUP, 0755);
    for (unsigned i = 0; i < G_N_ELEMENTS(writes); i++) {
        int fd = open(writes[i].path, O_WRONLY | O_CLOEXEC);
        bool ok = fd >= 0 && write(fd, writes[i].text, strlen(writes[i].text)) > 0;

        close(fd);
        if (!ok) {
            return false;
        }
    }
    return true;
}

/* Without the memory to detach to, the VM is stopped while it is right, and nobody is killed. */
static void t45_no_memory_to_detach(void)
{
    if (g_test_subprocess()) {
        Fixture f = { 0 };
        const char *limit;
        uint64_t bytes;
        pid_t child;

        if (!enter_small_cgroup(80 * MiB)) {
            exit(77);
        }
        g_assert_true(host_memory_available(&bytes, &limit, NULL));
        g_assert_cmpuint(bytes, <=, 80 * MiB);
        g_assert_cmpstr(limit, ==, "the limit of the cgroup");
        fixture_init(&f, fixture_plain_folder(), RAM_BYTES);
        write_some(&f);
        child = start_writer(f.path, O_WRONLY);
        fixture_run_until(has_no_memory, &f, 20);
        g_assert_cmpuint(f.notes.detached, ==, 0);
        g_assert_nonnull(strstr(f.notes.reason, "cgroup"));
        check_memory(&f);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        fixture_clear(&f);
        exit(0);
    }
    g_test_trap_subprocess(NULL, 0, 0);
    rmdir(CGROUP);
    if (!g_test_trap_has_passed()) {
        g_autofree char *probe = g_strdup(CGROUP);

        if (mkdir(probe, 0755) < 0) {
            g_test_skip("no memory cgroup (version 1) can be made here");
            return;
        }
        rmdir(probe);
    }
    g_test_trap_assert_passed();
}

/* --- Memory given back meanwhile --- */

/*
 * T48: chunks are released while others are being filled and moved. They are zero in the end, also those that were
 * filled already; what is written to them later stays; nothing else changes.
 */
static void check_discard_during_detach(const char *folder, bool want_reflink)
{
    Fixture f = { 0 };
    DiscardRequest request = { .why = DISCARD_REPORTED };
    bool released[RAM_BYTES / CHUNK] = { false };
    DiscardResult result;
    unsigned done = 0, chunk = RAM_BYTES / CHUNK;

    fixture_init(&f, folder, RAM_BYTES);
    write_some(&f);
    g_assert_true(
        base_guard_detach_all(ram_list_guard(f.list), "requested", note_done, &done, NULL));
    while (!done) {
        g_main_context_iteration(NULL, FALSE);
        g_usleep(500);
        /* From the end: the last ones are filled and moved last. */
        if (chunk >= 4 && !done) {
            chunk -= 3;
            g_assert_true(discard_range(f.block, chunk * CHUNK, CHUNK, &request, &result, NULL));
            g_assert_cmpuint(result.released, ==, CHUNK);
            released[chunk] = true;
            fixture_stamp(f.block->host + chunk * CHUNK + FIXTURE_PAGE, chunk, 3);
        }
    }
    g_assert_cmpint(f.notes.reflink, ==, want_reflink);
    for (uint64_t i = 0; i < PAGES; i++) {
        const uint8_t *page = f.block->host + i * FIXTURE_PAGE;
        uint64_t c = i * FIXTURE_PAGE / CHUNK;

        if (!released[c]) {
            g_assert_true(fixture_is_stamped(page, i, is_written(i) ? 2 : 1));
        } else if (i * FIXTURE_PAGE == c * CHUNK + FIXTURE_PAGE) {
            g_assert_true(fixture_is_stamped(page, c, 3));
        } else {
            g_assert_true(fixture_is_zero(page));
        }
    }
    fixture_clear(&f);
}

static void t48_discard_during_detach(void)
{
    check_discard_during_detach(fixture_plain_folder(), false);
}

static void t48_discard_during_detach_reflink(void)
{
    FixtureXfs r;

    if (!fixture_mount_xfs(&r)) {
        g_test_skip("no XFS can be mounted here");
        return;
    }
    check_discard_during_detach(r.folder, true);
    fixture_unmount_xfs(&r);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/memory/detach/detach-writer", test_detach_writer);
    g_test_add_func("/memory/detach/t40b_detach_truncation", t40b_detach_truncation);
    g_test_add_func("/memory/detach/t46_policy_after_detach", t46_policy_after_detach);
    g_test_add_func("/memory/detach/detach-reflink", test_detach_reflink);
    g_test_add_func("/memory/detach/reflink-keeps-increments", test_reflink_keeps_increments);
    g_test_add_func("/memory/detach/auto-maps-a-clone", test_auto_maps_a_clone);
    g_test_add_func("/memory/detach/detach-under-a-running-guest",
                    test_detach_under_a_running_guest);
    g_test_add_func("/memory/detach/t48_chunk_with_io_is_put_off", t48_chunk_with_io_is_put_off);
    g_test_add_func("/memory/detach/time-runs-out", test_time_runs_out);
    g_test_add_func("/memory/detach/time-runs-out-during-a-save", test_time_runs_out_during_a_save);
    g_test_add_func("/memory/detach/detach-on-request", test_detach_on_request);
    g_test_add_func("/memory/detach/detach-is-given-up-at-the-end",
                    test_detach_is_given_up_at_the_end);
    g_test_add_func("/memory/detach/truncation-during-detach", test_truncation_during_detach);
    g_test_add_func("/memory/detach/detach-leaves-released-chunks",
                    test_detach_leaves_released_chunks);
    g_test_add_func("/memory/detach/t45_no_memory_to_detach", t45_no_memory_to_detach);
    g_test_add_func("/memory/detach/t48_discard_during_detach", t48_discard_during_detach);
    g_test_add_func("/memory/detach/t48_discard_during_detach_reflink",
                    t48_discard_during_detach_reflink);
    return g_test_run();
}
