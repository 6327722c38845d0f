/*
 * Tests of character devices: every back end, the queue, clients that come and go, descriptors.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <termios.h>
#include <unistd.h>

#include "chardev/chardev.h"
#include "chardev/ringbuf.h"
#include "util/fds.h"
#include "util/io.h"
#include "util/json.h"
#include "util/keyval.h"

/* A front end that records what happens to it. */
typedef struct Front {
    GString *got;
    size_t room;
    int opened, closed, writable;
} Front;

static size_t front_can_receive(void *opaque)
{
    return ((Front *)opaque)->room;
}

static void front_receive(void *opaque, const uint8_t *data, size_t len)
{
    Front *front = opaque;

    g_assert_cmpuint(len, <=, front->room);
    g_string_append_len(front->got, (const char *)data, len);
}

static void front_event(void *opaque, ChardevEvent event)
{
    Front *front = opaque;

    front->opened += event == CHARDEV_EVENT_OPENED;
    front->closed += event == CHARDEV_EVENT_CLOSED;
    front->writable += event == CHARDEV_EVENT_WRITABLE;
}

static const ChardevHandlers front_handlers = { front_can_receive, front_receive, front_event };

typedef struct Fixture {
    char *dir;
    FdStore *fds;
    ChardevRegistry *registry;
    Front front;
} Fixture;

static void set_up(Fixture *f, gconstpointer data)
{
    f->dir = g_dir_make_tmp("cowbird-chardev-XXXXXX", NULL);
    f->fds = fd_store_new();
    f->registry = chardev_registry_new(f->fds);
    f->front = (Front){ .got = g_string_new(NULL), .room = 1000 };
}

static void tear_down(Fixture *f, gconstpointer data)
{
    g_autofree char *command = g_strdup_printf("rm -rf '%s'", f->dir);

    chardev_registry_free(f->registry);
    fd_store_free(f->fds);
    while (g_main_context_iteration(NULL, FALSE)) {
    }
    g_assert_cmpint(system(command), ==, 0);
    g_string_free(f->front.got, TRUE);
    g_free(f->dir);
}

/* %s in the text is the test's folder. */
static Chardev *make(Fixture *f, const char *text)
{
    g_autofree char *options_text = g_strdup_printf(text, f->dir, f->dir);
    g_autoptr(GError) err = NULL;
    g_autoptr(json_object) options = keyval_parse(options_text, "backend", &err);
    Chardev *chr;

    g_assert_no_error(err);
    chr = chardev_new(f->registry, options, &err);
    g_assert_no_error(err);
    return chr;
}

static void refuse(Fixture *f, const char *text, const char *part)
{
    g_autofree char *options_text = g_strdup_printf(text, f->dir);
    g_autoptr(GError) err = NULL;
    g_autoptr(json_object) options = keyval_parse(options_text, "backend", NULL);

    g_assert_null(chardev_new(f->registry, options, &err));
    g_assert_nonnull(err);
    if (!strstr(err->message, part)) {
        g_error("'%s': message '%s' lacks '%s'", text, err->message, part);
    }
}

static void attach(Fixture *f, Chardev *chr)
{
    g_autoptr(GError) err = NULL;

    g_assert_true(chardev_set_handlers(chr, &front_handlers, &f->front, &err));
    g_assert_no_error(err);
}

#define WAIT_FOR(condition)                                         \
    do {                                                            \
        gint64 end_ = g_get_monotonic_time() + 10 * G_USEC_PER_SEC; \
        while (!(condition)) {                                      \
            g_assert_cmpint(g_get_monotonic_time(), <, end_);       \
            if (!g_main_context_iteration(NULL, FALSE)) {           \
                g_usleep(500);                                      \
            }                                                       \
        }                                                           \
    } while (0)

static void settle(void)
{
    for (int i = 0; i < 20; i++) {
        while (g_main_context_iteration(NULL, FALSE)) {
        }
        g_usleep(1000);
    }
}

static int try_connect(Fixture *f, const char *name)
{
    struct sockaddr_un addr = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    g_snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/%s", f->dir, name);
    if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static int connect_to(Fixture *f, const char *name)
{
    int fd = try_connect(f, name);

    g_assert_cmpint(fd, >=, 0);
    return fd;
}

static void assert_reads(int fd, const char *text)
{
    g_autofree char *buf = g_malloc0(strlen(text) + 1);
    g_autoptr(GError) err = NULL;

    read_full(fd, buf, strlen(text), &err);
    g_assert_no_error(err);
    g_assert_cmpstr(buf, ==, text);
}

static void assert_filename(Chardev *chr, const char *prefix)
{
    g_autofree char *filename = chardev_filename(chr);

    if (!g_str_has_prefix(filename, prefix)) {
        g_error("filename is '%s'", filename);
    }
}

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

    chardev_write_all(chr, "one\n", 4);
    g_assert_true(chardev_remove(f->registry, "f", NULL));
    chr = make(f, "file,id=f,path=%s/out,append=on");
    chardev_write_all(chr, "two\n", 4);
    g_assert_true(g_file_get_contents(path, &content, NULL, NULL));
    g_assert_cmpstr(content, ==, "one\ntwo\n");
    g_assert_true(g_file_get_contents(log, &logged, NULL, NULL));
    g_assert_cmpstr(logged, ==, "one\n");
}

/* A monitor's life: connect, talk, leave, connect again. */
static void test_socket_server(Fixture *f, gconstpointer data)
{
    Chardev *chr = make(f, "socket,id=s,path=%s/sock,server=on,wait=off");
    g_autofree char *path = g_build_filename(f->dir, "sock", NULL);
    int fd, second;

    attach(f, chr);
    settle();
    g_assert_cmpint(f->front.opened, ==, 0);
    assert_filename(chr, "disconnected:unix:/");
    g_assert_cmpuint(chardev_write(chr, "lost", 4), ==, 4);

    fd = connect_to(f, "sock");
    WAIT_FOR(f->front.opened == 1);
    assert_filename(chr, "unix:/");
    chardev_write_all(chr, "hello", 5);
    assert_reads(fd, "hello");
    g_assert_true(write_full(fd, "command", 7, NULL));
    WAIT_FOR(f->front.got->len == 7);
    second = connect_to(f, "sock");
    g_assert_true(write_full(second, "next", 4, NULL));
    settle();
    g_assert_cmpstr(f->front.got->str, ==, "command");

    close(fd);
    WAIT_FOR(f->front.opened == 2);
    g_assert_cmpint(f->front.closed, ==, 1);
    WAIT_FOR(f->front.got->len == 11);
    chardev_disconnect(chr);
    g_assert_cmpint(f->front.closed, ==, 2);
    close(second);
    chardev_set_handlers(chr, NULL, NULL, NULL);
    g_assert_true(chardev_remove(f->registry, "s", NULL));
    g_assert_false(g_file_test(path, G_FILE_TEST_EXISTS));
}

/* A client that is not read from leaves; the next one is served. */
static void test_socket_no_frontend(Fixture *f, gconstpointer data)
{
    Chardev *chr = make(f, "socket,id=s,path=%s/sock,server=on,wait=off");
    int fd = connect_to(f, "sock");

    WAIT_FOR(chardev_is_open(chr));
    close(fd);
    WAIT_FOR(!chardev_is_open(chr));
    fd = connect_to(f, "sock");
    WAIT_FOR(chardev_is_open(chr));
    close(fd);
}

/* libvirt's way: a socket that listens already. */
static void test_socket_listening_fd(Fixture *f, gconstpointer data)
{
    struct sockaddr_un addr = { .sun_family = AF_UNIX };
    g_autoptr(GError) err = NULL;
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), fd;
    Chardev *chr;

    g_snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/given", f->dir);
    g_assert_cmpint(bind(listener, (struct sockaddr *)&addr, sizeof(addr)), ==, 0);
    g_assert_true(fd_store_add_named(f->fds, "early", dup(listener), &err));
    refuse(f, "socket,id=s,fd=early,server=on,wait=off", "not a listening socket");
    g_assert_cmpint(listen(listener, 1), ==, 0);
    g_assert_true(fd_store_add_named(f->fds, "lis", listener, &err));
    chr = make(f, "socket,id=s,fd=lis,server=on,wait=off");
    attach(f, chr);
    for (int i = 1; i <= 3; i++) {
        fd = connect_to(f, "given");
        WAIT_FOR(f->front.opened == i);
        close(fd);
        WAIT_FOR(f->front.closed == i);
    }
    assert_filename(chr, "disconnected:unix:/");
}

static void test_socket_wait(Fixture *f, gconstpointer data)
{
    /* The listener exists before make() returns, so another process has to connect. */
    pid_t pid = fork();

    if (pid == 0) {
        int fd;

        while ((fd = try_connect(f, "w")) < 0) {
            g_usleep(1000);
        }
        _exit(write(fd, "x", 1) == 1 ? 0 : 1);
    }
    attach(f, make(f, "socket,id=s,path=%s/w,server=on"));
    g_assert_cmpint(f->front.opened, ==, 0);
    WAIT_FOR(f->front.got->len == 1);
    g_assert_cmpint(f->front.opened, ==, 1);
}

static void test_socket_stale_path(Fixture *f, gconstpointer data)
{
    struct sockaddr_un addr = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    g_snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/stale", f->dir);
    g_assert_cmpint(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), ==, 0);
    close(fd);
    make(f, "socket,id=a,path=%s/stale,server=on,wait=off");
    refuse(f, "socket,id=b,path=%s/stale,server=on,wait=off", "errno 98");
}

static void test_socket_tcp(Fixture *f, gconstpointer data)
{
    Chardev *server = make(f, "socket,id=s,host=127.0.0.1,port=0,server=on,wait=off");
    g_autofree char *filename = chardev_filename(server), *text = NULL, *connected = NULL;
    const char *port = strrchr(filename, ':');
    Chardev *client;

    g_assert_true(g_str_has_prefix(filename, "disconnected:tcp:127.0.0.1:"));
    attach(f, server);
    text = g_strdup_printf("tcp:127.0.0.1:%.*s,nodelay=on", (int)strcspn(port + 1, ","), port + 1);
    client = chardev_new_short(f->registry, "c", text, NULL);
    g_assert_nonnull(client);
    chardev_write_all(client, "ping", 4);
    WAIT_FOR(f->front.got->len == 4);
    connected = chardev_filename(server);
    g_assert_nonnull(strstr(connected, " <-> 127.0.0.1:"));
}

static void test_socket_reconnect(Fixture *f, gconstpointer data)
{
    Chardev *client = make(f, "socket,id=c,path=%s/later,reconnect=1");
    Chardev *server;

    attach(f, client);
    settle();
    g_assert_cmpint(f->front.opened, ==, 0);
    server = make(f, "socket,id=s,path=%s/later,server=on,wait=off");
    WAIT_FOR(f->front.opened == 1);
    WAIT_FOR(chardev_is_open(server));
    chardev_disconnect(server);
    WAIT_FOR(f->front.closed == 1);
    WAIT_FOR(f->front.opened == 2);
}

static void send_with_fds(int sock, const char *text, int count)
{
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(8 * sizeof(int))];
    } control = { .space = { 0 } };
    struct iovec iov = { .iov_base = (char *)text, .iov_len = strlen(text) };
    struct msghdr msg = { .msg_iov = &iov,
                          .msg_iovlen = 1,
                          .msg_control = &control,
                          .msg_controllen = CMSG_SPACE(count * sizeof(int)) };
    struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
    int fds[8];

    cmsg->cmsg_level = SOL_SOCKET;
    cmsg->cmsg_type = SCM_RIGHTS;
    cmsg->cmsg_len = CMSG_LEN(count * sizeof(int));
    for (int i = 0; i < count; i++) {
        fds[i] = open("/dev/null", i % 2 ? O_WRONLY : O_RDONLY);
    }
    memcpy(CMSG_DATA(cmsg), fds, count * sizeof(int));
    g_assert_cmpint(sendmsg(sock, &msg, 0), ==, (int)strlen(text));
    for (int i = 0; i < count; i++) {
        close(fds[i]);
    }
}

static void test_socket_fds(Fixture *f, gconstpointer data)
{
    Chardev *chr = make(f, "socket,id=s,path=%s/sock,server=on,wait=off");
    int client = connect_to(f, "sock"), first, second, third;

    attach(f, chr);
    send_with_fds(client, "ab", 2);
    send_with_fds(client, "cd", 1);
    WAIT_FOR(f->front.got->len == 4);
    first = chardev_take_fd(chr);
    second = chardev_take_fd(chr);
    g_assert_cmpint(fcntl(first, F_GETFL) & O_ACCMODE, ==, O_RDONLY);
    g_assert_cmpint(fcntl(second, F_GETFL) & O_ACCMODE, ==, O_WRONLY);
    g_assert_cmpint(fcntl(first, F_GETFD), ==, FD_CLOEXEC);
    close(first);
    close(second);
    /* The third is not taken: it is closed with the connection. */
    third = chardev_take_fd(chr);
    g_assert_cmpint(third, >=, 0);
    g_assert_cmpint(chardev_take_fd(chr), ==, -1);
    close(third);
    send_with_fds(client, "e", 8);
    WAIT_FOR(f->front.got->len == 5);
    close(client);
    WAIT_FOR(f->front.closed == 1);
    g_assert_cmpint(chardev_take_fd(chr), ==, -1);
}

/* More than the socket takes: bounded with chardev_write, whole with chardev_write_all. */
static void test_queue(Fixture *f, gconstpointer data)
{
    Chardev *chr = make(f, "socket,id=s,path=%s/sock,server=on,wait=off");
    const size_t big = 4 * 1024 * 1024;
    g_autofree char *out = g_malloc(big), *in = g_malloc(big);
    int fd = connect_to(f, "sock");
    size_t taken, got = 0;

    for (size_t i = 0; i < big; i++) {
        out[i] = (char)(i * 7 + i / 4096);
    }
    attach(f, chr);
    WAIT_FOR(f->front.opened == 1);
    taken = chardev_write(chr, out, big);
    g_assert_cmpuint(taken, >=, CHARDEV_QUEUE_LIMIT);
    g_assert_cmpuint(taken, <, big);
    g_assert_cmpuint(chardev_queued(chr), ==, CHARDEV_QUEUE_LIMIT);
    g_assert_cmpuint(chardev_write(chr, out + taken, 1), ==, 0);
    chardev_write_all(chr, out + taken, big - taken);
    fd_set_nonblocking(fd, true, NULL);
    while (got < big) {
        ssize_t n = read(fd, in + got, big - got);

        g_assert_true(n > 0 || errno == EAGAIN);
        got += n > 0 ? n : 0;
        g_main_context_iteration(NULL, FALSE);
    }
    g_assert_cmpmem(in, big, out, big);
    WAIT_FOR(f->front.writable == 1);
    g_assert_cmpuint(chardev_queued(chr), ==, 0);
    close(fd);
}

static void test_queue_client_leaves(Fixture *f, gconstpointer data)
{
    Chardev *chr = make(f, "socket,id=s,path=%s/sock,server=on,wait=off");
    g_autofree char *out = g_malloc0(1024 * 1024);
    int fd = connect_to(f, "sock");

    attach(f, chr);
    WAIT_FOR(f->front.opened == 1);
    g_assert_cmpuint(chardev_write(chr, out, 1024 * 1024), <, 1024 * 1024);
    close(fd);
    WAIT_FOR(f->front.closed == 1);
    g_assert_cmpint(f->front.writable, ==, 1);
    g_assert_cmpuint(chardev_queued(chr), ==, 0);
    g_assert_cmpuint(chardev_write(chr, out, 1024 * 1024), ==, 1024 * 1024);
}

typedef struct Writer {
    Chardev *chr;
    char letter;
} Writer;

static void *writer_thread(void *data)
{
    Writer *writer = data;

    for (int i = 0; i < 20000; i++) {
        while (chardev_write(writer->chr, &writer->letter, 1) == 0) {
            g_usleep(100);
        }
    }
    return NULL;
}

/* Two vCPU threads write while the main loop drains. */
static void test_threads(Fixture *f, gconstpointer data)
{
    Chardev *chr = make(f, "socket,id=s,path=%s/sock,server=on,wait=off");
    Writer writers[2] = { { chr, 'a' }, { chr, 'b' } };
    int fd = connect_to(f, "sock"), count[2] = { 0, 0 };
    GThread *threads[2];

    attach(f, chr);
    WAIT_FOR(f->front.opened == 1);
    for (int i = 0; i < 2; i++) {
        threads[i] = g_thread_new("writer", writer_thread, &writers[i]);
    }
    fd_set_nonblocking(fd, true, NULL);
    while (count[0] + count[1] < 40000) {
        char buf[512];
        ssize_t n = read(fd, buf, sizeof(buf));

        for (ssize_t i = 0; i < n; i++) {
            g_assert_true(buf[i] == 'a' || buf[i] == 'b');
            count[buf[i] - 'a']++;
        }
        g_main_context_iteration(NULL, FALSE);
    }
    g_assert_cmpint(count[0], ==, 20000);
    for (int i = 0; i < 2; i++) {
        g_thread_join(threads[i]);
    }
    close(fd);
}

static void test_flow_control(Fixture *f, gconstpointer data)
{
    Chardev *chr = make(f, "socket,id=s,path=%s/sock,server=on,wait=off");
    int fd = connect_to(f, "sock");

    f->front.room = 0;
    attach(f, chr);
    g_assert_true(write_full(fd, "0123456789", 10, NULL));
    settle();
    g_assert_cmpuint(f->front.got->len, ==, 0);
    f->front.room = 3;
    chardev_accept_input(chr);
    WAIT_FOR(f->front.got->len == 10);
    close(fd);
}

static void test_pty(Fixture *f, gconstpointer data)
{
    Chardev *chr = make(f, "pty,id=p");
    g_autofree char *filename = chardev_filename(chr);
    struct termios tty;
    int fd;

    g_assert_true(g_str_has_prefix(filename, "pty:/dev/pts/"));
    attach(f, chr);
    chardev_write_all(chr, "lost", 4);
    settle();
    g_assert_cmpint(f->front.opened, ==, 0);
    for (int i = 1; i <= 2; i++) {
        fd = open(filename + strlen("pty:"), O_RDWR | O_NOCTTY | O_CLOEXEC);
        g_assert_cmpint(fd, >=, 0);
        g_assert_cmpint(tcgetattr(fd, &tty), ==, 0);
        g_assert_cmpint(tty.c_lflag & (ECHO | ICANON), ==, 0);
        /* Writing notices the reader at once, without the timer. */
        chardev_write_all(chr, "login:", 6);
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
    chardev_write_all(chr, "out", 3);
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

    chardev_write_all(chr, "0123456789", 10);
    bytes = chardev_ringbuf_take(chr, 3, NULL);
    g_assert_cmpmem(bytes->data, bytes->len, "234", 3);
    g_byte_array_unref(bytes);
    chardev_write_all(chr, "ab", 2);
    bytes = chardev_ringbuf_take(chr, 100, NULL);
    g_assert_cmpmem(bytes->data, bytes->len, "56789ab", 7);
    g_byte_array_unref(bytes);
    refuse(f, "ringbuf,id=q,size=100", "power of two");
    refuse(f, "ringbuf,id=q,size=0", "power of two");
    g_assert_null(chardev_ringbuf_take(make(f, "null,id=n"), 1, NULL));
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

#define ADD(name, fn) g_test_add("/chardev/" name, Fixture, NULL, set_up, fn, tear_down)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("null", test_null);
    ADD("file", test_file);
    ADD("socket/server", test_socket_server);
    ADD("socket/no-frontend", test_socket_no_frontend);
    ADD("socket/listening-fd", test_socket_listening_fd);
    ADD("socket/wait", test_socket_wait);
    ADD("socket/stale-path", test_socket_stale_path);
    ADD("socket/tcp", test_socket_tcp);
    ADD("socket/reconnect", test_socket_reconnect);
    ADD("socket/fds", test_socket_fds);
    ADD("queue/big", test_queue);
    ADD("queue/client-leaves", test_queue_client_leaves);
    ADD("queue/threads", test_threads);
    ADD("flow-control", test_flow_control);
    ADD("pty", test_pty);
    ADD("pipe", test_pipe);
    ADD("ringbuf", test_ringbuf);
    ADD("short-forms", test_short_forms);
    ADD("bad-options", test_bad_options);
    return g_test_run();
}
