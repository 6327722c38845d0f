/*
 * Guest RAM out of snapshot files: which block is restored how, and the report of it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/restore.h"

#include "memory/chunk-map.h"
#include "memory/guard-internal.h"
#include "memory/restore-internal.h"
#include "memory/vma-budget.h"
#include "util/error.h"
#include "util/log.h"
#include "util/units.h"

#include <string.h>

#define PAGE UINT64_C(4096)

/* --- The files are what the layers say --- */

static bool check_range(const RestoreLayer *layer, const RamBlock *block, uint64_t file_offset,
                        uint64_t length, GError **errp)
{
    uint64_t left = ram_base_bytes_from(layer->base, file_offset);

    if (file_offset > INT64_MAX - length || left < length) {
        error_set(errp,
                  "Snapshot %s is too short: RAM block '%s' needs 0x%" G_GINT64_MODIFIER
                  "x bytes at 0x%" G_GINT64_MODIFIER "x, there are 0x%" G_GINT64_MODIFIER "x",
                  ram_base_path(layer->base), block->name, length, file_offset, left);
        return false;
    }
    return true;
}

/* Ascending, in whole pages, inside the block and, where they have contents, inside the file. */
static bool check_extents(const RestoreLayer *layer, const RestoreBlock *rb,
                          const RestoreExtent *extents, size_t n, bool in_file, GError **errp)
{
    uint64_t pos = 0;

    for (size_t i = 0; i < n; i++) {
        const RestoreExtent *e = &extents[i];

        if (e->offset < pos || e->length == 0 || (e->offset | e->length) % PAGE ||
            e->offset > rb->block->size || e->length > rb->block->size - e->offset) {
            error_set(errp,
                      "Snapshot %s: extent 0x%" G_GINT64_MODIFIER "x, length 0x%" G_GINT64_MODIFIER
                      "x, of RAM block '%s' is invalid",
                      ram_base_path(layer->base), e->offset, e->length, rb->block->name);
            return false;
        }
        if (in_file && !check_range(layer, rb->block, e->file_offset, e->length, errp)) {
            return false;
        }
        pos = e->offset + e->length;
    }
    return true;
}

static bool check_layers(const RestoreRequest *request, GError **errp)
{
    for (size_t i = 0; i < request->n_layers; i++) {
        const RestoreLayer *layer = &request->layers[i];

        for (size_t k = 0; k < layer->n_blocks; k++) {
            const RestoreBlock *rb = &layer->blocks[k];

            if (i == 0 && !check_range(layer, rb->block, rb->pages_offset, rb->block->size, errp)) {
                return false;
            }
            if (!check_extents(layer, rb, rb->extents, rb->n_extents, true, errp) ||
                !check_extents(layer, rb, rb->zeros, rb->n_zeros, false, errp) ||
                !check_extents(layer, rb, rb->released, rb->n_released, false, errp)) {
                return false;
            }
        }
    }
    return true;
}

/* --- Eligibility --- */

/* Why this block cannot be mapped copy-on-write whatever the file; NULL = it can. */
static const char *block_obstacle(const RamBlock *block)
{
    const struct {
        bool applies;
        const char *why;
    } obstacles[] = {
        { block->hugetlb, "its back end uses hugetlb pages" },
        { block->memfd, "its back end is a memfd" },
        { block->share, "its back end is shared (share=on)" },
        { block->prealloc, "its memory is preallocated (prealloc=on)" },
        { block->mem_lock, "its memory is locked (mem-lock=on)" },
        { block->numa_policy, "its back end has a NUMA policy" },
        { block->merge, "KSM may merge its pages (merge=on)" },
        { block->resizable, "it can be resized or unplugged" },
        { block->readonly, "it is read-only" },
        { block->kind != RAM_ANONYMOUS, "it maps a file of its own" },
    };

    for (size_t i = 0; i < G_N_ELEMENTS(obstacles); i++) {
        if (obstacles[i].applies) {
            return obstacles[i].why;
        }
    }
    return NULL;
}

static const char *obstacle_of(const RestoreRequest *request, const RestoreBlock *rb)
{
    if (request->obstacle) {
        return request->obstacle;
    }
    if (request->memory_pinned) {
        return "vhost-user or VFIO devices hold guest memory";
    }
    if (rb->pages_offset % PAGE) {
        return "its pages are not page-aligned in the file";
    }
    return block_obstacle(rb->block);
}

/* --- Guarding the files --- */

/*
 * Guard one file: by a lease, else by mapping a clone of it. Where there is neither `auto` has memory
 * detached from the file while the guest runs; an explicit copy-on-write goes on and warns.
 */
static bool guard_layer(BaseGuard *guard, RestoreMode mode, RamBase *base, GError **errp)
{
    g_autoptr(GError) no_lease = NULL, no_clone = NULL;
    int clone;

    if (base_guard_add(guard, base, true, &no_lease)) {
        return true;
    }
    clone = mode == RESTORE_AUTO ? ram_base_make_clone(base, &no_clone) : -1;
    if (clone >= 0) {
        ram_base_use_clone(base, clone);
    } else if (mode == RESTORE_AUTO) {
        log_printf(LOG_MEMORY, "ram_drain: %s; %s", no_lease->message, no_clone->message);
        ram_base_want_drain(base, true);
    } else {
        warn_report(
            "Guest RAM is mapped from %s with nothing to guard it when the file changes: %s",
            ram_base_path(base), no_lease->message);
    }
    return base_guard_add(guard, base, false, errp);
}

/* NULL, or the reason why the files cannot be mapped or, for `auto`, not be guarded. */
static char *guard_layers(BaseGuard *guard, const RestoreRequest *request)
{
    for (size_t i = 0; i < request->n_layers; i++) {
        RamBase *base = request->layers[i].base;
        g_autoptr(GError) why = NULL;

        if (!ram_base_check_mappable(base, &why) ||
            !guard_layer(guard, request->mode, base, &why)) {
            for (size_t k = 0; k < i; k++) {
                base_guard_forget(guard, request->layers[k].base);
            }
            return g_strdup(why->message);
        }
    }
    return NULL;
}

static bool is_mapped(const RamList *list, const RamBase *base)
{
    for (unsigned i = 0; i < ram_list_count(list); i++) {
        const RamBlock *block = ram_list_get(list, i);

        for (guint k = 0; block->mappings && k < block->mappings->len; k++) {
            if (((const RamMapping *)block->mappings->pdata[k])->base == base) {
                return true;
            }
        }
    }
    return false;
}

/* After a failure nothing is left to be kept from harm, and files that were not mapped are not in use. */
static void unguard_layers(BaseGuard *guard, const RestoreRequest *request)
{
    for (size_t i = 0; i < request->n_layers; i++) {
        RamBase *base = request->layers[i].base;

        ram_base_want_drain(base, false);
        if (!is_mapped(guard->list, base)) {
            base_guard_forget(guard, base);
        }
    }
}

/* --- Deciding --- */

static RestoreBlock *layer_block(const RestoreLayer *layer, const RamBlock *block)
{
    for (size_t i = 0; i < layer->n_blocks; i++) {
        if (layer->blocks[i].block == block) {
            return &layer->blocks[i];
        }
    }
    return NULL;
}

/* reason: NULL = the block is mapped copy-on-write. */
static void report_use(RamBlock *block, const char *reason)
{
    RamRestoreReport *report = &block->report;

    g_clear_pointer(&report->reason, g_free);
    g_clear_pointer(&report->file, g_free);
    g_clear_pointer(&report->increment_obstacle, g_free);
    report->detached = false;
    report->used = reason ? RAM_RESTORE_USED_COPY : RAM_RESTORE_USED_COPY_ON_WRITE;
    report->reason = g_strdup(reason);
    report->file_offset = 0;
    report->increment_possible = reason == NULL;
    if (reason) {
        report->increment_obstacle =
            g_strdup_printf("RAM block '%s' was copied when the VM was restored (%s), so the pages "
                            "written since are "
                            "not known; save with ram-save-mode=full",
                            block->name, reason);
    }
}

static void report_block(const RestoreRequest *request, const RestoreBlock *rb, const char *reason)
{
    const RestoreLayer *tip = &request->layers[request->n_layers - 1];
    RamRestoreReport *report = &rb->block->report;

    report_use(rb->block, reason);
    report->file = g_strdup(ram_base_path(tip->base));
    report->file_offset = rb->pages_offset;
}

void restore_report_copied(RamList *list, const char *reason)
{
    for (unsigned i = 0; i < ram_list_count(list); i++) {
        report_use(ram_list_get(list, i), reason);
    }
}

/* Fill in the report of every block of the base; false = an ineligible block may not be copied. */
static bool decide(const RestoreRequest *request, const char *no_files, GError **errp)
{
    const RestoreLayer *base = &request->layers[0];

    for (size_t i = 0; i < base->n_blocks; i++) {
        const RestoreBlock *rb = &base->blocks[i];
        const char *reason = request->mode == RESTORE_COPY ? "asked for by ram-restore-mode=copy"
                                                           : obstacle_of(request, rb);

        reason = reason ? reason : no_files;
        if (reason && (request->refuse_copy ||
                       (request->mode == RESTORE_COPY_ON_WRITE && !request->fallback))) {
            error_set(errp,
                      "RAM block '%s' cannot be restored copy-on-write: %s; allow copying with "
                      "ram-restore-fallback=on or use ram-restore-mode=copy",
                      rb->block->name, reason);
            return false;
        }
        report_block(request, rb, reason);
    }
    return true;
}

static bool any_eligible(const RestoreRequest *request)
{
    for (size_t i = 0; request->mode != RESTORE_COPY && i < request->layers[0].n_blocks; i++) {
        if (!obstacle_of(request, &request->layers[0].blocks[i])) {
            return true;
        }
    }
    return false;
}

/* --- Doing --- */

static bool restore_base(const RestoreRequest *request, CopyPlan *plan, GError **errp)
{
    const RestoreLayer *layer = &request->layers[0];

    for (size_t i = 0; i < layer->n_blocks; i++) {
        const RestoreBlock *rb = &layer->blocks[i];
        bool ok = rb->block->report.used == RAM_RESTORE_USED_COPY_ON_WRITE
                      ? restore_cow_base(request, layer, rb, errp)
                      : restore_copy_base(plan, layer, rb, errp);

        if (!ok) {
            return false;
        }
    }
    return copy_plan_run(plan, errp);
}

static bool restore_delta(const RestoreLayer *layer, CopyPlan *plan, GError **errp)
{
    for (size_t i = 0; i < layer->n_blocks; i++) {
        const RestoreBlock *rb = &layer->blocks[i];

        if (rb->block->kind != RAM_FILE_PRIVATE) {
            restore_copy_delta(plan, layer, rb);
        } else if (!restore_cow_delta(plan, layer, rb, errp)) {
            return false;
        }
    }
    return copy_plan_run(plan, errp);
}

static bool restore_layers(const RestoreRequest *request, GError **errp)
{
    g_autoptr(CopyPlan) plan = copy_plan_new(request->threads, request->direct_io);

    if (!restore_base(request, plan, errp)) {
        return false;
    }
    for (size_t i = 1; i < request->n_layers; i++) {
        if (!restore_delta(&request->layers[i], plan, errp)) {
            return false;
        }
    }
    return true;
}

/* The blocks of a delta are blocks of the base. */
static bool check_blocks(const RestoreRequest *request, GError **errp)
{
    if (request->n_layers == 0) {
        error_set(errp, "There is no snapshot to restore guest RAM from");
        return false;
    }
    for (size_t i = 1; i < request->n_layers; i++) {
        const RestoreLayer *layer = &request->layers[i];

        for (size_t k = 0; k < layer->n_blocks; k++) {
            if (!layer_block(&request->layers[0], layer->blocks[k].block)) {
                error_set(errp, "Snapshot %s has RAM block '%s', which its base %s lacks",
                          ram_base_path(layer->base), layer->blocks[k].block->name,
                          ram_base_path(request->layers[0].base));
                return false;
            }
        }
    }
    return true;
}

static BaseGuard *need_guard(RamList *list, const MemoryControl *control, GError **errp)
{
    BaseGuard *guard = ram_list_guard(list);
    MemoryControl none = { 0 };

    if (!guard) {
        guard = base_guard_new(list, control ? control : &none, errp);
        ram_list_set_guard(list, guard);
    }
    return guard;
}

bool restore_ram(RamList *list, const RestoreRequest *request, const MemoryControl *control,
                 GError **errp)
{
    g_autofree char *no_files = NULL;
    BaseGuard *guard;
    bool ok;

    if (!check_blocks(request, errp) || !check_layers(request, errp)) {
        return false;
    }
    guard = need_guard(list, control, errp);
    if (!guard) {
        return false;
    }
    base_guard_hold(guard);
    if (any_eligible(request)) {
        no_files = guard_layers(guard, request);
    }
    ok = decide(request, no_files, errp) && restore_layers(request, errp) &&
         (!request->lay || request->lay(request->opaque, errp));
    if (!ok) {
        unguard_layers(guard, request);
    }
    base_guard_release(guard);
    if (ok && lost_page_seen(guard)) {
        error_set(errp, "Snapshot %s was changed while guest RAM was restored from it",
                  ram_base_path(request->layers[0].base));
        return false;
    }
    log_printf(LOG_MEMORY, "ram_restored: ok=%d file=%s", ok,
               ram_base_path(request->layers[request->n_layers - 1].base));
    return ok;
}

/* --- Report --- */

static bool ignore_range(const PageRange *range, void *opaque)
{
    return true;
}

bool restore_query_block(RamBlock *block, RestoreBlockInfo *ret_info, GError **errp)
{
    BaseGuard *guard = block->list ? ram_list_guard(block->list) : NULL;
    g_autoptr(PagemapScanner) own = NULL;
    PagemapScanner *scanner = guard ? guard->scanner : NULL;
    RestoreBlockInfo info = { .report = &block->report };
    PagemapStats stats = { 0 };

    if (!scanner) {
        own = pagemap_scanner_new_quiet(errp);
        scanner = own;
    }
    if (!scanner ||
        !pagemap_scan_private(scanner, block->host, block->size, ignore_range, NULL, &stats,
                              errp) ||
        !pagemap_count_resident(scanner, block, &info.resident_pages, errp)) {
        return false;
    }
    info.private_pages = stats.data_pages;
    info.swapped_pages = stats.swapped_pages;
    info.chunks_released = chunk_map_count(block->released);
    info.mappings = vma_count_in(block->host, block->size);
    *ret_info = info;
    return true;
}

const char *ram_restore_used_name(RamRestoreUsed used)
{
    switch (used) {
    case RAM_RESTORE_USED_COPY:
        return "copy";
    case RAM_RESTORE_USED_COPY_ON_WRITE:
        return "copy-on-write";
    case RAM_RESTORE_USED_NONE:
        break;
    }
    return "none";
}
