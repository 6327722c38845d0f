/*
 * What a detach has to do: into which memory, whether there is enough, and which chunks in which order.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/detach-internal.h"

#include "memory/chunk-map.h"
#include "memory/host-memory.h"
#include "memory/vma-budget.h"
#include "util/error.h"
#include "util/log.h"
#include "util/units.h"

#include <unistd.h>

/* Left free for the rest of the host and page tables; half of it for pages that exist twice for a while. */
#define MEMORY_RESERVE (2 * DETACH_WINDOW * RAM_CHUNK_SIZE)
/* A chunk moved out of the order of addresses splits the staging area and the block. */
#define VMAS_PER_RUN 3

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

void detach_close_clones(DetachJob *job)
{
    for (guint i = 0; job->set.fds && i < job->set.fds->len; i++) {
        close(g_array_index(job->set.fds, int, i));
    }
    g_clear_pointer(&job->set.fds, g_array_unref);
}

static bool check_memory(DetachJob *job, GError **errp)
{
    RamList *list = job->guard->list;
    uint64_t need = MEMORY_RESERVE, available;
    const char *limit;

    for (unsigned i = 0; i < ram_list_count(list); i++) {
        RamBlock *block = ram_list_get(list, i);

        if (block->kind == RAM_FILE_PRIVATE &&
            !staging_need(block, &job->set, job->guard->scanner, &need, errp)) {
            return false;
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

/* --- The chunks and their order --- */

static void add_chunks(GArray *to, Staging *staging, const ChunkMap *chunks)
{
    uint64_t first, end;

    for (uint64_t at = 0; chunk_map_next_run(chunks, at, &first, &end); at = end) {
        for (uint64_t chunk = first; chunk < end; chunk++) {
            DetachChunk c = { .staging = staging, .block = staging_block(staging), .chunk = chunk };

            g_array_append_val(to, c);
        }
    }
}

static bool note_written(const PageRange *range, void *opaque)
{
    uint64_t last = (range->offset + range->length - 1) >> RAM_CHUNK_SHIFT;

    for (uint64_t chunk = range->offset >> RAM_CHUNK_SHIFT; chunk <= last; chunk++) {
        chunk_map_set(opaque, chunk);
    }
    return true;
}

static uint64_t count_runs(const ChunkMap *map)
{
    uint64_t runs = 0, first, end;

    for (uint64_t at = 0; chunk_map_next_run(map, at, &first, &end); at = end) {
        runs++;
    }
    return runs;
}

/* Take out of @todo the chunks in which the guest has written; NULL = the order does not matter. */
static ChunkMap *take_written(DetachJob *job, RamBlock *block, ChunkMap *todo)
{
    g_autoptr(ChunkMap) written = NULL;

    if (!job->background) {
        return NULL;
    }
    written = chunk_map_new(block->size);
    if (!pagemap_scan_private(job->guard->scanner, block->host, block->size, note_written, written,
                              NULL, NULL) ||
        count_runs(written) * VMAS_PER_RUN > vma_budget_left() / 2) {
        return NULL;
    }
    for (uint64_t chunk = 0; chunk < ram_block_chunks(block); chunk++) {
        if (!chunk_map_test(todo, chunk)) {
            chunk_map_clear(written, chunk);
        } else if (chunk_map_test(written, chunk)) {
            chunk_map_clear(todo, chunk);
        }
    }
    return g_steal_pointer(&written);
}

/* Chunks that need not be among the first go to @later. */
static bool add_block(DetachJob *job, RamBlock *block, GArray *later, GError **errp)
{
    g_autoptr(ChunkMap) todo = chunk_map_new(block->size);
    g_autoptr(ChunkMap) written = NULL;
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
    written = take_written(job, block, todo);
    if (written) {
        add_chunks(job->chunks, staging, written);
    }
    add_chunks(later, staging, todo);
    return true;
}

static bool prepare_blocks(DetachJob *job, GError **errp)
{
    g_autoptr(GArray) later = g_array_new(FALSE, FALSE, sizeof(DetachChunk));
    RamList *list = job->guard->list;

    for (unsigned i = 0; i < ram_list_count(list); i++) {
        RamBlock *block = ram_list_get(list, i);

        if (block->kind == RAM_FILE_PRIVATE && !add_block(job, block, later, errp)) {
            return false;
        }
    }
    if (later->len) {
        g_array_append_vals(job->chunks, later->data, later->len);
    }
    return true;
}

bool detach_prepare(DetachJob *job, GError **errp)
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
        detach_close_clones(job);
    }
    return check_memory(job, errp) && prepare_blocks(job, errp);
}
