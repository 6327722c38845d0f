/*
 * Saving to a stream while the guest runs.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MIGRATION_PRECOPY_H
#define COWBIRD_MIGRATION_PRECOPY_H

#include "memory/write-watch.h"
#include "migration/ram-pages.h"

typedef struct Precopy {
    RamPagesWrite write; /* its plan is a scan made after the watch began */
    WriteWatch *watch;   /* of write.ram */
    /* Another pass begins; not told of the first one. */
    bool (*next_pass)(void *opaque, GError **errp);
    /* Stop the guest and capture its devices. */
    bool (*stop)(void *opaque, GError **errp);
    void *opaque;
} Precopy;

/*
 * The whole stream, in the thread of the job. The guest stands still on success, and perhaps on failure;
 * `state` is what stop() captured, its configuration must be there before. No memory may be given
 * back meanwhile.
 */
bool precopy_write(const Precopy *p, CapturedState *state, GError **errp);

#endif
