/*
 * Making guest RAM independent of files while the guest runs.
 *
 * Threads fill the staging memory of each chunk in order; a timer of the main loop moves filled chunks
 * over the guest's memory, in pauses of the vCPUs of about 2 ms. A chunk with I/O under way is left for
 * a later round: pinned pages would take the data and be gone. From the deadline on, when the kernel is
 * about to let the file be changed, the guest stands and all speed is used.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/guard-internal.h"

#include "memory/chunk-map.h"
#include "memory/guest-access.h"
#include "memory/host-memory.h"
#include "memory/staging.h"
#include "util/error.h"
#include "util/log.h"
#include "util/units.h"

#include <unistd.h>

#define PAUSE_US 2000
#define ROUND_MS 1
#define FILLERS_MAX 4
/* Chunks filled ahead of the moves: written pages exist twice in them. */
#define WINDOW 64
/* Left free for the rest of the host and for page tables. */
#define MEMORY_RESERVE (64 * MiB)

typedef struct DetachChunk {
    Staging *staging;
    RamBlock *block;
    uint64_t chunk;
    gint filled; /* atomic */
    bool moved;
} DetachChunk;

struct DetachJob {
    BaseGuard *guard;
    CloneSet set;
    char *reason;
    DetachDone done;
    void *opaque;
    gint64 deadline, expiry;
    GArray *begun_as; /* of struct stat, one per base */
    GPtrArray *stagings;
    GArray *chunks; /* of DetachChunk; not resized once threads run */
    guint first;    /* chunks before are moved */
    guint n_moved;
    bool holding; /* the guest stands until the end */
    uint64_t bytes_copied;
    guint timer;

    GThread *fillers[FILLERS_MAX];
    unsigned n_fillers;
    GMutex lock; /* of what follows */
    GCond room;
    guint next; /* to fill */
    guint filled_ahead;
    bool no_window;
    bool cancelled;
    GError *error; /* the first one */
};

static DetachChunk *job_chunk(DetachJob *job, guint i)
{
    return &g_array_index(job->chunks, DetachChunk, i);
}

/* --- Filling, in threads --- */

/* The next chunk to fill; NULL = none is left or the job has failed. */
static DetachChunk *next_to_fill(DetachJob *job)
{
    DetachChunk *c = NULL;

    g_mutex_lock(&job->lock);
    while (!job->cancelled && !job->error && !job->no_window && job->next < job->chunks->len &&
           job->filled_ahead >= WINDOW) {
        g_cond_wait(&job->room, &job->lock);
    }
    if (!job->cancelled && !job->error && job->next < job->chunks->len) {
        c = job_chunk(job, job->next++);
        job->filled_ahead++;
    }
    g_mutex_unlock(&job->lock);
    return c;
}

/* Takes ownership of @error; later ones are dropped. */
static void job_fail(DetachJob *job, GError *error)
{
    g_mutex_lock(&job->lock);
    if (job->error) {
        g_error_free(error);
    } else {
        job->error = error;
    }
    g_cond_broadcast(&job->room);
    g_mutex_unlock(&job->lock);
}

static gpointer fill_thread(gpointer opaque)
{
    DetachJob *job = opaque;
    g_autoptr(PagemapScanner) scanner = pagemap_scanner_new_quiet(NULL);
    DetachChunk *c;

    while ((c = next_to_fill(job)) != NULL) {
        GError *err = NULL;

        if (!staging_fill(c->staging, c->chunk, scanner, &err)) {
            job_fail(job, err);
            break;
        }
        g_atomic_int_set(&c->filled, 1);
    }
    return NULL;
}

static void stop_fillers(DetachJob *job)
{
    g_mutex_lock(&job->lock);
    job->cancelled = true;
    g_cond_broadcast(&job->room);
    g_mutex_unlock(&job->lock);
    for (unsigned i = 0; i < job->n_fillers; i++) {
        g_thread_join(job->fillers[i]);
    }
    job->n_fillers = 0;
}

static void close_clones(DetachJob *job)
{
    for (guint i = 0; job->set.fds && i < job->set.fds->len; i++) {
        close(g_array_index(job->set.fds, int, i));
    }
    g_clear_pointer(&job->set.fds, g_array_unref);
}

static void job_free(DetachJob *job)
{
    stop_fillers(job);
    g_clear_handle_id(&job->timer, g_source_remove);
    if (job->holding) {
        base_guard_resume(job->guard);
    }
    g_ptr_array_unref(job->stagings);
    g_array_unref(job->chunks);
    g_ptr_array_unref(job->set.bases);
    g_array_unref(job->begun_as);
    close_clones(job);
    g_clear_error(&job->error);
    g_mutex_clear(&job->lock);
    g_cond_clear(&job->room);
    g_free(job->reason);
    g_free(job);
}

/* --- The end --- */

/* Leaves of the mappings what does not lie in released chunks. */
static void cut_mappings(RamBlock *block)
{
    GPtrArray *kept = g_ptr_array_new_with_free_func((GDestroyNotify)ram_mapping_free);

    for (guint i = 0; i < block->mappings->len; i++) {
        const RamMapping *m = block->mappings->pdata[i];
        uint64_t end = m->offset + m->length;
        uint64_t pos = m->offset;

        while (pos < end) {
            uint64_t first, last, stop = end, next = end;

            if (chunk_map_next_run(block->released, pos >> RAM_CHUNK_SHIFT, &first, &last)) {
                stop = CLAMP(first << RAM_CHUNK_SHIFT, pos, end);
                next = MIN(end, last << RAM_CHUNK_SHIFT);
            }
            if (stop > pos) {
                RamMapping *part = g_new0(RamMapping, 1);

                *part = *m;
                part->base = ram_base_ref(m->base);
                part->offset = pos;
                part->length = stop - pos;
                part->file_offset += pos - m->offset;
                g_ptr_array_add(kept, part);
            }
            pos = stop < end ? next : end;
        }
    }
    g_ptr_array_unref(block->mappings);
    block->mappings = kept;
}

static void block_detached(DetachJob *job, RamBlock *block)
{
    RamRestoreReport *report = &block->report;

    report->detached = true;
    if (job->set.fds) {
        return;
    }
    g_rw_lock_writer_lock(&block->layout);
    cut_mappings(block);
    if (block->mappings->len == 0) {
        /* In anonymous memory all that is no data is zero: the map has nothing more to say. */
        block->kind = RAM_ANONYMOUS;
        g_clear_pointer(&block->released, chunk_map_free);
    }
    g_rw_lock_writer_unlock(&block->layout);
    report->increment_possible = false;
    g_free(report->increment_obstacle);
    report->increment_obstacle = g_strdup_printf(
        "RAM block '%s' was detached from its snapshot into anonymous memory (%s), so the pages "
        "written since are not known; save with ram-save-mode=full",
        block->name, job->reason);
}

static void leave_file(DetachJob *job, RamBase *base, guint i)
{
    BaseGuard *guard = job->guard;
    bool reflink = job->set.fds != NULL;

    if (reflink) {
        ram_base_use_clone(base, g_array_index(job->set.fds, int, i));
        guard->detached = true;
    } else {
        base_guard_remove(guard, base);
    }
    if (guard->control.detached) {
        guard->control.detached(guard->control.opaque, ram_base_path(base), job->reason, reflink,
                                job->bytes_copied);
    }
}

static void job_succeed(DetachJob *job)
{
    for (guint i = 0; i < job->stagings->len; i++) {
        block_detached(job, staging_block(job->stagings->pdata[i]));
    }
    for (guint i = 0; i < job->set.bases->len; i++) {
        leave_file(job, job->set.bases->pdata[i], i);
    }
    if (job->set.fds) {
        /* The bases have the descriptors now. */
        g_array_set_size(job->set.fds, 0);
    }
    log_printf(LOG_MEMORY, "ram_detached: reason=%s chunks=%u bytes=%" G_GUINT64_FORMAT,
               job->reason, job->chunks->len, job->bytes_copied);
}

/*
 * When it took longer than the kernel holds a writer up, a changed file may have been read. (Before that a
 * new time of modification is no more than that: touch(1).)
 */
static void check_in_time(DetachJob *job)
{
    if (job->expiry == 0 || g_get_monotonic_time() < job->expiry || job->stagings->len == 0) {
        return;
    }
    for (guint i = 0; i < job->set.bases->len; i++) {
        const struct stat *then = &g_array_index(job->begun_as, struct stat, i);

        if (!ram_base_check_same(job->set.bases->pdata[i], then, NULL)) {
            RamBlock *block = staging_block(job->stagings->pdata[0]);

            ram_list_report_lost(job->guard->list,
                                 "the file was changed before memory was detached from it", block,
                                 0);
        }
    }
}

static void job_end(DetachJob *job)
{
    BaseGuard *guard = job->guard;
    g_autoptr(GError) error = NULL;
    DetachDone done = job->done;
    void *opaque = job->opaque;

    job->timer = 0; /* its callback is ending it */
    stop_fillers(job);
    if (job->error) {
        /* A file that was truncated explains a failed read. */
        ram_list_check_files(guard->list, "the file was truncated while memory was being detached");
    }
    if (lost_page_seen(guard)) {
        g_clear_error(&job->error);
        error_set(&job->error, "Guest RAM was lost while it was being detached");
    }
    if (job->error) {
        error = g_steal_pointer(&job->error);
        for (guint i = 0; i < job->set.bases->len; i++) {
            ram_base_give_up(job->set.bases->pdata[i]);
        }
    } else {
        job_succeed(job);
    }
    job_free(job);
    base_guard_job_ended(guard);
    if (done) {
        done(opaque, error);
    }
}

/* --- Moving, on the main loop --- */

static bool is_ready(DetachChunk *c)
{
    return !c->moved && g_atomic_int_get(&c->filled);
}

static void mark_moved(DetachJob *job, DetachChunk *c)
{
    c->moved = true;
    job->n_moved++;
    g_mutex_lock(&job->lock);
    job->filled_ahead--;
    g_cond_signal(&job->room);
    g_mutex_unlock(&job->lock);
}

/* False = the job has failed. */
static bool move_chunk(DetachJob *job, DetachChunk *c)
{
    GError *err = NULL;

    if (!ram_chunk_try_claim(c->block, c->chunk)) {
        return true;
    }
    /* A chunk that was released meanwhile is independent of the file already. */
    if (!chunk_map_test(c->block->released, c->chunk) &&
        !staging_move(c->staging, c->chunk, job->guard->scanner, &job->bytes_copied, &err)) {
        ram_chunk_unclaim(c->block, c->chunk);
        job_fail(job, err);
        return false;
    }
    ram_chunk_unclaim(c->block, c->chunk);
    mark_moved(job, c);
    return !lost_page_seen(job->guard);
}

static void move_ready(DetachJob *job, gint64 until)
{
    for (guint i = job->first; i < job->chunks->len; i++) {
        DetachChunk *c = job_chunk(job, i);

        if (is_ready(c) && !move_chunk(job, c)) {
            return;
        }
        if (c->moved && i == job->first) {
            job->first++;
        }
        if (until && g_get_monotonic_time() >= until) {
            return;
        }
    }
}

static bool any_ready(DetachJob *job)
{
    for (guint i = job->first; i < job->chunks->len; i++) {
        DetachChunk *c = job_chunk(job, i);

        if (is_ready(c) && ram_chunk_is_idle(c->block, c->chunk)) {
            return true;
        }
    }
    return false;
}

static bool job_is_over(DetachJob *job)
{
    bool failed;

    g_mutex_lock(&job->lock);
    failed = job->error != NULL;
    g_mutex_unlock(&job->lock);
    return failed || job->n_moved == job->chunks->len || lost_page_seen(job->guard);
}

static void stand_from_deadline(DetachJob *job)
{
    if (job->holding || job->deadline == 0 || g_get_monotonic_time() < job->deadline) {
        return;
    }
    base_guard_pause(job->guard);
    job->holding = true;
    g_mutex_lock(&job->lock);
    job->no_window = true;
    g_cond_broadcast(&job->room);
    g_mutex_unlock(&job->lock);
}

static gboolean detach_round(gpointer opaque)
{
    DetachJob *job = opaque;

    stand_from_deadline(job);
    check_in_time(job);
    if (!job_is_over(job) && any_ready(job)) {
        base_guard_pause(job->guard);
        move_ready(job, job->holding ? 0 : g_get_monotonic_time() + PAUSE_US);
        base_guard_resume(job->guard);
    }
    check_in_time(job);
    if (!job_is_over(job) || (job->guard->held > 0 && !lost_page_seen(job->guard))) {
        return G_SOURCE_CONTINUE;
    }
    job_end(job);
    return G_SOURCE_REMOVE;
}

/* --- The beginning --- */

/* Clones of all files of the set; NULL = one of the file systems cannot. */
static GArray *make_clones(GPtrArray *bases)
{
    GArray *fds = g_array_new(FALSE, FALSE, sizeof(int));

    for (guint i = 0; i < bases->len; i++) {
        g_autoptr(GError) why = NULL;
        int fd = ram_base_make_clone(bases->pdata[i], &why);

        if (fd < 0) {
            log_printf(LOG_MEMORY, "ram_detach: no clone: %s", why->message);
            for (guint k = 0; k < fds->len; k++) {
                close(g_array_index(fds, int, k));
            }
            g_array_unref(fds);
            return NULL;
        }
        g_array_append_val(fds, fd);
    }
    return fds;
}

static bool check_memory(DetachJob *job, GError **errp)
{
    RamList *list = job->guard->list;
    uint64_t need = MEMORY_RESERVE, available;
    const char *limit;

    for (unsigned i = 0; i < ram_list_count(list); i++) {
        RamBlock *block = ram_list_get(list, i);

        if (block->kind == RAM_FILE_PRIVATE) {
            need += staging_need(block, &job->set);
        }
    }
    if (!host_memory_available(&available, &limit, errp)) {
        return false;
    }
    if (need > available) {
        error_set(errp,
                  "Detaching guest RAM from %s takes up to %" G_GUINT64_FORMAT
                  " MiB and %s leaves %" G_GUINT64_FORMAT " MiB; give it more memory",
                  ram_base_path(job->set.bases->pdata[0]), need / MiB, limit, available / MiB);
        return false;
    }
    return true;
}

static bool add_block(DetachJob *job, RamBlock *block, GError **errp)
{
    g_autoptr(ChunkMap) todo = chunk_map_new(block->size);
    uint64_t first, end;
    Staging *staging;

    staging_mark_chunks(block, &job->set, todo);
    if (chunk_map_count(todo) == 0) {
        return true;
    }
    staging = staging_new(block, &job->set, errp);
    if (!staging) {
        return false;
    }
    g_ptr_array_add(job->stagings, staging);
    for (uint64_t at = 0; chunk_map_next_run(todo, at, &first, &end); at = end) {
        for (uint64_t chunk = first; chunk < end; chunk++) {
            DetachChunk c = { .staging = staging, .block = block, .chunk = chunk };

            g_array_append_val(job->chunks, c);
        }
    }
    return true;
}

static bool prepare_blocks(DetachJob *job, GError **errp)
{
    RamList *list = job->guard->list;

    for (unsigned i = 0; i < ram_list_count(list); i++) {
        RamBlock *block = ram_list_get(list, i);

        if (block->kind == RAM_FILE_PRIVATE && !add_block(job, block, errp)) {
            return false;
        }
    }
    return true;
}

/* To clones of the files where there can be some, else to anonymous memory. */
static bool job_prepare(DetachJob *job, GError **errp)
{
    g_autoptr(GError) why = NULL;

    job->set.fds = make_clones(job->set.bases);
    if (job->set.fds) {
        if (prepare_blocks(job, &why)) {
            return true;
        }
        /* Of very many pieces of a chain the mappings would be too many. */
        log_printf(LOG_MEMORY, "ram_detach: no use of clones: %s", why->message);
        g_ptr_array_set_size(job->stagings, 0);
        g_array_set_size(job->chunks, 0);
        close_clones(job);
    }
    return check_memory(job, errp) && prepare_blocks(job, errp);
}

DetachJob *detach_start(BaseGuard *guard, const DetachRequest *request, GError **errp)
{
    DetachJob *job = g_new0(DetachJob, 1);
    unsigned n_fillers = MIN(FILLERS_MAX, g_get_num_processors());

    job->guard = guard;
    job->set.bases = g_ptr_array_new_with_free_func((GDestroyNotify)ram_base_unref);
    job->begun_as = g_array_new(FALSE, FALSE, sizeof(struct stat));
    for (guint i = 0; i < request->bases->len; i++) {
        struct stat now;

        g_ptr_array_add(job->set.bases, ram_base_ref(request->bases->pdata[i]));
        now = ram_base_identity(request->bases->pdata[i]);
        g_array_append_val(job->begun_as, now);
    }
    job->reason = g_strdup(request->reason);
    job->done = request->done;
    job->opaque = request->opaque;
    job->deadline = request->deadline;
    job->expiry = request->expiry;
    job->stagings = g_ptr_array_new_with_free_func((GDestroyNotify)staging_free);
    job->chunks = g_array_new(FALSE, FALSE, sizeof(DetachChunk));
    g_mutex_init(&job->lock);
    g_cond_init(&job->room);
    if (!job_prepare(job, errp)) {
        job_free(job);
        return NULL;
    }
    for (unsigned i = 0; i < n_fillers; i++) {
        job->fillers[job->n_fillers++] = g_thread_new("detach", fill_thread, job);
    }
    job->timer = g_timeout_add(ROUND_MS, detach_round, job);
    return job;
}

void detach_hurry(DetachJob *job, gint64 deadline, gint64 expiry)
{
    if (job->deadline == 0) {
        job->deadline = deadline;
        job->expiry = expiry;
    }
}

bool detach_covers(const DetachJob *job, const RamBase *base)
{
    return g_ptr_array_find(job->set.bases, base, NULL);
}

void detach_cancel(DetachJob *job)
{
    job_free(job);
}
