/*
 * How a snapshot file comes to its name, and what a failure leaves behind.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "tests/unit/snapshot-fixture.h"

#include <sys/mount.h>
#include <sys/syscall.h>

#include "util/io.h"

G_DEFINE_AUTOPTR_CLEANUP_FUNC(RamList, ram_list_free)

static unsigned files_in(const char *folder)
{
    g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
    unsigned n = 0;

    while (g_dir_read_name(dir)) {
        n++;
    }
    return n;
}

static void test_nothing_before_commit(void)
{
    g_autofree char *folder = fixture_folder(), *path = g_build_filename(folder, "f", NULL);
    g_autoptr(PublishTarget) target = publish_new_path(path, 0, false, NULL);

    g_assert_true(pwrite_full(target->fd, "new", 3, 0, NULL));
    g_assert_cmpuint(files_in(folder), ==, 0);
    g_clear_pointer(&target, publish_free);
    g_assert_cmpuint(files_in(folder), ==, 0);
    fixture_remove_folder(folder);
}

static void test_replace(void)
{
    g_autofree char *folder = fixture_folder(), *path = g_build_filename(folder, "f", NULL);
    g_autofree char *text = NULL;
    g_autoptr(PublishTarget) target = NULL;
    g_autoptr(GError) err = NULL;
    struct stat st;

    g_assert_true(g_file_set_contents(path, "old", -1, NULL));
    g_assert_cmpint(chmod(path, 0640), ==, 0);
    target = publish_new_path(path, 0, false, NULL);
    g_assert_true(pwrite_full(target->fd, "new", 3, 0, NULL));
    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    g_assert_cmpstr(text, ==, "old");
    publish_commit(target, &err);
    g_assert_no_error(err);
    g_free(text);
    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    g_assert_cmpstr(text, ==, "new");
    g_assert_cmpint(stat(path, &st), ==, 0);
    g_assert_cmpuint(st.st_mode & 0777, ==, 0640);
    g_assert_cmpuint(files_in(folder), ==, 1);
    fixture_remove_folder(folder);
}

static void test_symbolic_link_stays(void)
{
    g_autofree char *folder = fixture_folder(), *path = g_build_filename(folder, "f", NULL);
    g_autofree char *link = g_build_filename(folder, "link", NULL);
    g_autoptr(PublishTarget) target = NULL;
    struct stat st;

    g_assert_true(g_file_set_contents(path, "old", -1, NULL));
    g_assert_cmpint(symlink("f", link), ==, 0);
    target = publish_new_path(link, 0, false, NULL);
    g_assert_true(publish_commit(target, NULL));
    g_assert_cmpint(lstat(link, &st), ==, 0);
    g_assert_true(S_ISLNK(st.st_mode));
    g_assert_cmpint(stat(path, &st), ==, 0);
    g_assert_cmpint(st.st_size, ==, 0);
    fixture_remove_folder(folder);
}

static void test_bad_places(void)
{
    g_autoptr(GError) err = NULL;

    g_assert_null(publish_new_path("/nonexistent/folder/f", 0, false, &err));
    g_assert_nonnull(strstr(err->message, "/nonexistent/folder"));
    g_clear_error(&err);
    g_assert_null(publish_new_path("/tmp", 0, false, &err));
    g_assert_nonnull(strstr(err->message, "not a regular file"));
}

static void assert_fd_refused(int flags, const char *text)
{
    g_autofree char *folder = fixture_folder(), *path = g_build_filename(folder, "f", NULL);
    g_autofree char *contents = NULL;
    g_autoptr(GError) err = NULL;

    g_assert_true(g_file_set_contents(path, "precious", -1, NULL));
    g_assert_null(publish_new_fd(open(path, flags | O_CLOEXEC), -1, 0, &err));
    g_assert_nonnull(strstr(err->message, text));
    g_assert_true(g_file_get_contents(path, &contents, NULL, NULL));
    g_assert_cmpstr(contents, ==, "precious");
    fixture_remove_folder(folder);
}

static void test_append_refused(void)
{
    assert_fd_refused(O_RDWR | O_APPEND, "O_APPEND");
    assert_fd_refused(O_RDONLY, "reading only");
}

static void test_pipe_refused(void)
{
    g_autoptr(GError) err = NULL;
    int fds[2];

    g_assert_cmpint(pipe(fds), ==, 0);
    g_assert_null(publish_new_fd(fds[1], -1, 0, &err));
    g_assert_nonnull(strstr(err->message, "regular file"));
    close(fds[0]);
}

/* An old snapshot in a file that is written in place is no snapshot from the first moment on. */
static void test_in_place_is_cut_off(void)
{
    g_autofree char *folder = fixture_folder(), *path = g_build_filename(folder, "f", NULL);
    g_autoptr(RamList) ram = fixture_ram(1 * MiB);
    g_autoptr(PublishTarget) target = NULL;
    FixtureSave save = { .ram = ram, .path = path };
    struct stat st;

    g_assert_true(fixture_save(&save, NULL));
    target = publish_new_fd(open(path, O_RDWR | O_CLOEXEC), -1, 100, NULL);
    g_assert_cmpint(stat(path, &st), ==, 0);
    g_assert_cmpint(st.st_size, ==, 100);
    g_assert_null(fixture_open(path, NULL));
    fixture_remove_folder(folder);
}

/* --- A full disk: a tmpfs of 2 MiB --- */

typedef struct SmallDisk {
    char *folder;
    bool mounted;
} SmallDisk;

static bool small_disk_new(SmallDisk *d)
{
    d->folder = fixture_folder();
    d->mounted = mount("tmpfs", d->folder, "tmpfs", 0, "size=2m") == 0;
    if (!d->mounted) {
        g_test_skip("cannot mount a tmpfs (not root)");
        g_rmdir(d->folder);
        g_free(d->folder);
    }
    return d->mounted;
}

static void small_disk_clear(SmallDisk *d)
{
    g_assert_cmpint(umount(d->folder), ==, 0);
    g_rmdir(d->folder);
    g_free(d->folder);
}

static void test_disk_full(void)
{
    g_autofree char *path = NULL;
    g_autoptr(RamList) ram = fixture_ram(8 * MiB);
    g_autoptr(GError) err = NULL;
    FixtureSave save = { .ram = ram };
    SmallDisk disk;

    if (!small_disk_new(&disk)) {
        return;
    }
    path = g_build_filename(disk.folder, "f", NULL);
    save.path = path;
    fixture_write(ram, 100, 1);
    fixture_save(&save, &err);
    g_assert_no_error(err);
    for (unsigned direct = 0; direct < 2; direct++) {
        g_autoptr(SnapshotFile) file = NULL;
        SnapshotInfo first = save.info;

        fixture_write(ram, 1, 2);
        save.direct = direct;
        g_assert_false(fixture_save(&save, &err));
        g_assert_nonnull(strstr(err->message, "No space left"));
        g_clear_error(&err);
        file = fixture_open(path, &err);
        g_assert_no_error(err);
        g_assert_cmpuint(files_in(disk.folder), ==, 1);
        save.info = first;
        g_assert_true(uuid_equal(&file->info.uuid, &first.uuid));
    }
    small_disk_clear(&disk);
}

/* The same for an increment. */
static void test_disk_full_increment(void)
{
    g_autofree char *base = NULL, *path = NULL;
    g_autoptr(RamList) ram = fixture_ram(8 * MiB);
    g_autoptr(SnapshotFile) parent = NULL;
    g_autoptr(GError) err = NULL;
    FixtureSave save = { .ram = ram };
    SmallDisk disk;

    if (!small_disk_new(&disk)) {
        return;
    }
    base = g_build_filename(disk.folder, "base", NULL);
    path = g_build_filename(disk.folder, "delta", NULL);
    save.path = base;
    g_assert_true(fixture_save(&save, NULL));
    parent = fixture_open(base, NULL);
    fixture_write(ram, 1, 2);
    save.path = path;
    save.parent = parent;
    g_assert_false(fixture_save(&save, &err));
    g_assert_nonnull(strstr(err->message, "No space left"));
    g_assert_cmpuint(files_in(disk.folder), ==, 1);
    g_clear_pointer(&parent, snapshot_file_free);
    small_disk_clear(&disk);
}

/* --- A disk that fails: errors of delayed writes come with fsync --- */

static int fsync_error;

/* Takes the place of the C library's for this program. */
int fsync(int fd)
{
    if (fsync_error) {
        errno = fsync_error;
        return -1;
    }
    return syscall(SYS_fsync, fd);
}

static void test_failed_fsync(void)
{
    static const int errors[] = { EIO, ENOSPC };
    g_autofree char *folder = fixture_folder(), *path = g_build_filename(folder, "f", NULL);
    g_autoptr(RamList) ram = fixture_ram(1 * MiB);
    FixtureSave save = { .ram = ram, .path = path };
    SnapshotInfo first;

    g_assert_true(fixture_save(&save, NULL));
    first = save.info;
    for (unsigned i = 0; i < G_N_ELEMENTS(errors); i++) {
        g_autoptr(SnapshotFile) file = NULL;
        g_autoptr(GError) err = NULL;
        bool ok;

        fsync_error = errors[i];
        ok = fixture_save(&save, &err);
        fsync_error = 0;
        g_assert_false(ok);
        g_assert_nonnull(strstr(err->message, g_strerror(errors[i])));
        g_assert_cmpuint(files_in(folder), ==, 1);
        file = fixture_open(path, NULL);
        g_assert_true(uuid_equal(&file->info.uuid, &first.uuid));
    }
    fixture_remove_folder(folder);
}

/* The closing part of a file written in place is not written when the rest is not safe. */
static void test_failed_fsync_in_place(void)
{
    g_autofree char *folder = fixture_folder(), *path = g_build_filename(folder, "f", NULL);
    g_autoptr(PublishTarget) target = NULL;

    g_assert_true(g_file_set_contents(path, "", -1, NULL));
    target = publish_new_fd(open(path, O_RDWR | O_CLOEXEC), -1, 0, NULL);
    fsync_error = EIO;
    g_assert_false(publish_barrier(target, NULL));
    g_assert_false(publish_commit(target, NULL));
    fsync_error = 0;
    fixture_remove_folder(folder);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/snapshot-publish/nothing-before-commit", test_nothing_before_commit);
    g_test_add_func("/snapshot-publish/replace", test_replace);
    g_test_add_func("/snapshot-publish/symbolic-link-stays", test_symbolic_link_stays);
    g_test_add_func("/snapshot-publish/bad-places", test_bad_places);
    g_test_add_func("/snapshot-publish/t51-append-refused", test_append_refused);
    g_test_add_func("/snapshot-publish/pipe-refused", test_pipe_refused);
    g_test_add_func("/snapshot-publish/in-place-is-cut-off", test_in_place_is_cut_off);
    g_test_add_func("/snapshot-publish/t42-disk-full", test_disk_full);
    g_test_add_func("/snapshot-publish/t42-disk-full-increment", test_disk_full_increment);
    g_test_add_func("/snapshot-publish/failed-fsync", test_failed_fsync);
    g_test_add_func("/snapshot-publish/failed-fsync-in-place", test_failed_fsync_in_place);
    return g_test_run();
}
