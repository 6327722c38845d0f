/*
 * Tests of character devices other than sockets, and of the short forms of all.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <fcntl.h>
#include <glib-unix.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "chardev/ringbuf.h"
#include "tests/unit/chardev-fixture.h"

static void test_null(Fixture *f, gconstpointer data)
{
    Chardev *chr = make(f, "null,id=n");

    attach(f, chr);
    WAIT_FOR(f->front.opened == 1);
    g_assert_cmpuint(chardev_write(chr, "abc", 3), ==, 3);
    assert_filename(chr, "null");
    g_assert_true(chardev_frontend_open(chr));
    g_assert_false(chardev_set_handlers(chr, &front_handlers, f, NULL));
    g_assert_false(chardev_remove(f->registry, "n", NULL));
    g_assert_true(chardev_set_handlers(chr, NULL, NULL, NULL));
    g_assert_true(chardev_remove(f->registry, "n", NULL));
    g_assert_null(chardev_find(f->registry, "n"));
}

static void test_file(Fixture *f, gconstpointer data)
{
    g_autofree char *path = g_build_filename(f->dir, "out", NULL);
    g_autofree char *log = g_build_filename(f->dir, "log", NULL);
    g_autofree char *content = NULL, *logged = NULL;
    Chardev *chr = make(f, "file,id=f,path=%s/out,logfile=%s/log");

    chardev_write(chr, "one\n", 4);
    g_assert_true(chardev_remove(f->registry, "f", NULL));
    chr = make(f, "file,id=f,path=%s/out,append=on");
    chardev_write(chr, "two\n", 4);
    g_assert_true(g_file_get_contents(path, &content, NULL, NULL));
    g_assert_cmpstr(content, ==, "one\ntwo\n");
    g_assert_true(g_file_get_contents(log, &logged, NULL, NULL));
    g_assert_cmpstr(logged, ==, "one\n");
}

static void test_pty(Fixture *f, gconstpointer data)
{
    Chardev *chr = make(f, "pty,id=p");
    g_autofree char *filename = chardev_filename(chr);
    struct termios tty;
    int fd;

    g_assert_true(g_str_has_prefix(filename, "pty:/dev/pts/"));
    attach(f, chr);
    chardev_write(chr, "lost", 4);
    settle();
    g_assert_cmpint(f->front.opened, ==, 0);
    for (int i = 1; i <= 2; i++) {
        fd = open(filename + strlen("pty:"), O_RDWR | O_NOCTTY | O_CLOEXEC);
        g_assert_cmpint(fd, >=, 0);
        g_assert_cmpint(tcgetattr(fd, &tty), ==, 0);
        g_assert_cmpint(tty.c_lflag & (ECHO | ICANON), ==, 0);
        /* Writing notices the reader at once, without the timer. */
        chardev_write(chr, "login:", 6);
        assert_reads(fd, "login:");
        WAIT_FOR(f->front.opened == i);
        g_assert_true(write_full(fd, "root\n", 5, NULL));
        WAIT_FOR(f->front.got->len == (gsize)(5 * i));
        close(fd);
        WAIT_FOR(f->front.closed == i);
    }
    fd = open(filename + strlen("pty:"), O_RDWR | O_NOCTTY | O_CLOEXEC);
    WAIT_FOR(f->front.opened == 3);
    close(fd);
}

static void test_pipe(Fixture *f, gconstpointer data)
{
    g_autofree char *in = g_build_filename(f->dir, "p.in", NULL);
    g_autofree char *out = g_build_filename(f->dir, "p.out", NULL);
    int in_fd, out_fd;
    Chardev *chr;

    refuse(f, "pipe,id=p,path=%s/p", "mkfifo");
    g_assert_cmpint(mkfifo(in, 0600), ==, 0);
    g_assert_cmpint(mkfifo(out, 0600), ==, 0);
    chr = make(f, "pipe,id=p,path=%s/p");
    attach(f, chr);
    in_fd = open(in, O_WRONLY | O_CLOEXEC);
    out_fd = open(out, O_RDONLY | O_CLOEXEC);
    g_assert_true(write_full(in_fd, "in", 2, NULL));
    WAIT_FOR(f->front.got->len == 2);
    chardev_write(chr, "out", 3);
    assert_reads(out_fd, "out");
    close(in_fd);
    close(out_fd);
    settle();
    g_assert_true(chardev_is_open(chr));
}

static void test_ringbuf(Fixture *f, gconstpointer data)
{
    Chardev *chr = make(f, "ringbuf,id=r,size=8");
    GByteArray *bytes;

    chardev_write(chr, "0123456789", 10);
    bytes = chardev_ringbuf_take(chr, 3, NULL);
    g_assert_cmpmem(bytes->data, bytes->len, "234", 3);
    g_byte_array_unref(bytes);
    chardev_write(chr, "ab", 2);
    bytes = chardev_ringbuf_take(chr, 100, NULL);
    g_assert_cmpmem(bytes->data, bytes->len, "56789ab", 7);
    g_byte_array_unref(bytes);
    refuse(f, "ringbuf,id=q,size=100", "power of two");
    refuse(f, "ringbuf,id=q,size=0", "power of two");
    g_assert_null(chardev_ringbuf_take(make(f, "null,id=n"), 1, NULL));
}

typedef struct Reader {
    int fd;
    size_t got;
} Reader;

static void *read_to_end(void *data)
{
    Reader *reader = data;
    char buf[4096];
    ssize_t n;

    while ((n = read(reader->fd, buf, sizeof(buf))) > 0) {
        reader->got += n;
    }
    return NULL;
}

/* As libvirt's log daemon has it: the descriptor blocks, the chardev does not, and nothing is lost. */
static void test_file_pipe(Fixture *f, gconstpointer data)
{
    g_autofree char *out = g_malloc0(1024 * 1024);
    g_autoptr(GError) err = NULL;
    Reader reader = { .got = 0 };
    GThread *thread;
    Chardev *chr;
    size_t taken;
    int fds[2];

    g_assert_true(g_unix_open_pipe(fds, FD_CLOEXEC, &err));
    g_assert_true(fdset_add(f->fds, true, 0, fds[1], NULL, NULL, &err));
    chr = make(f, "file,id=log,path=/dev/fdset/0,append=on");
    taken = chardev_write(chr, out, 1024 * 1024);
    g_assert_cmpuint(taken, >, CHARDEV_QUEUE_LIMIT);
    g_assert_cmpuint(taken, <, 1024 * 1024);
    reader.fd = fds[0];
    thread = g_thread_new("reader", read_to_end, &reader);
    g_assert_true(chardev_remove(f->registry, "log", NULL));
    g_assert_true(fdset_remove(f->fds, 0, false, 0, NULL));
    g_thread_join(thread);
    g_assert_cmpuint(reader.got, ==, taken);
    close(fds[0]);
}

static void refuse_short(Fixture *f, const char *text, const char *part)
{
    g_autoptr(GError) err = NULL;

    g_assert_null(chardev_new_short(f->registry, "x", text, &err));
    g_assert_nonnull(err);
    if (!strstr(err->message, part)) {
        g_error("'%s': message '%s' lacks '%s'", text, err->message, part);
    }
}

static void test_short_forms(Fixture *f, gconstpointer data)
{
    g_autofree char *unix_text = g_strdup_printf("unix:%s/u,server=on,wait=off", f->dir);
    g_autofree char *file_text = g_strdup_printf("file:%s/a,b", f->dir);
    g_autofree char *file_path = g_build_filename(f->dir, "a,b", NULL);
    Chardev *null = chardev_new_short(f->registry, "serial0", "null", NULL);

    g_assert_cmpstr(chardev_id(null), ==, "serial0");
    g_assert_true(chardev_new_short(f->registry, "y", "chardev:serial0", NULL) == null);
    assert_filename(chardev_new_short(f->registry, "u", unix_text, NULL), "disconnected:unix:");
    assert_filename(chardev_new_short(f->registry, "p", "pty", NULL), "pty:/dev/pts/");
    g_assert_nonnull(chardev_new_short(f->registry, "f", file_text, NULL));
    g_assert_true(g_file_test(file_path, G_FILE_TEST_EXISTS));
    refuse_short(f, "mon:stdio", "-serial stdio");
    refuse_short(f, "ptty", "'pty'");
    refuse_short(f, "unixx:/tmp/a", "'unix:'");
    refuse_short(f, "chardev:serial1", "'serial0'");
    refuse_short(f, "tcp:4444", "tcp:HOST:PORT");
    refuse_short(f, "unix:/tmp/x,server", "server=on");
    refuse_short(f, "unix:/no/such/folder/x,server=on,wait=off", "errno 2");
}

static void test_bad_options(Fixture *f, gconstpointer data)
{
    g_autofree char *long_path = g_strnfill(200, 'p');
    g_autofree char *long_text = g_strdup_printf("socket,id=s,path=/%s", long_path);

    make(f, "null,id=taken");
    refuse(f, "null,id=taken", "taken");
    refuse(f, "nul,id=a", "null");
    refuse(f, "null", "id");
    refuse(f, "file,id=a", "path");
    refuse(f, "file,id=a,path=/no/such/x", "errno 2");
    refuse(f, "socket,id=a", "exactly one");
    refuse(f, "socket,id=a,path=x,host=y,port=1", "exactly one");
    refuse(f, "socket,id=a,host=y", "port");
    refuse(f, "socket,id=a,path=%s/none", "errno 2");
    refuse(f, "socket,id=a,path=%s/none,wait=off", "server=on");
    refuse(f, "socket,id=a,fd=999", "was not handed");
    refuse(f, "socket,id=a,fd=0", "File descriptor '0'");
    refuse(f, "socket,id=a,path=%s/x,server=on,reconnect=1", "reconnect");
    refuse(f, "socket,id=a,path=%s/x,serve=on", "server");
    refuse(f, "null,id=a,mux=on", "mux");
    refuse(f, long_text, "too long");
    g_assert_null(chardev_find(f->registry, "a"));
    g_assert_null(chardev_find(f->registry, "s"));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("null", test_null);
    ADD("file", test_file);
    ADD("file/pipe", test_file_pipe);
    ADD("pty", test_pty);
    ADD("pipe", test_pipe);
    ADD("ringbuf", test_ringbuf);
    ADD("short-forms", test_short_forms);
    ADD("bad-options", test_bad_options);
    return g_test_run();
}
