/*
 * Loading: one incoming migration, from a snapshot file, its parents, or a stream.
 *
 * A thread reads and checks files and fills RAM; devices are loaded on the main loop. The guest's
 * RAM and devices must not be touched by anybody else meanwhile.
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
#include "memory/restore.h"
#include "migration/chain.h"
#include "migration/channel.h"
#include "migration/internal.h"
#include "migration/job.h"
#include "migration/ram-pages.h"
#include "migration/section.h"
#include "util/error.h"
#include "util/io.h"
#include "util/log.h"

#define INCOMING_INHIBITS "an incoming state is being loaded"

struct IncomingJob {
    MigrationState *s;
    JobThread thread;
    MigrationAddress *address;
    MigrationOptions options; /* as they were at the start */
    bool exit_on_error;
    int fd;         /* of a regular file, or -1 */
    char *path;     /* of fd, if known */
    uint64_t start; /* of the stream in fd */
    int listener;   /* of unix: and tcp: until the peer is there, or -1 */
    StreamChannel *stream;
    int cancelled;
    uint8_t cpu_digest[MIGRATION_CPU_DIGEST_LEN];
    unsigned n_mapped; /* so many blocks of the list have their contents already */
    /* What was found. */
    SnapshotChain *chain;
    SnapshotInfo info;
    GByteArray *tail;
    uint64_t restore_time_us;
    bool ok;
    GError *error;
};

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

/* --- In the thread --- */

static bool check_cpu(const IncomingJob *job, const SnapshotInfo *info, GError **errp)
{
    static const uint8_t unknown[MIGRATION_CPU_DIGEST_LEN];

    if (memcmp(info->cpu_digest, unknown, sizeof(unknown)) != 0 &&
        memcmp(job->cpu_digest, unknown, sizeof(unknown)) != 0 &&
        memcmp(info->cpu_digest, job->cpu_digest, sizeof(unknown)) != 0) {
        error_set(errp, "the snapshot was made with another CPU (model, features or number) than "
                        "this guest has; start it with the same -cpu and -smp on such a host");
        return false;
    }
    return true;
}

static bool check_machine(const IncomingJob *job, const SnapshotFile *file, GError **errp)
{
    const MigrationEnv *env = &job->s->env;

    if (strcmp(file->config.machine_type, env->machine_type) != 0) {
        error_set(errp, "the snapshot is of a machine '%s', this one is '%s'",
                  file->config.machine_type, env->machine_type);
        return false;
    }
    for (guint i = 0; i < file->blocks->len; i++) {
        const SnapshotBlock *b = g_ptr_array_index(file->blocks, i);
        const RamBlock *ours = ram_list_find(env->ram, b->name);

        if (!ours || ours->size != b->length) {
            error_set(errp,
                      "the snapshot has a RAM block '%s' of %" PRIu64 " bytes; this machine has "
                      "%s of %" PRIu64 " bytes; start it with the same -m",
                      b->name, b->length, ours ? "one" : "none", ours ? ours->size : 0);
            return false;
        }
    }
    if (file->blocks->len != ram_list_count(env->ram)) {
        error_set(errp,
                  "the snapshot has %u RAM blocks, this machine has %u; start it with the "
                  "same devices",
                  file->blocks->len, ram_list_count(env->ram));
        return false;
    }
    return true;
}

/* The blocks of the list that are there and not filled yet. */
static void fill_layer(const IncomingJob *job, SnapshotFile *file, RestoreLayer *layer)
{
    RamList *ram = job->s->env.ram;
    bool tip = file == snapshot_chain_tip(job->chain);
    bool copy = job->options.parameters->ram_restore_mode == RAM_RESTORE_MODE_COPY;

    layer->blocks = g_new0(RestoreBlock, ram_list_count(ram));
    for (unsigned i = job->n_mapped; i < ram_list_count(ram); i++) {
        RestoreBlock *to = &layer->blocks[layer->n_blocks++];
        SnapshotBlock *b = snapshot_file_block(file, ram_list_get(ram, i)->name);

        to->block = ram_list_get(ram, i);
        to->pages_offset = b->pages_offset;
        /* Holes are where the bitmap has no page; it is only the faster way to find them. */
        to->present = b->bitmap && copy ? snapshot_block_present(b) : NULL;
        if (b->extents) {
            to->extents = (const RestoreExtent *)(void *)b->extents->data;
            to->n_extents = b->extents->len;
            to->zeros = (const RestoreExtent *)(void *)b->zeros->data;
            to->n_zeros = b->zeros->len;
        }
        if (b->released && tip) {
            to->released = (const RestoreExtent *)(void *)b->released->data;
            to->n_released = b->released->len;
        }
    }
}

static bool fill_layers(IncomingJob *job, RestoreLayer *layers, GError **errp)
{
    for (guint i = 0; i < job->chain->files->len; i++) {
        SnapshotFile *file = g_ptr_array_index(job->chain->files, i);

        layers[i].base = ram_base_open(file->fd, file->path, &file->info.uuid, errp);
        if (!layers[i].base) {
            return false;
        }
        fill_layer(job, file, &layers[i]);
    }
    return true;
}

static bool restore_layers(IncomingJob *job, RestoreRequest *request, GError **errp)
{
    g_autofree RestoreLayer *layers = g_new0(RestoreLayer, job->chain->files->len);
    int64_t start = g_get_monotonic_time();
    bool ok;

    request->layers = layers;
    request->n_layers = job->chain->files->len;
    ok = fill_layers(job, layers, errp) &&
         restore_ram(job->s->env.ram, request, job->s->env.memory, errp);
    for (size_t i = 0; i < request->n_layers; i++) {
        g_clear_pointer(&layers[i].base, ram_base_unref);
        g_free(layers[i].blocks);
    }
    if (ok) {
        job->n_mapped = ram_list_count(job->s->env.ram);
        job->restore_time_us += g_get_monotonic_time() - start;
        log_printf(LOG_STARTUP, "incoming_ram: us=%" PRIu64, job->restore_time_us);
    }
    return ok;
}

static RestoreRequest request_of(const IncomingJob *job)
{
    const MigrationParameters *p = job->options.parameters;
    bool multifd = job->options.capabilities[MIGRATION_CAPABILITY_MULTIFD];

    return (RestoreRequest){ .mode = (RestoreMode)p->ram_restore_mode,
                             .fallback = p->ram_restore_fallback,
                             .threads = multifd ? p->multifd_channels : 0,
                             .direct_io = p->direct_io,
                             .hugepage_hint = job->options.hugepage_hint };
}

/* Takes over tip. */
static bool open_chain(IncomingJob *job, SnapshotFile *tip, GError **errp)
{
    job->chain =
        snapshot_chain_open(tip, job->options.parameters->ram_parent, job->s->env.fds, errp);
    if (!job->chain) {
        return false;
    }
    job->info = tip->info;
    job->tail = g_byte_array_ref(tip->tail);
    return true;
}

static bool load_chain(IncomingJob *job, GError **errp)
{
    const SnapshotFile *tip = snapshot_chain_tip(job->chain);
    RestoreRequest request = request_of(job);

    return check_machine(job, tip, errp) && check_cpu(job, &tip->info, errp) &&
           (job->n_mapped == ram_list_count(job->s->env.ram) ||
            restore_layers(job, &request, errp));
}

/* What a sequential stream cannot be. */
static bool check_mode(const IncomingJob *job, GError **errp)
{
    const MigrationParameters *p = job->options.parameters;

    if (p->ram_restore_mode == RAM_RESTORE_MODE_COPY_ON_WRITE && !p->ram_restore_fallback) {
        error_set(errp, "ram-restore-mode=copy-on-write needs a regular file with fixed offsets, "
                        "and this is a sequential stream");
        return false;
    }
    return true;
}

static void keep_results(IncomingJob *job, RamPagesRead *r)
{
    restore_report_copied(r->ram, "it came as a sequential stream, which cannot be mapped");
    stream_config_clear(&r->config);
    g_clear_pointer(&r->runs, g_array_unref);
    job->info = r->info;
    job->tail = r->tail;
}

static RamPagesRead pages_read(IncomingJob *job, int fd)
{
    return (RamPagesRead){ .fd = fd,
                           .ram = job->s->env.ram,
                           .cancelled = &job->cancelled,
                           .machine_type = job->s->env.machine_type };
}

static bool load_stream(IncomingJob *job, GError **errp)
{
    RamPagesRead r = pages_read(job, job->stream->fd);
    g_autoptr(GError) close_error = NULL;
    bool ok;

    ok = check_mode(job, errp) && ram_pages_read(&r, errp) && check_cpu(job, &r.info, errp);
    /* A command that failed is the better reason for a stream that is cut off. */
    if (!stream_channel_close(job->stream, &close_error)) {
        if (ok) {
            g_propagate_error(errp, g_steal_pointer(&close_error));
        } else {
            g_prefix_error(errp, "%s; ", close_error->message);
        }
        ok = false;
    }
    keep_results(job, &r);
    return ok;
}

/* A stream in a file: its pages are looked up and then read by several threads. */
static bool load_packed(IncomingJob *job, GError **errp)
{
    RamPagesRead r = pages_read(job, job->fd);
    g_autoptr(RamBase) base = NULL;
    bool ok;

    ok = check_mode(job, errp) && ram_pages_index(&r, job->start, errp) &&
         check_cpu(job, &r.info, errp);
    if (ok) {
        base = ram_base_open(job->fd, job->path, &r.info.uuid, errp);
        ok = base && restore_packed(r.ram, base, (const PackedRun *)(void *)r.runs->data,
                                    r.runs->len, request_of(job).threads, errp);
    }
    keep_results(job, &r);
    return ok;
}

static bool load_any(IncomingJob *job, GError **errp)
{
    SnapshotFile *tip;

    if (job->chain) {
        return load_chain(job, errp);
    }
    if (job->fd < 0) {
        if (!job->stream) {
            job->stream =
                stream_channel_open_input(job->address, job->listener, &job->cancelled, errp);
            stream_channel_unlisten(job->address, &job->listener);
        }
        return job->stream && load_stream(job, errp);
    }
    tip = snapshot_file_probe(dup(job->fd), job->path, job->start, errp);
    if (!tip) {
        return false;
    }
    if (tip->kind != SNAPSHOT_SEQUENTIAL) {
        return open_chain(job, tip, errp) && load_chain(job, errp);
    }
    snapshot_file_free(tip);
    return load_packed(job, errp);
}

static void incoming_thread(void *opaque)
{
    IncomingJob *job = opaque;

    job->ok = load_any(job, &job->error);
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

    g_free(origin->path);
    *origin = (SnapshotOrigin){
        .known = true, .info = job->info, .path = g_strdup(job->path), .start = job->start
    };
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
    RestoreRequest request = request_of(job);
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
    return open_chain(job, tip, NULL) && restore_layers(job, &request, NULL);
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
        job->ok = load_chain(job, &job->error);
        complete(job);
    } else {
        job_thread_start(&job->thread, "incoming", incoming_thread, incoming_end, job);
    }
    return true;
}
