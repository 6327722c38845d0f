/*
 * Where virtio-rng gets random bytes from: the objects rng-random (a file) and rng-builtin (the host kernel).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/virtio/rng-backend.h"

#include "util/error.h"
#include "util/io.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#define RETRY_MS 1000 /* a file that had ended or failed is tried again */

/* --- What both have in common --- */

QOM_DEFINE_ABSTRACT_TYPE(RngBackend, rng_backend, "rng-backend", TYPE_OBJECT)

void rng_backend_connect(RngBackend *rng)
{
    rng->users++;
}

void rng_backend_disconnect(RngBackend *rng)
{
    rng->users--;
}

ssize_t rng_backend_read(RngBackend *rng, void *buf, size_t len)
{
    return RNG_BACKEND_GET_CLASS(rng)->read(rng, buf, len);
}

GSource *rng_backend_source(RngBackend *rng, ssize_t result)
{
    RngBackendClass *klass = RNG_BACKEND_GET_CLASS(rng);

    return result == 0 && klass->source ? klass->source(rng) : g_timeout_source_new(RETRY_MS);
}

static bool rng_backend_can_delete(Object *obj, GError **errp)
{
    RngBackend *rng = RNG_BACKEND(obj);

    if (rng->users) {
        error_set(errp, "object '%s' is in use by a virtio-rng device: remove that first",
                  obj->name);
    }
    return rng->users == 0;
}

static void rng_backend_init(RngBackend *rng)
{
}

static void rng_backend_class_init(RngBackendClass *klass)
{
    OBJECT_CLASS(klass)->can_delete = rng_backend_can_delete;
}

/* --- rng-random --- */

typedef struct RngRandom {
    RngBackend parent_instance;
    char *filename;
    int fd;
    int reported; /* atomic: the failure was told */
} RngRandom;

typedef struct RngRandomClass {
    RngBackendClass parent_class;
} RngRandomClass;

QOM_DEFINE_TYPE(RngRandom, rng_random, "rng-random", TYPE_RNG_BACKEND)

static ssize_t rng_random_read(RngBackend *rng, void *buf, size_t len)
{
    RngRandom *s = (RngRandom *)rng;
    ssize_t n;

    do {
        n = read(s->fd, buf, len);
    } while (n < 0 && errno == EINTR);
    if (n > 0) {
        g_atomic_int_set(&s->reported, 0);
        return n;
    }
    if (n < 0 && errno == EAGAIN) {
        return 0;
    }
    if (g_atomic_int_compare_and_exchange(&s->reported, 0, 1)) {
        warn_report("object '%s': %s '%s'; the guest gets no random bytes until there are some "
                    "again, which is tried every second",
                    OBJECT(rng)->name, n == 0 ? "nothing more comes from" : "cannot read",
                    s->filename);
    }
    return -1;
}

/* The callback of a source for a descriptor has a form of its own: this one takes any. */
typedef struct FdSource {
    GSource parent;
} FdSource;

static gboolean fd_source_dispatch(GSource *source, GSourceFunc callback, gpointer data)
{
    return callback(data);
}

static GSource *rng_random_source(RngBackend *rng)
{
    static GSourceFuncs funcs = { .dispatch = fd_source_dispatch };
    GSource *source = g_source_new(&funcs, sizeof(FdSource));

    g_source_add_unix_fd(source, ((RngRandom *)rng)->fd, G_IO_IN);
    return source;
}

static bool rng_random_complete(Object *obj, GError **errp)
{
    RngRandom *s = (RngRandom *)obj;

    s->fd = open(s->filename, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (s->fd < 0) {
        error_set_errno(errp, errno,
                        "cannot open '%s' for random bytes: give a file that can be read with "
                        "filename=, or use rng-builtin",
                        s->filename);
        return false;
    }
    return true;
}

static void rng_random_finalize(GObject *gobj)
{
    RngRandom *s = (RngRandom *)gobj;

    close_fd(&s->fd);
    g_free(s->filename);
    G_OBJECT_CLASS(rng_random_parent_class)->finalize(gobj);
}

static const QomProperty rng_random_properties[] = {
    { .name = "filename",
      .kind = QOM_STRING,
      .offset = offsetof(RngRandom, filename),
      .def_str = "/dev/urandom",
      .description = "file, device or named pipe that random bytes are read from" },
    QOM_PROPERTY_END,
};

static void rng_random_init(RngRandom *s)
{
    s->fd = -1;
}

static void rng_random_class_init(RngRandomClass *klass)
{
    RngBackendClass *rc = RNG_BACKEND_CLASS(klass);

    G_OBJECT_CLASS(klass)->finalize = rng_random_finalize;
    OBJECT_CLASS(klass)->complete = rng_random_complete;
    OBJECT_CLASS(klass)->user_creatable = true;
    qom_class_install(klass, rng_random_properties);
    rc->read = rng_random_read;
    rc->source = rng_random_source;
}

/* --- rng-builtin --- */

typedef struct RngBuiltin {
    RngBackend parent_instance;
} RngBuiltin;

typedef struct RngBuiltinClass {
    RngBackendClass parent_class;
} RngBuiltinClass;

QOM_DEFINE_TYPE(RngBuiltin, rng_builtin, "rng-builtin", TYPE_RNG_BACKEND)

/* It fails only while the host's own generator is not seeded yet. */
static ssize_t rng_builtin_read(RngBackend *rng, void *buf, size_t len)
{
    ssize_t n = getrandom(buf, len, GRND_NONBLOCK);

    return n > 0 ? n : -1;
}

static void rng_builtin_init(RngBuiltin *s)
{
}

static void rng_builtin_class_init(RngBuiltinClass *klass)
{
    OBJECT_CLASS(klass)->user_creatable = true;
    RNG_BACKEND_CLASS(klass)->read = rng_builtin_read;
}
