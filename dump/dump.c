/*
 * One dump, from the command to its end: the guest is stopped, its registers are read, a thread writes, and the guest
 * runs on if it ran.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "dump/dump.h"

#include "dump/internal.h"
#include "dump/notes.h"
#include "memory/base-guard.h"
#include "memory/discard.h"
#include "qapi/qapi-events.h"
#include "util/error.h"
#include "util/job-thread.h"

#define DUMP_INHIBITS "a dump is written"

struct DumpJob {
    DumpState *s;
    DumpOutput *out;
    DumpMap *map;
    GByteArray *notes;
    PagemapScanner *scanner;
    DumpWriteFunc write;
    unsigned n_cpus;
    bool resume;      /* the guest ran before */
    QapiReply *reply; /* NULL: answered already */
    JobThread thread;
    GError *error; /* of the thread */
};

static void job_free(DumpJob *job)
{
    if (job) {
        dump_output_free(job->out);
        dump_map_free(job->map);
        pagemap_scanner_free(job->scanner);
        g_clear_pointer(&job->notes, g_byte_array_unref);
        g_clear_error(&job->error);
        g_free(job);
    }
}

/* --- The thread --- */

static bool write_all(DumpJob *job, GError **errp)
{
    DumpState *s = job->s;
    DumpContents contents = {
        .map = job->map, .notes = job->notes, .n_cpus = job->n_cpus, .completed = &s->completed
    };

    if (!dump_map_scan(job->map, job->scanner, errp) || !job->write(job->out, &contents, errp) ||
        !dump_output_finish(job->out, errp)) {
        return false;
    }
    return ram_list_check_read(s->env.ram, errp);
}

static void dump_thread(void *opaque)
{
    DumpJob *job = opaque;

    if (!write_all(job, &job->error)) {
        dump_output_fail(job->out);
    }
}

/* --- The end, on the main loop --- */

static void let_guest_go(DumpJob *job)
{
    DumpState *s = job->s;
    g_autoptr(GError) err = NULL;

    runstate_set_busy(s->env.runstate, NULL);
    if (job->resume && runstate_get(s->env.runstate) == RUN_STATE_SAVE_VM &&
        !runstate_start(s->env.runstate, &err)) {
        error_report("the guest stays stopped after a dump: %s", err->message);
        runstate_set(s->env.runstate, RUN_STATE_PAUSED);
    }
}

static void tell_end(DumpJob *job)
{
    DumpState *s = job->s;
    DumpQueryResult result;

    s->status = job->error ? DUMP_STATUS_FAILED : DUMP_STATUS_COMPLETED;
    result = dump_result(s);
    qapi_event_send_dump_completed(s->env.events, &result, job->error ? job->error->message : NULL);
    if (job->reply && job->error) {
        qapi_reply_error(job->reply, g_steal_pointer(&job->error));
    } else if (job->reply) {
        qapi_reply_done(job->reply, NULL);
    }
}

static void undo_begin(DumpState *s)
{
    ram_discard_allow(s->env.ram, DUMP_INHIBITS);
    ram_list_release_files(s->env.ram);
    s->env.hooks.end(s->env.hooks.opaque);
}

static void dump_end(void *opaque)
{
    DumpJob *job = opaque;
    DumpState *s = job->s;

    job_thread_join(&job->thread);
    s->job = NULL;
    undo_begin(s);
    /* Closed first: who is told of the end may look at the file. */
    g_clear_pointer(&job->out, dump_output_free);
    tell_end(job);
    let_guest_go(job);
    job_free(job);
}

/* --- The beginning --- */

static bool prepare(DumpJob *job, const DumpRequest *request, GError **errp)
{
    DumpEnv *env = &job->s->env;

    job->write = request->write;
    job->n_cpus = job->s->accel ? accel_vcpu_count(job->s->accel) : 0;
    job->map = dump_map_new(env->memory, request->begin, request->length, errp);
    job->scanner = job->map ? pagemap_scanner_new_quiet(errp) : NULL;
    job->out = job->scanner ? dump_output_open(request->protocol, env->fds, env->ram, errp) : NULL;
    return job->out != NULL;
}

/* A reader of the dump must not see a half of it, so registers come before anything is promised. */
static bool stop_guest(DumpJob *job, GError **errp)
{
    DumpState *s = job->s;

    job->resume = runstate_is_running(s->env.runstate);
    if (job->resume) {
        runstate_stop(s->env.runstate, RUN_STATE_SAVE_VM);
    }
    runstate_set_busy(s->env.runstate, "a dump of the guest's memory is being written");
    job->notes = dump_notes_new(s->accel, errp);
    if (!job->notes) {
        let_guest_go(job);
        return false;
    }
    return true;
}

static bool check_may_begin(DumpState *s, GError **errp)
{
    if (s->job) {
        error_set(errp, "a dump is being written already; query-dump tells how far it is");
        return false;
    }
    if (ram_list_is_lost(s->env.ram)) {
        error_set(errp, "guest memory was lost with the file it was mapped from; it cannot be "
                        "dumped");
        return false;
    }
    return true;
}

bool dump_begin(DumpState *s, const DumpRequest *request, QapiReply *reply, GError **errp)
{
    DumpJob *job;

    if (!check_may_begin(s, errp) || !s->env.hooks.begin(s->env.hooks.opaque, errp)) {
        return false;
    }
    job = g_new0(DumpJob, 1);
    job->s = s;
    ram_list_hold_files(s->env.ram);
    ram_discard_inhibit(s->env.ram, DUMP_INHIBITS);
    if (!prepare(job, request, errp) || !stop_guest(job, errp)) {
        undo_begin(s);
        job_free(job);
        return false;
    }
    s->job = job;
    s->status = DUMP_STATUS_ACTIVE;
    s->completed = 0;
    s->total = job->map->total;
    job->reply = reply;
    job_thread_start(&job->thread, "dump", dump_thread, dump_end, job);
    return true;
}

/* --- State --- */

DumpQueryResult dump_result(const DumpState *s)
{
    return (DumpQueryResult){ .status = s->status,
                              .completed = __atomic_load_n(&s->completed, __ATOMIC_RELAXED),
                              .total = s->total };
}

DumpState *dump_new(const DumpEnv *env)
{
    DumpState *s = g_new0(DumpState, 1);

    s->env = *env;
    s->status = DUMP_STATUS_NONE;
    return s;
}

void dump_set_accel(DumpState *s, Accel *accel)
{
    s->accel = accel;
}

void dump_free(DumpState *s)
{
    if (s && s->job) {
        dump_output_cancel(s->job->out);
        job_thread_abandon(&s->job->thread);
        undo_begin(s);
        if (s->job->reply) {
            qapi_reply_drop(s->job->reply);
        }
        job_free(s->job);
    }
    g_free(s);
}
