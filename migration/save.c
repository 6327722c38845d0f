/*
 * Saving: one outgoing migration from the command to its end.
 *
 * A running guest that goes to a stream runs on while most of its memory is sent (precopy.c).
 *
 * The order matters. The guest is stopped and quiet, device and vCPU state goes to a buffer, then
 * RAM is scanned and written with nothing touching a vCPU in between, then the buffer is appended
 * and the file published. On failure everything is as before and the guest runs again if it ran.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "migration/save.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "accel/runstate.h"
#include "memory/base-guard.h"
#include "memory/discard.h"
#include "migration/internal.h"
#include "migration/parent.h"
#include "migration/precopy.h"
#include "migration/ram-delta-stream.h"
#include "migration/ram-pages.h"
#include "migration/section.h"
#include "qapi/command.h"
#include "qapi/qapi-events.h"
#include "util/error.h"
#include "util/json.h"
#include "util/log.h"

#define SAVE_INHIBITS "a save is running"

/* --- On the main loop: stopping the guest and reading its devices --- */

static void put_global_state(MigrationState *s, RunState state)
{
    const char *name = run_state_str(state);

    memset(&s->global, 0, sizeof(s->global));
    s->global.size = strlen(name) + 1;
    g_strlcpy((char *)s->global.runstate, name, sizeof(s->global.runstate));
}

static void stop_guest(SaveJob *job)
{
    MigrationState *s = job->s;

    job->old_state = runstate_get(s->env.runstate);
    job->was_running = runstate_is_running(s->env.runstate);
    put_global_state(s, job->old_state);
    s->report.stopped_us = g_get_monotonic_time();
    runstate_stop(s->env.runstate, RUN_STATE_FINISH_MIGRATE);
    job->stopped = true;
}

/* The JSON description that ends the stream; devices are added by sections_save(). */
static json_object *new_description(CapturedState *state, json_object **ret_devices)
{
    json_object *desc = json_object_new_object();

    *ret_devices = json_object_new_array();
    json_object_object_add(desc, "configuration", stream_describe_config(&state->config));
    json_add_uint(desc, "page_size", STREAM_PAGE_SIZE);
    json_object_object_add(desc, "devices", *ret_devices);
    return desc;
}

static bool capture_info(SaveJob *job, GError **errp)
{
    const MigrationHooks *hooks = &job->s->env.hooks;
    SnapshotInfo *info = &job->state.info;

    snapshot_info_init(info);
    if (job->incremental) {
        info->parent_uuid = job->parent.uuid;
        info->parent_length = job->parent.length;
        info->sequence = job->s->origin.info.sequence + 1;
    }
    return !hooks->cpu_digest || hooks->cpu_digest(hooks->opaque, info->cpu_digest, errp);
}

static void capture_devices(SaveJob *job)
{
    json_object *devices;

    job->state.description = new_description(&job->state, &devices);
    json_object_array_add(devices, snapshot_info_describe(&job->state.info));
    job->state.devices = g_byte_array_new();
    sections_save(job->s->env.vmstate, job->state.devices, devices);
}

/* Of memory; the first one begins the migration. */
static void begin_pass(void *opaque)
{
    SaveJob *job = opaque;
    MigrationState *s = job->s;

    s->report.passes++;
    if (s->report.passes == 1) {
        migration_set_status(s, MIGRATION_STATUS_ACTIVE);
    }
    if (s->options.capabilities[MIGRATION_CAPABILITY_EVENTS]) {
        qapi_event_send_migration_pass(s->env.events, s->report.passes);
    }
}

static void capture(void *opaque)
{
    SaveJob *job = opaque;
    MigrationState *s = job->s;
    const MigrationHooks *hooks = &s->env.hooks;

    begin_pass(job);
    stop_guest(job);
    if (hooks->quiesce && !hooks->quiesce(hooks->opaque, &job->error)) {
        return;
    }
    if (!capture_info(job, &job->error)) {
        return;
    }
    s->capturing = true;
    capture_devices(job);
    s->report.captured_us = g_get_monotonic_time();
    job->captured = true;
}

/* --- In the thread: RAM and the file --- */

/* After the last byte: what an increment rests on is as it was when the guest came from it. */
static bool check_parent(const SaveJob *job, GError **errp)
{
    return !job->incremental || job->parent_elsewhere ||
           parent_check_unchanged(&job->s->origin, errp);
}

static bool write_file(SaveJob *job, GError **errp)
{
    SnapshotWrite w = { .target = job->target,
                        .ram = job->s->env.ram,
                        .plan = &job->plan,
                        .control = &job->control,
                        .threads = job->threads,
                        .reflink = true };

    return snapshot_write(&w, &job->state, job->incremental ? &job->parent : NULL, errp) &&
           check_parent(job, errp) && publish_commit(job->target, errp);
}

static bool write_stream(SaveJob *job, GError **errp)
{
    RamPagesWrite w = {
        .fd = job->stream->fd, .ram = job->s->env.ram, .plan = &job->plan, .control = &job->control
    };

    return (job->incremental ? ram_delta_write_stream(&w, &job->parent, &job->state, errp)
                             : ram_pages_write(&w, &job->state, errp)) &&
           check_parent(job, errp) && stream_channel_close(job->stream, errp);
}

/* "file descriptor 12" alone says nothing to the user. */
static bool name_target(const SaveJob *job, bool ok, GError **errp)
{
    if (!ok) {
        g_prefix_error(errp, "target '%s': ", job->address->name);
    }
    return ok;
}

static bool write_target(SaveJob *job, GError **errp)
{
    return name_target(job, (job->target ? write_file : write_stream)(job, errp), errp);
}

static bool connect_stream(SaveJob *job, GError **errp)
{
    if (!job->target && !job->stream) {
        job->stream = stream_channel_open_output(job->address, &job->control.cancelled, errp);
    }
    return job->target || job->stream;
}

static bool call_main(SaveJob *job, void (*fn)(void *opaque), GError **errp)
{
    if (!job_call_main(&job->thread, fn, job)) {
        error_set(errp, "the program ends");
        return false;
    }
    return true;
}

static bool stop_and_capture(void *opaque, GError **errp)
{
    SaveJob *job = opaque;

    return call_main(job, capture, errp) && job->captured;
}

static bool scan(SaveJob *job, GError **errp)
{
    if (!ram_plan_scan(&job->plan, job->s->env.ram, job->s->scanner, errp)) {
        return false;
    }
    job->control.total_bytes = job->plan.total;
    __atomic_store_n(&job->scanned, true, __ATOMIC_RELEASE);
    return true;
}

static bool next_pass(void *opaque, GError **errp)
{
    return call_main(opaque, begin_pass, errp);
}

/* Most of memory is sent before the guest is stopped. */
static bool write_running(SaveJob *job, WriteWatch *watch, GError **errp)
{
    Precopy p = { .write = { .fd = job->stream->fd,
                             .ram = job->s->env.ram,
                             .plan = &job->plan,
                             .control = &job->control },
                  .watch = watch,
                  .next_pass = next_pass,
                  .stop = stop_and_capture,
                  .opaque = job };

    return next_pass(job, errp) && scan(job, errp) &&
           name_target(
               job, precopy_write(&p, &job->state, errp) && stream_channel_close(job->stream, errp),
               errp);
}

/* NULL: the guest is stopped first. */
static WriteWatch *watch_writes(SaveJob *job)
{
    g_autoptr(GError) why = NULL;
    WriteWatch *watch = NULL;

    if (job->live) {
        watch = write_watch_new(job->s->env.ram, &why);
        log_printf(LOG_MIGRATION, "precopy: %s", watch ? "on" : why->message);
    }
    return watch;
}

static bool save_all(SaveJob *job, GError **errp)
{
    g_autoptr(WriteWatch) watch = NULL;

    if (!connect_stream(job, errp) || !transfer_control_check(&job->control, errp)) {
        return false;
    }
    watch = watch_writes(job);
    if (watch) {
        return write_running(job, watch, errp);
    }
    return stop_and_capture(job, errp) && scan(job, errp) && write_target(job, errp);
}

static void save_thread(void *opaque)
{
    SaveJob *job = opaque;

    job->ok = save_all(job, &job->error);
    /* Close what is half written before anybody is told that it failed. */
    g_clear_pointer(&job->target, publish_free);
    g_clear_pointer(&job->stream, stream_channel_free);
}

/* --- On the main loop: the end --- */

/* As before stop_guest(); finish-migrate cannot be left for every state. */
static void restore_run_state(SaveJob *job)
{
    RunStateControl *rs = job->s->env.runstate;
    g_autoptr(GError) err = NULL;

    /* Somebody else stopped it for good meanwhile (a lost page, a shutdown): leave it so. */
    if (runstate_get(rs) != RUN_STATE_FINISH_MIGRATE) {
        return;
    }
    runstate_set(rs, job->old_state == RUN_STATE_POSTMIGRATE ? RUN_STATE_POSTMIGRATE
                                                             : RUN_STATE_PAUSED);
    if (job->was_running && !runstate_start(rs, &err)) {
        warn_report("cannot let the guest run again after the migration: %s", err->message);
    }
}

static void resume_after_save(SaveJob *job)
{
    const MigrationHooks *hooks = &job->s->env.hooks;

    if (!job->stopped) {
        return;
    }
    if (hooks->unquiesce) {
        hooks->unquiesce(hooks->opaque);
    }
    if (!job->ok) {
        restore_run_state(job);
    } else if (runstate_get(job->s->env.runstate) == RUN_STATE_FINISH_MIGRATE) {
        runstate_set(job->s->env.runstate, RUN_STATE_POSTMIGRATE);
    }
}

static void job_free(SaveJob *job)
{
    migration_address_free(job->address);
    publish_free(job->target);
    stream_channel_free(job->stream);
    captured_state_clear(&job->state);
    snapshot_parent_clear(&job->parent);
    ram_plan_clear(&job->plan);
    transfer_control_clear(&job->control);
    g_clear_error(&job->error);
    g_ptr_array_unref(job->cancel_replies);
    g_free(job);
}

void save_cancel(SaveJob *job, QapiReply *reply)
{
    transfer_control_cancel(&job->control);
    g_ptr_array_add(job->cancel_replies, reply);
}

static void answer_cancels(SaveJob *job)
{
    for (guint i = 0; i < job->cancel_replies->len; i++) {
        qapi_reply_done(g_ptr_array_index(job->cancel_replies, i), NULL);
    }
    g_ptr_array_set_size(job->cancel_replies, 0);
}

static void save_end(void *opaque)
{
    SaveJob *job = opaque;
    MigrationState *s = job->s;
    bool cancelled = g_atomic_int_get(&job->control.cancelled);

    job_thread_join(&job->thread);
    ram_list_release_files(s->env.ram);
    ram_discard_allow(s->env.ram, SAVE_INHIBITS);
    s->capturing = false;
    s->report.ended_us = g_get_monotonic_time();
    save_update_report(job, &s->report);
    s->save = NULL;
    resume_after_save(job);
    if (job->ok) {
        migration_set_status(s, MIGRATION_STATUS_COMPLETED);
    } else if (cancelled) {
        migration_set_status(s, MIGRATION_STATUS_CANCELLED);
    } else {
        s->report.error = g_strdup(job->error ? job->error->message : "unknown error");
        error_report("cannot save the state of the guest: %s", s->report.error);
        migration_set_status(s, MIGRATION_STATUS_FAILED);
    }
    answer_cancels(job);
    job_free(job);
}

void save_update_report(const SaveJob *job, MigrationReport *report)
{
    const TransferControl *c = &job->control;

    report->have_ram = true;
    report->ram_total = ram_list_total(job->s->env.ram);
    report->done_bytes = transfer_read(&c->done_bytes);
    report->written_bytes = transfer_read(&c->written_bytes);
    report->normal_pages = transfer_read(&c->normal_pages);
    report->zero_pages = transfer_read(&c->zero_pages);
    report->multifd = job->threads > 1;
    if (__atomic_load_n(&job->scanned, __ATOMIC_ACQUIRE)) {
        report->scan = job->plan.stats;
        report->total_bytes = c->total_bytes;
    } else {
        report->total_bytes = report->ram_total;
    }
}

void save_set_bandwidth(SaveJob *job, uint64_t bytes_per_second)
{
    transfer_control_set_limit(&job->control, bytes_per_second);
}

void save_abandon(SaveJob *job)
{
    transfer_control_cancel(&job->control);
    job_thread_abandon(&job->thread);
    answer_cancels(job);
    ram_list_release_files(job->s->env.ram);
    ram_discard_allow(job->s->env.ram, SAVE_INHIBITS);
    job->s->save = NULL;
    job_free(job);
}

/* --- On the main loop: the beginning --- */

static bool check_idle(MigrationState *s, GError **errp)
{
    if (s->save) {
        error_set(errp, "a migration is running already; wait for its end or use migrate_cancel");
        return false;
    }
    if (s->incoming || s->incoming_pending) {
        error_set(errp, "the guest is waiting for an incoming migration");
        return false;
    }
    if (s->blockers->len) {
        error_set(errp, "migration is blocked: %s", blocker_reason(s, 0));
        return false;
    }
    if (ram_list_is_lost(s->env.ram)) {
        error_set(errp, "guest memory was lost with the file it was mapped from; it cannot be "
                        "saved");
        return false;
    }
    return true;
}

static SaveJob *job_new(MigrationState *s, MigrationAddress *address)
{
    SaveJob *job = g_new0(SaveJob, 1);
    const MigrationParameters *p = s->options.parameters;

    job->s = s;
    job->address = address;
    job->cancel_replies = g_ptr_array_new();
    job->incremental = p->ram_save_mode == RAM_SAVE_MODE_INCREMENTAL;
    job->threads = migration_options_threads(&s->options);
    transfer_control_init(&job->control, p->max_bandwidth);
    return job;
}

bool save_start(MigrationState *s, const char *uri, GError **errp)
{
    MigrationAddress *address;
    SaveJob *job;

    if (!check_idle(s, errp)) {
        return false;
    }
    address = migration_address_parse(uri, errp);
    if (!address) {
        return false;
    }
    job = job_new(s, address);
    if (!save_open_target(job, errp)) {
        job_free(job);
        return false;
    }
    job->state.config.machine_type = g_strdup(s->env.machine_type);
    job->state.config.mapped_ram = job->target && !job->incremental;
    job->live = !job->target && !job->incremental && runstate_is_running(s->env.runstate);
    migration_begin(s, true);
    s->report.scan_path = qapi_enum_find(&qapi_type_RamScan, pagemap_scanner_name(s->scanner));
    s->save = job;
    migration_set_status(s, MIGRATION_STATUS_SETUP);
    ram_list_hold_files(s->env.ram);
    ram_discard_inhibit(s->env.ram, SAVE_INHIBITS);
    job_thread_start(&job->thread, "migration", save_thread, save_end, job);
    return true;
}
