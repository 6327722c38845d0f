/*
 * -daemonize and -pidfile.
 *
 * The parent of a daemon ends only when the child accepts connections and the pid file is complete: programs
 * that start us read the file and connect right after (libvirt does).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "system/daemon.h"

#include "util/error.h"
#include "util/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct Daemon {
    int ready_fd; /* write end to the parent; -1: not a daemon */
    int pid_fd;
    char *pid_path;
};

/* The parent: a byte means ready, the end of the pipe means that the child is gone. */
static G_GNUC_NORETURN void wait_for_child(int fd, pid_t child)
{
    char byte;
    ssize_t n;
    int status;

    do {
        n = read(fd, &byte, 1);
    } while (n < 0 && errno == EINTR);
    if (n == 1) {
        _exit(EXIT_SUCCESS);
    }
    if (waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) != 0) {
        _exit(WEXITSTATUS(status));
    }
    _exit(EXIT_FAILURE);
}

static bool fork_child(Daemon *daemon, GError **errp)
{
    int fds[2];
    pid_t child;

    if (pipe2(fds, O_CLOEXEC) < 0) {
        error_set_errno(errp, errno, "-daemonize: cannot create a pipe");
        return false;
    }
    fflush(NULL);
    child = fork();
    if (child < 0) {
        error_set_errno(errp, errno, "-daemonize: cannot fork");
        close(fds[0]);
        close(fds[1]);
        return false;
    }
    if (child > 0) {
        close(fds[1]);
        wait_for_child(fds[0], child);
    }
    close(fds[0]);
    daemon->ready_fd = fds[1];
    setsid();
    return true;
}

Daemon *daemon_start(bool daemonize, GError **errp)
{
    Daemon *daemon = g_new0(Daemon, 1);

    daemon->ready_fd = -1;
    daemon->pid_fd = -1;
    if (daemonize && !fork_child(daemon, errp)) {
        g_free(daemon);
        return NULL;
    }
    return daemon;
}

bool daemon_write_pidfile(Daemon *daemon, const char *path, GError **errp)
{
    g_autofree char *text = g_strdup_printf("%ld\n", (long)getpid());
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    int fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0644);

    if (fd < 0) {
        error_set_errno(errp, errno, "cannot open pid file '%s'", path);
        return false;
    }
    if (fcntl(fd, F_OFD_SETLK, &lock) < 0) {
        error_set_errno(errp, errno, "cannot lock pid file '%s': another process uses it", path);
        close(fd);
        return false;
    }
    if (ftruncate(fd, 0) < 0 || !write_full(fd, text, strlen(text), errp)) {
        if (errp && !*errp) {
            error_set_errno(errp, errno, "cannot truncate pid file '%s'", path);
        }
        close(fd);
        return false;
    }
    daemon->pid_fd = fd;
    daemon->pid_path = g_canonicalize_filename(path, NULL);
    return true;
}

bool daemon_ready(Daemon *daemon, GError **errp)
{
    int null_fd;

    if (daemon->ready_fd < 0) {
        return true;
    }
    null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null_fd < 0 || chdir("/") < 0) {
        error_set_errno(errp, errno, "-daemonize: cannot open /dev/null or enter /");
        return false;
    }
    if (write(daemon->ready_fd, "", 1) != 1) {
        error_set_errno(errp, errno, "-daemonize: the parent process is gone");
        close(null_fd);
        return false;
    }
    close(daemon->ready_fd);
    daemon->ready_fd = -1;
    for (int fd = 0; fd <= 2; fd++) {
        dup2(null_fd, fd);
    }
    close(null_fd);
    return true;
}

void daemon_free(Daemon *daemon)
{
    if (!daemon) {
        return;
    }
    if (daemon->pid_path) {
        unlink(daemon->pid_path);
        g_free(daemon->pid_path);
    }
    if (daemon->pid_fd >= 0) {
        close(daemon->pid_fd);
    }
    g_free(daemon);
}
