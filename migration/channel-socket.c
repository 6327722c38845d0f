/*
 * Sockets of migrations: connecting, listening, and accepting one peer.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "migration/channel-socket.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "util/error.h"
#include "util/io.h"

/* How often a waiting thread looks whether it was cancelled. */
#define POLL_MS 50

static bool wait_for(int fd, short events, const int *cancelled, GError **errp)
{
    for (;;) {
        struct pollfd p = { .fd = fd, .events = events };
        int n = poll(&p, 1, POLL_MS);

        if (g_atomic_int_get(cancelled)) {
            error_set(errp, "the migration was cancelled");
            return false;
        }
        if (n > 0) {
            return true;
        }
        if (n < 0 && errno != EINTR) {
            error_set_errno(errp, errno, "cannot wait for a socket");
            return false;
        }
    }
}

/* The socket is blocking again once it is connected. */
static bool connect_fd(int fd, const struct sockaddr *addr, socklen_t len, const char *name,
                       const int *cancelled, GError **errp)
{
    int err = 0;
    socklen_t err_len = sizeof(err);

    if (connect(fd, addr, len) < 0) {
        if (errno != EINPROGRESS) {
            error_set_errno(errp, errno, "cannot connect to '%s'", name);
            return false;
        }
        if (!wait_for(fd, POLLOUT, cancelled, errp)) {
            return false;
        }
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &err_len);
        if (err) {
            error_set_errno(errp, err, "cannot connect to '%s'", name);
            return false;
        }
    }
    return fd_set_nonblocking(fd, false, errp);
}

static int new_socket(int family, GError **errp)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0) {
        error_set_errno(errp, errno, "cannot make a socket");
    }
    return fd;
}

static bool unix_address(const char *path, struct sockaddr_un *ret, GError **errp)
{
    struct sockaddr_un addr = { .sun_family = AF_UNIX };

    if (strlen(path) >= sizeof(addr.sun_path)) {
        error_set(errp, "socket path '%s' is longer than %zu bytes", path,
                  sizeof(addr.sun_path) - 1);
        return false;
    }
    strcpy(addr.sun_path, path);
    *ret = addr;
    return true;
}

int socket_connect_unix(const char *path, const int *cancelled, GError **errp)
{
    struct sockaddr_un addr;
    g_auto(FdHandle) fd = -1;

    if (!unix_address(path, &addr, errp)) {
        return -1;
    }
    fd = new_socket(AF_UNIX, errp);
    if (fd < 0 || !connect_fd(fd, (struct sockaddr *)&addr, sizeof(addr), path, cancelled, errp)) {
        return -1;
    }
    return g_steal_fd(&fd);
}

static struct addrinfo *resolve(const char *host, const char *port, int flags, GError **errp)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = flags }, *list = NULL;
    int rc = getaddrinfo(*host ? host : NULL, port, &hints, &list);

    if (rc) {
        error_set(errp, "cannot find address '%s', port '%s': %s", host, port, gai_strerror(rc));
        return NULL;
    }
    return list;
}

int socket_connect_tcp(const char *host, const char *port, const int *cancelled, GError **errp)
{
    struct addrinfo *list = resolve(host, port, 0, errp);
    g_auto(FdHandle) fd = -1;
    GError *err = NULL;

    for (struct addrinfo *a = list; a; a = a->ai_next) {
        int one = 1;

        g_clear_error(&err);
        close_fd(&fd);
        fd = new_socket(a->ai_family, &err);
        if (fd >= 0 && connect_fd(fd, a->ai_addr, a->ai_addrlen, host, cancelled, &err)) {
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
            break;
        }
    }
    if (list) {
        freeaddrinfo(list);
    }
    if (err) {
        g_propagate_error(errp, err);
        return -1;
    }
    return g_steal_fd(&fd);
}

static bool listen_on(int fd, const char *name, GError **errp)
{
    if (listen(fd, 1) < 0) {
        error_set_errno(errp, errno, "cannot listen on '%s'", name);
        return false;
    }
    return true;
}

int socket_accept(int listener, const char *name, const int *cancelled, GError **errp)
{
    int fd;

    do {
        if (!wait_for(listener, POLLIN, cancelled, errp)) {
            return -1;
        }
        fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    } while (fd < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED));
    if (fd < 0) {
        error_set_errno(errp, errno, "cannot accept a peer on '%s'", name);
    }
    return fd;
}

void socket_remove_unix(const char *path)
{
    struct stat st;

    if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode)) {
        unlink(path);
    }
}

int socket_listen_unix(const char *path, GError **errp)
{
    struct sockaddr_un addr;
    g_auto(FdHandle) listener = -1;

    if (!unix_address(path, &addr, errp)) {
        return -1;
    }
    listener = new_socket(AF_UNIX, errp);
    if (listener < 0) {
        return -1;
    }
    socket_remove_unix(path);
    if (bind(listener, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
        error_set_errno(errp, errno, "cannot listen on '%s'", path);
        return -1;
    }
    return listen_on(listener, path, errp) ? g_steal_fd(&listener) : -1;
}

static int bind_tcp(const char *host, const char *port, GError **errp)
{
    struct addrinfo *list = resolve(host, port, AI_PASSIVE, errp);
    g_auto(FdHandle) fd = -1;
    int one = 1;

    if (!list) {
        return -1;
    }
    fd = new_socket(list->ai_family, errp);
    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
        if (bind(fd, list->ai_addr, list->ai_addrlen) < 0) {
            error_set_errno(errp, errno, "cannot listen on '%s', port '%s'", host, port);
            close_fd(&fd);
        }
    }
    freeaddrinfo(list);
    return g_steal_fd(&fd);
}

int socket_listen_tcp(const char *host, const char *port, GError **errp)
{
    g_auto(FdHandle) listener = bind_tcp(host, port, errp);

    if (listener < 0 || !listen_on(listener, *host ? host : port, errp)) {
        return -1;
    }
    return g_steal_fd(&listener);
}
