/*
 * Where virtio-rng gets random bytes from: the objects rng-random (a file) and rng-builtin (the host kernel).
 *
 * Reading never waits. A device that has got nothing asks for a source that becomes ready when it is worth trying
 * again, so a back end knows nothing of requests and may serve several devices.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_VIRTIO_RNG_BACKEND_H
#define COWBIRD_HW_VIRTIO_RNG_BACKEND_H

#include "qom/object.h"

#include <sys/types.h>

#define TYPE_RNG_BACKEND (rng_backend_get_type())
QOM_DECLARE_TYPE(RngBackend, rng_backend, RNG_BACKEND)

struct _RngBackend {
    Object parent_instance;
    unsigned users; /* devices that are connected (big lock) */
};

struct _RngBackendClass {
    ObjectClass parent_class;
    /* As rng_backend_read; the object is complete. */
    ssize_t (*read)(RngBackend *rng, void *buf, size_t len);
    /* As rng_backend_source; NULL: there is nothing that could be waited for. */
    GSource *(*source)(RngBackend *rng);
};

GType rng_random_get_type(void);
GType rng_builtin_get_type(void);

/* In use by one more or one less device: objects in use cannot be deleted. Big lock held. */
void rng_backend_connect(RngBackend *rng);
void rng_backend_disconnect(RngBackend *rng);

/*
 * Reads at most len > 0 bytes, what is there now; any thread. 0: nothing yet. -1: the file has ended or cannot be read,
 * which was reported on stderr the first time.
 */
ssize_t rng_backend_read(RngBackend *rng, void *buf, size_t len);
/*
 * A new source, owned by the caller, to be tried again at after rng_backend_read gave result (0 or -1). Its callback
 * is of the type GSourceFunc.
 */
GSource *rng_backend_source(RngBackend *rng, ssize_t result);

#endif
