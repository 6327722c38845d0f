/*
 * What CPU models are on this host.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_SYSTEM_CPU_QUERY_H
#define COWBIRD_SYSTEM_CPU_QUERY_H

#include "accel/cpu-models.h"

/* Names of the flags that the model has and a guest cannot have on this host: of char *, constants. */
GPtrArray *cpu_query_unavailable(const CpuModel *model, GError **errp);

#endif
