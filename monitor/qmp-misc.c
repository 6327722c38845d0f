/*
 * The commands of misc.json: file descriptors that come with SCM_RIGHTS, and words.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "monitor/internal.h"

#include "util/error.h"

/* The descriptor that came with the command; the caller owns it. */
static int take_fd(MonitorSession *session, GError **errp)
{
    int fd = chardev_take_fd(session->chardev);

    if (fd < 0) {
        error_set(errp, "No file descriptor supplied via SCM_RIGHTS");
    }
    return fd;
}

bool qmp_getfd(MonitorSession *session, const GetfdArg *arg, GError **errp)
{
    int fd = take_fd(session, errp);

    return fd >= 0 && fd_store_add_named(session->set->env.fds, arg->fdname, fd, errp);
}

bool qmp_closefd(MonitorSession *session, const ClosefdArg *arg, GError **errp)
{
    return fd_store_close_named(session->set->env.fds, arg->fdname, errp);
}

AddfdInfo *qmp_add_fd(MonitorSession *session, const AddFdArg *arg, GError **errp)
{
    int fd = take_fd(session, errp);
    int64_t id;

    if (fd < 0 || !fdset_add(session->set->env.fds, arg->has_fdset_id, arg->fdset_id, fd,
                             arg->opaque, &id, errp)) {
        return NULL;
    }
    AddfdInfo *info = g_new0(AddfdInfo, 1);

    info->fdset_id = id;
    info->fd = fd;
    return info;
}

bool qmp_remove_fd(MonitorSession *session, const RemoveFdArg *arg, GError **errp)
{
    return fdset_remove(session->set->env.fds, arg->fdset_id, arg->has_fd, arg->fd, errp);
}

static void list_fd(void *opaque, int64_t id, int fd, const char *words)
{
    GPtrArray *sets = opaque;
    FdsetInfo *set = sets->len ? sets->pdata[sets->len - 1] : NULL;
    FdsetFdInfo *info = g_new0(FdsetFdInfo, 1);

    if (!set || set->fdset_id != id) {
        set = g_new0(FdsetInfo, 1);
        set->fdset_id = id;
        set->fds = g_ptr_array_new();
        g_ptr_array_add(sets, set);
    }
    info->fd = fd;
    info->opaque = g_strdup(words);
    g_ptr_array_add(set->fds, info);
}

GPtrArray *qmp_query_fdsets(MonitorSession *session, GError **errp)
{
    GPtrArray *sets = g_ptr_array_new();

    fdset_foreach(session->set->env.fds, list_fd, sets);
    return sets;
}

char *qmp_human_monitor_command(MonitorSession *session, const HumanMonitorCommandArg *arg,
                                GError **errp)
{
    return human_run(session->set, arg->command_line, arg->has_cpu_index, arg->cpu_index, errp);
}
