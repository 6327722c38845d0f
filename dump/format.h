/*
 * What the writers of the formats of a dump have in common.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_DUMP_FORMAT_H
#define COWBIRD_DUMP_FORMAT_H

#include "dump/memory-map.h"
#include "dump/output.h"

typedef struct DumpContents {
    const DumpMap *map; /* scanned */
    const GByteArray *notes;
    unsigned n_cpus;
    uint64_t *completed; /* atomic; bytes of the guest's memory dealt with */
} DumpContents;

static inline void dump_count(const DumpContents *c, uint64_t bytes)
{
    __atomic_fetch_add(c->completed, bytes, __ATOMIC_RELAXED);
}

/* Write all of a dump. On a thread of its own; the guest stands. */
bool dump_write_elf(DumpOutput *out, const DumpContents *contents, GError **errp);
bool dump_write_kdump_zlib(DumpOutput *out, const DumpContents *contents, GError **errp);

#endif
