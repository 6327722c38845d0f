/*
 * Where each page of RAM lies that a chain of snapshots describes.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "migration/chain-map.h"

static bool continues(const ChainRun *last, const ChainRun *run)
{
    return last->kind == run->kind && last->offset + last->length == run->offset &&
           (run->kind != CHAIN_RUN_DATA ||
            (last->file == run->file && last->file_offset + last->length == run->file_offset));
}

static void add_run(GArray *runs, const ChainRun *run)
{
    ChainRun *last = runs->len ? &g_array_index(runs, ChainRun, runs->len - 1) : NULL;

    if (run->length == 0) {
        return;
    }
    if (last && continues(last, run)) {
        last->length += run->length;
    } else {
        g_array_append_val(runs, *run);
    }
}

/* The part [from, to) of a run. */
static void add_part(GArray *runs, const ChainRun *run, uint64_t from, uint64_t to)
{
    ChainRun part = *run;

    part.offset = from;
    part.length = to - from;
    part.file_offset += from - run->offset;
    add_run(runs, &part);
}

static GArray *full_runs(const SnapshotFile *file, SnapshotBlock *block)
{
    const unsigned long *present = snapshot_block_present(block);
    GArray *runs = g_array_new(FALSE, FALSE, sizeof(ChainRun));

    for (uint64_t page = 0; page < snapshot_block_pages(block); page++) {
        uint64_t word = GUINT64_FROM_LE(present[page / 64]);
        uint64_t count = 1, offset = page * STREAM_PAGE_SIZE;

        /* Whole words at once: most of a large sparse guest. */
        if (page % 64 == 0 && (word == 0 || word == UINT64_MAX)) {
            count = MIN(64, snapshot_block_pages(block) - page);
        }
        add_run(runs, &(ChainRun){ .offset = offset,
                                   .length = count * STREAM_PAGE_SIZE,
                                   .kind = word >> page % 64 & 1 ? CHAIN_RUN_DATA : CHAIN_RUN_ZERO,
                                   .file = file,
                                   .file_offset = block->pages_offset + offset });
        page += count - 1;
    }
    return runs;
}

/* Extents and zero extents in one ascending list, with gaps. */
static GArray *delta_runs(const SnapshotFile *file, const SnapshotBlock *block)
{
    GArray *runs = g_array_new(FALSE, FALSE, sizeof(ChainRun));
    guint i = 0, k = 0;

    while (i < block->extents->len || k < block->zeros->len) {
        const RestoreExtent *e =
            i < block->extents->len ? &g_array_index(block->extents, RestoreExtent, i) : NULL;
        const RestoreExtent *z =
            k < block->zeros->len ? &g_array_index(block->zeros, RestoreExtent, k) : NULL;
        bool data = e && (!z || e->offset < z->offset);
        const RestoreExtent *from = data ? e : z;

        add_run(runs, &(ChainRun){ .offset = from->offset,
                                   .length = from->length,
                                   .kind = data ? CHAIN_RUN_DATA : CHAIN_RUN_ZERO,
                                   .file = file,
                                   .file_offset = from->file_offset });
        i += data;
        k += !data;
    }
    return runs;
}

/* Lays upper, which has gaps, over lower, which has none. */
static GArray *overlay(const GArray *lower, const GArray *upper)
{
    GArray *runs = g_array_new(FALSE, FALSE, sizeof(ChainRun));
    uint64_t pos = 0;
    guint k = 0;

    for (guint i = 0; i < lower->len; i++) {
        const ChainRun *l = &g_array_index(lower, ChainRun, i);
        uint64_t end = l->offset + l->length;

        while (pos < end) {
            const ChainRun *u = k < upper->len ? &g_array_index(upper, ChainRun, k) : NULL;

            if (!u || u->offset >= end) {
                add_part(runs, l, pos, end);
                pos = end;
            } else {
                if (u->offset > pos) {
                    add_part(runs, l, pos, u->offset);
                }
                add_run(runs, u);
                pos = u->offset + u->length;
                k++;
            }
        }
    }
    return runs;
}

GArray *chain_map_block(SnapshotFile *const *files, guint n_files, const char *name)
{
    GArray *runs = NULL;

    for (guint i = 0; i < n_files; i++) {
        SnapshotBlock *block = snapshot_file_block(files[i], name);
        g_autoptr(GArray) below = runs;
        g_autoptr(GArray) own = NULL;

        if (files[i]->kind == SNAPSHOT_FULL) {
            runs = full_runs(files[i], block);
            continue;
        }
        if (!below) {
            ChainRun all = { .length = block->length, .kind = CHAIN_RUN_PARENT };

            below = g_array_new(FALSE, FALSE, sizeof(ChainRun));
            g_array_append_val(below, all);
        }
        own = delta_runs(files[i], block);
        runs = overlay(below, own);
    }
    return runs;
}
