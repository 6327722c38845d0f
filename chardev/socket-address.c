/*
 * Stream sockets from the options of a socket chardev: unix, TCP, or an inherited descriptor.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "chardev/socket-address.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "util/error.h"
#include "util/io.h"

#define SOCKET_FLAGS (SOCK_STREAM | SOCK_CLOEXEC)
#define BACKLOG 1

bool socket_options_check(const ChardevSocketOptions *opts, GError **errp)
{
    int ways = (opts->path != NULL) + (opts->fd != NULL) + (opts->host || opts->port);

    if (ways != 1) {
        error_set(errp, "A socket needs exactly one of path, host with port, and fd");
        return false;
    }
    if (!opts->path && opts->has_abstract) {
        error_set(errp, "abstract= needs path=");
        return false;
    }
    if (!opts->path && !opts->fd && !opts->port) {
        error_set(errp, "A TCP socket needs host= and port=");
        return false;
    }
    return true;
}

char *socket_options_describe(const ChardevSocketOptions *opts)
{
    if (opts->path) {
        return g_strdup_printf("unix:%s", opts->path);
    }
    if (opts->fd) {
        return g_strdup_printf("fd:%s", opts->fd);
    }
    return g_strdup_printf("tcp:%s:%s", opts->host ?: "", opts->port);
}

/* ---- Unix ---- */

static bool unix_address(const ChardevSocketOptions *opts, struct sockaddr_un *addr,
                         socklen_t *ret_len, GError **errp)
{
    bool abstract = opts->has_abstract && opts->abstract;
    size_t len = strlen(opts->path);

    memset(addr, 0, sizeof(*addr));
    addr->sun_family = AF_UNIX;
    if (len == 0 || len + 1 > sizeof(addr->sun_path)) {
        error_set(errp, "The socket path '%s' is %s: 1 to %zu bytes are possible", opts->path,
                  len ? "too long" : "empty", sizeof(addr->sun_path) - 1);
        return false;
    }
    memcpy(addr->sun_path + abstract, opts->path, len);
    *ret_len = offsetof(struct sockaddr_un, sun_path) + len + 1;
    return true;
}

/* Whether the socket file is a left-over that nobody listens on. */
static bool is_stale(const struct sockaddr_un *addr, socklen_t len)
{
    g_auto(FdHandle) fd = socket(AF_UNIX, SOCKET_FLAGS, 0);

    return fd >= 0 && connect(fd, (const struct sockaddr *)addr, len) < 0 && errno == ECONNREFUSED;
}

static int unix_listen(const ChardevSocketOptions *opts, char **ret_unlink, GError **errp)
{
    g_auto(FdHandle) fd = socket(AF_UNIX, SOCKET_FLAGS, 0);
    struct sockaddr_un addr;
    socklen_t len;
    int rc;

    if (!unix_address(opts, &addr, &len, errp)) {
        return -1;
    }
    rc = bind(fd, (struct sockaddr *)&addr, len);
    if (rc < 0 && errno == EADDRINUSE && addr.sun_path[0]) {
        if (!is_stale(&addr, len)) {
            errno = EADDRINUSE;
        } else if (unlink(addr.sun_path) == 0) {
            rc = bind(fd, (struct sockaddr *)&addr, len);
        }
    }
    if (rc < 0 || listen(fd, BACKLOG) < 0) {
        error_set_errno(errp, errno, "Listening on the unix socket '%s' failed", opts->path);
        return -1;
    }
    *ret_unlink = addr.sun_path[0] ? g_canonicalize_filename(opts->path, NULL) : NULL;
    return g_steal_fd(&fd);
}

static int unix_connect(const ChardevSocketOptions *opts, GError **errp)
{
    g_auto(FdHandle) fd = socket(AF_UNIX, SOCKET_FLAGS, 0);
    struct sockaddr_un addr;
    socklen_t len;

    if (!unix_address(opts, &addr, &len, errp)) {
        return -1;
    }
    if (connect(fd, (struct sockaddr *)&addr, len) < 0) {
        error_set_errno(errp, errno, "Connecting to the unix socket '%s' failed", opts->path);
        return -1;
    }
    return g_steal_fd(&fd);
}

/* ---- TCP ---- */

static bool tcp_try(int fd, const struct addrinfo *addr, bool server)
{
    int on = 1;

    if (!server) {
        return connect(fd, addr->ai_addr, addr->ai_addrlen) == 0;
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    return bind(fd, addr->ai_addr, addr->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0;
}

/* The first address of host that works. */
static int tcp_open(const ChardevSocketOptions *opts, bool server, GError **errp)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
                                    .ai_flags = server ? AI_PASSIVE : 0 };
    const char *host = opts->host && opts->host[0] ? opts->host : NULL;
    struct addrinfo *list;
    int rc = getaddrinfo(host, opts->port, &hints, &list), err = 0;

    if (rc != 0) {
        error_set(errp, "Finding the address of '%s' port '%s' failed: %s", host ?: "", opts->port,
                  gai_strerror(rc));
        return -1;
    }
    for (struct addrinfo *addr = list; addr; addr = addr->ai_next) {
        int fd = socket(addr->ai_family, SOCKET_FLAGS, 0);

        if (fd >= 0 && tcp_try(fd, addr, server)) {
            freeaddrinfo(list);
            return fd;
        }
        err = errno;
        close_fd(&fd);
    }
    freeaddrinfo(list);
    error_set_errno(errp, err, "%s 'tcp:%s:%s' failed", server ? "Listening on" : "Connecting to",
                    host ?: "", opts->port);
    return -1;
}

void socket_set_nodelay(int fd)
{
    int on = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

/* ---- Inherited descriptors ---- */

static int socket_option(int fd, int option)
{
    int value = 0;
    socklen_t len = sizeof(value);

    return getsockopt(fd, SOL_SOCKET, option, &value, &len) < 0 ? -1 : value;
}

static int inherited(const ChardevSocketOptions *opts, FdStore *fds, bool server, GError **errp)
{
    g_auto(FdHandle) fd = -1;

    if (!fds) {
        error_set(errp, "fd=%s cannot be used here", opts->fd);
        return -1;
    }
    fd = fd_store_get_param(fds, opts->fd, errp);
    if (fd < 0) {
        return -1;
    }
    if (socket_option(fd, SO_TYPE) != SOCK_STREAM) {
        error_set(errp, "File descriptor '%s' is not a stream socket", opts->fd);
        return -1;
    }
    if (server != (socket_option(fd, SO_ACCEPTCONN) == 1)) {
        error_set(errp, "File descriptor '%s' is %s", opts->fd,
                  server ? "not a listening socket, which server=on needs"
                         : "a listening socket: say server=on");
        return -1;
    }
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    return g_steal_fd(&fd);
}

/* ---- */

static int finish(int fd, GError **errp)
{
    if (fd >= 0 && !fd_set_nonblocking(fd, true, errp)) {
        close(fd);
        return -1;
    }
    return fd;
}

int socket_listen(const ChardevSocketOptions *opts, FdStore *fds, char **ret_unlink, GError **errp)
{
    *ret_unlink = NULL;
    if (opts->path) {
        return finish(unix_listen(opts, ret_unlink, errp), errp);
    }
    if (opts->fd) {
        return finish(inherited(opts, fds, true, errp), errp);
    }
    return finish(tcp_open(opts, true, errp), errp);
}

int socket_connect(const ChardevSocketOptions *opts, FdStore *fds, GError **errp)
{
    if (opts->path) {
        return finish(unix_connect(opts, errp), errp);
    }
    if (opts->fd) {
        return finish(inherited(opts, fds, false, errp), errp);
    }
    return finish(tcp_open(opts, false, errp), errp);
}

static char *describe_inet(const struct sockaddr *addr, socklen_t len)
{
    char host[NI_MAXHOST], port[NI_MAXSERV];

    if (getnameinfo(addr, len, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        return g_strdup("tcp");
    }
    return g_strdup_printf(strchr(host, ':') ? "tcp:[%s]:%s" : "tcp:%s:%s", host, port);
}

char *socket_describe(int fd, bool local)
{
    union {
        struct sockaddr any;
        struct sockaddr_un un;
        struct sockaddr_storage storage;
    } addr = { .any = { 0 } };
    socklen_t len = sizeof(addr);
    int rc = local ? getsockname(fd, &addr.any, &len) : getpeername(fd, &addr.any, &len);

    if (rc < 0) {
        return g_strdup("unknown");
    }
    if (addr.any.sa_family != AF_UNIX) {
        return describe_inet(&addr.any, len);
    }
    if (len > offsetof(struct sockaddr_un, sun_path) && addr.un.sun_path[0] == '\0') {
        return g_strdup_printf("unix:%s,abstract=on", addr.un.sun_path + 1);
    }
    return g_strdup_printf("unix:%s",
                           len > offsetof(struct sockaddr_un, sun_path) ? addr.un.sun_path : "");
}
