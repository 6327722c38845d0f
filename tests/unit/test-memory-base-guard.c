/*
 * The file under a running clone: who it is, how it is held, and what a lease keeps away.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "tests/unit/guard-fixture.h"

static void t40_identity(void)
{
    Fixture f = { 0 };
    g_autoptr(GError) err = NULL;
    struct stat st;
    struct timespec times[2] = { { .tv_nsec = UTIME_OMIT } };

    fixture_init(&f, fixture_plain_folder(), RAM_BYTES);
    g_assert_true(ram_base_check_identity(f.base, &err));
    stat(f.path, &st);
    g_assert_true(ram_list_uses_file(f.list, st.st_dev, st.st_ino));
    g_assert_false(ram_list_uses_file(f.list, st.st_dev, st.st_ino + 1));
    times[1] = st.st_mtim;
    times[1].tv_nsec ^= 1;
    g_assert_cmpint(utimensat(AT_FDCWD, f.path, times, 0), ==, 0);
    g_assert_false(ram_base_check_identity(f.base, &err));
    g_assert_nonnull(strstr(err->message, f.path));
    fixture_clear(&f);
}

/* T40: unlink, rename and chmod are harmless. */
static void t40_unlink_is_harmless(void)
{
    Fixture f = { 0 };
    g_autoptr(GError) err = NULL;

    fixture_init(&f, fixture_plain_folder(), RAM_BYTES);
    chmod(f.path, 0400);
    unlink(f.path);
    g_assert_true(ram_base_check_identity(f.base, &err));
    g_assert_no_error(err);
    for (unsigned i = 0; i < 20; i++) {
        g_main_context_iteration(NULL, FALSE);
    }
    g_assert_cmpuint(f.notes.detached, ==, 0);
    fixture_clear(&f);
}

/* While a save reads from the file no detach ends, and so the writer waits. */
static void test_held_files(void)
{
    Fixture f = { 0 };
    g_autoptr(GError) err = NULL;
    pid_t child;
    gint64 end;

    fixture_init(&f, fixture_plain_folder(), RAM_BYTES);
    ram_list_hold_files(f.list);
    child = start_writer(f.path, O_WRONLY);
    fixture_run_until(is_lease_broken, f.list, 20);
    end = g_get_monotonic_time() + G_USEC_PER_SEC / 3;
    while (g_get_monotonic_time() < end) {
        g_main_context_iteration(NULL, FALSE);
    }
    g_assert_cmpuint(f.notes.detached, ==, 0);
    g_assert_true(ram_list_check_read(f.list, &err));
    ram_list_release_files(f.list);
    fixture_run_until(is_detached, &f, 20);
    end_writer(child);
    fixture_clear(&f);
}

/* Somebody changes it all the same: what was read is not published. */
static void test_held_file_that_changes(void)
{
    Fixture f = { 0 };
    g_autoptr(GError) err = NULL;

    fixture_init(&f, fixture_plain_folder(), RAM_BYTES);
    ram_list_hold_files(f.list);
    g_assert_true(ram_list_check_read(f.list, &err));
    g_assert_cmpint(close(open(f.path, O_RDONLY | O_TRUNC)), ==, 0);
    g_assert_false(ram_list_check_read(f.list, &err));
    g_assert_nonnull(strstr(err->message, f.path));
    ram_list_release_files(f.list);
    fixture_clear(&f);
}

/* T49: an O_NONBLOCK opener is turned away, the break goes on, and the lease is gone after it. */
static void t49_nonblocking_opener(void)
{
    Fixture f = { 0 };

    fixture_init(&f, fixture_plain_folder(), RAM_BYTES);
    write_some(&f);
    g_assert_cmpint(open(f.path, O_WRONLY | O_NONBLOCK), ==, -1);
    g_assert_cmpint(errno, ==, EAGAIN);
    fixture_run_until(is_detached, &f, 20);
    check_memory(&f);
    fixture_clear(&f);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/memory/base-guard/t40_identity", t40_identity);
    g_test_add_func("/memory/base-guard/t40_unlink_is_harmless", t40_unlink_is_harmless);
    g_test_add_func("/memory/base-guard/held-files", test_held_files);
    g_test_add_func("/memory/base-guard/held-file-that-changes", test_held_file_that_changes);
    g_test_add_func("/memory/base-guard/t49_nonblocking_opener", t49_nonblocking_opener);
    return g_test_run();
}
