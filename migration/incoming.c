/*
 * Loading: one incoming migration from the command to its end, as the main loop sees it.
 *
 * A thread reads and checks files and fills RAM (incoming-load.c); devices are loaded on the main loop. The
 * guest's RAM and devices must not be touched by anybody else meanwhile.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "accel/runstate.h"
#include "memory/discard.h"
#include "migration/incoming.h"
#include "migration/parent.h"
#include "migration/section.h"
#include "util/error.h"
#include "util/io.h"

#define INCOMING_INHIBITS "an incoming state is being loaded"

static void job_free(IncomingJob *job)
{
    stream_channel_unlisten(job->address, &job->listener);
    migration_address_free(job->address);
    migration_options_clear(&job->options);
    close_fd(&job->fd);
    g_free(job->path);
    stream_channel_free(job->stream);
    snapshot_chain_free(job->chain);
    g_clear_pointer(&job->tail, g_byte_array_unref);
    g_clear_error(&job->error);
    g_free(job);
}

/* --- On the main loop: the end --- */

static bool load_devices(IncomingJob *job, GError **errp)
{
    MigrationState *s = job->s;
    const MigrationHooks *hooks = &s->env.hooks;
    ByteReader in = byte_reader_init(job->tail->data, job->tail->len);

    return (!hooks->before_load || hooks->before_load(hooks->opaque, errp)) &&
           sections_load(s->env.vmstate, &in, errp) &&
           (!hooks->after_load || hooks->after_load(hooks->opaque, errp));
}

static void keep_origin(IncomingJob *job)
{
    SnapshotOrigin *origin = &job->s->origin;

    snapshot_origin_clear(origin);
    if (job->chain) {
        snapshot_origin_set_chain(origin, job->chain, incoming_layers(job));
    } else {
        *origin = (SnapshotOrigin){
            .known = true, .info = job->info, .path = g_strdup(job->path), .start = job->start
        };
    }
    job->s->restore_time_us = job->restore_time_us;
    job->s->restore_requested = (RestoreMode)job->options.parameters->ram_restore_mode;
}

/* As the guest was when it was saved; -S keeps it paused. */
static bool enter_run_state(MigrationState *s, GError **errp)
{
    const char *saved = (const char *)s->global.runstate;
    bool was_running = strcmp(saved, run_state_str(RUN_STATE_RUNNING)) == 0;

    runstate_set(s->env.runstate, RUN_STATE_PAUSED);
    return !was_running || !s->env.autostart || runstate_start(s->env.runstate, errp);
}

static void finish(IncomingJob *job, bool ok)
{
    MigrationState *s = job->s;
    const MigrationHooks *hooks = &s->env.hooks;

    s->report.ended_us = g_get_monotonic_time();
    s->incoming = NULL;
    ram_discard_allow(s->env.ram, INCOMING_INHIBITS);
    if (ok) {
        s->incoming_pending = false;
    } else {
        s->report.error = g_strdup(job->error->message);
        error_report("cannot load the state of the guest: %s", job->error->message);
    }
    migration_set_status(s, ok ? MIGRATION_STATUS_COMPLETED : MIGRATION_STATUS_FAILED);
    if (hooks->incoming_done) {
        hooks->incoming_done(hooks->opaque, ok ? NULL : job->error, job->exit_on_error);
    }
}

/* RAM is there, or job->error tells why not. */
static void complete(IncomingJob *job)
{
    bool ok = job->ok && load_devices(job, &job->error);

    if (ok) {
        keep_origin(job);
        ok = enter_run_state(job->s, &job->error);
    }
    finish(job, ok);
    job_free(job);
}

static void incoming_end(void *opaque)
{
    IncomingJob *job = opaque;

    job_thread_join(&job->thread);
    complete(job);
}

void incoming_abandon(IncomingJob *job)
{
    g_atomic_int_set(&job->cancelled, 1);
    job_thread_abandon(&job->thread);
    ram_discard_allow(job->s->env.ram, INCOMING_INHIBITS);
    job->s->incoming = NULL;
    job_free(job);
}

/* --- On the main loop: the beginning --- */

/* The name of an open file, to find its parents beside it and to tell people. */
static char *path_of_fd(int fd)
{
    g_autofree char *self = g_strdup_printf("/proc/self/fd/%d", fd);
    g_autofree char *path = g_file_read_link(self, NULL);

    return path && g_path_is_absolute(path) && access(path, F_OK) == 0 ? g_steal_pointer(&path)
                                                                       : NULL;
}

/* Regular files are loaded by offset, everything else as a stream. */
static bool use_fd(IncomingJob *job, int fd, bool at_position, GError **errp)
{
    g_auto(FdHandle) owned = fd;
    struct stat st;
    off_t pos;

    if (fstat(fd, &st) < 0) {
        error_set_errno(errp, errno, "cannot look at '%s'", job->address->name);
        return false;
    }
    if (!S_ISREG(st.st_mode)) {
        job->stream = stream_channel_new(g_steal_fd(&owned));
        return true;
    }
    pos = lseek(fd, 0, SEEK_CUR);
    if (at_position && pos < 0) {
        error_set_errno(errp, errno, "cannot find the position of '%s'", job->address->name);
        return false;
    }
    job->start = at_position ? (uint64_t)pos : job->address->offset;
    job->path = path_of_fd(fd);
    job->fd = g_steal_fd(&owned);
    return true;
}

static bool open_source(IncomingJob *job, GError **errp)
{
    FdStore *fds = job->s->env.fds;
    int fd;

    switch (job->address->kind) {
    case CHANNEL_FILE:
        fd = fd_store_open(fds, job->address->name, O_RDONLY, 0, errp);
        return fd >= 0 && use_fd(job, fd, false, errp);
    case CHANNEL_FD:
        fd = fd_store_get_param(fds, job->address->name, errp);
        return fd >= 0 && use_fd(job, fd, true, errp);
    case CHANNEL_UNIX:
    case CHANNEL_TCP:
        /* Before the command is answered: a source may connect as soon as it was. */
        job->listener = stream_channel_listen(job->address, errp);
        return job->listener >= 0;
    default:
        return true;
    }
}

static IncomingJob *job_new(MigrationState *s, const char *uri, GError **errp)
{
    MigrationAddress *address = migration_address_parse(uri, errp);
    IncomingJob *job;

    if (!address) {
        return NULL;
    }
    job = g_new0(IncomingJob, 1);
    job->s = s;
    job->address = address;
    job->fd = -1;
    job->listener = -1;
    migration_options_copy(&job->options, &s->options);
    if (!open_source(job, errp)) {
        job_free(job);
        return NULL;
    }
    return job;
}

/* The blocks there are can be mapped from this file, and it is a snapshot. */
static bool can_map(const IncomingJob *job, const SnapshotFile *file)
{
    RamList *ram = job->s->env.ram;

    for (unsigned i = 0; i < ram_list_count(ram); i++) {
        const RamBlock *block = ram_list_get(ram, i);
        const SnapshotBlock *b = snapshot_file_block(file, block->name);

        if (!b || b->length != block->size) {
            return false;
        }
    }
    return ram_list_count(ram) && file->kind != SNAPSHOT_SEQUENTIAL;
}

static bool map_early(IncomingJob *job)
{
    RestoreRequest request = incoming_request(job);
    SnapshotFile *tip;

    if (job->fd < 0 || request.mode == RESTORE_COPY) {
        return false;
    }
    tip = snapshot_file_probe(dup(job->fd), job->path, job->start, NULL);
    if (!tip || !can_map(job, tip)) {
        snapshot_file_free(tip);
        return false;
    }
    request.refuse_copy = true;
    return incoming_open_chain(job, tip, NULL) && incoming_restore_layers(job, &request, NULL);
}

/* The source is opened once: an fd given to us is ours from then on. */
void incoming_prepare(MigrationState *s, const char *uri)
{
    s->prepared = job_new(s, uri, NULL);
    if (s->prepared && !map_early(s->prepared)) {
        g_clear_pointer(&s->prepared->chain, snapshot_chain_free);
        g_clear_pointer(&s->prepared->tail, g_byte_array_unref);
    }
}

void incoming_drop_prepared(MigrationState *s)
{
    if (s->prepared) {
        job_free(s->prepared);
        s->prepared = NULL;
    }
}

static bool get_cpu_digest(IncomingJob *job, GError **errp)
{
    const MigrationHooks *hooks = &job->s->env.hooks;

    return !hooks->cpu_digest || hooks->cpu_digest(hooks->opaque, job->cpu_digest, errp);
}

bool incoming_start(MigrationState *s, const char *uri, bool exit_on_error, GError **errp)
{
    IncomingJob *job = s->prepared ? g_steal_pointer(&s->prepared) : job_new(s, uri, errp);

    if (!job) {
        return false;
    }
    job->exit_on_error = exit_on_error;
    if (!get_cpu_digest(job, errp)) {
        job_free(job);
        return false;
    }
    migration_begin(s, false);
    s->incoming = job;
    ram_discard_inhibit(s->env.ram, INCOMING_INHIBITS);
    migration_set_status(s, MIGRATION_STATUS_SETUP);
    migration_set_status(s, MIGRATION_STATUS_ACTIVE);
    if (job->n_mapped && job->n_mapped == ram_list_count(s->env.ram)) {
        /* Nothing is left that takes time. */
        job->ok = incoming_load_chain(job, &job->error);
        complete(job);
    } else {
        job_thread_start(&job->thread, "incoming", incoming_load_thread, incoming_end, job);
    }
    return true;
}
