/*
 * Capabilities and parameters of migrations: one table each, what they may be, and their conflicts.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MIGRATION_OPTIONS_H
#define COWBIRD_MIGRATION_OPTIONS_H

#include <glib.h>
#include <stdbool.h>

#include "qapi/qapi-types.h"

typedef struct MigrationOptions {
    bool capabilities[MIGRATION_CAPABILITY__MAX];
    MigrationParameters *parameters; /* every member is there */
    bool
        hugepage_hint; /* -global migration.x-ram-restore-hugepage-hint: only to measure its harm */
} MigrationOptions;

void migration_options_init(MigrationOptions *options);
void migration_options_clear(MigrationOptions *options);
/* ret is initialised by it. */
void migration_options_copy(MigrationOptions *ret, const MigrationOptions *options);

/* All of them or, with an error, none. */
bool migration_options_set_capabilities(MigrationOptions *options, const GPtrArray *list,
                                        GError **errp);
/* List of MigrationCapabilityStatus, owned by the caller. */
GPtrArray *migration_options_get_capabilities(const MigrationOptions *options);

/* Take over the members that are there: all or none. */
bool migration_options_set_parameters(MigrationOptions *options, const MigrationParameters *set,
                                      GError **errp);

/* -global migration.NAME=VALUE: a parameter, a capability, or either with "x-" in front. */
bool migration_options_set_global(MigrationOptions *options, const char *name, const char *value,
                                  GError **errp);

/* Threads that read or write page data. */
unsigned migration_options_threads(const MigrationOptions *options);

#endif
