/*
 * query-stats and query-stats-schemas: what the accelerator counts, in QMP's words.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "accel/accel.h"
#include "accel/stats.h"
#include "hw/core/machine.h"
#include "qapi/qapi-commands.h"

/* Whether @provider keeps what is asked for; *@ret_names gets the names wanted, NULL: all. */
static bool provider_wanted(const StatsFilter *filter, StatsProvider provider,
                            const GPtrArray **ret_names)
{
    *ret_names = NULL;
    if (!filter->providers) {
        return true;
    }
    for (guint i = 0; i < filter->providers->len; i++) {
        const StatsRequest *request = filter->providers->pdata[i];

        if (request->provider == provider) {
            *ret_names = request->names;
            return true;
        }
    }
    return false;
}

static bool is_listed(const GPtrArray *words, const char *word)
{
    for (guint i = 0; words && i < words->len; i++) {
        if (g_str_equal(words->pdata[i], word)) {
            return true;
        }
    }
    return !words;
}

static StatsValue *make_value(const AccelStat *stat, const uint64_t *values)
{
    StatsValue *value = g_new0(StatsValue, 1);

    if (stat->count > 1) {
        value->kind = QAPI_JSON_ARRAY;
        value->u.list = g_array_sized_new(FALSE, FALSE, sizeof(uint64_t), stat->count);
        g_array_append_vals(value->u.list, values, stat->count);
    } else if (stat->has_unit && stat->unit == STATS_UNIT_BOOLEAN) {
        value->kind = QAPI_JSON_BOOL;
        value->u.boolean = values[0];
    } else {
        value->kind = QAPI_JSON_NUMBER;
        value->u.scalar = values[0];
    }
    return value;
}

typedef struct Collector {
    const GPtrArray *names; /* wanted; NULL = all */
    GPtrArray *stats;
} Collector;

static void collect_value(const AccelStat *stat, const uint64_t *values, void *opaque)
{
    Collector *c = opaque;

    if (is_listed(c->names, stat->name)) {
        Stats *s = g_new0(Stats, 1);

        s->name = g_strdup(stat->name);
        s->value = make_value(stat, values);
        g_ptr_array_add(c->stats, s);
    }
}

static void free_stats(void *stats)
{
    qapi_free(&qapi_type_Stats, stats);
}

/* The statistics of the machine (@path NULL) or of vCPU @i as an element of @list. */
static bool add_result(GPtrArray *list, Machine *m, const StatsFilter *filter, unsigned i,
                       const char *path, GError **errp)
{
    Collector c = { .stats = g_ptr_array_new() };
    StatsResult *result;

    if (!provider_wanted(filter, STATS_PROVIDER_KVM, &c.names) ||
        !accel_read_stats(m->accel, filter->target, i, collect_value, &c, errp) || !c.stats->len) {
        bool failed = errp && *errp;

        g_ptr_array_set_free_func(c.stats, free_stats);
        g_ptr_array_unref(c.stats);
        return !failed;
    }
    result = g_new0(StatsResult, 1);
    result->provider = STATS_PROVIDER_KVM;
    result->qom_path = g_strdup(path);
    result->stats = c.stats;
    g_ptr_array_add(list, result);
    return true;
}

static void free_result(void *result)
{
    qapi_free(&qapi_type_StatsResult, result);
}

GPtrArray *qmp_query_stats(Machine *m, const StatsFilter *filter, GError **errp)
{
    g_autoptr(GPtrArray) list = g_ptr_array_new_with_free_func(free_result);
    GError *err = NULL;

    if (m->accel && filter->target == STATS_TARGET_VM) {
        add_result(list, m, filter, 0, NULL, &err);
    }
    for (unsigned i = 0;
         m->accel && filter->target == STATS_TARGET_VCPU && !err && i < accel_vcpu_count(m->accel);
         i++) {
        g_autofree char *path = g_strdup_printf("/machine/unattached/device[%u]", i);

        if (is_listed(filter->u.vcpu.vcpus, path)) {
            add_result(list, m, filter, i, path, &err);
        }
    }
    if (err) {
        g_propagate_error(errp, err);
        return NULL;
    }
    return g_steal_pointer(&list);
}

/* --- Schemas --- */

static void collect_schema(const AccelStat *stat, const uint64_t *values, void *opaque)
{
    StatsSchemaValue *v = g_new0(StatsSchemaValue, 1);

    v->name = g_strdup(stat->name);
    v->type = stat->type;
    v->has_unit = stat->has_unit;
    v->unit = stat->unit;
    v->has_base = stat->exponent != 0;
    v->base = (int8_t)stat->base;
    v->exponent = (int16_t)stat->exponent;
    v->has_bucket_size = stat->type == STATS_TYPE_LINEAR_HISTOGRAM;
    v->bucket_size = stat->bucket_size;
    g_ptr_array_add(opaque, v);
}

static void free_schema(void *schema)
{
    qapi_free(&qapi_type_StatsSchema, schema);
}

/* KVM is the only provider, so @arg excludes nothing. */
GPtrArray *qmp_query_stats_schemas(Machine *m, const QueryStatsSchemasArg *arg, GError **errp)
{
    g_autoptr(GPtrArray) list = g_ptr_array_new_with_free_func(free_schema);

    for (unsigned target = 0; m->accel && target < STATS_TARGET__MAX; target++) {
        StatsSchema *schema = g_new0(StatsSchema, 1);

        schema->provider = STATS_PROVIDER_KVM;
        schema->target = target;
        schema->stats = g_ptr_array_new();
        g_ptr_array_add(list, schema);
        if (!accel_describe_stats(m->accel, target, collect_schema, schema->stats, errp)) {
            return NULL;
        }
        if (!schema->stats->len) {
            g_ptr_array_remove_index(list, list->len - 1);
        }
    }
    return g_steal_pointer(&list);
}
