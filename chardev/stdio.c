/*
 * The stdio chardev: standard input and output of the process.
 *
 * They are shared with whoever started us, so they stay in blocking mode. A terminal is put into
 * raw mode while the chardev is open.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "chardev/backend.h"

#include <termios.h>
#include <unistd.h>

#include "util/error.h"

typedef struct ChardevStdio {
    Chardev parent_instance;
    bool taken; /* this one has the process's standard input and output */
    bool terminal;
    struct termios saved;
} ChardevStdio;

typedef struct ChardevStdioClass {
    ChardevClass parent_class;
    bool in_use; /* there is one standard input */
} ChardevStdioClass;

QOM_DEFINE_TYPE(ChardevStdio, chardev_stdio, "chardev-stdio", TYPE_CHARDEV)

static void make_raw(ChardevStdio *self, bool signal)
{
    struct termios raw;

    if (tcgetattr(STDIN_FILENO, &self->saved) < 0) {
        return;
    }
    raw = self->saved;
    cfmakeraw(&raw);
    raw.c_oflag |= OPOST;
    if (signal) {
        raw.c_lflag |= ISIG;
    }
    self->terminal = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
}

static bool stdio_start(Chardev *chr, const ChardevOptions *options, FdStore *fds, GError **errp)
{
    ChardevStdio *self = (ChardevStdio *)chr;
    ChardevStdioClass *klass =
        G_TYPE_INSTANCE_GET_CLASS(chr, G_OBJECT_TYPE(chr), ChardevStdioClass);
    const ChardevStdioOptions *opts = &options->u.stdio;

    if (klass->in_use) {
        error_set(errp, "Chardev '%s': standard input and output are already used by another one",
                  options->id);
        return false;
    }
    klass->in_use = self->taken = true;
    chr->blocking_fds = true;
    make_raw(self, !opts->has_signal || opts->signal);
    chardev_peer_came(chr, STDIN_FILENO, STDOUT_FILENO);
    return true;
}

static void stdio_stop(Chardev *chr)
{
    ChardevStdio *self = (ChardevStdio *)chr;
    ChardevStdioClass *klass =
        G_TYPE_INSTANCE_GET_CLASS(chr, G_OBJECT_TYPE(chr), ChardevStdioClass);

    chardev_peer_gone(chr);
    if (self->terminal) {
        tcsetattr(STDIN_FILENO, TCSANOW, &self->saved);
        self->terminal = false;
    }
    if (self->taken) {
        klass->in_use = self->taken = false;
    }
}

static char *stdio_filename(Chardev *chr)
{
    return g_strdup("stdio");
}

static void chardev_stdio_init(ChardevStdio *self)
{
}

static void chardev_stdio_class_init(ChardevStdioClass *klass)
{
    ChardevClass *chardev = CHARDEV_CLASS(klass);

    chardev->start = stdio_start;
    chardev->stop = stdio_stop;
    chardev->filename = stdio_filename;
}
