/*
 * cowbird-snap: what its commands share.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_TOOLS_SNAP_H
#define COWBIRD_TOOLS_SNAP_H

#include <glib.h>
#include <json-c/json.h>
#include <stdbool.h>

#include "migration/chain.h"
#include "migration/snapshot-file.h"

/* Exit statuses; compare fails with SNAP_TROUBLE, as cmp(1) does. */
enum { SNAP_OK = 0, SNAP_FAILED = 1, SNAP_DIFFERENT = 1, SNAP_TROUBLE = 2, SNAP_USAGE = 2 };

typedef struct SnapOptions {
    bool json;
    bool quiet;
    guint64 offset;     /* of the stream in FILE */
    GPtrArray *parents; /* paths given with --parent */
    const char *output;
    char **files;
    unsigned n_files;
} SnapOptions;

/* Errors name the file. */
SnapshotFile *snap_open(const SnapOptions *o, const char *path, GError **errp);
SnapshotChain *snap_open_chain(const SnapOptions *o, const char *path, GError **errp);

void snap_print_json(json_object *object);

/* The commands: exit status; -1 with an error. */
int snap_info(const SnapOptions *o, GError **errp);
int snap_check(const SnapOptions *o, GError **errp);
int snap_map(const SnapOptions *o, GError **errp);
int snap_compare(const SnapOptions *o, GError **errp);
int snap_flatten(const SnapOptions *o, GError **errp);

#endif
