/*
 * Tests of rng-random and rng-builtin: files that have nothing yet, that end, that cannot be opened.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/virtio/rng-backend.h"
#include "util/error.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct Fixture {
    char *folder, *file;
} Fixture;

static void set_up(Fixture *f, gconstpointer data)
{
    f->folder = g_dir_make_tmp("cowbird-rng-XXXXXX", NULL);
    f->file = g_build_filename(f->folder, "source", NULL);
}

static void tear_down(Fixture *f, gconstpointer data)
{
    g_unlink(f->file);
    g_rmdir(f->folder);
    g_free(f->file);
    g_free(f->folder);
}

static Object *open_source(Fixture *f)
{
    Object *obj = object_new(rng_random_get_type(), NULL);
    g_autoptr(GError) err = NULL;

    g_assert_true(object_set_property_str(obj, "filename", f->file, &err));
    g_assert_true(object_complete(obj, &err));
    g_assert_no_error(err);
    return obj;
}

static gboolean set_flag(void *opaque)
{
    *(bool *)opaque = true;
    return G_SOURCE_REMOVE;
}

/* Reads nothing, and is told when there is something. */
static void test_pipe(Fixture *f, gconstpointer data)
{
    g_autoptr(Object) obj = NULL;
    g_autoptr(GSource) source = NULL;
    RngBackend *rng;
    bool ready = false;
    char buf[16] = "";
    int fd;

    g_assert_cmpint(mkfifo(f->file, 0600), ==, 0);
    fd = open(f->file, O_RDWR | O_CLOEXEC);
    obj = open_source(f);
    rng = RNG_BACKEND(obj);
    g_assert_cmpint(rng_backend_read(rng, buf, sizeof(buf)), ==, 0);
    source = rng_backend_source(rng, 0);
    g_source_set_callback(source, set_flag, &ready, NULL);
    g_source_attach(source, NULL);
    g_assert_false(g_main_context_iteration(NULL, FALSE));
    g_assert_cmpint(write(fd, "abc", 3), ==, 3);
    g_assert_true(g_main_context_iteration(NULL, FALSE));
    g_assert_true(ready);
    g_assert_cmpint(rng_backend_read(rng, buf, 2), ==, 2);
    g_assert_cmpint(rng_backend_read(rng, buf + 2, 8), ==, 1);
    g_assert_cmpstr(buf, ==, "abc");
    g_assert_cmpint(rng_backend_read(rng, buf, 8), ==, 0);
    close(fd);
    g_assert_cmpint(rng_backend_read(rng, buf, 8), ==, -1);
}

/* The end is told apart from "nothing yet", is tried again after a second, and is not for ever. */
static void test_end(Fixture *f, gconstpointer data)
{
    gint64 start = g_get_monotonic_time();
    g_autoptr(Object) obj = NULL;
    g_autoptr(GSource) source = NULL;
    RngBackend *rng;
    bool ready = false;
    uint8_t buf[16];
    int fd;

    g_assert_true(g_file_set_contents(f->file, "xy", 2, NULL));
    obj = open_source(f);
    rng = RNG_BACKEND(obj);
    g_assert_cmpint(rng_backend_read(rng, buf, sizeof(buf)), ==, 2);
    g_assert_cmpint(rng_backend_read(rng, buf, sizeof(buf)), ==, -1);
    source = rng_backend_source(rng, -1);
    g_source_set_callback(source, set_flag, &ready, NULL);
    g_source_attach(source, NULL);
    while (!ready) {
        g_main_context_iteration(NULL, TRUE);
    }
    g_assert_cmpint(g_get_monotonic_time() - start, >=, G_USEC_PER_SEC * 9 / 10);
    fd = open(f->file, O_WRONLY | O_APPEND | O_CLOEXEC);
    g_assert_cmpint(write(fd, "z", 1), ==, 1);
    close(fd);
    g_assert_cmpint(rng_backend_read(rng, buf, sizeof(buf)), ==, 1);
    g_assert_cmpint(buf[0], ==, 'z');
}

static void test_cannot_open(Fixture *f, gconstpointer data)
{
    g_autoptr(Object) obj = object_new(rng_random_get_type(), NULL);
    g_autoptr(GError) err = NULL;

    g_assert_true(object_set_property_str(obj, "filename", f->file, NULL));
    g_assert_false(object_complete(obj, &err));
    g_assert_nonnull(strstr(err->message, f->file));
    g_assert_nonnull(strstr(err->message, "errno 2"));
}

static void test_builtin(Fixture *f, gconstpointer data)
{
    g_autoptr(Object) obj = object_new(rng_builtin_get_type(), NULL);
    uint8_t a[32] = { 0 }, b[32] = { 0 };

    g_assert_true(object_complete(obj, NULL));
    g_assert_cmpint(rng_backend_read(RNG_BACKEND(obj), a, sizeof(a)), ==, sizeof(a));
    g_assert_cmpint(rng_backend_read(RNG_BACKEND(obj), b, sizeof(b)), ==, sizeof(b));
    g_assert_cmpint(memcmp(a, b, sizeof(a)), !=, 0);
}

/* Two devices may share one; while one does, object-del is refused. */
static void test_users(Fixture *f, gconstpointer data)
{
    g_autoptr(Object) obj = object_new(rng_builtin_get_type(), NULL);
    RngBackend *rng = RNG_BACKEND(obj);
    g_autoptr(GError) err = NULL;

    g_assert_true(OBJECT_GET_CLASS(obj)->can_delete(obj, NULL));
    rng_backend_connect(rng);
    rng_backend_connect(rng);
    rng_backend_disconnect(rng);
    g_assert_false(OBJECT_GET_CLASS(obj)->can_delete(obj, &err));
    g_assert_nonnull(strstr(err->message, "in use"));
    rng_backend_disconnect(rng);
    g_assert_true(OBJECT_GET_CLASS(obj)->can_delete(obj, NULL));
}

#define ADD(path, fn) g_test_add("/rng-backend/" path, Fixture, NULL, set_up, fn, tear_down)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("pipe", test_pipe);
    ADD("end", test_end);
    ADD("cannot-open", test_cannot_open);
    ADD("builtin", test_builtin);
    ADD("users", test_users);
    return g_test_run();
}
