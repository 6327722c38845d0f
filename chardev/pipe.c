/*
 * The pipe chardev: named pipes PATH.in and PATH.out, or one file PATH for both directions.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "chardev/backend.h"

#include <errno.h>
#include <fcntl.h>

#include "util/error.h"
#include "util/io.h"

typedef struct ChardevPipe {
    Chardev parent_instance;
    int in_fd, out_fd; /* may be the same */
    char *path;
} ChardevPipe;

typedef struct ChardevPipeClass {
    ChardevClass parent_class;
} ChardevPipeClass;

QOM_DEFINE_TYPE(ChardevPipe, chardev_pipe, "chardev-pipe", TYPE_CHARDEV)

/* O_RDWR: opening does not wait for the other side, and its leaving is not an end of file. */
static int open_rdwr(const char *path)
{
    return open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
}

static bool pipe_start(Chardev *chr, const ChardevOptions *options, FdStore *fds, GError **errp)
{
    ChardevPipe *self = (ChardevPipe *)chr;
    g_autofree char *in = g_strconcat(options->u.pipe.path, ".in", NULL);
    g_autofree char *out = g_strconcat(options->u.pipe.path, ".out", NULL);

    self->path = g_strdup(options->u.pipe.path);
    self->in_fd = open_rdwr(in);
    self->out_fd = open_rdwr(out);
    if (self->in_fd < 0 || self->out_fd < 0) {
        close_fd(&self->in_fd);
        close_fd(&self->out_fd);
        self->in_fd = self->out_fd = open_rdwr(self->path);
    }
    if (self->in_fd < 0) {
        error_set_errno(errp, errno,
                        "Chardev '%s': opening neither '%s' with '%s' nor '%s' was possible (make "
                        "them with mkfifo)",
                        options->id, in, out, self->path);
        return false;
    }
    chardev_peer_came(chr, self->in_fd, self->out_fd);
    return true;
}

static void pipe_stop(Chardev *chr)
{
    ChardevPipe *self = (ChardevPipe *)chr;

    chardev_peer_gone(chr);
    if (self->out_fd != self->in_fd) {
        close_fd(&self->out_fd);
    }
    self->out_fd = -1;
    close_fd(&self->in_fd);
}

static char *pipe_filename(Chardev *chr)
{
    return g_strconcat("pipe:", ((ChardevPipe *)chr)->path, NULL);
}

static void chardev_pipe_finalize(GObject *obj)
{
    g_free(((ChardevPipe *)obj)->path);
    G_OBJECT_CLASS(chardev_pipe_parent_class)->finalize(obj);
}

static void chardev_pipe_init(ChardevPipe *self)
{
    self->in_fd = self->out_fd = -1;
}

static void chardev_pipe_class_init(ChardevPipeClass *klass)
{
    ChardevClass *chardev = CHARDEV_CLASS(klass);

    G_OBJECT_CLASS(klass)->finalize = chardev_pipe_finalize;
    chardev->start = pipe_start;
    chardev->stop = pipe_stop;
    chardev->filename = pipe_filename;
}
