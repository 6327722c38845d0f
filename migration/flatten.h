/*
 * Making one full snapshot out of a chain, without a virtual machine.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MIGRATION_FLATTEN_H
#define COWBIRD_MIGRATION_FLATTEN_H

#include <glib.h>
#include <stdbool.h>

#include "migration/chain.h"
#include "migration/publish.h"

/* Called now and then; bytes of RAM done and altogether. */
typedef void (*FlattenProgress)(void *opaque, uint64_t done, uint64_t total);

/*
 * Write a full snapshot with the contents and device state of the chain's tip, and a new UUID, to
 * target and publish it. progress may be NULL.
 */
bool snapshot_flatten(const SnapshotChain *chain, PublishTarget *target, FlattenProgress progress,
                      void *opaque, GError **errp);

/*
 * Take a snapshot's tail apart: length of the sections of the devices, and the JSON description (a
 * new reference).
 */
bool snapshot_tail_split(const GByteArray *tail, size_t *ret_devices_len,
                         json_object **ret_description, GError **errp);

#endif
