/*
 * An increment written to a pipe or socket: the same bytes in the same order as in a file.
 *
 * Changed pages that lie apart are not joined here, as every byte goes through the pipe.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "migration/ram-delta-stream.h"

#include "memory/base-guard.h"
#include "migration/ram-delta-table.h"
#include "migration/stream-output.h"
#include "util/crc32c.h"
#include "util/error.h"
#include "util/units.h"

#define BATCH_PIECES 256
#define BATCH_BYTES (UINT64_C(1) * MiB)

typedef struct DeltaStream {
    StreamOutput out;
    TransferControl *control;
    uint64_t length; /* bytes put so far */
    uint32_t crc;
} DeltaStream;

static bool put_bytes(DeltaStream *s, const GByteArray *bytes, GError **errp)
{
    struct iovec iov = { .iov_base = bytes->data, .iov_len = bytes->len };

    s->length += bytes->len;
    return transfer_control_wait(s->control, bytes->len, errp) &&
           stream_output_put(&s->out, &iov, 1, errp);
}

static bool put_head(DeltaStream *s, const CapturedState *state, RamDeltaTable *table,
                     GError **errp)
{
    g_autoptr(GByteArray) head = g_byte_array_new();
    guint len;

    stream_put_header(head, &state->config);
    ram_delta_put(head, 0, table);
    s->crc = crc32c(0, head->data, head->len);
    /* The padding does not count into the checksum. */
    len = head->len;
    g_byte_array_set_size(head, table->data_offset);
    memset(head->data + len, 0, head->len - len);
    return put_bytes(s, head, errp);
}

/* At most a batch from piece *k on, *done bytes of which are written; moves both. */
static int gather(const GArray *pieces, guint *k, uint64_t *done, struct iovec *iov,
                  uint64_t *ret_bytes)
{
    uint64_t bytes = 0;
    int n = 0;

    while (*k < pieces->len && n < BATCH_PIECES && bytes < BATCH_BYTES) {
        const DeltaPiece *p = &g_array_index(pieces, DeltaPiece, *k);
        uint64_t len = MIN(p->length - *done, BATCH_BYTES - bytes);

        iov[n++] = (struct iovec){ .iov_base = p->host + *done, .iov_len = len };
        bytes += len;
        *done += len;
        if (*done == p->length) {
            *done = 0;
            (*k)++;
        }
    }
    *ret_bytes = bytes;
    return n;
}

static bool put_pieces(DeltaStream *s, const GArray *pieces, GError **errp)
{
    struct iovec iov[BATCH_PIECES];
    uint64_t done = 0, bytes;
    guint k = 0;

    while (k < pieces->len) {
        int n = gather(pieces, &k, &done, iov, &bytes);

        if (!transfer_control_wait(s->control, bytes, errp) ||
            !stream_output_put(&s->out, iov, n, errp)) {
            return false;
        }
        s->length += bytes;
        transfer_count(&s->control->done_bytes, bytes);
        transfer_count(&s->control->normal_pages, bytes / STREAM_PAGE_SIZE);
    }
    return true;
}

static bool put_end(DeltaStream *s, CapturedState *state, GError **errp)
{
    g_autoptr(GByteArray) end = g_byte_array_new();

    stream_put_footer(end, STREAM_SECTION_ID_RAM);
    s->crc = crc32c(s->crc, end->data, end->len);
    captured_state_put(state, end, s->length + end->len, s->crc);
    return put_bytes(s, end, errp);
}

bool ram_delta_write_stream(const RamPagesWrite *w, const SnapshotParent *parent,
                            CapturedState *state, GError **errp)
{
    g_auto(RamDeltaTable) table = { 0 };
    g_autoptr(GArray) pieces = NULL;
    DeltaStream s = { .control = w->control };
    uint64_t zero_pages;

    if (!stream_output_init(&s.out, w->fd, w->control, errp)) {
        return false;
    }
    ram_delta_table_make(&table, parent, w->plan, 0, &zero_pages);
    transfer_count(&w->control->zero_pages, zero_pages);
    if (!put_head(&s, state, &table, errp)) {
        return false;
    }
    w->control->total_bytes = table.data_length;
    pieces = ram_delta_table_pieces(&table, w->plan);
    return put_pieces(&s, pieces, errp) && ram_list_check_read(w->ram, errp) &&
           put_end(&s, state, errp);
}
