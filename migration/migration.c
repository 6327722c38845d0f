/*
 * The one object of migration: its life, status and events.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "migration/migration.h"

#include <string.h>

#include "migration/internal.h"
#include "migration/save.h"
#include "qapi/qapi-events.h"
#include "util/error.h"
#include "util/log.h"
#include "vmstate/registry.h"

typedef struct MigrationBlocker {
    const void *handle;
    char *reason;
} MigrationBlocker;

static bool global_state_post_load(void *opaque, int version_id, GError **errp)
{
    GlobalState *g = opaque;

    if (memchr(g->runstate, '\0', sizeof(g->runstate)) == NULL) {
        error_set(errp, "the run state's name does not end");
        return false;
    }
    return true;
}

static const VMStateField global_state_fields[] = {
    VMSTATE_UINT32(size, GlobalState),
    VMSTATE_BUFFER(runstate, GlobalState),
    VMSTATE_END_OF_LIST(),
};

static const VMStateDescription vmstate_global_state = {
    .name = "globalstate",
    .version_id = 1,
    .minimum_version_id = 1,
    .post_load = global_state_post_load,
    .fields = global_state_fields,
};

static void blocker_free(MigrationBlocker *b)
{
    g_free(b->reason);
    g_free(b);
}

MigrationState *migration_new(const MigrationEnv *env, GError **errp)
{
    g_autoptr(MigrationState) s = g_new0(MigrationState, 1);

    s->env = *env;
    migration_options_init(&s->options);
    s->blockers = g_ptr_array_new_with_free_func((GDestroyNotify)blocker_free);
    s->scanner = pagemap_scanner_new(PAGEMAP_AUTO, errp);
    if (!s->scanner || !vmstate_register(env->vmstate, "globalstate", 0, VMSTATE_PRIORITY_DEFAULT,
                                         &vmstate_global_state, &s->global, errp)) {
        return NULL;
    }
    return g_steal_pointer(&s);
}

void migration_free(MigrationState *s)
{
    if (!s) {
        return;
    }
    if (s->save) {
        save_abandon(s->save);
    }
    if (s->incoming) {
        incoming_abandon(s->incoming);
    }
    incoming_drop_prepared(s);
    vmstate_unregister(s->env.vmstate, &vmstate_global_state, &s->global);
    g_clear_pointer(&s->scanner, pagemap_scanner_free);
    migration_options_clear(&s->options);
    g_ptr_array_unref(s->blockers);
    snapshot_origin_clear(&s->origin);
    g_free(s->report.error);
    g_free(s);
}

bool migration_set_scan(MigrationState *s, RamScan scan, GError **errp)
{
    PagemapScanner *scanner = pagemap_scanner_new((PagemapPath)scan, errp);

    if (!scanner) {
        return false;
    }
    pagemap_scanner_free(s->scanner);
    s->scanner = scanner;
    return true;
}

bool migration_set_global(MigrationState *s, const char *name, const char *value, GError **errp)
{
    RamScan old = s->options.parameters->ram_scan, now;

    if (!migration_options_set_global(&s->options, name, value, errp)) {
        return false;
    }
    now = s->options.parameters->ram_scan;
    return now == old || migration_set_scan(s, now, errp);
}

void migration_prepare_incoming(MigrationState *s, const char *uri)
{
    if (strcmp(uri, "defer") != 0) {
        incoming_prepare(s, uri);
    }
}

bool migration_incoming(MigrationState *s, const char *uri, GError **errp)
{
    s->incoming_pending = true;
    return strcmp(uri, "defer") == 0 || incoming_start(s, uri, true, errp);
}

bool migration_incoming_pending(const MigrationState *s)
{
    return s->incoming_pending;
}

bool migration_is_saving(const MigrationState *s)
{
    return s->save != NULL;
}

bool migration_is_capturing(const MigrationState *s)
{
    return s->capturing;
}

void migration_add_blocker(MigrationState *s, const void *handle, const char *reason)
{
    MigrationBlocker *b = g_new0(MigrationBlocker, 1);

    b->handle = handle;
    b->reason = g_strdup(reason);
    g_ptr_array_add(s->blockers, b);
}

void migration_remove_blocker(MigrationState *s, const void *handle)
{
    for (guint i = s->blockers->len; i > 0; i--) {
        const MigrationBlocker *b = g_ptr_array_index(s->blockers, i - 1);

        if (b->handle == handle) {
            g_ptr_array_remove_index(s->blockers, i - 1);
        }
    }
}

const char *blocker_reason(const MigrationState *s, guint i)
{
    return ((MigrationBlocker *)g_ptr_array_index(s->blockers, i))->reason;
}

void migration_begin(MigrationState *s, bool outgoing)
{
    g_free(s->report.error);
    s->report = (MigrationReport){ .outgoing = outgoing,
                                   .started_us = g_get_monotonic_time(),
                                   .scan_path = -1 };
}

void migration_set_status(MigrationState *s, MigrationStatus status)
{
    log_printf(LOG_MIGRATION, "migration_status: %s", migration_status_str(status));
    s->report.status = status;
    if (s->options.capabilities[MIGRATION_CAPABILITY_EVENTS]) {
        qapi_event_send_migration(s->env.events, status);
    }
}
