/*
 * The common part of character devices: handlers, the output queue, and watching descriptors.
 *
 * Output is written at once by whoever calls chardev_write(), under the chardev's own lock. What
 * the descriptor does not take is queued, and a source on the main loop writes it when it can.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "chardev/backend.h"

#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "util/error.h"
#include "util/io.h"

QOM_DEFINE_ABSTRACT_TYPE(Chardev, chardev, "chardev", TYPE_OBJECT)

/* Bytes read at a time, and written at a time to a descriptor that may block. */
#define READ_CHUNK 4096
#define BLOCKING_WRITE_CHUNK 512
/* How long closing waits for the other side to take what is queued. */
#define LAST_WORDS_MS 200

/* ---- Sources; lock is held ---- */

static void drop_source(GSource **source)
{
    if (*source) {
        g_source_destroy(*source);
        g_source_unref(*source);
        *source = NULL;
    }
}

static GSource *watch_fd(int fd, GIOCondition condition, GUnixFDSourceFunc fn, Chardev *chr)
{
    GSource *source = g_unix_fd_source_new(fd, condition);

    g_source_set_callback(source, G_SOURCE_FUNC(fn), g_object_ref(chr), g_object_unref);
    g_source_attach(source, NULL);
    return source;
}

/* The other side has left; the back end may have more to do than to close. */
static void peer_left(Chardev *chr)
{
    ChardevClass *klass = CHARDEV_GET_CLASS(chr);

    if (klass->peer_left) {
        klass->peer_left(chr);
    } else {
        chardev_peer_gone(chr);
    }
}

static gboolean on_send_failed(void *data)
{
    Chardev *chr = data;

    g_mutex_lock(&chr->lock);
    drop_source(&chr->failed_source);
    g_mutex_unlock(&chr->lock);
    peer_left(chr);
    return G_SOURCE_REMOVE;
}

/* The main loop is to find out that the other side has left. */
static void schedule_peer_left(Chardev *chr)
{
    if (!chr->failed_source) {
        chr->failed_source = g_idle_source_new();
        g_source_set_priority(chr->failed_source, G_PRIORITY_DEFAULT);
        g_source_set_callback(chr->failed_source, on_send_failed, g_object_ref(chr),
                              g_object_unref);
        g_source_attach(chr->failed_source, NULL);
    }
}

/* ---- Output ---- */

static size_t queue_len(const Chardev *chr)
{
    return chr->queue->len - chr->queue_start;
}

static void queue_clear(Chardev *chr)
{
    g_byte_array_set_size(chr->queue, 0);
    chr->queue_start = 0;
}

/* As write(2), but never blocks on a descriptor that is in blocking mode. */
static ssize_t send_fd(Chardev *chr, const void *data, size_t len)
{
    if (chr->out_fd < 0) {
        return (ssize_t)len;
    }
    if (chr->blocking_fds) {
        struct pollfd pfd = { .fd = chr->out_fd, .events = POLLOUT };

        if (poll(&pfd, 1, 0) == 0) {
            errno = EAGAIN;
            return -1;
        }
        len = MIN(len, BLOCKING_WRITE_CHUNK);
    }
    return write(chr->out_fd, data, len);
}

/*
 * Write as much as is taken now and return that; lock is held. When the other side is gone all of
 * it counts as taken.
 */
static size_t send_some(Chardev *chr, const uint8_t *data, size_t len)
{
    ChardevClass *klass = CHARDEV_GET_CLASS(chr);
    size_t done = 0;

    while (done < len && !chr->send_failed) {
        ssize_t n = klass->send ? klass->send(chr, data + done, len - done)
                                : send_fd(chr, data + done, len - done);

        if (n >= 0) {
            done += n;
        } else if (errno == EAGAIN) {
            return done;
        } else if (errno != EINTR) {
            chr->send_failed = true;
            schedule_peer_left(chr);
        }
    }
    return len;
}

static gboolean on_output(int fd, GIOCondition condition, void *data)
{
    Chardev *chr = data;
    bool tell = false;

    g_mutex_lock(&chr->lock);
    chr->queue_start += send_some(chr, chr->queue->data + chr->queue_start, queue_len(chr));
    if (queue_len(chr) == 0) {
        queue_clear(chr);
        drop_source(&chr->out_source);
        tell = chr->want_writable;
        chr->want_writable = false;
    } else if (chr->queue_start >= CHARDEV_QUEUE_LIMIT) {
        g_byte_array_remove_range(chr->queue, 0, chr->queue_start);
        chr->queue_start = 0;
    }
    g_mutex_unlock(&chr->lock);
    if (tell && chr->frontend_open && chr->handlers.event) {
        chr->handlers.event(chr->opaque, CHARDEV_EVENT_WRITABLE);
    }
    return G_SOURCE_CONTINUE;
}

static void write_log(Chardev *chr, const void *data, size_t len)
{
    if (chr->log_fd >= 0 && !write_full(chr->log_fd, data, len, NULL)) {
        warn_report("chardev '%s': writing the log file failed; it is closed", chardev_id(chr));
        close_fd(&chr->log_fd);
    }
}

static bool open_now(Chardev *chr)
{
    ChardevClass *klass = CHARDEV_GET_CLASS(chr);

    return chr->open || (klass->try_open && klass->try_open(chr));
}

size_t chardev_write(Chardev *chr, const void *data, size_t len)
{
    size_t done, take, queued;

    g_mutex_lock(&chr->lock);
    if (!open_now(chr)) {
        write_log(chr, data, len);
        g_mutex_unlock(&chr->lock);
        return len;
    }
    queued = queue_len(chr);
    done = queued ? 0 : send_some(chr, data, len);
    take = MIN(len - done, CHARDEV_QUEUE_LIMIT - queued);
    if (take > 0) {
        g_byte_array_append(chr->queue, (const uint8_t *)data + done, take);
        if (!chr->out_source) {
            chr->out_source = watch_fd(chr->out_fd, G_IO_OUT | G_IO_ERR, on_output, chr);
        }
    }
    write_log(chr, data, done + take);
    chr->want_writable = chr->want_writable || done + take < len;
    g_mutex_unlock(&chr->lock);
    return done + take;
}

size_t chardev_queued(Chardev *chr)
{
    size_t len;

    g_mutex_lock(&chr->lock);
    len = queue_len(chr);
    g_mutex_unlock(&chr->lock);
    return len;
}

void chardev_flush(Chardev *chr, int timeout_ms)
{
    gint64 end = g_get_monotonic_time() + (gint64)timeout_ms * 1000;

    while (chardev_queued(chr) > 0) {
        struct pollfd pfd = { .fd = chr->out_fd, .events = POLLOUT };
        gint64 left = (end - g_get_monotonic_time()) / 1000;

        if (left <= 0 || poll(&pfd, 1, (int)left) <= 0) {
            return;
        }
        on_output(chr->out_fd, G_IO_OUT, chr);
    }
}

/* ---- Input ---- */

/* No more bytes will come. Where output has a descriptor of its own it goes on. */
static void input_ended(Chardev *chr)
{
    if (chr->in_fd == chr->out_fd) {
        peer_left(chr);
        return;
    }
    g_mutex_lock(&chr->lock);
    drop_source(&chr->in_source);
    chr->in_fd = -1;
    g_mutex_unlock(&chr->lock);
}

static gboolean on_input(int fd, GIOCondition condition, void *data);

/* lock is held. */
static void watch_input(Chardev *chr)
{
    if (chr->open && chr->in_fd >= 0 && !chr->in_source) {
        GIOCondition condition = G_IO_HUP | G_IO_ERR;

        if (chr->frontend_open) {
            condition |= chr->input_off ? POLLRDHUP : G_IO_IN;
        }

        chr->in_source = watch_fd(chr->in_fd, condition, on_input, chr);
    }
}

/* How much the front end takes; with 0 reading is put off unless it has called meanwhile. */
static size_t input_room(Chardev *chr)
{
    unsigned before;
    size_t room;

    g_mutex_lock(&chr->lock);
    before = chr->accept_count;
    g_mutex_unlock(&chr->lock);
    room = chr->handlers.can_receive(chr->opaque);
    if (room == 0) {
        g_mutex_lock(&chr->lock);
        if (before == chr->accept_count && !chr->input_off) {
            chr->input_off = true;
            drop_source(&chr->in_source);
            watch_input(chr);
        }
        g_mutex_unlock(&chr->lock);
    }
    return room;
}

/* The other side has left while the front end takes nothing: the end, unless something is still to be read. */
static void input_ending(Chardev *chr, GIOCondition condition)
{
    ChardevClass *klass = CHARDEV_GET_CLASS(chr);
    int waiting = 0;

    if (ioctl(chr->in_fd, FIONREAD, &waiting) < 0 || waiting == 0) {
        input_ended(chr);
        return;
    }
    g_mutex_lock(&chr->lock);
    drop_source(&chr->in_source);
    g_mutex_unlock(&chr->lock);
    if ((condition & G_IO_HUP) && klass->peer_leaving) {
        klass->peer_leaving(chr);
    }
}

static gboolean on_input(int fd, GIOCondition condition, void *data)
{
    Chardev *chr = data;
    ChardevClass *klass = CHARDEV_GET_CLASS(chr);
    uint8_t buf[READ_CHUNK];
    size_t room;
    ssize_t n;

    if (!chr->frontend_open) {
        /* Only the end is watched for. */
        input_ended(chr);
        return G_SOURCE_CONTINUE;
    }
    room = input_room(chr);
    if (room == 0) {
        if (condition & (G_IO_HUP | G_IO_ERR | POLLRDHUP)) {
            input_ending(chr, condition);
        }
        return G_SOURCE_CONTINUE;
    }
    room = MIN(room, sizeof(buf));
    n = klass->recv ? klass->recv(chr, buf, room) : read(chr->in_fd, buf, room);
    if (n > 0) {
        chr->handlers.receive(chr->opaque, buf, n);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        input_ended(chr);
    }
    return G_SOURCE_CONTINUE;
}

void chardev_accept_input(Chardev *chr)
{
    g_mutex_lock(&chr->lock);
    chr->accept_count++;
    if (chr->input_off) {
        chr->input_off = false;
        drop_source(&chr->in_source);
        watch_input(chr);
    }
    g_mutex_unlock(&chr->lock);
}

/* ---- The other side comes and goes ---- */

static void announce(Chardev *chr)
{
    bool open = chardev_is_open(chr);

    if (chr->frontend_open && open != chr->announced) {
        chr->announced = open;
        if (chr->handlers.event) {
            chr->handlers.event(chr->opaque, open ? CHARDEV_EVENT_OPENED : CHARDEV_EVENT_CLOSED);
        }
    }
}

static gboolean on_announce(void *data)
{
    Chardev *chr = data;

    g_mutex_lock(&chr->lock);
    chr->announce_idle = 0;
    watch_input(chr);
    g_mutex_unlock(&chr->lock);
    announce(chr);
    return G_SOURCE_REMOVE;
}

/* lock is held. */
static void announce_later(Chardev *chr)
{
    if (!chr->announce_idle) {
        chr->announce_idle =
            g_idle_add_full(G_PRIORITY_DEFAULT, on_announce, g_object_ref(chr), g_object_unref);
    }
}

void chardev_peer_came_locked(Chardev *chr, int in_fd, int out_fd)
{
    chr->in_fd = in_fd;
    chr->out_fd = out_fd;
    chr->open = true;
    chr->send_failed = chr->input_off = false;
    announce_later(chr);
}

void chardev_peer_came(Chardev *chr, int in_fd, int out_fd)
{
    g_mutex_lock(&chr->lock);
    chardev_peer_came_locked(chr, in_fd, out_fd);
    watch_input(chr);
    g_mutex_unlock(&chr->lock);
    announce(chr);
}

void chardev_peer_gone(Chardev *chr)
{
    bool tell;

    g_mutex_lock(&chr->lock);
    drop_source(&chr->in_source);
    drop_source(&chr->out_source);
    drop_source(&chr->failed_source);
    queue_clear(chr);
    chr->in_fd = chr->out_fd = -1;
    chr->open = false;
    tell = chr->want_writable;
    chr->want_writable = false;
    g_mutex_unlock(&chr->lock);
    announce(chr);
    if (tell && chr->frontend_open && chr->handlers.event) {
        /* Nothing is in its way any more. */
        chr->handlers.event(chr->opaque, CHARDEV_EVENT_WRITABLE);
    }
}

/* ---- The front end ---- */

bool chardev_set_handlers(Chardev *chr, const ChardevHandlers *handlers, void *opaque,
                          GError **errp)
{
    if (handlers && chr->frontend_open) {
        error_set(errp, "Chardev '%s' is already in use by a device or monitor", chardev_id(chr));
        return false;
    }
    chr->frontend_open = handlers != NULL;
    chr->handlers = handlers ? *handlers : (ChardevHandlers){ NULL, NULL, NULL };
    chr->opaque = opaque;
    chr->announced = false;
    g_mutex_lock(&chr->lock);
    chr->nobody_listens = chr->input_off = false;
    /* What is watched for depends on whether there is a front end. */
    drop_source(&chr->in_source);
    watch_input(chr);
    if (handlers) {
        announce_later(chr);
    }
    g_mutex_unlock(&chr->lock);
    return true;
}

const char *chardev_id(const Chardev *chr)
{
    return chr->parent_instance.name ?: "";
}

char *chardev_filename(Chardev *chr)
{
    return CHARDEV_GET_CLASS(chr)->filename(chr);
}

bool chardev_is_open(Chardev *chr)
{
    bool open;

    g_mutex_lock(&chr->lock);
    open = chr->open;
    g_mutex_unlock(&chr->lock);
    return open;
}

bool chardev_frontend_open(Chardev *chr)
{
    bool open;

    g_mutex_lock(&chr->lock);
    open = chr->frontend_open && !chr->nobody_listens;
    g_mutex_unlock(&chr->lock);
    return open;
}

void chardev_set_frontend_open(Chardev *chr, bool open)
{
    g_mutex_lock(&chr->lock);
    chr->nobody_listens = !open;
    g_mutex_unlock(&chr->lock);
}

int chardev_take_fd(Chardev *chr)
{
    ChardevClass *klass = CHARDEV_GET_CLASS(chr);

    return klass->take_fd ? klass->take_fd(chr) : -1;
}

void chardev_disconnect(Chardev *chr)
{
    ChardevClass *klass = CHARDEV_GET_CLASS(chr);

    if (klass->disconnect) {
        klass->disconnect(chr);
    }
}

/* ---- Life ---- */

static bool open_log(Chardev *chr, const ChardevOptions *options, FdStore *fds, GError **errp)
{
    bool append = options->has_logappend && options->logappend;

    if (options->logfile) {
        chr->log_fd = fd_store_open(fds, options->logfile,
                                    O_WRONLY | O_CREAT | (append ? O_APPEND : O_TRUNC), 0666, errp);
        return chr->log_fd >= 0;
    }
    return true;
}

bool chardev_start(Chardev *chr, const ChardevOptions *options, FdStore *fds, GError **errp)
{
    if (options->has_mux && options->mux) {
        error_set(errp,
                  "Chardev '%s': mux=on is not supported: give each device and monitor a chardev "
                  "of its own",
                  options->id);
        return false;
    }
    return open_log(chr, options, fds, errp) &&
           CHARDEV_GET_CLASS(chr)->start(chr, options, fds, errp);
}

void chardev_close(Chardev *chr)
{
    ChardevClass *klass = CHARDEV_GET_CLASS(chr);

    chardev_flush(chr, LAST_WORDS_MS);
    if (klass->stop) {
        klass->stop(chr);
    }
    chardev_peer_gone(chr);
    g_mutex_lock(&chr->lock);
    close_fd(&chr->log_fd);
    if (chr->announce_idle) {
        g_source_remove(chr->announce_idle);
        chr->announce_idle = 0;
    }
    g_mutex_unlock(&chr->lock);
}

static void chardev_finalize(GObject *obj)
{
    Chardev *chr = CHARDEV(obj);

    g_byte_array_unref(chr->queue);
    g_mutex_clear(&chr->lock);
    G_OBJECT_CLASS(chardev_parent_class)->finalize(obj);
}

static void chardev_init(Chardev *chr)
{
    g_mutex_init(&chr->lock);
    chr->queue = g_byte_array_new();
    chr->in_fd = chr->out_fd = chr->log_fd = -1;
}

static void chardev_class_init(ChardevClass *klass)
{
    G_OBJECT_CLASS(klass)->finalize = chardev_finalize;
}
