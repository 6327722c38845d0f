/*
 * Who is told when the machine is reset, in order of registration.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/core/reset.h"

#include <glib.h>

typedef struct ResetEntry {
    ResetFn fn;
    void *opaque;
} ResetEntry;

struct ResetList {
    GArray *stages[RESET_STAGES]; /* of ResetEntry */
};

ResetList *reset_list_new(void)
{
    ResetList *list = g_new0(ResetList, 1);

    for (int i = 0; i < RESET_STAGES; i++) {
        list->stages[i] = g_array_new(FALSE, FALSE, sizeof(ResetEntry));
    }
    return list;
}

void reset_list_free(ResetList *list)
{
    for (int i = 0; list && i < RESET_STAGES; i++) {
        g_array_unref(list->stages[i]);
    }
    g_free(list);
}

void reset_register(ResetList *list, ResetStage stage, ResetFn fn, void *opaque)
{
    ResetEntry entry = { fn, opaque };

    g_array_append_val(list->stages[stage], entry);
}

void reset_unregister(ResetList *list, ResetFn fn, void *opaque)
{
    for (int i = 0; i < RESET_STAGES; i++) {
        for (guint k = 0; k < list->stages[i]->len; k++) {
            ResetEntry *entry = &g_array_index(list->stages[i], ResetEntry, k);

            if (entry->fn == fn && entry->opaque == opaque) {
                g_array_remove_index(list->stages[i], k);
                return;
            }
        }
    }
}

void reset_run(ResetList *list)
{
    for (int i = 0; i < RESET_STAGES; i++) {
        for (guint k = 0; k < list->stages[i]->len; k++) {
            ResetEntry entry = g_array_index(list->stages[i], ResetEntry, k);

            entry.fn(entry.opaque);
        }
    }
}
