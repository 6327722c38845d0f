/*
 * The pty chardev: a pseudo terminal whose other end any program may open and leave.
 *
 * The kernel tells of the other end only by POLLHUP, which stays on while nobody has it open. So
 * while closed it is asked for once a second, and whenever there is something to write.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "chardev/backend.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

#include "util/error.h"
#include "util/io.h"

#define RECHECK_MS 1000

typedef struct ChardevPty {
    Chardev parent_instance;
    int fd;
    char *name; /* "/dev/pts/3" */
    guint timer;
} ChardevPty;

typedef struct ChardevPtyClass {
    ChardevClass parent_class;
} ChardevPtyClass;

QOM_DEFINE_TYPE(ChardevPty, chardev_pty, "chardev-pty", TYPE_CHARDEV)

static bool somebody_there(ChardevPty *pty)
{
    struct pollfd pfd = { .fd = pty->fd, .events = POLLOUT };

    return poll(&pfd, 1, 0) >= 0 && !(pfd.revents & POLLHUP);
}

static gboolean on_recheck(void *data)
{
    ChardevPty *pty = data;
    Chardev *chr = data;

    if (!chardev_is_open(chr)) {
        if (!somebody_there(pty)) {
            return G_SOURCE_CONTINUE;
        }
        pty->timer = 0;
        chardev_peer_came(chr, pty->fd, pty->fd);
        return G_SOURCE_REMOVE;
    }
    pty->timer = 0;
    return G_SOURCE_REMOVE;
}

static void pty_peer_left(Chardev *chr)
{
    ChardevPty *pty = (ChardevPty *)chr;

    chardev_peer_gone(chr);
    if (!pty->timer) {
        pty->timer = g_timeout_add(RECHECK_MS, on_recheck, pty);
    }
}

static bool pty_try_open(Chardev *chr)
{
    ChardevPty *pty = (ChardevPty *)chr;

    if (pty->fd < 0 || !somebody_there(pty)) {
        return false;
    }
    chardev_peer_came_locked(chr, pty->fd, pty->fd);
    return true;
}

/* Neither echo nor line editing; the setting outlives the closing of this end. */
static bool set_raw(const char *name)
{
    g_auto(FdHandle) slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    struct termios tty;

    if (slave < 0 || tcgetattr(slave, &tty) < 0) {
        return false;
    }
    cfmakeraw(&tty);
    return tcsetattr(slave, TCSAFLUSH, &tty) == 0;
}

static bool pty_start(Chardev *chr, const ChardevOptions *options, FdStore *fds, GError **errp)
{
    ChardevPty *pty = (ChardevPty *)chr;
    char name[64];

    pty->fd = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (pty->fd < 0 || grantpt(pty->fd) < 0 || unlockpt(pty->fd) < 0 ||
        ptsname_r(pty->fd, name, sizeof(name)) != 0 || !set_raw(name)) {
        error_set_errno(errp, errno, "Chardev '%s': making a pseudo terminal failed", options->id);
        return false;
    }
    pty->name = g_strdup(name);
    info_report("char device redirected to %s (label %s)", pty->name, options->id);
    pty_peer_left(chr);
    return true;
}

static void pty_stop(Chardev *chr)
{
    ChardevPty *pty = (ChardevPty *)chr;

    if (pty->timer) {
        g_source_remove(pty->timer);
        pty->timer = 0;
    }
    chardev_peer_gone(chr);
    g_mutex_lock(&chr->lock);
    close_fd(&pty->fd);
    g_mutex_unlock(&chr->lock);
}

static char *pty_filename(Chardev *chr)
{
    return g_strconcat("pty:", ((ChardevPty *)chr)->name, NULL);
}

static void chardev_pty_finalize(GObject *obj)
{
    g_free(((ChardevPty *)obj)->name);
    G_OBJECT_CLASS(chardev_pty_parent_class)->finalize(obj);
}

static void chardev_pty_init(ChardevPty *pty)
{
    pty->fd = -1;
}

static void chardev_pty_class_init(ChardevPtyClass *klass)
{
    ChardevClass *chardev = CHARDEV_CLASS(klass);

    G_OBJECT_CLASS(klass)->finalize = chardev_pty_finalize;
    chardev->start = pty_start;
    chardev->stop = pty_stop;
    chardev->filename = pty_filename;
    chardev->peer_left = pty_peer_left;
    chardev->try_open = pty_try_open;
}
