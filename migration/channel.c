/*
 * Addresses of migrations (file:, fd:, exec:, unix:, tcp:) and the descriptors behind them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "migration/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "migration/channel-socket.h"
#include "util/error.h"
#include "util/io.h"
#include "util/units.h"

void migration_address_free(MigrationAddress *address)
{
    if (address) {
        g_free(address->name);
        g_free(address->port);
        g_free(address);
    }
}

/* PATH[,offset=N]; a path may have commas of its own. */
static bool parse_file(MigrationAddress *a, const char *text, GError **errp)
{
    static const char key[] = ",offset=";
    const char *option = g_strrstr(text, key);

    a->name = option ? g_strndup(text, option - text) : g_strdup(text);
    if (option && !size_parse(option + strlen(key), 0, &a->offset)) {
        error_set(errp, "'%s' is not a file offset in '%s'", option + strlen(key), text);
        return false;
    }
    if (a->offset > INT64_MAX) {
        error_set(errp, "file offset '%s' is too large", option + strlen(key));
        return false;
    }
    return true;
}

/* HOST:PORT, [IPV6]:PORT; no host means any when listening, this machine when connecting. */
static bool parse_tcp(MigrationAddress *a, const char *text, GError **errp)
{
    const char *colon = strrchr(text, ':');
    g_autofree char *host = NULL;
    size_t len;

    if (!colon || colon[1] == '\0') {
        error_set(errp, "'tcp:%s' has no port; write tcp:HOST:PORT", text);
        return false;
    }
    a->port = g_strndup(colon + 1, strcspn(colon + 1, ","));
    host = g_strndup(text, colon - text);
    len = strlen(host);
    if (len >= 2 && host[0] == '[' && host[len - 1] == ']') {
        a->name = g_strndup(host + 1, len - 2);
    } else {
        a->name = g_steal_pointer(&host);
    }
    return true;
}

MigrationAddress *migration_address_parse(const char *uri, GError **errp)
{
    static const char *const kinds[] = { "file:", "fd:", "exec:", "unix:", "tcp:" };
    g_autoptr(MigrationAddress) a = g_new0(MigrationAddress, 1);
    unsigned kind = 0;
    const char *rest;

    while (kind < G_N_ELEMENTS(kinds) && !g_str_has_prefix(uri, kinds[kind])) {
        kind++;
    }
    if (kind == G_N_ELEMENTS(kinds)) {
        error_set(errp,
                  "unknown migration address '%s'; known are file:PATH[,offset=N], fd:NAME, "
                  "exec:COMMAND, unix:PATH and tcp:HOST:PORT",
                  uri);
        return NULL;
    }
    a->kind = kind;
    rest = uri + strlen(kinds[kind]);
    if (*rest == '\0') {
        error_set(errp, "migration address '%s' has nothing after '%s'", uri, kinds[kind]);
        return NULL;
    }
    if (a->kind == CHANNEL_FILE && !parse_file(a, rest, errp)) {
        return NULL;
    }
    if (a->kind == CHANNEL_TCP && !parse_tcp(a, rest, errp)) {
        return NULL;
    }
    if (!a->name) {
        a->name = g_strdup(rest);
    }
    return g_steal_pointer(&a);
}

StreamChannel *stream_channel_new(int fd)
{
    StreamChannel *channel = g_new0(StreamChannel, 1);

    channel->fd = fd;
    return channel;
}

void stream_channel_free(StreamChannel *channel)
{
    if (channel) {
        /* Not closed before: the migration failed, and the command is not needed. */
        if (channel->child) {
            kill(-channel->child, SIGTERM);
        }
        stream_channel_close(channel, NULL);
        g_free(channel);
    }
}

bool stream_channel_close(StreamChannel *channel, GError **errp)
{
    pid_t child = channel->child;
    int status;

    close_fd(&channel->fd);
    channel->child = 0;
    if (child == 0) {
        return true;
    }
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            error_set_errno(errp, errno, "cannot wait for the exec: command");
            return false;
        }
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        error_set(errp, "the exec: command %s %d",
                  WIFEXITED(status) ? "ended with status" : "was killed by signal",
                  WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
        return false;
    }
    return true;
}

/*
 * posix_spawn does not copy the page tables of guest RAM. The command gets a process group, so that
 * all of a pipeline can be ended, and the signals of a new process.
 */
static int spawn_shell(const char *command, int fd, int as, pid_t *ret_child)
{
    char *const argv[] = { "/bin/sh", "-c", (char *)command, NULL };
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, pipe_signal;
    int err;

    sigemptyset(&none);
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                        POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &pipe_signal);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fd, as);
    err = posix_spawn(ret_child, argv[0], &actions, &attr, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    return err;
}

/* our_end: 1 we write, 0 we read. */
static StreamChannel *open_exec(const char *command, int our_end, GError **errp)
{
    g_autoptr(StreamChannel) channel = NULL;
    pid_t child;
    int fds[2], err;

    if (pipe2(fds, O_CLOEXEC) < 0) {
        error_set_errno(errp, errno, "cannot make a pipe for the exec: command");
        return NULL;
    }
    channel = stream_channel_new(fds[our_end]);
    err = spawn_shell(command, fds[!our_end], our_end ? STDIN_FILENO : STDOUT_FILENO, &child);
    close(fds[!our_end]);
    if (err) {
        error_set_errno(errp, err, "cannot start '%s'%s", command,
                        err == EPERM ? " (-sandbox spawn=deny forbids programs; use fd:)" : "");
        return NULL;
    }
    channel->child = child;
    return g_steal_pointer(&channel);
}

StreamChannel *stream_channel_open_output(const MigrationAddress *address, const int *cancelled,
                                          GError **errp)
{
    int fd;

    if (address->kind == CHANNEL_EXEC) {
        return open_exec(address->name, 1, errp);
    }
    fd = address->kind == CHANNEL_UNIX
             ? socket_connect_unix(address->name, cancelled, errp)
             : socket_connect_tcp(address->name, address->port, cancelled, errp);
    return fd < 0 ? NULL : stream_channel_new(fd);
}

int stream_channel_listen(const MigrationAddress *address, GError **errp)
{
    return address->kind == CHANNEL_UNIX ? socket_listen_unix(address->name, errp)
                                         : socket_listen_tcp(address->name, address->port, errp);
}

void stream_channel_unlisten(const MigrationAddress *address, int *listener)
{
    if (*listener >= 0 && address->kind == CHANNEL_UNIX) {
        socket_remove_unix(address->name);
    }
    close_fd(listener);
}

StreamChannel *stream_channel_open_input(const MigrationAddress *address, int listener,
                                         const int *cancelled, GError **errp)
{
    int fd;

    if (address->kind == CHANNEL_EXEC) {
        return open_exec(address->name, 0, errp);
    }
    fd = socket_accept(listener, address->name, cancelled, errp);
    return fd < 0 ? NULL : stream_channel_new(fd);
}
