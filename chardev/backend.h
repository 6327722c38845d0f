/*
 * Inside of chardev/: what a back end is made of, and what it calls.
 *
 * A back end that has descriptors puts them into Chardev with chardev_set_fds(); reading, writing,
 * queueing and watching are then done in chardev.c. Everything here is called on the main loop
 * unless it says otherwise.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_CHARDEV_BACKEND_H
#define COWBIRD_CHARDEV_BACKEND_H

#include <sys/types.h>

#include "chardev/chardev.h"
#include "qapi/qapi-types.h"
#include "qom/object.h"
#include "util/fds.h"

#define TYPE_CHARDEV (chardev_get_type())
QOM_DECLARE_TYPE(Chardev, chardev, CHARDEV)

struct _Chardev {
    Object parent_instance;

    /* Main loop only. */
    ChardevHandlers handlers;
    void *opaque;
    bool frontend_open; /* handlers are set */
    bool announced;     /* the front end was told OPENED, and not CLOSED since */
    guint announce_idle;
    bool blocking_fds; /* the descriptors are shared with others: no O_NONBLOCK, ask poll() first */

    GMutex lock; /* for the rest; held for a moment only, also by vCPU threads */
    bool open;
    int in_fd, out_fd;  /* -1, or owned by the back end */
    GByteArray *queue;  /* taken from the front end, not yet written */
    size_t queue_start; /* bytes of the queue that are written */
    bool want_writable;
    bool nobody_listens; /* behind the front end, as it says */
    bool send_failed;    /* the other side does not take anything any more */
    unsigned accept_count;
    bool input_off; /* the front end takes nothing: only the end is watched for */
    GSource *in_source, *out_source, *failed_source;
    int log_fd;
};

struct _ChardevClass {
    ObjectClass parent_class;
    /* Open it. On failure stop() is called too. */
    bool (*start)(Chardev *chr, const ChardevOptions *options, FdStore *fds, GError **errp);
    /* Close what start() has opened; NULL: nothing. */
    void (*stop)(Chardev *chr);
    /* QMP's "filename"; owned by the caller. */
    char *(*filename)(Chardev *chr);
    /* As write(2) and read(2); lock is held in send. NULL: on out_fd and in_fd. */
    ssize_t (*send)(Chardev *chr, const void *data, size_t len);
    ssize_t (*recv)(Chardev *chr, void *data, size_t len);
    /* The other side has left, or takes nothing any more. NULL: just closed. */
    void (*peer_left)(Chardev *chr);
    /* The other side has left for good, but bytes of it are still to be read. NULL: nothing to do. */
    void (*peer_leaving)(Chardev *chr);
    /* lock is held, any thread: bytes are to be sent while closed; true: it is open after all. */
    bool (*try_open)(Chardev *chr);
    int (*take_fd)(Chardev *chr);
    void (*disconnect)(Chardev *chr);
    /* What start() has opened is closed by the end of the process, not by stop(). NULL: no difference. */
    void (*outlive)(Chardev *chr);
};

/* Open a new object, which has its name already; on failure chardev_close() it. */
bool chardev_start(Chardev *chr, const ChardevOptions *options, FdStore *fds, GError **errp);

/* Close for good; the object lives on until its last reference is dropped. */
void chardev_close(Chardev *chr);

/* The other side is there, reached by these descriptors (either may be -1). */
void chardev_peer_came(Chardev *chr, int in_fd, int out_fd);

/*
 * The other side has left: stop watching, forget what is queued, tell the front end. The
 * descriptors are not used any more when this returns.
 */
void chardev_peer_gone(Chardev *chr);

/* peer_came() by a thread that holds lock; the front end is told from the main loop. */
void chardev_peer_came_locked(Chardev *chr, int in_fd, int out_fd);

/* The types, for the table in registry.c. */
GType chardev_null_get_type(void);
GType chardev_stdio_get_type(void);
GType chardev_file_get_type(void);
GType chardev_pty_get_type(void);
GType chardev_socket_get_type(void);
GType chardev_pipe_get_type(void);
GType chardev_ringbuf_get_type(void);

#endif
