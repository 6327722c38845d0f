/*
 * Character devices: byte endpoints that serial ports, monitors and consoles are connected to.
 *
 * A Chardev belongs to the main loop: it is created, given handlers and freed there, and its
 * handlers are called there. chardev_write() and chardev_accept_input() may be called from any
 * thread, with any of the caller's locks held: they never call back and never block.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_CHARDEV_CHARDEV_H
#define COWBIRD_CHARDEV_CHARDEV_H

#include <glib.h>
#include <json-c/json_types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "qom/object.h"

struct FdStore;
typedef struct ChardevOptions ChardevOptions;

typedef struct _Chardev Chardev;
typedef struct ChardevRegistry ChardevRegistry;

typedef enum ChardevEvent {
    CHARDEV_EVENT_OPENED,   /* the other side is there (at once for files; a client connected) */
    CHARDEV_EVENT_CLOSED,   /* the other side has left; what was queued for it is gone */
    CHARDEV_EVENT_WRITABLE, /* the queue has drained after chardev_write() took less than given */
} ChardevEvent;

typedef struct ChardevHandlers {
    /* How many bytes receive() can take now; 0 stops reading until chardev_accept_input(). */
    size_t (*can_receive)(void *opaque);
    /* len <= what can_receive() has said. */
    void (*receive)(void *opaque, const uint8_t *data, size_t len);
    /* May be NULL. */
    void (*event)(void *opaque, ChardevEvent event);
} ChardevHandlers;

/* All chardevs of a process, by id. fds (borrowed) resolves "fd" options; may be NULL. */
ChardevRegistry *chardev_registry_new(struct FdStore *fds);
/*
 * The other sides of sockets shall see the end only when the process has ended, as who is told by a closed monitor that
 * a VMM failed looks for its process and its last words at once. The last thing before chardev_registry_free().
 */
void chardev_registry_outlive(ChardevRegistry *registry);
/* Closes and frees all of them. */
void chardev_registry_free(ChardevRegistry *registry);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ChardevRegistry, chardev_registry_free)

/* The object whose children the chardevs are, for "/chardevs" of the tree; not a reference. */
Object *chardev_registry_container(ChardevRegistry *registry);

/* The types "chardev", "chardev-null", ..., ended by a line without name. */
extern const QomType chardev_types[];

/*
 * Open a chardev from the options of -chardev: "backend" (null, stdio, file, pty, socket, pipe,
 * ringbuf), "id" and the backend's own. Strings are accepted for numbers and booleans. The
 * registry owns it. NULL on error.
 */
Chardev *chardev_new(ChardevRegistry *registry, json_object *options, GError **errp);

/* The same from options that are already typed. */
Chardev *chardev_open(ChardevRegistry *registry, const ChardevOptions *options, GError **errp);

/*
 * The chardev of a short form, as -serial and -monitor take it: "null", "stdio", "pty", "file:P",
 * "pipe:P", "unix:P[,server=on][,wait=off]", "tcp:HOST:PORT[,...]", "chardev:ID". Created under
 * the given id, except chardev:ID which finds an existing one. "none" is the caller's business.
 */
Chardev *chardev_new_short(ChardevRegistry *registry, const char *id, const char *text,
                           GError **errp);

/* NULL when there is none. */
Chardev *chardev_find(ChardevRegistry *registry, const char *id);

/* As chardev_find, with an error that names the nearest id. */
Chardev *chardev_get(ChardevRegistry *registry, const char *id, GError **errp);

/* Close and free it. Refused while handlers are set. */
bool chardev_remove(ChardevRegistry *registry, const char *id, GError **errp);

/* In order of creation. */
typedef void (*ChardevFunc)(void *user, Chardev *chr);
void chardev_foreach(ChardevRegistry *registry, ChardevFunc fn, void *user);

const char *chardev_id(const Chardev *chr);

/* QMP's "filename" ("pty:/dev/pts/3", "unix:/run/x,server=on"). Owned by the caller. */
char *chardev_filename(Chardev *chr);

/* Whether the other side is there. */
bool chardev_is_open(Chardev *chr);

/* Whether a front end is connected and has not said that nobody listens (QMP's "frontend-open"). */
bool chardev_frontend_open(Chardev *chr);

/*
 * Whether somebody behind the connected front end listens, for one that knows; until it says so the
 * answer is yes. It is told to users only; any thread.
 */
void chardev_set_frontend_open(Chardev *chr, bool open);

/*
 * Connect a front end; refused (false) when there is one. handlers is copied. When the other side
 * is already there the OPENED event comes from the main loop afterwards. NULL handlers disconnect.
 */
bool chardev_set_handlers(Chardev *chr, const ChardevHandlers *handlers, void *opaque,
                          GError **errp);

/*
 * Send bytes: written at once as far as the other side takes them, queued behind that up to
 * CHARDEV_QUEUE_LIMIT. Returns how many were taken; the rest is for the caller to keep until
 * CHARDEV_EVENT_WRITABLE, or to drop. With nobody on the other side everything is taken and lost.
 */
#define CHARDEV_QUEUE_LIMIT (64 * 1024)
size_t chardev_write(Chardev *chr, const void *data, size_t len);

/* Bytes queued and not yet taken by the other side. */
size_t chardev_queued(Chardev *chr);

/* Write out what is queued, waiting at most timeout_ms. For the end of the process. */
void chardev_flush(Chardev *chr, int timeout_ms);

/* The front end can receive again after can_receive() had said 0. */
void chardev_accept_input(Chardev *chr);

/*
 * The oldest descriptor that came with SCM_RIGHTS on a unix socket and was not taken yet; -1 when
 * there is none. The caller owns it. Those not taken are closed when the client leaves.
 */
int chardev_take_fd(Chardev *chr);

/* Drop the present client of a server socket; others may connect afterwards. */
void chardev_disconnect(Chardev *chr);

#endif
