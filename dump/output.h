/*
 * Where a dump goes: a file or a pipe, written in order; zeros become holes where there can be some.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_DUMP_OUTPUT_H
#define COWBIRD_DUMP_OUTPUT_H

#include "dump/memory-map.h"
#include "util/fds.h"

typedef struct DumpOutput DumpOutput;

/*
 * Opens "file:PATH" (made, or emptied; "/dev/fdset/N" too) or "fd:NAME". Refuses a file that RAM in @ram is mapped
 * from. Main thread.
 */
DumpOutput *dump_output_open(const char *protocol, FdStore *fds, const RamList *ram, GError **errp);
/* Closes it. */
void dump_output_free(DumpOutput *out);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(DumpOutput, dump_output_free)

/* Any thread: whoever writes or waits gets an error, now and from now on. */
void dump_output_cancel(DumpOutput *out);

/* Appended. They block and are called off the main loop; memory of the guest may be lost: an error. */
bool dump_output_write(DumpOutput *out, const void *buf, uint64_t length, GError **errp);
bool dump_output_zeros(DumpOutput *out, uint64_t length, GError **errp);
/* Adds what it has written to *completed (atomic). */
bool dump_output_piece(DumpOutput *out, const DumpPiece *piece, uint64_t *completed, GError **errp);

/*
 * The next bytes of a piece: into @buf, unless they are in our memory and need no copy. @offset and @length are inside
 * the piece. NULL on error.
 */
const uint8_t *dump_piece_read(const DumpPiece *piece, uint64_t offset, void *buf, size_t length,
                               GError **errp);

/* After the last byte: gives a file whose end is a hole its length. */
bool dump_output_finish(DumpOutput *out, GError **errp);
/* The dump failed: a file that was opened by name is left empty, so that nobody takes it for a dump. */
void dump_output_fail(DumpOutput *out);

#endif
