/*
 * The object "iothread": a thread that devices can be given for the work of their queues, and query-iothreads.
 *
 * The thread sleeps in poll(2) until it has something to do; it does not busy-wait, so there are none of QEMU's poll-* properties.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/core/iothread.h"

#include "hw/core/machine.h"
#include "qapi/qapi-commands.h"
#include "util/error.h"
#include "util/event-thread.h"

struct IoThread {
    Object parent_instance;
    EventThread *thread;
    unsigned users;
};

struct _IoThreadClass {
    ObjectClass parent_class;
};

QOM_DEFINE_TYPE(IoThread, iothread, "iothread", TYPE_OBJECT)

GMainContext *iothread_context(IoThread *t)
{
    return event_thread_context(t->thread);
}

int iothread_thread_id(const IoThread *t)
{
    return event_thread_id(t->thread);
}

bool iothread_is_current(const IoThread *t)
{
    return event_thread_is_current(t->thread);
}

void iothread_wait_idle(IoThread *t)
{
    event_thread_wait_idle(t->thread);
}

void iothread_use(IoThread *t)
{
    t->users++;
}

void iothread_unuse(IoThread *t)
{
    t->users--;
}

static bool iothread_complete(Object *obj, GError **errp)
{
    IoThread *t = IOTHREAD(obj);

    t->thread = event_thread_new("iothread", errp);
    return t->thread != NULL;
}

static bool iothread_can_delete(Object *obj, GError **errp)
{
    IoThread *t = IOTHREAD(obj);

    if (t->users > 0) {
        error_set(errp, "iothread '%s' is used by %u device%s: unplug them first", obj->name,
                  t->users, t->users == 1 ? "" : "s");
        return false;
    }
    return true;
}

static IOThreadInfo *describe(Object *obj)
{
    IOThreadInfo *info = g_new0(IOThreadInfo, 1);

    info->id = g_strdup(obj->name);
    info->thread_id = iothread_thread_id(IOTHREAD(obj));
    return info;
}

GPtrArray *qmp_query_iothreads(Machine *m, GError **errp)
{
    Object *objects = object_get_container(m->root, "objects");
    GPtrArray *list = g_ptr_array_new();

    for (guint i = 0; objects->children && i < objects->children->len; i++) {
        Object *child = g_ptr_array_index(objects->children, i);

        if (G_TYPE_CHECK_INSTANCE_TYPE(child, TYPE_IOTHREAD)) {
            g_ptr_array_add(list, describe(child));
        }
    }
    return list;
}

static void iothread_finalize(GObject *gobj)
{
    event_thread_free(IOTHREAD(gobj)->thread);
    G_OBJECT_CLASS(iothread_parent_class)->finalize(gobj);
}

static void iothread_init(IoThread *t)
{
}

static void iothread_class_init(IoThreadClass *klass)
{
    ObjectClass *oc = OBJECT_CLASS(klass);

    G_OBJECT_CLASS(klass)->finalize = iothread_finalize;
    oc->user_creatable = true;
    oc->complete = iothread_complete;
    oc->can_delete = iothread_can_delete;
}

const QomType iothread_types[] = {
    { "iothread", iothread_get_type },
    { .name = NULL },
};
