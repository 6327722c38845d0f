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
} StreamOutput;

bool stream_output_init(StreamOutput *out, int fd, TransferControl *control, GError **errp);

/* Write all elements; @iov is used up. */
bool stream_output_put(StreamOutput *out, struct iovec *iov, int n, GError **errp);

#endif
