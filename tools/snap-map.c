/*
 * cowbird-snap map, compare and flatten.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "tools/snap.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "migration/chain-map.h"
#include "migration/flatten.h"
#include "migration/publish.h"
#include "util/error.h"
#include "util/io.h"
#include "util/json.h"
#include "util/units.h"

/* --- map --- */

static const char *kind_name(ChainRunKind kind)
{
    static const char *const names[] = { "data", "zero", "parent" };

    return names[kind];
}

static void map_run(const SnapshotBlock *b, const ChainRun *run, json_object *list)
{
    json_object *o;

    if (!list) {
        printf("%-16s 0x%010" PRIx64 " %12" PRIu64 " %-6s", b->name, run->offset, run->length,
               kind_name(run->kind));
        if (run->kind == CHAIN_RUN_DATA) {
            printf(" at %" PRIu64, run->file_offset);
        }
        putchar('\n');
        return;
    }
    o = json_object_new_object();
    json_add_str(o, "block", b->name);
    json_add_uint(o, "offset", run->offset);
    json_add_uint(o, "length", run->length);
    json_add_str(o, "kind", kind_name(run->kind));
    if (run->kind == CHAIN_RUN_DATA) {
        json_add_uint(o, "file-offset", run->file_offset);
    }
    json_object_array_add(list, o);
}

int snap_map(const SnapOptions *o, GError **errp)
{
    g_autoptr(SnapshotFile) file = snap_open(o, o->files[0], errp);
    g_autoptr(json_object) list = NULL;

    if (!file) {
        return -1;
    }
    list = o->json ? json_object_new_array() : NULL;
    for (guint i = 0; i < file->blocks->len; i++) {
        const SnapshotBlock *b = g_ptr_array_index(file->blocks, i);
        g_autoptr(GArray) runs = chain_map_block(&file, 1, b->name);

        for (guint k = 0; k < runs->len; k++) {
            map_run(b, &g_array_index(runs, ChainRun, k), list);
        }
    }
    if (list) {
        snap_print_json(list);
    }
    return SNAP_OK;
}

/* --- compare --- */

#define COMPARE_SIZE MiB

typedef struct Compare {
    const SnapOptions *o;
    uint8_t *a, *b; /* COMPARE_SIZE each */
    uint64_t pages;
    json_object *list;
    /* The run of differing pages not yet told. */
    const char *block;
    uint64_t from, to;
} Compare;

static void tell_difference(Compare *c)
{
    json_object *run;

    if (c->from == c->to) {
        return;
    }
    if (c->list) {
        run = json_object_new_object();
        json_add_str(run, "block", c->block);
        json_add_uint(run, "offset", c->from);
        json_add_uint(run, "length", c->to - c->from);
        json_object_array_add(c->list, run);
    } else if (!c->o->quiet) {
        printf("%-16s 0x%010" PRIx64 " %12" PRIu64 " differs\n", c->block, c->from,
               c->to - c->from);
    }
    c->from = c->to = 0;
}

static void add_difference(Compare *c, const char *block, uint64_t offset)
{
    if (c->block != block || c->to != offset) {
        tell_difference(c);
        c->block = block;
        c->from = offset;
    }
    c->to = offset + STREAM_PAGE_SIZE;
    c->pages++;
}

/* The bytes of a run at an offset of the block. */
static bool read_run(const ChainRun *run, uint64_t offset, uint8_t *buf, size_t len, GError **errp)
{
    if (run->kind == CHAIN_RUN_ZERO) {
        memset(buf, 0, len);
        return true;
    }
    return pread_full(run->file->fd, buf, len, run->file_offset + (offset - run->offset), errp);
}

static bool same_place(const ChainRun *a, const ChainRun *b)
{
    struct stat sa, sb;

    if (a->kind == CHAIN_RUN_ZERO || b->kind == CHAIN_RUN_ZERO) {
        return a->kind == b->kind;
    }
    return a->file_offset - a->offset == b->file_offset - b->offset &&
           fstat(a->file->fd, &sa) == 0 && fstat(b->file->fd, &sb) == 0 && sa.st_dev == sb.st_dev &&
           sa.st_ino == sb.st_ino;
}

static bool compare_part(Compare *c, const char *block, const ChainRun *a, const ChainRun *b,
                         uint64_t from, uint64_t to, GError **errp)
{
    if (same_place(a, b)) {
        return true;
    }
    while (from < to) {
        size_t len = MIN(to - from, COMPARE_SIZE);

        if (!read_run(a, from, c->a, len, errp) || !read_run(b, from, c->b, len, errp)) {
            return false;
        }
        for (size_t pos = 0; pos < len; pos += STREAM_PAGE_SIZE) {
            if (memcmp(c->a + pos, c->b + pos, STREAM_PAGE_SIZE) != 0) {
                add_difference(c, block, from + pos);
            }
        }
        from += len;
    }
    return true;
}

static GArray *map_of(const SnapshotChain *chain, const char *name)
{
    return chain_map_block((SnapshotFile *const *)chain->files->pdata, chain->files->len, name);
}

static bool compare_block(Compare *c, const char *block, const SnapshotChain *a,
                          const SnapshotChain *b, GError **errp)
{
    g_autoptr(GArray) runs_a = map_of(a, block);
    g_autoptr(GArray) runs_b = map_of(b, block);
    uint64_t pos = 0;
    guint i = 0, k = 0;

    while (i < runs_a->len && k < runs_b->len) {
        const ChainRun *ra = &g_array_index(runs_a, ChainRun, i);
        const ChainRun *rb = &g_array_index(runs_b, ChainRun, k);
        uint64_t end = MIN(ra->offset + ra->length, rb->offset + rb->length);

        if (!compare_part(c, block, ra, rb, pos, end, errp)) {
            return false;
        }
        i += ra->offset + ra->length == end;
        k += rb->offset + rb->length == end;
        pos = end;
    }
    return true;
}

static bool compare_chains(Compare *c, const SnapshotChain *a, const SnapshotChain *b,
                           GError **errp)
{
    const SnapshotFile *ta = snapshot_chain_tip(a), *tb = snapshot_chain_tip(b);

    if (ta->blocks->len != tb->blocks->len) {
        error_set(errp, "'%s' has %u RAM blocks, '%s' has %u", ta->path, ta->blocks->len, tb->path,
                  tb->blocks->len);
        return false;
    }
    for (guint i = 0; i < ta->blocks->len; i++) {
        const SnapshotBlock *block = g_ptr_array_index(ta->blocks, i);
        const SnapshotBlock *other = snapshot_file_block(tb, block->name);

        if (!other || other->length != block->length) {
            error_set(errp, "RAM block '%s' of '%s' is not the same in '%s'", block->name, ta->path,
                      tb->path);
            return false;
        }
        if (!compare_block(c, block->name, a, b, errp)) {
            return false;
        }
    }
    tell_difference(c);
    return true;
}

static void print_result(const Compare *c)
{
    g_autoptr(json_object) result = NULL;

    if (!c->list) {
        printf("%" PRIu64 " pages differ\n", c->pages);
        return;
    }
    result = json_object_new_object();
    json_add_uint(result, "different-pages", c->pages);
    json_object_object_add(result, "ranges", json_object_get(c->list));
    snap_print_json(result);
}

int snap_compare(const SnapOptions *o, GError **errp)
{
    g_autoptr(SnapshotChain) a = snap_open_chain(o, o->files[0], errp);
    g_autoptr(SnapshotChain) b = a ? snap_open_chain(o, o->files[1], errp) : NULL;
    g_autofree uint8_t *buf = g_malloc(2 * COMPARE_SIZE);
    g_autoptr(json_object) list = o->json ? json_object_new_array() : NULL;
    Compare c = { .o = o, .a = buf, .b = buf + COMPARE_SIZE, .list = list };

    if (!b || !compare_chains(&c, a, b, errp)) {
        return -1;
    }
    print_result(&c);
    return c.pages ? SNAP_DIFFERENT : SNAP_OK;
}

/* --- flatten --- */

/* One line that is written over, ten times a second. */
static void show_progress(void *opaque, uint64_t done, uint64_t total)
{
    int64_t *next = opaque, now = g_get_monotonic_time();

    if (now >= *next || done == total) {
        fprintf(stderr, "\r%3u %% of %" PRIu64 " MiB%s", (unsigned)(done * 100 / MAX(total, 1)),
                total / MiB, done == total ? "\n" : "");
        *next = now + G_USEC_PER_SEC / 10;
    }
}

static bool refuse_source(const SnapshotChain *chain, const char *output, GError **errp)
{
    struct stat to, from;

    if (stat(output, &to) < 0) {
        return true;
    }
    for (guint i = 0; i < chain->files->len; i++) {
        const SnapshotFile *file = g_ptr_array_index(chain->files, i);

        if (fstat(file->fd, &from) == 0 && from.st_dev == to.st_dev && from.st_ino == to.st_ino) {
            error_set(errp, "'%s' is one of the files to be read; write to another one", output);
            return false;
        }
    }
    return true;
}

int snap_flatten(const SnapOptions *o, GError **errp)
{
    g_autoptr(SnapshotChain) chain = snap_open_chain(o, o->files[0], errp);
    g_autoptr(PublishTarget) target = NULL;
    int64_t next = 0;

    if (!chain || !refuse_source(chain, o->output, errp)) {
        return -1;
    }
    target = publish_new_path(o->output, 0, false, errp);
    if (!target || !snapshot_flatten(chain, target, o->quiet ? NULL : show_progress, &next, errp)) {
        return -1;
    }
    return SNAP_OK;
}
