/*
 * Tests of util's descriptors: the store of named descriptors and sets, whole reads and writes.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/crc32c.h"
#include "util/error.h"
#include "util/fds.h"
#include "util/io.h"

static int open_null(int flags)
{
    int fd = open("/dev/null", flags | O_CLOEXEC);

    g_assert_cmpint(fd, >=, 0);
    return fd;
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static void assert_error(GError **err, const char *part)
{
    g_assert_nonnull(*err);
    if (!strstr((*err)->message, part)) {
        g_error("message '%s' lacks '%s'", (*err)->message, part);
    }
    g_clear_error(err);
}

static void test_named(void)
{
    g_autoptr(FdStore) store = fd_store_new();
    g_autoptr(GError) err = NULL;
    int first = open_null(O_RDONLY), second = open_null(O_RDONLY), bad = open_null(O_RDONLY);

    g_assert_true(fd_store_add_named(store, "migrate", first, &err));
    g_assert_true(fd_store_add_named(store, "migrate", second, &err));
    g_assert_false(is_open(first));
    g_assert_false(fd_store_add_named(store, "1x", bad, &err));
    g_assert_false(is_open(bad));
    assert_error(&err, "not starting with a digit");

    g_assert_cmpint(fd_store_take_named(store, "migrat", &err), ==, -1);
    assert_error(&err, "did you mean 'migrate'?");
    g_assert_cmpint(fd_store_get_param(store, "migrate", &err), ==, second);
    g_assert_false(fd_store_close_named(store, "migrate", &err));
    assert_error(&err, "not found");
    close(second);
}

static void test_number(void)
{
    g_autoptr(FdStore) store = fd_store_new();
    g_autoptr(GError) err = NULL;
    int fd = open_null(O_RDONLY);
    g_autofree char *text = g_strdup_printf("%d", fd);

    g_assert_cmpint(fd_store_get_param(store, text, &err), ==, fd);
    close(fd);
    g_assert_cmpint(fd_store_get_param(store, text, &err), ==, -1);
    assert_error(&err, "was not handed");
    g_assert_cmpint(fd_store_get_param(store, "99999999999", &err), ==, -1);
    assert_error(&err, "Invalid file descriptor");
    g_assert_cmpint(fd_store_get_param(store, "3x", &err), ==, -1);
    assert_error(&err, "Invalid file descriptor");
}

static void count_one(void *user, int64_t id, int fd, const char *opaque)
{
    GString *text = user;

    g_string_append_printf(text, "%d:%s;", (int)id, opaque ?: "-");
}

static void test_sets(void)
{
    g_autoptr(FdStore) store = fd_store_new();
    g_autoptr(GString) text = g_string_new(NULL);
    g_autoptr(GError) err = NULL;
    int64_t id = -1;
    int rd = open_null(O_RDONLY), wr = open_null(O_WRONLY), got;

    g_assert_true(fdset_add(store, false, 0, rd, "r", &id, &err));
    g_assert_cmpint(id, ==, 0);
    g_assert_true(fdset_add(store, true, 0, wr, NULL, &id, &err));
    g_assert_true(fdset_add(store, true, 2, open_null(O_RDWR), NULL, &id, &err));
    g_assert_true(fdset_add(store, false, 0, open_null(O_RDWR), NULL, &id, &err));
    g_assert_cmpint(id, ==, 1);
    g_assert_false(fdset_add(store, true, -1, open_null(O_RDWR), NULL, &id, &err));
    assert_error(&err, "non-negative");
    fdset_foreach(store, count_one, text);
    g_assert_cmpstr(text->str, ==, "0:r;0:-;1:-;2:-;");

    got = fdset_open(store, "/dev/fdset/0", O_WRONLY, &err);
    g_assert_no_error(err);
    g_assert_cmpint(fcntl(got, F_GETFL) & O_ACCMODE, ==, O_WRONLY);
    g_assert_cmpint(fcntl(got, F_GETFD) & FD_CLOEXEC, ==, FD_CLOEXEC);
    close(got);
    g_assert_cmpint(fdset_open(store, "/dev/fdset/0", O_RDWR, &err), ==, -1);
    assert_error(&err, "reading and writing");
    g_assert_cmpint(fd_store_open(store, "/dev/fdset/7", O_RDONLY, 0, &err), ==, -1);
    assert_error(&err, "'/dev/fdset/7' not found");

    g_assert_true(fdset_remove(store, 0, true, rd, &err));
    g_assert_false(is_open(rd));
    g_assert_false(fdset_remove(store, 0, true, rd, &err));
    assert_error(&err, "not found in set 0");
    g_assert_true(fdset_remove(store, 0, false, 0, &err));
    g_assert_false(is_open(wr));
    g_assert_false(fdset_remove(store, 0, false, 0, &err));
    assert_error(&err, "set 0 not found");
}

/* A pipe without its other end, and a file under a lease that this very thread would have to give back. */
static void test_open_never_waits(void)
{
    g_autofree char *folder = g_dir_make_tmp(NULL, NULL);
    g_autofree char *pipe_path = g_build_filename(folder, "pipe", NULL);
    g_autofree char *file_path = g_build_filename(folder, "file", NULL);
    GError *err = NULL;
    int fd, leased;

    g_assert_cmpint(mkfifo(pipe_path, 0600), ==, 0);
    g_assert_cmpint(fd_store_open(NULL, pipe_path, O_WRONLY, 0, &err), ==, -1);
    assert_error(&err, "nobody reads");
    fd = fd_store_open(NULL, pipe_path, O_RDONLY, 0, &err);
    g_assert_no_error(err);
    g_assert_cmpint(fcntl(fd, F_GETFL) & O_NONBLOCK, ==, 0);
    close(fd);

    g_assert_true(g_file_set_contents(file_path, "content", -1, NULL));
    leased = open(file_path, O_RDONLY | O_CLOEXEC);
    g_assert_cmpint(fcntl(leased, F_SETSIG, SIGURG), ==, 0);
    g_assert_cmpint(fcntl(leased, F_SETLEASE, F_RDLCK), ==, 0);
    g_assert_cmpint(fd_store_open(NULL, file_path, O_WRONLY | O_CREAT | O_TRUNC, 0600, &err), ==,
                    -1);
    assert_error(&err, "is mapped from");
    g_assert_cmpint(lseek(leased, 0, SEEK_END), ==, 7);
    close(leased);
    unlink(file_path);
    unlink(pipe_path);
    rmdir(folder);
}

/* libvirt hands a buffered and an O_DIRECT descriptor in one set. */
static void test_set_direct(void)
{
    g_autoptr(FdStore) store = fd_store_new();
    g_autofree char *path = g_strdup("/var/tmp/cowbird-fds-XXXXXX");
    g_autoptr(GError) err = NULL;
    int64_t id;
    int plain = g_mkstemp_full(path, O_RDWR | O_CLOEXEC, 0600);
    int direct = open(path, O_RDWR | O_DIRECT | O_CLOEXEC), got;

    g_assert_cmpint(plain, >=, 0);
    unlink(path);
    if (direct < 0) {
        close(plain);
        g_test_skip("/var/tmp has no O_DIRECT");
        return;
    }
    g_assert_true(fdset_add(store, true, 5, plain, NULL, &id, &err));
    g_assert_cmpint(fdset_open(store, "/dev/fdset/5", O_RDWR | O_DIRECT, &err), ==, -1);
    assert_error(&err, "with O_DIRECT");
    g_assert_true(fdset_add(store, true, 5, direct, NULL, &id, &err));
    got = fdset_open(store, "/dev/fdset/5", O_RDWR | O_DIRECT, &err);
    g_assert_cmpint(fcntl(got, F_GETFL) & O_DIRECT, ==, O_DIRECT);
    close(got);
    got = fdset_open(store, "/dev/fdset/5", O_RDWR, &err);
    g_assert_cmpint(fcntl(got, F_GETFL) & O_DIRECT, ==, 0);
    close(got);
}

static void test_io_file(void)
{
    g_autofree char *path = g_strdup("/tmp/cowbird-io-XXXXXX");
    g_auto(FdHandle) fd = g_mkstemp_full(path, O_RDWR | O_CLOEXEC, 0600);
    g_autoptr(GError) err = NULL;
    char buf[8] = "";
    struct iovec iov[3] = { { "abc", 3 }, { "", 0 }, { "defgh", 5 } };

    g_assert_true(fsync_dir(path, &err));
    unlink(path);
    g_assert_true(pwritev_full(fd, iov, 3, 4, &err));
    g_assert_true(pread_full(fd, buf, 8, 4, &err));
    g_assert_cmpmem(buf, 8, "abcdefgh", 8);
    g_assert_true(pwrite_full(fd, "XY", 2, 0, &err));
    g_assert_true(read_full(fd, buf, 2, &err));
    g_assert_cmpmem(buf, 2, "XY", 2);
    g_assert_false(pread_full(fd, buf, 8, 8, &err));
    assert_error(&err, "too short");
    g_assert_false(read_full(-1, buf, 1, &err));
    assert_error(&err, "errno 9");
    g_assert_false(fsync_dir("/no/such/file", &err));
    assert_error(&err, "'/no/such'");
}

static void *late_writer(void *data)
{
    int fd = GPOINTER_TO_INT(data);

    g_usleep(20000);
    g_assert_true(write_full(fd, "12", 2, NULL));
    g_usleep(20000);
    g_assert_true(write_full(fd, "34", 2, NULL));
    close(fd);
    return NULL;
}

/* A non-blocking pipe is waited for; its end is an error. */
static void test_io_pipe(void)
{
    g_autoptr(GError) err = NULL;
    GThread *thread;
    char buf[4];
    int fds[2];

    g_assert_true(g_unix_open_pipe(fds, FD_CLOEXEC, &err));
    g_assert_true(fd_set_nonblocking(fds[0], true, &err));
    thread = g_thread_new("writer", late_writer, GINT_TO_POINTER(fds[1]));
    g_assert_true(read_full(fds[0], buf, 4, &err));
    g_assert_cmpmem(buf, 4, "1234", 4);
    g_assert_false(read_full(fds[0], buf, 1, &err));
    assert_error(&err, "after 0 of 1 bytes");
    g_thread_join(thread);
    close(fds[0]);
}

static void test_crc32c(void)
{
    /* RFC 3720 appendix B.4, and the check value of the polynomial. */
    uint8_t buf[4096] = { 0 };
    uint32_t whole;

    g_assert_cmphex(crc32c(0, "123456789", 9), ==, 0xe3069283);
    g_assert_cmphex(crc32c(0, buf, 32), ==, 0x8a9136aa);
    memset(buf, 0xff, 32);
    g_assert_cmphex(crc32c(0, buf, 32), ==, 0x62a8ab43);
    g_assert_cmphex(crc32c(0, buf, 0), ==, 0);
    for (size_t i = 0; i < sizeof(buf); i++) {
        buf[i] = g_test_rand_int();
    }
    whole = crc32c(0, buf, sizeof(buf));
    for (size_t at = 0; at < 70; at++) {
        size_t len = sizeof(buf) - at;

        g_assert_cmphex(crc32c_table(0, buf + at, len - 7), ==, crc32c(0, buf + at, len - 7));
        g_assert_cmphex(crc32c(crc32c(0, buf, at), buf + at, len), ==, whole);
        if (crc32c_have_sse42()) {
            g_assert_cmphex(crc32c_sse42(7, buf + at, len), ==, crc32c_table(7, buf + at, len));
        }
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/util/fds/named", test_named);
    g_test_add_func("/util/fds/number", test_number);
    g_test_add_func("/util/fds/sets", test_sets);
    g_test_add_func("/util/fds/direct", test_set_direct);
    g_test_add_func("/util/fds/open-never-waits", test_open_never_waits);
    g_test_add_func("/util/io/file", test_io_file);
    g_test_add_func("/util/io/pipe", test_io_pipe);
    g_test_add_func("/util/crc32c", test_crc32c);
    return g_test_run();
}
