/*
 * Files that are mapped though nothing guards them: RAM is detached from them in the background, and who
 * must not let them be changed before that waits for it.
 *
 * libvirt opens a save file with O_TRUNC as soon as "stop", or for a paused guest "query-migrate", was
 * answered. So these answers wait here.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/guard-internal.h"

#include "util/error.h"

/*
 * Time for the guest to get going first, and for libvirt to remove a managed save: a file without a name
 * need not be drained.
 */
#define DRAIN_DELAY_MS 100

/* --- Those who wait --- */

bool drain_is_awaited(const BaseGuard *guard)
{
    return guard->waiters->len > 0;
}

void drain_add_waiter(BaseGuard *guard, DetachDone done, void *opaque)
{
    DrainWaiter waiter = { done, opaque };

    g_array_append_val(guard->waiters, waiter);
}

/* Whoever is told may ask again at once: that is for the next time. */
void drain_tell(BaseGuard *guard, const GError *error)
{
    g_autoptr(GArray) waiters = guard->waiters;

    guard->waiters = g_array_new(FALSE, FALSE, sizeof(DrainWaiter));
    for (guint i = 0; i < waiters->len; i++) {
        const DrainWaiter *waiter = &g_array_index(waiters, DrainWaiter, i);

        waiter->done(waiter->opaque, error);
    }
}

/* --- The drain --- */

/* The files that must be drained. One that has lost its names meanwhile need not be. */
static GPtrArray *unguarded_files(BaseGuard *guard)
{
    GPtrArray *bases = g_ptr_array_new();

    for (guint i = 0; i < guard->bases->len; i++) {
        RamBase *base = guard->bases->pdata[i];

        if (ram_base_wants_drain(base) && ram_base_is_unlinked(base)) {
            ram_base_want_drain(base, false);
        }
        if (ram_base_wants_drain(base)) {
            g_ptr_array_add(bases, base);
        }
    }
    return bases;
}

/* The guest stops the first time; after that it is told to those who ask. */
static void drain_failed(BaseGuard *guard, const GError *error, const char *path)
{
    bool first = !guard->drain_failed;

    guard->drain_failed = true;
    if (first && guard->control.no_memory) {
        guard->control.no_memory(guard->control.opaque, error->message, path);
    }
    drain_tell(guard, error);
}

/* A page that is lost has been told of by itself, and nothing is left to be kept from harm. */
static void drain_done(void *opaque, const GError *error)
{
    BaseGuard *guard = opaque;

    if (error && !lost_page_seen(guard) && !guard->ending) {
        drain_failed(guard, error, guard->waited_for);
    }
}

static void drain_start(BaseGuard *guard, GPtrArray *bases)
{
    DetachRequest request = {
        .bases = bases,
        .reason = "drain",
        .background = true,
        .done = drain_done,
        .opaque = guard,
    };
    g_autoptr(GError) err = NULL;

    guard->drain_due = false;
    g_clear_handle_id(&guard->drain_timer, g_source_remove);
    g_free(guard->waited_for);
    guard->waited_for = g_strdup(ram_base_path(bases->pdata[0]));
    guard->job = detach_start(guard, &request, &err);
    if (!guard->job) {
        drain_failed(guard, err, guard->waited_for);
    }
}

static gboolean drain_delay_over(gpointer opaque)
{
    BaseGuard *guard = opaque;

    guard->drain_timer = 0;
    guard->drain_due = true;
    drain_look(guard);
    return G_SOURCE_REMOVE;
}

void drain_look(BaseGuard *guard)
{
    g_autoptr(GPtrArray) bases = NULL;

    if (guard->job || g_atomic_int_get(&guard->on_hold)) {
        return;
    }
    bases = unguarded_files(guard);
    if (bases->len == 0 || lost_page_seen(guard)) {
        drain_tell(guard, NULL);
    } else if (guard->drain_due || drain_is_awaited(guard)) {
        drain_start(guard, bases);
    } else if (!guard->drain_timer && !guard->drain_failed) {
        guard->drain_timer = g_timeout_add(DRAIN_DELAY_MS, drain_delay_over, guard);
    }
}

void drain_job_ended(BaseGuard *guard, const GError *error)
{
    if (error && !lost_page_seen(guard)) {
        drain_tell(guard, error);
    } else {
        drain_look(guard);
    }
}

void drain_free(BaseGuard *guard)
{
    g_autoptr(GError) error = NULL;

    g_clear_handle_id(&guard->drain_timer, g_source_remove);
    error_set(&error, "the program ends before guest RAM is detached from its file");
    drain_tell(guard, error);
    g_array_unref(guard->waiters);
}

/* --- For others --- */

bool ram_list_is_draining(const RamList *list)
{
    const BaseGuard *guard = ram_list_guard(list);

    if (!guard || lost_page_seen(guard) || (guard->job && detach_is_moved(guard->job))) {
        return false;
    }
    if (g_atomic_int_get(&guard->on_hold)) {
        /* A restore is at work, and will tell. */
        return true;
    }
    for (guint i = 0; i < guard->bases->len; i++) {
        const RamBase *base = guard->bases->pdata[i];

        if (ram_base_wants_drain(base) && !ram_base_is_unlinked(base)) {
            return true;
        }
    }
    return false;
}

void ram_list_finish_drain(RamList *list, DetachDone done, void *opaque)
{
    BaseGuard *guard = ram_list_guard(list);

    if (!ram_list_is_draining(list)) {
        done(opaque, NULL);
        return;
    }
    drain_add_waiter(guard, done, opaque);
    drain_look(guard);
}

bool ram_list_detach_stats(const RamList *list, DetachStats *ret_stats)
{
    const BaseGuard *guard = ram_list_guard(list);

    if (!guard || !guard->any_stats) {
        return false;
    }
    *ret_stats = guard->stats;
    ret_stats->active = guard->job != NULL;
    return true;
}
