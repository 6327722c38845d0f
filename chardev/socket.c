/*
 * The socket chardev: a stream socket, as a server for one client after the other, or as a client.
 *
 * While a client is connected nobody else is accepted; the next one waits in the backlog. A client
 * may pass descriptors (SCM_RIGHTS), which are kept in order until chardev_take_fd().
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "chardev/backend.h"

#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "chardev/socket-address.h"
#include "qapi/visit.h"
#include "util/error.h"
#include "util/io.h"

#define MAX_FDS_PER_MESSAGE 253 /* the kernel's SCM_MAX_FD */
#define MAX_FDS_WAITING 1024
#define ACCEPT_RETRY_MS 100

typedef struct ChardevSocket {
    Chardev parent_instance;
    ChardevSocketOptions *options; /* of a client with reconnect, else NULL */
    char *address;                 /* for messages and "filename" */
    char *unlink_path;
    int listen_fd, fd;
    guint accept_source, reconnect_timer;
    uint32_t reconnect; /* seconds, 0: never */
    bool nodelay;
    GArray *received; /* of int: descriptors not yet taken */
} ChardevSocket;

typedef struct ChardevSocketClass {
    ChardevClass parent_class;
} ChardevSocketClass;

QOM_DEFINE_TYPE(ChardevSocket, chardev_socket, "chardev-socket", TYPE_CHARDEV)

static void watch_listener(ChardevSocket *sock);
static void close_connection(ChardevSocket *sock);

static void use_connection(ChardevSocket *sock, int fd)
{
    sock->fd = fd;
    if (sock->nodelay) {
        socket_set_nodelay(fd);
    }
    chardev_peer_came((Chardev *)sock, fd, fd);
}

/* ---- Server ---- */

static gboolean on_accept_retry(void *data)
{
    ChardevSocket *sock = data;

    sock->accept_source = 0;
    watch_listener(sock);
    return G_SOURCE_REMOVE;
}

static gboolean on_accept(int listen_fd, GIOCondition condition, void *data)
{
    ChardevSocket *sock = data;
    int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd >= 0) {
        sock->accept_source = 0;
        if (sock->fd >= 0) {
            warn_report("Chardev '%s': what a client wrote before it left was never read and is "
                        "dropped for the next one",
                        chardev_id((Chardev *)sock));
            close_connection(sock);
        }
        use_connection(sock, fd);
        return G_SOURCE_REMOVE;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        /* The client still waits and would wake us at once again. */
        sock->accept_source = g_timeout_add(ACCEPT_RETRY_MS, on_accept_retry, sock);
        return G_SOURCE_REMOVE;
    }
    return G_SOURCE_CONTINUE;
}

static void watch_listener(ChardevSocket *sock)
{
    if (sock->listen_fd >= 0 && !sock->accept_source) {
        sock->accept_source = g_unix_fd_add(sock->listen_fd, G_IO_IN, on_accept, sock);
    }
}

/* wait=on: nothing goes on before somebody has connected. */
static bool wait_for_client(ChardevSocket *sock, GError **errp)
{
    info_report("waiting for a connection on %s", sock->address);
    for (;;) {
        struct pollfd pfd = { .fd = sock->listen_fd, .events = POLLIN };
        int fd;

        if (poll(&pfd, 1, -1) < 0 && errno != EINTR) {
            break;
        }
        fd = accept4(sock->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            use_connection(sock, fd);
            return true;
        }
        if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
            break;
        }
    }
    error_set_errno(errp, errno, "Accepting a connection on '%s' failed", sock->address);
    return false;
}

static bool start_server(ChardevSocket *sock, const ChardevSocketOptions *opts, FdStore *fds,
                         GError **errp)
{
    if (opts->has_reconnect && opts->reconnect) {
        error_set(errp, "reconnect= is for clients, not with server=on");
        return false;
    }
    sock->listen_fd = socket_listen(opts, fds, &sock->unlink_path, errp);
    if (sock->listen_fd < 0) {
        return false;
    }
    sock->address = socket_describe(sock->listen_fd, true);
    if (opts->has_wait && !opts->wait) {
        watch_listener(sock);
        return true;
    }
    return wait_for_client(sock, errp);
}

/* ---- Client ---- */

static gboolean on_reconnect(void *data)
{
    ChardevSocket *sock = data;
    int fd = socket_connect(sock->options, NULL, NULL);

    if (fd < 0) {
        return G_SOURCE_CONTINUE;
    }
    sock->reconnect_timer = 0;
    use_connection(sock, fd);
    return G_SOURCE_REMOVE;
}

static void reconnect_later(ChardevSocket *sock)
{
    if (sock->reconnect && !sock->reconnect_timer) {
        sock->reconnect_timer = g_timeout_add_seconds(sock->reconnect, on_reconnect, sock);
    }
}

static bool start_client(ChardevSocket *sock, const ChardevSocketOptions *opts, FdStore *fds,
                         GError **errp)
{
    g_autoptr(GError) err = NULL;
    int fd;

    if (opts->has_wait) {
        error_set(errp, "wait= needs server=on");
        return false;
    }
    if (opts->has_reconnect && opts->reconnect && opts->fd) {
        error_set(errp, "reconnect= cannot be had with fd=: nobody could open it again");
        return false;
    }
    sock->reconnect = opts->has_reconnect ? opts->reconnect : 0;
    sock->address = socket_options_describe(opts);
    if (sock->reconnect) {
        sock->options = qapi_clone(&qapi_type_ChardevSocketOptions, opts);
    }
    fd = socket_connect(opts, fds, &err);
    if (fd >= 0) {
        use_connection(sock, fd);
        return true;
    }
    if (sock->reconnect) {
        warn_report("%s; trying again every %u s", err->message, sock->reconnect);
        reconnect_later(sock);
        return true;
    }
    g_propagate_error(errp, g_steal_pointer(&err));
    return false;
}

/* ---- Both ---- */

static bool socket_start(Chardev *chr, const ChardevOptions *options, FdStore *fds, GError **errp)
{
    ChardevSocket *sock = (ChardevSocket *)chr;
    const ChardevSocketOptions *opts = &options->u.socket;
    bool server = opts->has_server && opts->server;

    sock->nodelay = opts->has_nodelay && opts->nodelay;
    if (!socket_options_check(opts, errp) ||
        !(server ? start_server(sock, opts, fds, errp) : start_client(sock, opts, fds, errp))) {
        g_prefix_error(errp, "Chardev '%s': ", options->id);
        return false;
    }
    return true;
}

/* SIGPIPE is not for us: a client that has left is EPIPE. */
static ssize_t socket_send(Chardev *chr, const void *data, size_t len)
{
    return send(chr->out_fd, data, len, MSG_NOSIGNAL);
}

/* Keep the descriptors of one control message; those beyond the limit are closed. */
static void keep_fds(ChardevSocket *sock, const struct cmsghdr *cmsg)
{
    size_t count = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);

    for (size_t i = 0; i < count; i++) {
        int fd;

        memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof(int), sizeof(int));
        if (sock->received->len < MAX_FDS_WAITING) {
            g_array_append_val(sock->received, fd);
        } else {
            close(fd);
        }
    }
}

static ssize_t socket_recv(Chardev *chr, void *data, size_t len)
{
    ChardevSocket *sock = (ChardevSocket *)chr;
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(MAX_FDS_PER_MESSAGE * sizeof(int))];
    } control;
    struct iovec iov = { .iov_base = data, .iov_len = len };
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
    };
    ssize_t n = recvmsg(chr->in_fd, &msg, MSG_CMSG_CLOEXEC);

    if (n < 0) {
        return n;
    }
    for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg); cmsg; cmsg = CMSG_NXTHDR(&msg, cmsg)) {
        if (cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_RIGHTS) {
            keep_fds(sock, cmsg);
        }
    }
    return n;
}

static int socket_take_fd(Chardev *chr)
{
    ChardevSocket *sock = (ChardevSocket *)chr;
    int fd;

    if (sock->received->len == 0) {
        return -1;
    }
    fd = g_array_index(sock->received, int, 0);
    g_array_remove_index(sock->received, 0);
    return fd;
}

static void close_connection(ChardevSocket *sock)
{
    int fd;

    chardev_peer_gone((Chardev *)sock);
    close_fd(&sock->fd);
    while ((fd = socket_take_fd((Chardev *)sock)) >= 0) {
        close(fd);
    }
}

static void socket_peer_left(Chardev *chr)
{
    ChardevSocket *sock = (ChardevSocket *)chr;

    close_connection(sock);
    watch_listener(sock);
    reconnect_later(sock);
}

/* Its bytes are kept until they are read or somebody else wants the place. */
static void socket_peer_leaving(Chardev *chr)
{
    watch_listener((ChardevSocket *)chr);
}

static void socket_stop(Chardev *chr)
{
    ChardevSocket *sock = (ChardevSocket *)chr;

    close_connection(sock);
    if (sock->accept_source) {
        g_source_remove(sock->accept_source);
        sock->accept_source = 0;
    }
    if (sock->reconnect_timer) {
        g_source_remove(sock->reconnect_timer);
        sock->reconnect_timer = 0;
    }
    close_fd(&sock->listen_fd);
    if (sock->unlink_path) {
        unlink(sock->unlink_path);
        g_clear_pointer(&sock->unlink_path, g_free);
    }
}

/* Duplicates that nobody closes but the kernel. */
static void socket_outlive(Chardev *chr)
{
    ChardevSocket *sock = (ChardevSocket *)chr;

    (void)fcntl(sock->fd, F_DUPFD_CLOEXEC, 0);
    (void)fcntl(sock->listen_fd, F_DUPFD_CLOEXEC, 0);
}

static char *socket_filename(Chardev *chr)
{
    ChardevSocket *sock = (ChardevSocket *)chr;
    const char *server = sock->listen_fd >= 0 ? ",server=on" : "";
    g_autofree char *peer = NULL;

    if (sock->fd < 0) {
        return g_strdup_printf("disconnected:%s%s", sock->address, server);
    }
    if (!g_str_has_prefix(sock->address, "tcp:")) {
        return g_strconcat(sock->address, server, NULL);
    }
    peer = socket_describe(sock->fd, false);
    return g_strdup_printf("%s%s <-> %s", sock->address, server, peer + strlen("tcp:"));
}

static void chardev_socket_finalize(GObject *obj)
{
    ChardevSocket *sock = (ChardevSocket *)obj;

    g_array_unref(sock->received);
    g_free(sock->address);
    qapi_free(&qapi_type_ChardevSocketOptions, sock->options);
    G_OBJECT_CLASS(chardev_socket_parent_class)->finalize(obj);
}

static void chardev_socket_init(ChardevSocket *sock)
{
    sock->fd = sock->listen_fd = -1;
    sock->received = g_array_new(FALSE, FALSE, sizeof(int));
}

static void chardev_socket_class_init(ChardevSocketClass *klass)
{
    ChardevClass *chardev = CHARDEV_CLASS(klass);

    G_OBJECT_CLASS(klass)->finalize = chardev_socket_finalize;
    chardev->start = socket_start;
    chardev->stop = socket_stop;
    chardev->filename = socket_filename;
    chardev->send = socket_send;
    chardev->recv = socket_recv;
    chardev->peer_left = socket_peer_left;
    chardev->peer_leaving = socket_peer_leaving;
    chardev->disconnect = socket_peer_left;
    chardev->take_fd = socket_take_fd;
    chardev->outlive = socket_outlive;
}
