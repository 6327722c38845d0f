/*
 * Capabilities and parameters of migrations: one table each, what they may be, and their conflicts.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "migration/options.h"

#include <string.h>

#include "qapi/visit.h"
#include "util/error.h"
#include "util/json.h"
#include "util/suggest.h"

/* Without multifd: enough to fill a disk. */
#define DEFAULT_THREADS 4
#define HUGEPAGE_HINT "x-ram-restore-hugepage-hint"

typedef struct CapabilityRow {
    const char *name;
    bool initial;
} CapabilityRow;

static const CapabilityRow capability_table[MIGRATION_CAPABILITY__MAX] = {
    [MIGRATION_CAPABILITY_EVENTS] = { "events", false },
    /* Off: a regular file gets the layout anyhow. On: anything else is refused. */
    [MIGRATION_CAPABILITY_MAPPED_RAM] = { "mapped-ram", false },
    [MIGRATION_CAPABILITY_MULTIFD] = { "multifd", false },
};

typedef enum ParameterKind {
    PARAM_BOOL,
    PARAM_UINT8,
    PARAM_UINT64,
    PARAM_ENUM,
    PARAM_STR_LIST
} ParameterKind;

typedef struct ParameterRow {
    const char *name;
    ParameterKind kind;
    size_t offset;
    size_t has_offset; /* lists have none: NULL is absent */
    uint64_t initial;
    uint64_t min;
} ParameterRow;

#define PARAMETER(text, field, type, value, least)                   \
    {                                                                \
        text, type, offsetof(MigrationParameters, field),            \
            offsetof(MigrationParameters, has_##field), value, least \
    }

static const ParameterRow parameter_table[] = {
    PARAMETER("max-bandwidth", max_bandwidth, PARAM_UINT64, 0, 0),
    PARAMETER("multifd-channels", multifd_channels, PARAM_UINT8, 2, 1),
    PARAMETER("direct-io", direct_io, PARAM_BOOL, false, 0),
    PARAMETER("ram-restore-mode", ram_restore_mode, PARAM_ENUM, RAM_RESTORE_MODE_AUTO, 0),
    PARAMETER("ram-restore-fallback", ram_restore_fallback, PARAM_BOOL, true, 0),
    PARAMETER("ram-save-mode", ram_save_mode, PARAM_ENUM, RAM_SAVE_MODE_FULL, 0),
    { "ram-parent", PARAM_STR_LIST, offsetof(MigrationParameters, ram_parent), 0, 0, 0 },
    PARAMETER("ram-scan", ram_scan, PARAM_ENUM, RAM_SCAN_AUTO, 0),
};

/* --- Members by row --- */

static void *member(const MigrationParameters *p, size_t offset)
{
    return (char *)p + offset;
}

static bool is_present(const MigrationParameters *p, const ParameterRow *row)
{
    return row->kind == PARAM_STR_LIST ? *(GPtrArray **)member(p, row->offset) != NULL
                                       : *(bool *)member(p, row->has_offset);
}

static uint64_t get_number(const MigrationParameters *p, const ParameterRow *row)
{
    switch (row->kind) {
    case PARAM_BOOL:
        return *(bool *)member(p, row->offset);
    case PARAM_UINT8:
        return *(uint8_t *)member(p, row->offset);
    case PARAM_UINT64:
        return *(uint64_t *)member(p, row->offset);
    default:
        return *(unsigned *)member(p, row->offset);
    }
}

static void set_number(MigrationParameters *p, const ParameterRow *row, uint64_t value)
{
    switch (row->kind) {
    case PARAM_BOOL:
        *(bool *)member(p, row->offset) = value;
        break;
    case PARAM_UINT8:
        *(uint8_t *)member(p, row->offset) = value;
        break;
    case PARAM_UINT64:
        *(uint64_t *)member(p, row->offset) = value;
        break;
    default:
        *(unsigned *)member(p, row->offset) = value;
        break;
    }
    *(bool *)member(p, row->has_offset) = true;
}

static void set_list(MigrationParameters *p, const ParameterRow *row, const GPtrArray *list)
{
    GPtrArray **to = member(p, row->offset);
    GPtrArray *copy = g_ptr_array_new_with_free_func(g_free);

    for (guint i = 0; list && i < list->len; i++) {
        g_ptr_array_add(copy, g_strdup(g_ptr_array_index(list, i)));
    }
    g_clear_pointer(to, g_ptr_array_unref);
    *to = copy;
}

static void copy_member(MigrationParameters *to, const MigrationParameters *from,
                        const ParameterRow *row)
{
    if (row->kind == PARAM_STR_LIST) {
        set_list(to, row, *(GPtrArray **)member(from, row->offset));
    } else {
        set_number(to, row, get_number(from, row));
    }
}

/* --- The whole --- */

void migration_options_init(MigrationOptions *options)
{
    *options = (MigrationOptions){ .parameters = g_new0(MigrationParameters, 1) };
    for (int i = 0; i < MIGRATION_CAPABILITY__MAX; i++) {
        options->capabilities[i] = capability_table[i].initial;
    }
    for (size_t i = 0; i < G_N_ELEMENTS(parameter_table); i++) {
        const ParameterRow *row = &parameter_table[i];

        if (row->kind == PARAM_STR_LIST) {
            set_list(options->parameters, row, NULL);
        } else {
            set_number(options->parameters, row, row->initial);
        }
    }
}

void migration_options_clear(MigrationOptions *options)
{
    if (options->parameters) {
        g_clear_pointer(&options->parameters->ram_parent, g_ptr_array_unref);
    }
    g_clear_pointer(&options->parameters, g_free);
}

void migration_options_copy(MigrationOptions *ret, const MigrationOptions *options)
{
    MigrationParameters *p;

    migration_options_init(ret);
    p = ret->parameters;
    for (size_t i = 0; i < G_N_ELEMENTS(parameter_table); i++) {
        copy_member(p, options->parameters, &parameter_table[i]);
    }
    *ret = *options;
    ret->parameters = p;
}

bool migration_options_set_capabilities(MigrationOptions *options, const GPtrArray *list,
                                        GError **errp)
{
    for (guint i = 0; i < list->len; i++) {
        const MigrationCapabilityStatus *c = g_ptr_array_index(list, i);

        options->capabilities[c->capability] = c->state;
    }
    return true;
}

GPtrArray *migration_options_get_capabilities(const MigrationOptions *options)
{
    GPtrArray *list = g_ptr_array_new();

    for (int i = 0; i < MIGRATION_CAPABILITY__MAX; i++) {
        MigrationCapabilityStatus *c = g_new0(MigrationCapabilityStatus, 1);

        c->capability = i;
        c->state = options->capabilities[i];
        g_ptr_array_add(list, c);
    }
    return list;
}

bool migration_options_set_parameters(MigrationOptions *options, const MigrationParameters *set,
                                      GError **errp)
{
    for (size_t i = 0; i < G_N_ELEMENTS(parameter_table); i++) {
        const ParameterRow *row = &parameter_table[i];

        if (row->kind != PARAM_STR_LIST && is_present(set, row) &&
            get_number(set, row) < row->min) {
            error_set(errp, "parameter '%s' must be at least %" G_GUINT64_FORMAT, row->name,
                      row->min);
            return false;
        }
    }
    for (size_t i = 0; i < G_N_ELEMENTS(parameter_table); i++) {
        if (is_present(set, &parameter_table[i])) {
            copy_member(options->parameters, set, &parameter_table[i]);
        }
    }
    return true;
}

/* --- -global --- */

static bool set_global_bool(bool *to, const char *name, const char *value, GError **errp)
{
    if (!qapi_parse_bool(value, to)) {
        error_set(errp, "'migration.%s' must be on or off, not '%s'", name, value);
        return false;
    }
    return true;
}

static bool set_global_parameter(MigrationOptions *options, const char *name, const char *value,
                                 GError **errp)
{
    g_autoptr(json_object) object = json_object_new_object();
    g_autoptr(MigrationParameters) set = NULL;

    json_add_str(object, name, value);
    set = qapi_from_keyval(&qapi_type_MigrationParameters, object, errp);
    return set && migration_options_set_parameters(options, set, errp);
}

static bool unknown_global(const char *name, GError **errp)
{
    const char *valid[G_N_ELEMENTS(parameter_table) + MIGRATION_CAPABILITY__MAX + 2] = { NULL };
    g_autofree char *hint = NULL;
    size_t n = 0;

    for (size_t i = 0; i < G_N_ELEMENTS(parameter_table); i++) {
        valid[n++] = parameter_table[i].name;
    }
    for (int i = 0; i < MIGRATION_CAPABILITY__MAX; i++) {
        valid[n++] = capability_table[i].name;
    }
    valid[n++] = HUGEPAGE_HINT;
    hint = suggest_nearest(name, valid);
    error_set(errp, "'migration' has no property '%s'%s%s", name, hint ? "; " : "",
              hint ? hint : "");
    return false;
}

bool migration_options_set_global(MigrationOptions *options, const char *name, const char *value,
                                  GError **errp)
{
    const char *plain = g_str_has_prefix(name, "x-") ? name + 2 : name;

    if (strcmp(name, HUGEPAGE_HINT) == 0) {
        return set_global_bool(&options->hugepage_hint, name, value, errp);
    }
    for (int i = 0; i < MIGRATION_CAPABILITY__MAX; i++) {
        if (strcmp(plain, capability_table[i].name) == 0) {
            return set_global_bool(&options->capabilities[i], name, value, errp);
        }
    }
    for (size_t i = 0; i < G_N_ELEMENTS(parameter_table); i++) {
        if (strcmp(plain, parameter_table[i].name) == 0) {
            return set_global_parameter(options, plain, value, errp);
        }
    }
    return unknown_global(name, errp);
}

unsigned migration_options_threads(const MigrationOptions *options)
{
    if (options->capabilities[MIGRATION_CAPABILITY_MULTIFD]) {
        return options->parameters->multifd_channels;
    }
    /* Direct writers wait for the disk, the others need a processor each. */
    return options->parameters->direct_io ? DEFAULT_THREADS
                                          : MIN(g_get_num_processors(), DEFAULT_THREADS);
}
