/*
 * What the command line says about the process itself: names, messages, logs, descriptors.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_SYSTEM_SETTINGS_H
#define COWBIRD_SYSTEM_SETTINGS_H

#include "system/options.h"
#include "util/fds.h"

/* -name, -msg, -d, -D. Before anything is reported or logged. */
bool settings_apply(const SystemOptions *o, GError **errp);
/* -add-fd: the inherited descriptors go into their sets. */
bool settings_add_fds(const SystemOptions *o, FdStore *fds, GError **errp);

#endif
