/*
 * Bytes that wait: added at the end, taken from the front at a cost by what is taken.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MONITOR_BYTE_QUEUE_H
#define COWBIRD_MONITOR_BYTE_QUEUE_H

#include <glib.h>

typedef struct ByteQueue {
    GString *bytes;
    size_t start; /* of what still waits */
} ByteQueue;

static inline size_t byte_queue_len(const ByteQueue *queue)
{
    return queue->bytes->len - queue->start;
}

static inline const char *byte_queue_data(const ByteQueue *queue)
{
    return queue->bytes->str + queue->start;
}

static inline void byte_queue_clear(ByteQueue *queue)
{
    g_string_truncate(queue->bytes, 0);
    queue->start = 0;
}

/* Bytes are moved only when fewer are left than were taken. */
static inline void byte_queue_take(ByteQueue *queue, size_t n)
{
    queue->start += n;
    if (queue->start > queue->bytes->len / 2) {
        g_string_erase(queue->bytes, 0, queue->start);
        queue->start = 0;
    }
}

#endif
