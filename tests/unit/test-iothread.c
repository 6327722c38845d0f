/*
 * Tests of event threads, of the iothread object, and of a virtio device that has one.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "util/event-thread.h"

#include "virtio-fixture.h"

#include <unistd.h>

#include "qapi/qapi-commands.h"

static const QomType *const thread_types[] = { hw_types, iothread_types, NULL };

/* --- Event threads --- */

static gboolean note_thread(gpointer opaque)
{
    __atomic_store_n((GThread **)opaque, g_thread_self(), __ATOMIC_SEQ_CST);
    return G_SOURCE_REMOVE;
}

static void test_event_thread(void)
{
    EventThread *t = event_thread_new("test", NULL);
    GThread *seen = NULL;

    g_assert_nonnull(t);
    g_assert_cmpint(event_thread_id(t), >, 0);
    g_assert_cmpint(event_thread_id(t), !=, getpid());
    g_assert_false(event_thread_is_current(t));
    g_main_context_invoke(event_thread_context(t), note_thread, &seen);
    event_thread_wait_idle(t);
    event_thread_wait_idle(t);
    while (!__atomic_load_n(&seen, __ATOMIC_SEQ_CST)) {
        g_usleep(100);
    }
    g_assert_true(seen != g_thread_self());
    event_thread_free(t);
    event_thread_free(NULL);
}

typedef struct Slow {
    gint begun, ended;
} Slow;

static gboolean be_slow(gpointer opaque)
{
    Slow *s = opaque;

    g_atomic_int_set(&s->begun, 1);
    g_usleep(50000);
    g_atomic_int_set(&s->ended, 1);
    return G_SOURCE_CONTINUE;
}

/* A source that was destroyed while it ran has ended when waiting ends. */
static void test_wait_idle(void)
{
    EventThread *t = event_thread_new("test", NULL);
    GSource *source = g_idle_source_new();
    Slow s = { 0 };

    g_source_set_callback(source, be_slow, &s, NULL);
    g_source_attach(source, event_thread_context(t));
    while (!g_atomic_int_get(&s.begun)) {
        g_usleep(100);
    }
    g_source_destroy(source);
    g_source_unref(source);
    event_thread_wait_idle(t);
    g_assert_cmpint(g_atomic_int_get(&s.ended), ==, 1);
    event_thread_free(t);
}

/* --- The object --- */

static IoThread *add_iothread(Board *b, const char *id)
{
    Object *obj = object_new(TYPE_IOTHREAD, b->root);

    g_assert_true(object_complete(obj, NULL));
    g_assert_true(object_add_child(object_get_container(b->root, "objects"), id, obj, NULL));
    g_object_unref(obj);
    return IOTHREAD(obj);
}

static void test_query(void)
{
    Board *b = board_new(TEST_RAM, NULL);
    IoThread *one = add_iothread(b, "one"), *two = add_iothread(b, "two");
    g_autoptr(GPtrArray) list = qmp_query_iothreads(b->m, NULL);
    IOThreadInfo *info;

    g_assert_cmpuint(list->len, ==, 2);
    info = g_ptr_array_index(list, 0);
    g_assert_cmpstr(info->id, ==, "one");
    g_assert_cmpint(info->thread_id, ==, iothread_thread_id(one));
    info = g_ptr_array_index(list, 1);
    g_assert_cmpint(info->thread_id, ==, iothread_thread_id(two));
    g_assert_cmpint(iothread_thread_id(one), !=, iothread_thread_id(two));
    for (guint i = 0; i < list->len; i++) {
        qapi_free_IOThreadInfo(g_ptr_array_index(list, i));
    }
    board_free(b);
}

/* --- A device with one --- */

typedef struct Fixture {
    Board *b;
    IoThread *iothread;
    TestVirtio *t;
    VirtioDevice *dev;
} Fixture;

static void use_all(TestVirtio *t, VirtQueue *vq)
{
    VirtElement *e;

    while ((e = virtqueue_pop(vq))) {
        virtqueue_push(vq, e, 0);
    }
    virtqueue_flush(vq);
}

static void set_up(Fixture *f, gconstpointer data)
{
    f->b = board_new(TEST_RAM, NULL);
    f->b->m->types = thread_types;
    f->iothread = add_iothread(f->b, "io0");
    f->t = test_virtio_new(f->b, "virtio-backend");
    f->dev = VIRTIO_DEVICE(f->t);
    f->t->on_queue = use_all;
    g_assert_true(object_set_property_str(OBJECT(f->t), "iothread", "io0", NULL));
    test_virtio_plug(f->t);
    g_assert_true(runstate_start(f->b->m->runstate, NULL));
    test_virtio_negotiate(f->t, 0);
    test_virtio_enable(f->b, f->t, TEST_QUEUE_SIZE);
    put_desc(f->b, RING_DESC, DATA, 16, 0, 0);
    test_virtio_start(f->t);
    iothread_wait_idle(f->iothread);
}

static void tear_down(Fixture *f, gconstpointer data)
{
    DEVICE_GET_CLASS(f->t)->unrealize(DEVICE(f->t));
    board_free(f->b);
}

static void make_available(Fixture *f)
{
    ram_put16(f->b, RING_DRIVER + 2, (uint16_t)(ram_get16(f->b, RING_DRIVER + 2) + 1));
}

static void wait_for_used(Fixture *f, uint16_t index)
{
    gint64 end = g_get_monotonic_time() + 10 * G_USEC_PER_SEC;

    while (ram_get16(f->b, RING_DEVICE + 2) != index) {
        g_assert_cmpint(g_get_monotonic_time(), <, end);
        g_usleep(100);
    }
}

static void test_doorbells(Fixture *f, gconstpointer data)
{
    uint64_t one = 1;
    int fd = virtqueue_host_notifier(f->dev->queues[0], NULL);

    make_available(f);
    virtio_kick(f->dev, 0);
    wait_for_used(f, 1);
    make_available(f);
    g_assert_cmpint(write(fd, &one, 8), ==, 8);
    wait_for_used(f, 2);
    virtio_lock(f->dev);
    g_assert_true(f->t->thread != g_thread_self());
    virtio_unlock(f->dev);
}

/* From the moment that the VM has stopped the thread leaves RAM alone, whatever comes. */
static void test_stop(Fixture *f, gconstpointer data)
{
    uint64_t one = 1;
    int fd = virtqueue_host_notifier(f->dev->queues[0], NULL);
    uint16_t used;

    for (unsigned i = 0; i < 300; i++) {
        make_available(f);
        g_assert_cmpint(write(fd, &one, 8), ==, 8);
        runstate_stop(f->b->m->runstate, RUN_STATE_PAUSED);
        used = ram_get16(f->b, RING_DEVICE + 2);
        g_assert_cmpint(write(fd, &one, 8), ==, 8);
        virtio_kick(f->dev, 0);
        iothread_wait_idle(f->iothread);
        g_assert_cmpuint(ram_get16(f->b, RING_DEVICE + 2), ==, used);
        g_assert_true(runstate_start(f->b->m->runstate, NULL));
        wait_for_used(f, (uint16_t)(i + 1));
    }
}

/* The transport is told by the main loop, which holds the big lock. */
static void test_error(Fixture *f, gconstpointer data)
{
    ram_put16(f->b, RING_DRIVER + 2, 1000);
    virtio_kick(f->dev, 0);
    iothread_wait_idle(f->iothread);
    while (!g_main_context_iteration(NULL, FALSE) ||
           !__atomic_load_n(&f->t->config_notified, __ATOMIC_SEQ_CST)) {
        g_usleep(100);
    }
    g_assert_true(f->dev->broken);
    g_assert_cmpuint(f->t->config_notified, ==, 1);
}

static void test_in_use(Fixture *f, gconstpointer data)
{
    g_autoptr(GError) err = NULL;
    ObjectClass *klass = OBJECT_GET_CLASS(f->iothread);

    g_assert_false(klass->can_delete(OBJECT(f->iothread), &err));
    g_assert_nonnull(strstr(err->message, "io0"));
    DEVICE_GET_CLASS(f->t)->unrealize(DEVICE(f->t));
    g_assert_true(klass->can_delete(OBJECT(f->iothread), NULL));
    test_virtio_plug(f->t);
}

#define ADD(path, fn) g_test_add("/iothread/" path, Fixture, NULL, set_up, fn, tear_down)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/iothread/event-thread", test_event_thread);
    g_test_add_func("/iothread/wait-idle", test_wait_idle);
    g_test_add_func("/iothread/query", test_query);
    ADD("doorbells", test_doorbells);
    ADD("stop", test_stop);
    ADD("error", test_error);
    ADD("in-use", test_in_use);
    return g_test_run();
}
