/*
 * For tests: a file system with reflink, in a loop-mounted file.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_TESTS_UNIT_XFS_FIXTURE_H
#define COWBIRD_TESTS_UNIT_XFS_FIXTURE_H

#include <fcntl.h>
#include <glib.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct FixtureXfs {
    char *image, *folder;
} FixtureXfs;

/* False = it cannot be had here. */
static inline bool fixture_mount_xfs(FixtureXfs *r)
{
    g_autofree char *command = NULL;
    int fd;

    r->image = g_strdup("/var/tmp/cowbird-test-XXXXXX");
    fd = g_mkstemp_full(r->image, O_RDWR | O_CLOEXEC, 0600);
    g_assert_cmpint(fd, >=, 0);
    g_assert_cmpint(ftruncate(fd, 512 << 20), ==, 0);
    close(fd);
    r->folder = g_dir_make_tmp("cowbird-xfs-XXXXXX", NULL);
    command = g_strdup_printf("PATH=$PATH:/sbin:/usr/sbin; { mkfs.xfs -q %s && "
                              "mount -o loop %s %s; } >/dev/null 2>&1",
                              r->image, r->image, r->folder);
    if (system(command) == 0) {
        return true;
    }
    rmdir(r->folder);
    unlink(r->image);
    g_free(r->folder);
    g_free(r->image);
    return false;
}

static inline void fixture_unmount_xfs(FixtureXfs *r)
{
    g_autofree char *command = g_strdup_printf("umount %s", r->folder);

    g_assert_cmpint(system(command), ==, 0);
    rmdir(r->folder);
    unlink(r->image);
    g_free(r->folder);
    g_free(r->image);
}

#endif
