/*
 * Where a sequential stream is written to: a pipe, socket or device.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MIGRATION_STREAM_OUTPUT_H
#define COWBIRD_MIGRATION_STREAM_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "migration/workers.h"

typedef struct StreamOutput {
    int fd; /* borrowed; becomes non-blocking, so that a cancel is noticed */
    TransferControl *control;
    bool splice;     /* a pipe that takes references to pages */
    bool spliced;    /* it has taken some */
    uint64_t behind; /* bytes written after the last of them */
} StreamOutput;

bool stream_output_init(StreamOutput *out, int fd, TransferControl *control, GError **errp);

/*
 * Write all elements. Long ones (from 128 KiB on) may be handed over by reference: they must stay in
 * memory, with these contents, until stream_output_finish() has returned. @iov is used up.
 */
bool stream_output_put(StreamOutput *out, struct iovec *iov, int n, GError **errp);

/* Wait until the reader has taken all that was handed over by reference. */
bool stream_output_finish(const StreamOutput *out, GError **errp);

#endif
