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
#include "memory/detach-internal.h"

#include "memory/chunk-map.h"
#include "memory/guest-access.h"
#include "util/error.h"
#include "util/log.h"

#define ROUND_MS 1
/* Pauses of a guest that runs, and turns of the main loop while it does not. */
#define PAUSE_US 2000
#define TURN_US 20000
/* From one pause to the next when nobody waits: the guest keeps most of the time. */
#define BACKGROUND_US 10000
#define LOOK_US 50000

static void job_free(DetachJob *job)
{
    detach_fillers_stop(job);
    g_clear_handle_id(&job->timer, g_source_remove);
    if (job->holding) {
        base_guard_resume(job->guard);
    }
    g_ptr_array_unref(job->stagings);
    g_array_unref(job->chunks);
    g_ptr_array_unref(job->set.bases);
    g_array_unref(job->begun_as);
    detach_close_clones(job);
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

/* What the guard and who asked are told last of all. */
static void job_tell(DetachJob *job, const GError *error)
{
    BaseGuard *guard = job->guard;
    DetachDone done = job->done;
    void *opaque = job->opaque;

    job_free(job);
    base_guard_job_ended(guard);
    if (done) {
        done(opaque, error);
    }
    drain_job_ended(guard, error);
}

static void job_end(DetachJob *job)
{
    BaseGuard *guard = job->guard;
    g_autoptr(GError) error = NULL;

    job->timer = 0; /* its callback is ending it */
    detach_fillers_stop(job);
    if (job->error) {
        /* A file that was truncated explains a failed read. */
        ram_list_check_files(guard->list, "the file was truncated while memory was being detached");
    }
    if (lost_page_seen(guard)) {
        g_clear_error(&job->error);
        error_set(&job->error, "Guest RAM was lost while it was being detached");
    }
    error = g_steal_pointer(&job->error);
    if (!error) {
        job_succeed(job);
    }
    for (guint i = 0; error && i < job->set.bases->len; i++) {
        ram_base_give_up(job->set.bases->pdata[i]);
    }
    job_tell(job, error);
}

/*
 * Nobody can open the files of a drain any more: what has moved stays where it is, and the rest may
 * depend on them.
 */
static bool files_are_unlinked(DetachJob *job)
{
    gint64 now = g_get_monotonic_time();

    if (!job->background || now < job->next_look) {
        return false;
    }
    job->next_look = now + LOOK_US;
    for (guint i = 0; i < job->set.bases->len; i++) {
        if (!ram_base_is_unlinked(job->set.bases->pdata[i])) {
            return false;
        }
    }
    return true;
}

/*
 * No lease has kept writers away meanwhile: what was read counts only if the files still are what they were. Of a
 * drain that means since the restore.
 */
static void check_unguarded(DetachJob *job)
{
    for (guint i = 0; job->stagings->len && i < job->set.bases->len; i++) {
        RamBase *base = job->set.bases->pdata[i];
        const struct stat *then = &g_array_index(job->begun_as, struct stat, i);
        g_autoptr(GError) why = NULL;

        if (ram_base_is_leased(base) || (job->background ? ram_base_check_identity(base, &why)
                                                         : ram_base_check_same(base, then, &why))) {
            continue;
        }
        log_printf(LOG_MEMORY, "ram_detach: %s", why->message);
        ram_list_report_lost(job->guard->list,
                             "the file was changed before memory was detached from it",
                             staging_block(job->stagings->pdata[0]), 0);
    }
}

static void job_end_unlinked(DetachJob *job)
{
    job->timer = 0;
    check_unguarded(job);
    for (guint i = 0; i < job->set.bases->len; i++) {
        ram_base_want_drain(job->set.bases->pdata[i], false);
    }
    log_printf(LOG_MEMORY, "ram_drain: ended after %u of %u chunks, the file has no name any more",
               job->n_moved, job->chunks->len);
    job_tell(job, NULL);
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
    job->guard->stats.chunks_left--;
    detach_fillers_advance(job);
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
        detach_fail(job, err);
        return false;
    }
    ram_chunk_unclaim(c->block, c->chunk);
    mark_moved(job, c);
    return !lost_page_seen(job->guard);
}

static void move_ready(DetachJob *job, gint64 until)
{
    for (guint i = job->first; i < job->chunks->len; i++) {
        DetachChunk *c = detach_chunk(job, i);

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
        DetachChunk *c = detach_chunk(job, i);

        if (is_ready(c) && ram_chunk_is_idle(c->block, c->chunk)) {
            return true;
        }
    }
    return false;
}

static void stand_from_deadline(DetachJob *job)
{
    if (job->holding || job->deadline == 0 || g_get_monotonic_time() < job->deadline) {
        return;
    }
    base_guard_pause(job->guard);
    job->holding = true;
    detach_fillers_unleash(job);
}

/* How long the chunks may be moved now; 0 = not yet. */
static gint64 time_to_move(DetachJob *job)
{
    bool awaited = job->holding || !job->background || drain_is_awaited(job->guard);

    if (job->holding || (awaited && !base_guard_guest_runs(job->guard))) {
        detach_fillers_start(job, detach_fillers_most());
        return TURN_US;
    }
    return awaited || g_get_monotonic_time() >= job->next_move ? PAUSE_US : 0;
}

static void count_pause(DetachJob *job, gint64 began)
{
    DetachStats *stats = &job->guard->stats;
    gint64 now = g_get_monotonic_time();

    job->next_move = now + BACKGROUND_US;
    stats->bytes_copied = job->bytes_copied;
    if (base_guard_guest_runs(job->guard)) {
        stats->pauses++;
        stats->paused_us += now - began;
        stats->longest_pause_us = MAX(stats->longest_pause_us, (uint64_t)(now - began));
    }
}

static void move_some(DetachJob *job)
{
    gint64 us = time_to_move(job), began = g_get_monotonic_time();

    if (us == 0 || !any_ready(job)) {
        /* I/O has begun in the chunk that was to be moved: the others go on. */
        detach_fillers_let_go(job);
        return;
    }
    if (us == PAUSE_US && !detach_fillers_hold_back(job)) {
        return;
    }
    base_guard_pause(job->guard);
    move_ready(job, began + us);
    base_guard_resume(job->guard);
    count_pause(job, began);
    detach_fillers_let_go(job);
}

static bool all_is_moved(DetachJob *job)
{
    return job->n_moved == job->chunks->len;
}

/* A save still reads the files; but whoever changes them now harms only that save. */
static void wait_for_save(DetachJob *job)
{
    if (job->background && !job->told) {
        job->told = true;
        drain_tell(job->guard, NULL);
    }
    if (job->holding) {
        job->holding = false;
        base_guard_resume(job->guard);
    }
}

static void move_in_time(DetachJob *job)
{
    if (!detach_has_failed(job) && !lost_page_seen(job->guard)) {
        move_some(job);
        if (all_is_moved(job)) {
            check_unguarded(job);
        }
    }
    check_in_time(job);
}

static gboolean detach_round(gpointer opaque)
{
    DetachJob *job = opaque;

    if (!all_is_moved(job)) {
        stand_from_deadline(job);
        check_in_time(job);
        if (files_are_unlinked(job)) {
            job_end_unlinked(job);
            return G_SOURCE_REMOVE;
        }
        move_in_time(job);
    }
    if (!lost_page_seen(job->guard) && !detach_has_failed(job)) {
        if (!all_is_moved(job)) {
            return G_SOURCE_CONTINUE;
        }
        if (job->guard->held > 0) {
            wait_for_save(job);
            return G_SOURCE_CONTINUE;
        }
    }
    job_end(job);
    return G_SOURCE_REMOVE;
}

/* --- The beginning --- */

static DetachJob *job_new(BaseGuard *guard, const DetachRequest *request)
{
    DetachJob *job = g_new0(DetachJob, 1);

    job->guard = guard;
    job->set.bases = g_ptr_array_new_with_free_func((GDestroyNotify)ram_base_unref);
    job->begun_as = g_array_new(FALSE, FALSE, sizeof(struct stat));
    for (guint i = 0; i < request->bases->len; i++) {
        RamBase *base = request->bases->pdata[i];
        struct stat then = ram_base_identity(base);

        if (ram_base_lease_breaking(base)) {
            ram_base_break_began(base, &then);
        }
        g_ptr_array_add(job->set.bases, ram_base_ref(base));
        g_array_append_val(job->begun_as, then);
    }
    job->reason = g_strdup(request->reason);
    job->background = request->background;
    job->done = request->done;
    job->opaque = request->opaque;
    job->deadline = request->deadline;
    job->expiry = request->expiry;
    job->stagings = g_ptr_array_new_with_free_func((GDestroyNotify)staging_free);
    job->chunks = g_array_new(FALSE, FALSE, sizeof(DetachChunk));
    g_mutex_init(&job->lock);
    g_cond_init(&job->room);
    return job;
}

DetachJob *detach_start(BaseGuard *guard, const DetachRequest *request, GError **errp)
{
    DetachJob *job = job_new(guard, request);

    if (!detach_prepare(job, errp)) {
        job_free(job);
        return NULL;
    }
    guard->stats = (DetachStats){ .chunks = job->chunks->len, .chunks_left = job->chunks->len };
    guard->any_stats = true;
    detach_fillers_start(job, job->background ? 1 : detach_fillers_most());
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

bool detach_is_moved(const DetachJob *job)
{
    return job->told;
}

void detach_cancel(DetachJob *job)
{
    g_autoptr(GError) error = NULL;
    DetachDone done = job->done;
    void *opaque = job->opaque;

    job_free(job);
    if (done) {
        error_set(&error, "the program ends before guest RAM is detached");
        done(opaque, error);
    }
}
