/*
 * The file chardev: output goes into a file, or into a pipe that somebody has opened for us; there is
 * no input.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "chardev/backend.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "util/io.h"

typedef struct ChardevFile {
    Chardev parent_instance;
    int fd;
} ChardevFile;

typedef struct ChardevFileClass {
    ChardevClass parent_class;
} ChardevFileClass;

QOM_DEFINE_TYPE(ChardevFile, chardev_file, "chardev-file", TYPE_CHARDEV)

static bool file_start(Chardev *chr, const ChardevOptions *options, FdStore *fds, GError **errp)
{
    ChardevFile *file = (ChardevFile *)chr;
    const ChardevFileOptions *opts = &options->u.file;
    bool append = opts->has_append && opts->append;
    struct stat st;

    file->fd =
        fd_store_open(fds, opts->path,
                      O_WRONLY | O_CREAT | O_NONBLOCK | (append ? O_APPEND : O_TRUNC), 0666, errp);
    if (file->fd < 0) {
        g_prefix_error(errp, "Chardev '%s': ", options->id);
        return false;
    }
    /* A pipe from "/dev/fdset/N" is shared with whoever gave it to us, flags and all. */
    chr->blocking_fds = fstat(file->fd, &st) == 0 && !S_ISREG(st.st_mode);
    chardev_peer_came(chr, -1, file->fd);
    return true;
}

static void file_stop(Chardev *chr)
{
    ChardevFile *file = (ChardevFile *)chr;

    chardev_peer_gone(chr);
    close_fd(&file->fd);
}

static char *file_filename(Chardev *chr)
{
    return g_strdup("file");
}

static void chardev_file_init(ChardevFile *file)
{
    file->fd = -1;
}

static void chardev_file_class_init(ChardevFileClass *klass)
{
    ChardevClass *chardev = CHARDEV_CLASS(klass);

    chardev->start = file_start;
    chardev->stop = file_stop;
    chardev->filename = file_filename;
}
