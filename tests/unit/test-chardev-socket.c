/*
 * Tests of the socket chardev: clients that come and go, the queue, descriptors that are passed.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/unit/chardev-fixture.h"

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
    chardev_write(chr, "hello", 5);
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

/*
 * A front end that takes nothing (a guest whose agent does not run): a client's leaving is noticed all the same, unless it
 * has left something to be read.
 */
static void test_socket_no_room(Fixture *f, gconstpointer data)
{
    Chardev *chr = make(f, "socket,id=s,path=%s/sock,server=on,wait=off");
    int fd;

    attach(f, chr);
    f->front.room = 0;
    for (int i = 1; i <= 2; i++) {
        fd = connect_to(f, "sock");
        WAIT_FOR(f->front.opened == i);
        settle();
        close(fd);
        WAIT_FOR(f->front.closed == i);
    }
    fd = connect_to(f, "sock");
    WAIT_FOR(f->front.opened == 3);
    g_assert_true(write_full(fd, "kept", 4, NULL));
    settle();
    close(fd);
    settle();
    g_assert_cmpint(f->front.closed, ==, 2);
    g_assert_false(g_main_context_pending(NULL));
    f->front.room = 3;
    chardev_accept_input(chr);
    WAIT_FOR(f->front.closed == 3);
    g_assert_cmpstr(f->front.got->str, ==, "kept");
}

/* What a client has left to be read does not keep the next one out. */
static void test_socket_unread(Fixture *f, gconstpointer data)
{
    Chardev *chr = make(f, "socket,id=s,path=%s/sock,server=on,wait=off");
    int fd;

    attach(f, chr);
    f->front.room = 0;
    for (int i = 1; i <= 3; i++) {
        fd = connect_to(f, "sock");
        WAIT_FOR(f->front.opened == i);
        g_assert_cmpint(f->front.closed, ==, i - 1);
        g_assert_true(write_full(fd, i == 3 ? "new" : "old", 3, NULL));
        settle();
        if (i < 3) {
            close(fd);
            settle();
            g_assert_cmpint(f->front.closed, ==, i - 1);
        }
    }
    f->front.room = 3;
    chardev_accept_input(chr);
    WAIT_FOR(f->front.got->len == 3);
    g_assert_cmpstr(f->front.got->str, ==, "new");
    close(fd);
    WAIT_FOR(f->front.closed == 3);
}

/* Whether somebody listens is for the front end to say. */
static void test_frontend_open(Fixture *f, gconstpointer data)
{
    Chardev *chr = make(f, "null,id=n");

    chardev_set_frontend_open(chr, false);
    g_assert_false(chardev_frontend_open(chr));
    attach(f, chr);
    g_assert_true(chardev_frontend_open(chr));
    chardev_set_frontend_open(chr, false);
    g_assert_false(chardev_frontend_open(chr));
    chardev_set_frontend_open(chr, true);
    g_assert_true(chardev_frontend_open(chr));
    chardev_set_handlers(chr, NULL, NULL, NULL);
    g_assert_false(chardev_frontend_open(chr));
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
    chardev_write(client, "ping", 4);
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

/* More than the socket takes: the queue is bounded, and the writer is told to go on. */
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
    fd_set_nonblocking(fd, true, NULL);
    while (got < big) {
        ssize_t n = read(fd, in + got, big - got);

        g_assert_true(n > 0 || errno == EAGAIN);
        got += n > 0 ? n : 0;
        taken += chardev_write(chr, out + taken, big - taken);
        g_main_context_iteration(NULL, FALSE);
    }
    g_assert_cmpmem(in, big, out, big);
    WAIT_FOR(f->front.writable > 0);
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

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("socket/server", test_socket_server);
    ADD("socket/no-frontend", test_socket_no_frontend);
    ADD("socket/no-room", test_socket_no_room);
    ADD("socket/unread", test_socket_unread);
    ADD("frontend-open", test_frontend_open);
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
    return g_test_run();
}
