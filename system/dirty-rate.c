/*
 * calc-dirty-rate and query-dirty-rate.
 *
 * Pages are picked at random and looked at twice, some hundred at a time, so that the main loop is never kept for longer
 * than about a millisecond. A page that the kernel does not hold privately for this guest (never touched, or still the
 * page of the snapshot that is mapped) is not read: it has not been written, and reading would load it from the file. It
 * counts as written when it is there the second time.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "system/dirty-rate.h"

#include "memory/guest-access.h"
#include "memory/pagemap.h"
#include "qapi/qapi-commands.h"
#include "system/state.h"
#include "util/error.h"
#include "util/units.h"

#define PAGE_BYTES 4096
#define SAMPLES_AT_ONCE 256
#define SAMPLE_PAGES_DEFAULT 512
#define SAMPLE_PAGES_MIN 128
#define SAMPLE_PAGES_MAX 4096
#define CALC_TIME_MAX 60

typedef struct Sample {
    uint64_t gpa;
    uint64_t hash;
    bool data;  /* it was there the first time, with that hash */
    bool valid; /* it is RAM */
} Sample;

struct DirtyRate {
    SystemState *state;
    PagemapScanner *scanner;
    DirtyRateInfo info; /* what query-dirty-rate tells */
    GArray *samples;    /* of Sample */
    guint next;         /* the sample to be looked at next */
    bool second;        /* this is the second look */
    int64_t began_us;   /* of the first look; monotonic */
    int64_t took_us;    /* from there to the second look */
    guint source;       /* what goes on with it; 0 = nothing */
    uint64_t looked, written;
};

static bool note_data(const PageRange *range, void *opaque)
{
    *(bool *)opaque = true;
    return true;
}

/* Whether the guest has a page of its own at @gpa; false with *@ret_ram false: no RAM there. */
static bool page_is_data(DirtyRate *dr, uint64_t gpa, bool *ret_ram)
{
    AddressRange range;
    bool data = false;

    *ret_ram = address_map_find(dr->state->memory, gpa, &range) && range.kind == ADDRESS_RAM;
    if (!*ret_ram) {
        return false;
    }
    if (range.block->kind == RAM_SHARED || range.block->hugetlb) {
        return true;
    }
    /* A failed scan finds nothing: the page is then left out on both looks. */
    pagemap_scan_private(dr->scanner, range.block->host + range.block_offset + (gpa - range.base),
                         PAGE_BYTES, note_data, &data, NULL, NULL);
    return data;
}

static uint64_t hash_page(const uint64_t *words)
{
    uint64_t hash = PAGE_BYTES;

    for (unsigned i = 0; i < PAGE_BYTES / sizeof(*words); i++) {
        hash = (hash ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash;
}

static void look_at(DirtyRate *dr, Sample *s)
{
    uint64_t words[PAGE_BYTES / sizeof(uint64_t)], hash = 0;
    bool ram, data = page_is_data(dr, s->gpa, &ram);

    if (data && guest_read(dr->state->memory, s->gpa, words, sizeof(words))) {
        hash = hash_page(words);
    }
    if (!dr->second) {
        s->valid = ram;
        s->data = data;
        s->hash = hash;
    } else if (s->valid && ram) {
        dr->looked++;
        dr->written += data && (!s->data || s->hash != hash);
    }
}

static void finish(DirtyRate *dr)
{
    double part = dr->looked ? (double)dr->written / (double)dr->looked : 0;
    double mib = (double)dr->state->machine->ram_size / MiB;

    dr->info.has_dirty_rate = true;
    dr->info.dirty_rate = (int64_t)(part * mib * 1e6 / (double)MAX(dr->took_us, 1) + 0.5);
    dr->info.status = DIRTY_RATE_STATUS_MEASURED;
    g_clear_pointer(&dr->samples, g_array_unref);
    g_clear_pointer(&dr->scanner, pagemap_scanner_free);
}

static gboolean look_on(void *opaque);

static gboolean look_again(void *opaque)
{
    DirtyRate *dr = opaque;

    dr->second = true;
    dr->next = 0;
    dr->took_us = g_get_monotonic_time() - dr->began_us;
    dr->source = g_idle_add_full(G_PRIORITY_DEFAULT, look_on, dr, NULL);
    return G_SOURCE_REMOVE;
}

/* The next samples of either look. */
static gboolean look_on(void *opaque)
{
    DirtyRate *dr = opaque;
    guint end = MIN(dr->next + SAMPLES_AT_ONCE, dr->samples->len);

    for (; dr->next < end; dr->next++) {
        look_at(dr, &g_array_index(dr->samples, Sample, dr->next));
    }
    if (dr->next < dr->samples->len) {
        return G_SOURCE_CONTINUE;
    }
    dr->source = 0;
    if (dr->second) {
        finish(dr);
    } else {
        dr->source = g_timeout_add((guint)dr->info.calc_time * 1000, look_again, dr);
    }
    return G_SOURCE_REMOVE;
}

/* Guest-physical address of a random page of guest RAM. */
static uint64_t random_page(const Machine *m)
{
    uint64_t pages = m->ram_size / PAGE_BYTES;
    uint64_t random = (uint64_t)g_random_int() << 32 | g_random_int();
    uint64_t offset = random % pages * PAGE_BYTES;

    return offset < m->below_4g ? offset : offset - m->below_4g + 4 * GiB;
}

static void pick_samples(DirtyRate *dr)
{
    const Machine *m = dr->state->machine;
    uint64_t n = MAX(m->ram_size * dr->info.sample_pages / GiB, SAMPLE_PAGES_MIN);

    dr->samples = g_array_sized_new(FALSE, TRUE, sizeof(Sample), (guint)n);
    g_array_set_size(dr->samples, (guint)n);
    for (guint i = 0; i < n; i++) {
        g_array_index(dr->samples, Sample, i).gpa = random_page(m);
    }
}

static bool check_arguments(const SystemState *state, const CalcDirtyRateArg *arg, GError **errp)
{
    if (!state->machine->main) {
        error_set(errp, "the machine has no memory whose dirty rate could be measured");
        return false;
    }
    if (arg->calc_time < 1 || arg->calc_time > CALC_TIME_MAX) {
        error_set(errp, "calc-time=%" G_GINT64_FORMAT " is out of range: use 1 to %d seconds",
                  arg->calc_time, CALC_TIME_MAX);
        return false;
    }
    if (arg->has_sample_pages &&
        (arg->sample_pages < SAMPLE_PAGES_MIN || arg->sample_pages > SAMPLE_PAGES_MAX)) {
        error_set(errp, "sample-pages=%" G_GINT64_FORMAT " is out of range: use %d to %d",
                  arg->sample_pages, SAMPLE_PAGES_MIN, SAMPLE_PAGES_MAX);
        return false;
    }
    if (state->dirty_rate && state->dirty_rate->info.status == DIRTY_RATE_STATUS_MEASURING) {
        error_set(errp, "the dirty rate is being measured already: wait until query-dirty-rate "
                        "tells of a result");
        return false;
    }
    return true;
}

bool qmp_calc_dirty_rate(SystemState *state, const CalcDirtyRateArg *arg, GError **errp)
{
    DirtyRate *dr;

    if (!check_arguments(state, arg, errp)) {
        return false;
    }
    dr = g_new0(DirtyRate, 1);
    dr->scanner = pagemap_scanner_new_quiet(errp);
    if (!dr->scanner) {
        g_free(dr);
        return false;
    }
    dirty_rate_free(state->dirty_rate);
    state->dirty_rate = dr;
    dr->state = state;
    dr->began_us = g_get_monotonic_time();
    dr->info = (DirtyRateInfo){
        .status = DIRTY_RATE_STATUS_MEASURING,
        .start_time = dr->began_us / G_USEC_PER_SEC,
        .calc_time = arg->calc_time,
        .sample_pages = arg->has_sample_pages ? (uint64_t)arg->sample_pages : SAMPLE_PAGES_DEFAULT,
    };
    pick_samples(dr);
    dr->source = g_idle_add_full(G_PRIORITY_DEFAULT, look_on, dr, NULL);
    return true;
}

DirtyRateInfo *qmp_query_dirty_rate(SystemState *state, GError **errp)
{
    static const DirtyRateInfo nothing = { .sample_pages = SAMPLE_PAGES_DEFAULT };

    return g_memdup2(state->dirty_rate ? &state->dirty_rate->info : &nothing, sizeof(nothing));
}

void dirty_rate_free(DirtyRate *dr)
{
    if (!dr) {
        return;
    }
    if (dr->source) {
        g_source_remove(dr->source);
    }
    if (dr->samples) {
        g_array_unref(dr->samples);
    }
    pagemap_scanner_free(dr->scanner);
    g_free(dr);
}
