/*
 * Pages of guest RAM that are gone with their file: noticed wherever they are touched.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/guest-access.h"
#include "tests/unit/guard-fixture.h"

/* T49, T50: a truncation that no lease holds up: found by SIGBUS, the VM is told once, nobody dies. */
static void t49_lost_page_by_sigbus(void)
{
    Fixture f = { 0 };
    g_autoptr(AddressMap) map = address_map_new("memory", 36);
    uint8_t data[16];

    fixture_init(&f, fixture_plain_folder(), RAM_BYTES);
    address_map_add_ram(map, 0, f.block, 0, RAM_BYTES, false, NULL);
    g_assert_true(guest_read(map, 7 * CHUNK, data, 16));
    g_assert_cmpint(close(open(f.path, O_RDONLY | O_TRUNC)), ==, 0);
    g_assert_false(ram_list_is_lost(f.list));
    g_assert_false(guest_read(map, 7 * CHUNK + 100, data, 16));
    g_assert_true(ram_list_is_lost(f.list));
    g_assert_false(guest_write(map, 2 * CHUNK, data, 16));
    fixture_run_until(is_lost, &f, 5);
    g_main_context_iteration(NULL, FALSE);
    g_assert_cmpuint(f.notes.lost, ==, 1);
    g_assert_cmpuint(f.notes.lost_offset / FIXTURE_PAGE, ==, 7 * CHUNK / FIXTURE_PAGE);
    fixture_clear(&f);
}

/* T50: a vCPU that failed asks whether a file has become shorter. */
static void t50_short_file_is_found(void)
{
    Fixture f = { 0 };

    fixture_init(&f, fixture_plain_folder(), RAM_BYTES);
    g_assert_false(ram_list_check_files(f.list, "KVM_EXIT_SHUTDOWN"));
    g_assert_cmpint(close(open(f.path, O_RDONLY | O_TRUNC)), ==, 0);
    g_assert_true(ram_list_check_files(f.list, "KVM_EXIT_SHUTDOWN"));
    fixture_run_until(is_lost, &f, 5);
    g_assert_cmpuint(f.notes.lost, ==, 1);
    fixture_clear(&f);
}

/* What was truncated lies in released chunks only: nothing is lost. */
static void test_short_file_under_released_chunks(void)
{
    Fixture f = { 0 };
    bool remapped;
    int fd;

    fixture_init(&f, fixture_plain_folder(), RAM_BYTES);
    g_assert_true(discard_remap_chunks(f.block, 0, RAM_BYTES / CHUNK, &remapped, NULL));
    fd = open(f.path, O_RDONLY | O_TRUNC);
    close(fd);
    g_assert_false(ram_list_check_files(f.list, "KVM_EXIT_SHUTDOWN"));
    fixture_clear(&f);
}

/* A system call that is given lost memory fails with EFAULT; the device that made it asks. */
static void test_fault_in_a_system_call(void)
{
    Fixture f = { 0 };
    g_autoptr(AddressMap) map = address_map_new("memory", 36);
    struct iovec iov[1];
    unsigned n;
    int fds[2];

    fixture_init(&f, fixture_plain_folder(), RAM_BYTES);
    address_map_add_ram(map, 0, f.block, 0, RAM_BYTES, false, NULL);
    g_assert_cmpint(pipe(fds), ==, 0);
    g_assert_true(guest_map_iov(map, 0, FIXTURE_PAGE, false, iov, 1, &n));
    g_assert_false(guest_iov_fault(map, iov, n));
    g_assert_cmpint(close(open(f.path, O_RDONLY | O_TRUNC)), ==, 0);
    g_assert_cmpint(write(fds[1], iov[0].iov_base, FIXTURE_PAGE), ==, -1);
    g_assert_cmpint(errno, ==, EFAULT);
    g_assert_true(guest_iov_fault(map, iov, n));
    guest_unmap_iov(map, iov, n);
    fixture_run_until(is_lost, &f, 5);
    close(fds[0]);
    close(fds[1]);
    fixture_clear(&f);
}

/* SIGBUS outside guest RAM is what it is without us. */
static void test_foreign_sigbus(void)
{
    if (g_test_subprocess()) {
        Fixture f = { 0 };
        g_autofree char *path = NULL;
        int fd = fixture_file(NULL, FIXTURE_PAGE, &path);
        uint8_t *page = mmap(NULL, FIXTURE_PAGE, PROT_READ, MAP_SHARED, fd, 0);

        unlink(path);
        fixture_init(&f, fixture_plain_folder(), RAM_BYTES);
        unlink(f.path);
        prctl(PR_SET_DUMPABLE, 0);
        g_assert_cmpint(ftruncate(fd, 0), ==, 0);
        (void)*(volatile uint8_t *)page;
        exit(0);
    }
    g_test_trap_subprocess(NULL, 0, 0);
    g_assert_false(g_test_trap_has_passed());
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/memory/lost-page/t49_lost_page_by_sigbus", t49_lost_page_by_sigbus);
    g_test_add_func("/memory/lost-page/t50_short_file_is_found", t50_short_file_is_found);
    g_test_add_func("/memory/lost-page/short-file-under-released-chunks",
                    test_short_file_under_released_chunks);
    g_test_add_func("/memory/lost-page/fault-in-a-system-call", test_fault_in_a_system_call);
    g_test_add_func("/memory/lost-page/foreign-sigbus", test_foreign_sigbus);
    return g_test_run();
}
