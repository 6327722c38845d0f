/*
 * Saving to a stream while the guest runs: passes over RAM, each of what was written during the one
 * before, until little is left; then the guest is stopped and the rest is sent.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "migration/precopy.h"

#include "util/error.h"
#include "util/log.h"
#include "util/units.h"

/* So much is sent with the guest stopped: some milliseconds. */
#define REST_BYTES (8 * MiB)
/* A guest that writes faster than the stream takes it is stopped after so many passes. */
#define PASSES_MAX 6

static bool keep_range(const PageRange *range, void *opaque)
{
    GArray *ranges = opaque;

    g_array_append_val(ranges, *range);
    return true;
}

/* The pages written since the last time, as a plan. */
static bool take_written(WriteWatch *watch, RamList *ram, RamPlan *plan, uint64_t *ret_bytes,
                         GError **errp)
{
    unsigned n = ram_list_count(ram);

    *plan = (RamPlan){ .blocks = g_new0(RamPlanBlock, n), .total = ram_list_total(ram) };
    *ret_bytes = 0;
    for (unsigned i = 0; i < n; i++) {
        RamPlanBlock *b = &plan->blocks[i];

        b->block = ram_list_get(ram, i);
        b->ranges = g_array_new(FALSE, FALSE, sizeof(PageRange));
        b->released = g_array_new(FALSE, FALSE, sizeof(RestoreExtent));
        plan->n_blocks++;
        if (!write_watch_take(watch, b->block, keep_range, b->ranges, errp)) {
            return false;
        }
        for (guint k = 0; k < b->ranges->len; k++) {
            *ret_bytes += g_array_index(b->ranges, PageRange, k).length;
        }
    }
    return true;
}

/* Progress goes back by what has to be sent again. */
static bool put_written(RamPagesStream *stream, const Precopy *p, const RamPlan *plan,
                        uint64_t bytes, GError **errp)
{
    __atomic_store_n(&p->write.control->done_bytes, plan->total - MIN(bytes, plan->total),
                     __ATOMIC_RELAXED);
    return ram_pages_put_again(stream, plan, errp);
}

/* What was written last while the guest ran, and what was since; the guest is stopped. */
static bool put_rest(RamPagesStream *stream, const Precopy *p, const RamPlan *written,
                     uint64_t bytes, GError **errp)
{
    g_auto(RamPlan) last = { 0 };
    uint64_t more;

    return take_written(p->watch, p->write.ram, &last, &more, errp) &&
           put_written(stream, p, written, bytes + more, errp) &&
           ram_pages_put_again(stream, &last, errp);
}

static bool run_passes(RamPagesStream *stream, const Precopy *p, GError **errp)
{
    bool ok = ram_pages_put_all(stream, p->write.plan, errp);

    for (unsigned pass = 1; ok; pass++) {
        g_auto(RamPlan) written = { 0 };
        uint64_t bytes;

        if (!take_written(p->watch, p->write.ram, &written, &bytes, errp)) {
            return false;
        }
        log_printf(LOG_MIGRATION, "precopy_pass: number=%u written=%" G_GUINT64_FORMAT, pass,
                   bytes);
        if (bytes <= REST_BYTES || pass == PASSES_MAX) {
            return p->stop(p->opaque, errp) && put_rest(stream, p, &written, bytes, errp);
        }
        ok = p->next_pass(p->opaque, errp) && put_written(stream, p, &written, bytes, errp);
    }
    return false;
}

bool precopy_write(const Precopy *p, CapturedState *state, GError **errp)
{
    g_autoptr(RamPagesStream) stream = ram_pages_open(&p->write, &state->config, errp);

    return stream && run_passes(stream, p, errp) && ram_pages_finish(stream, state, errp);
}
