/*
 * Loading, in a thread: RAM out of a snapshot file, its parents, or a stream.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "migration/incoming.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "migration/ram-delta-load.h"
#include "migration/ram-pages.h"
#include "util/error.h"
#include "util/log.h"
#include "util/units.h"

#define SWALLOW_BYTES (256 * KiB)
#define SWALLOW_US (30 * G_USEC_PER_SEC)
#define SWALLOW_IDLE_MS 1000

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
        if (!snapshot_block_check_machine(g_ptr_array_index(file->blocks, i), env->ram, errp)) {
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

static bool fill_layers(IncomingJob *job, RestoreLayer *layers, size_t n, GError **errp)
{
    for (size_t i = 0; i < n; i++) {
        SnapshotFile *file = g_ptr_array_index(job->chain->files, i);

        layers[i].base = ram_base_open(file->fd, file->path, &file->info.uuid, errp);
        if (!layers[i].base) {
            return false;
        }
        fill_layer(job, file, &layers[i]);
    }
    return true;
}

/* Of a file; of a stream only zeros, and then the pages come from the input. */
static bool lay_tip(void *opaque, GError **errp)
{
    IncomingJob *job = opaque;
    SnapshotFile *tip = snapshot_chain_tip(job->chain);
    RestoreRequest request = incoming_request(job);
    RestoreLayer layer = { 0 };
    bool ok;

    if (tip->fd >= 0) {
        layer.base = ram_base_open(tip->fd, tip->path, &tip->info.uuid, errp);
        if (!layer.base) {
            return false;
        }
    }
    fill_layer(job, tip, &layer);
    ok = restore_lay(&layer, request.threads, request.direct_io, errp) &&
         (layer.base || ram_delta_load_pages(job->input, tip, job->s->env.ram, errp));
    g_clear_pointer(&layer.base, ram_base_unref);
    g_free(layer.blocks);
    return ok;
}

bool incoming_restore_layers(IncomingJob *job, RestoreRequest *request, GError **errp)
{
    g_autofree RestoreLayer *layers = g_new0(RestoreLayer, job->chain->files->len);
    int64_t start = g_get_monotonic_time();
    bool ok;

    request->layers = layers;
    request->n_layers = incoming_layers(job);
    request->lay = job->lay_tip ? lay_tip : NULL;
    request->opaque = job;
    ok = fill_layers(job, layers, request->n_layers, errp) &&
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

RestoreRequest incoming_request(const IncomingJob *job)
{
    const MigrationParameters *p = job->options.parameters;
    bool multifd = job->options.capabilities[MIGRATION_CAPABILITY_MULTIFD];

    return (RestoreRequest){ .mode = (RestoreMode)p->ram_restore_mode,
                             .fallback = p->ram_restore_fallback,
                             .threads = multifd ? p->multifd_channels : 0,
                             .direct_io = p->direct_io,
                             .hugepage_hint = job->options.hugepage_hint };
}

/*
 * Who hands us a descriptor keeps the file, and writes another state to it when it likes (libvirt does): an
 * increment in it is copied, so that nothing rests on it.
 */
static bool is_lent(const IncomingJob *job)
{
    return job->address->kind == CHANNEL_FD ||
           (job->address->kind == CHANNEL_FILE && fdset_is_path(job->address->name));
}

bool incoming_open_chain(IncomingJob *job, SnapshotFile *tip, GError **errp)
{
    job->lay_tip = tip->kind == SNAPSHOT_INCREMENTAL && (tip->fd < 0 || is_lent(job));
    job->chain =
        snapshot_chain_open(tip, job->options.parameters->ram_parent, job->s->env.fds, errp);
    return job->chain != NULL;
}

static void keep_tip(IncomingJob *job)
{
    const SnapshotFile *tip = snapshot_chain_tip(job->chain);

    job->info = tip->info;
    job->tail = g_byte_array_ref(tip->tail);
}

bool incoming_load_chain(IncomingJob *job, GError **errp)
{
    const SnapshotFile *tip = snapshot_chain_tip(job->chain);
    RestoreRequest request = incoming_request(job);

    if (!check_machine(job, tip, errp) || !check_cpu(job, &tip->info, errp) ||
        (job->n_mapped != ram_list_count(job->s->env.ram) &&
         !incoming_restore_layers(job, &request, errp))) {
        return false;
    }
    keep_tip(job);
    return true;
}

/* --- Streams --- */

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

static bool use_runs(IncomingJob *job, const RamPagesRead *r, int fd, GError **errp)
{
    g_autoptr(RamBase) base = ram_base_open(fd, job->path, &r->info.uuid, errp);

    return base && restore_packed(r->ram, base, (const PackedRun *)(void *)r->runs->data,
                                  r->runs->len, incoming_request(job).threads, errp);
}

/* Of a stream in a file pages are looked up first and then read by several threads. */
static bool load_pages(IncomingJob *job, StreamHead *head, GError **errp)
{
    RamPagesRead r = { .ram = job->s->env.ram };
    bool ok;

    ok = check_mode(job, errp) && ram_pages_read(&r, job->input, &head->section, errp) &&
         check_cpu(job, &r.info, errp) && (!r.runs || use_runs(job, &r, job->input->fd, errp));
    restore_report_copied(r.ram, "it came as a sequential stream, which cannot be mapped");
    g_clear_pointer(&r.runs, g_array_unref);
    job->info = r.info;
    job->tail = r.tail;
    return ok;
}

/* An increment from a pipe or socket: its table comes first, so its parent can be restored before its pages. */
static bool load_delta(IncomingJob *job, StreamHead *head, GError **errp)
{
    SnapshotFile *tip = ram_delta_load_table(job->input, head, job->s->env.ram, errp);
    RestoreRequest request = incoming_request(job);

    if (!tip || !incoming_open_chain(job, tip, errp) || !check_machine(job, tip, errp) ||
        !incoming_restore_layers(job, &request, errp) ||
        !stream_frame_read_footer(job->input, errp) ||
        !stream_frame_read_end(job->input, &tip->info, &tip->tail, errp) ||
        !check_cpu(job, &tip->info, errp)) {
        return false;
    }
    keep_tip(job);
    return true;
}

static bool load_input(IncomingJob *job, int fd, GError **errp)
{
    g_auto(StreamHead) head = { 0 };
    PageInput input = { 0 };
    bool ok;

    job->input = &input;
    ok = page_input_init(&input, fd, job->start, &job->cancelled, errp) &&
         stream_frame_read_head(&input, job->s->env.machine_type, &head, errp) &&
         (ram_delta_is_section(&head.section) ? load_delta : load_pages)(job, &head, errp);
    job->input = NULL;
    page_input_clear(&input);
    if (!ok) {
        g_prefix_error(errp, "migration stream: ");
    }
    return ok;
}

/*
 * After an error, read what else comes by a pipe: who writes it would die of SIGPIPE, and libvirt then tells
 * that (of its I/O helper) and not our error. Not for ever: a writer may never end.
 */
static void swallow(const IncomingJob *job, int fd)
{
    int64_t deadline = g_get_monotonic_time() + SWALLOW_US;
    g_autofree uint8_t *buf = g_malloc(SWALLOW_BYTES);
    struct pollfd p = { .fd = fd, .events = POLLIN };

    while (!g_atomic_int_get(&job->cancelled) && g_get_monotonic_time() < deadline &&
           poll(&p, 1, SWALLOW_IDLE_MS) > 0) {
        ssize_t n = read(fd, buf, SWALLOW_BYTES);

        if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) {
            break;
        }
    }
}

static bool load_stream(IncomingJob *job, GError **errp)
{
    g_autoptr(GError) close_error = NULL;
    bool ok = load_input(job, job->stream->fd, errp);

    if (!ok && job->address->kind == CHANNEL_FD) {
        swallow(job, job->stream->fd);
    }
    /* A command that failed is the better reason for a stream that is cut off. */
    if (!stream_channel_close(job->stream, &close_error)) {
        if (ok) {
            g_propagate_error(errp, g_steal_pointer(&close_error));
        } else {
            g_prefix_error(errp, "%s; ", close_error->message);
        }
        ok = false;
    }
    return ok;
}

static bool load_any(IncomingJob *job, GError **errp)
{
    SnapshotFile *tip;

    if (job->chain) {
        return incoming_load_chain(job, errp);
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
        return incoming_open_chain(job, tip, errp) && incoming_load_chain(job, errp);
    }
    snapshot_file_free(tip);
    return load_input(job, job->fd, errp);
}

void incoming_load_thread(void *opaque)
{
    IncomingJob *job = opaque;

    job->ok = load_any(job, &job->error);
}
