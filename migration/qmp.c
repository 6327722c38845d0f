/*
 * QMP commands about migration and about restored memory.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "accel/runstate.h"
#include "memory/base-guard.h"
#include "memory/restore.h"
#include "migration/internal.h"
#include "migration/save.h"
#include "migration/stream.h"
#include "qapi/command.h"
#include "qapi/qapi-commands.h"
#include "qapi/visit.h"
#include "util/error.h"

bool qmp_migrate(MigrationState *s, const MigrateArg *arg, GError **errp)
{
    if (arg->has_resume && arg->resume) {
        error_set(errp, "there is no interrupted migration to resume");
        return false;
    }
    return save_start(s, arg->uri, errp);
}

/* Answered when it has been given up: then the guest may be told to run. */
bool qmp_migrate_cancel(MigrationState *s, QapiReply *reply, GError **errp)
{
    if (!s->save) {
        qapi_reply_done(reply, NULL);
        return true;
    }
    save_cancel(s->save, reply);
    if (s->report.status != MIGRATION_STATUS_CANCELLING) {
        migration_set_status(s, MIGRATION_STATUS_CANCELLING);
    }
    return true;
}

bool qmp_migrate_incoming(MigrationState *s, const MigrateIncomingArg *arg, GError **errp)
{
    if (!s->incoming_pending) {
        error_set(errp, "the program was not started with -incoming defer, or the state has been "
                        "loaded already");
        return false;
    }
    if (s->incoming) {
        error_set(errp, "an incoming migration is under way already");
        return false;
    }
    return incoming_start(s, arg->uri, !arg->has_exit_on_error || arg->exit_on_error, errp);
}

bool qmp_migrate_set_capabilities(MigrationState *s, const MigrateSetCapabilitiesArg *arg,
                                  GError **errp)
{
    /* An incoming one has its own copy, and libvirt sets them while a clone's -incoming URI loads. */
    if (s->save) {
        error_set(errp, "capabilities cannot be changed while a migration runs");
        return false;
    }
    return migration_options_set_capabilities(&s->options, arg->capabilities, errp);
}

GPtrArray *qmp_query_migrate_capabilities(MigrationState *s, GError **errp)
{
    return migration_options_get_capabilities(&s->options);
}

bool qmp_migrate_set_parameters(MigrationState *s, const MigrationParameters *arg, GError **errp)
{
    if (s->save && arg->has_ram_scan) {
        error_set(errp, "ram-scan cannot be changed while a migration runs");
        return false;
    }
    if (!migration_options_set_parameters(&s->options, arg, errp)) {
        return false;
    }
    if (s->save && arg->has_max_bandwidth) {
        save_set_bandwidth(s->save, arg->max_bandwidth);
    }
    return !arg->has_ram_scan || migration_set_scan(s, arg->ram_scan, errp);
}

MigrationParameters *qmp_query_migrate_parameters(MigrationState *s, GError **errp)
{
    return qapi_clone(&qapi_type_MigrationParameters, s->options.parameters);
}

static double mbps(uint64_t bytes, int64_t us)
{
    return us > 0 ? (double)bytes * 8 / us : 0;
}

static MigrationStats *ram_stats(const MigrationReport *r)
{
    MigrationStats *ram = g_new0(MigrationStats, 1);
    int64_t us = (r->ended_us ? r->ended_us : g_get_monotonic_time()) - r->started_us;

    ram->transferred = r->written_bytes;
    ram->total = r->ram_total;
    ram->remaining = r->ended_us ? 0 : r->total_bytes - MIN(r->done_bytes, r->total_bytes);
    ram->duplicate = r->scan.zero_pages + r->zero_pages;
    ram->normal = r->normal_pages;
    ram->normal_bytes = r->normal_pages * STREAM_PAGE_SIZE;
    ram->mbps = mbps(r->written_bytes, us);
    ram->dirty_sync_count = r->passes;
    ram->page_size = STREAM_PAGE_SIZE;
    ram->multifd_bytes = r->multifd ? r->written_bytes : 0;
    ram->pages_per_second = us > 0 ? r->normal_pages * G_USEC_PER_SEC / us : 0;
    ram->has_data_pages = ram->has_zero_pages = ram->has_unchanged_pages = true;
    ram->has_swapped_pages = ram->has_scan_time_us = ram->has_written_bytes = true;
    ram->data_pages = r->scan.data_pages - MIN(r->zero_pages, r->scan.data_pages);
    ram->zero_pages = r->scan.zero_pages + r->zero_pages;
    ram->unchanged_pages = r->scan.unchanged_pages;
    ram->swapped_pages = r->scan.swapped_pages;
    ram->scan_time_us = r->scan.scan_time_us;
    ram->written_bytes = r->written_bytes;
    if (r->scan_path >= 0) {
        ram->has_scan_path = true;
        ram->scan_path = r->scan_path;
    }
    return ram;
}

static void set_times(MigrationInfo *info, const MigrationReport *r)
{
    int64_t end = r->ended_us ? r->ended_us : g_get_monotonic_time();

    info->has_total_time = true;
    info->total_time = (end - r->started_us) / 1000;
    if (r->captured_us) {
        info->has_setup_time = true;
        info->setup_time = (r->stopped_us - r->started_us) / 1000;
    }
    if (r->status == MIGRATION_STATUS_COMPLETED && r->stopped_us) {
        info->has_downtime = true;
        info->downtime = (end - r->stopped_us) / 1000;
    } else if (r->status == MIGRATION_STATUS_ACTIVE) {
        info->has_expected_downtime = true;
    }
}

static MigrationInfo *migration_info(MigrationState *s)
{
    MigrationInfo *info = g_new0(MigrationInfo, 1);
    const MigrationReport *r = &s->report;

    if (s->save) {
        save_update_report(s->save, &s->report);
    }
    if (s->blockers->len) {
        info->blocked_reasons = g_ptr_array_new();
    }
    for (guint i = 0; i < s->blockers->len; i++) {
        g_ptr_array_add(info->blocked_reasons, g_strdup(blocker_reason(s, i)));
    }
    if (r->status == MIGRATION_STATUS_NONE) {
        return info;
    }
    info->has_status = true;
    info->status = r->status;
    info->error_desc = g_strdup(r->error);
    if (r->outgoing) {
        set_times(info, r);
    }
    if (r->have_ram) {
        info->ram = ram_stats(r);
    }
    return info;
}

typedef struct MigrateQuery {
    MigrationState *s;
    QapiReply *reply;
} MigrateQuery;

static void answer_query(void *opaque, const GError *error)
{
    g_autofree MigrateQuery *query = opaque;
    g_autoptr(MigrationInfo) info = NULL;

    if (error) {
        qapi_reply_error(query->reply, g_error_copy(error));
        return;
    }
    info = migration_info(query->s);
    qapi_reply_done(query->reply, qapi_to_json(&qapi_type_MigrationInfo, info));
}

/*
 * libvirt asks before each save, and for a paused guest opens the file with O_TRUNC after the answer: so
 * that waits until memory needs the file no more. While a migration runs nobody has to wait.
 */
bool qmp_query_migrate(MigrationState *s, QapiReply *reply, GError **errp)
{
    MigrateQuery *query = g_new(MigrateQuery, 1);

    *query = (MigrateQuery){ s, reply };
    if (s->save || s->incoming || s->incoming_pending) {
        answer_query(query, NULL);
    } else {
        ram_list_finish_drain(s->env.ram, answer_query, query);
    }
    return true;
}

/* --- Restored memory --- */

static RamRestoreMode used_mode(const RamRestoreReport *report)
{
    return report->used == RAM_RESTORE_USED_COPY_ON_WRITE ? RAM_RESTORE_MODE_COPY_ON_WRITE
                                                          : RAM_RESTORE_MODE_COPY;
}

static RamRestoreBlockInfo *block_info(RamBlock *block, GError **errp)
{
    RamRestoreBlockInfo *info;
    RestoreBlockInfo counted;

    if (!restore_query_block(block, &counted, errp)) {
        return NULL;
    }
    info = g_new0(RamRestoreBlockInfo, 1);
    info->block = g_strdup(block->name);
    info->size = block->size;
    info->mode = used_mode(counted.report);
    info->reason = g_strdup(counted.report->reason);
    info->file = g_strdup(counted.report->file);
    info->has_offset = counted.report->used == RAM_RESTORE_USED_COPY_ON_WRITE;
    info->offset = counted.report->file_offset;
    info->private_pages = counted.private_pages;
    info->resident_pages = counted.resident_pages;
    info->swapped_pages = counted.swapped_pages;
    info->chunks_released = counted.chunks_released;
    info->released_bytes = block->discard.released;
    info->left_over_budget = block->discard.over_budget;
    info->left_busy = block->discard.busy;
    info->left_inhibited = block->discard.inhibited;
    info->mappings = counted.mappings;
    return info;
}

static RamDetachInfo *detach_info(const RamList *list)
{
    RamDetachInfo *info;
    DetachStats stats;

    if (!ram_list_detach_stats(list, &stats)) {
        return NULL;
    }
    info = g_new0(RamDetachInfo, 1);
    info->active = stats.active;
    info->chunks = stats.chunks;
    info->chunks_left = stats.chunks_left;
    info->bytes_copied = stats.bytes_copied;
    info->pauses = stats.pauses;
    info->paused_us = stats.paused_us;
    info->longest_pause_us = stats.longest_pause_us;
    return info;
}

RamRestoreInfo *qmp_query_ram_restore(MigrationState *s, GError **errp)
{
    g_autoptr(RamRestoreInfo) info = g_new0(RamRestoreInfo, 1);

    info->blocks = g_ptr_array_new();
    info->restored = s->origin.known;
    /* The values of both enumerations are the same. */
    info->guard = (RamBaseGuard)ram_list_guard_state(s->env.ram);
    if (!info->restored) {
        return g_steal_pointer(&info);
    }
    info->has_requested_mode = info->has_restore_time_us = true;
    info->requested_mode = (RamRestoreMode)s->restore_requested;
    info->restore_time_us = s->restore_time_us;
    info->detach = detach_info(s->env.ram);
    for (unsigned i = 0; i < ram_list_count(s->env.ram); i++) {
        RamRestoreBlockInfo *block = block_info(ram_list_get(s->env.ram, i), errp);

        if (!block) {
            return NULL;
        }
        g_ptr_array_add(info->blocks, block);
    }
    return g_steal_pointer(&info);
}

static void ram_detach_done(void *opaque, const GError *error)
{
    QapiReply *reply = opaque;

    if (error) {
        qapi_reply_error(reply, g_error_copy(error));
    } else {
        qapi_reply_done(reply, NULL);
    }
}

bool qmp_ram_detach(MigrationState *s, QapiReply *reply, GError **errp)
{
    BaseGuard *guard = ram_list_guard(s->env.ram);

    if (!guard) {
        qapi_reply_done(reply, NULL);
        return true;
    }
    return base_guard_detach_all(guard, "requested", ram_detach_done, reply, errp);
}
