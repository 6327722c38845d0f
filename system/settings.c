/*
 * What the command line says about the process itself: names, messages, logs, descriptors.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "system/settings.h"

#include "util/error.h"
#include "util/log.h"

#include <fcntl.h>
#include <sys/prctl.h>

static bool apply_name(const NameOptions *name, GError **errp)
{
    if (name->has_debug_threads && !name->debug_threads) {
        error_set(errp, "-name debug-threads=off: threads always have names; leave it out");
        return false;
    }
    if (name->process) {
        prctl(PR_SET_NAME, name->process);
    }
    return true;
}

bool settings_apply(const SystemOptions *o, GError **errp)
{
    const char *guest = o->name ? o->name->guest : NULL;

    if (o->name && !apply_name(o->name, errp)) {
        return false;
    }
    if (o->msg) {
        report_set_format(o->msg->timestamp, o->msg->guest_name ? guest : NULL);
    }
    if (o->log_items && !log_set_items(o->log_items, errp)) {
        g_prefix_error(errp, "-d: ");
        return false;
    }
    return !o->log_file || log_set_file(o->log_file, errp);
}

bool settings_add_fds(const SystemOptions *o, FdStore *fds, GError **errp)
{
    for (guint i = 0; o->add_fd && i < o->add_fd->len; i++) {
        const AddFdOptions *a = g_ptr_array_index(o->add_fd, i);
        int flags = a->fd > 2 && a->fd <= INT_MAX ? fcntl(a->fd, F_GETFD) : -1;

        if (flags < 0 || (flags & FD_CLOEXEC)) {
            error_set(errp, "-add-fd: %" PRId64 " is not an inherited descriptor above 2", a->fd);
            return false;
        }
        fcntl(a->fd, F_SETFD, flags | FD_CLOEXEC);
        if (!fdset_add(fds, true, a->set, a->fd, a->opaque, NULL, errp)) {
            g_prefix_error(errp, "-add-fd: ");
            return false;
        }
    }
    return true;
}
