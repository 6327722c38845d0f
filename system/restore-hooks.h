/*
 * What migration needs of the machine while it saves and loads.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_SYSTEM_RESTORE_HOOKS_H
#define COWBIRD_SYSTEM_RESTORE_HOOKS_H

#include "migration/migration.h"

typedef struct SystemState SystemState;

MigrationHooks restore_hooks(SystemState *state);

#endif
