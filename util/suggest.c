/*
 * "did you mean": the valid names nearest to a given one.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "util/suggest.h"

#include <glib.h>
#include <string.h>

#define MAX_SUGGESTIONS 3
#define MAX_LISTED 12
#define MAX_NAME 64

/*
 * Edits that turn a into b, where inserting, deleting, replacing or swapping two neighbours counts
 * one each; '-' and '_' are the same.
 */
static unsigned edit_distance(const char *a, const char *b)
{
    size_t len_a = strlen(a), len_b = strlen(b);
    unsigned rows[3][MAX_NAME + 1];
    unsigned *before = rows[0], *prev = rows[1], *cur = rows[2];

    if (len_a > MAX_NAME || len_b > MAX_NAME) {
        return G_MAXUINT;
    }
    for (size_t j = 0; j <= len_b; j++) {
        prev[j] = j;
    }
    for (size_t i = 1; i <= len_a; i++) {
        unsigned *spare = before;

        cur[0] = i;
        for (size_t j = 1; j <= len_b; j++) {
            char x = a[i - 1] == '_' ? '-' : g_ascii_tolower(a[i - 1]);
            char y = b[j - 1] == '_' ? '-' : g_ascii_tolower(b[j - 1]);

            cur[j] = MIN(MIN(prev[j], cur[j - 1]) + 1, prev[j - 1] + (x != y));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                cur[j] = MIN(cur[j], before[j - 2] + 1);
            }
        }
        before = prev;
        prev = cur;
        cur = spare;
    }
    return prev[len_b];
}

/* Smaller is nearer; G_MAXUINT is not near at all. */
static unsigned name_score(const char *given, const char *name)
{
    size_t len = strlen(given);
    unsigned distance = edit_distance(given, name);

    if (distance <= 1 + len / 4 && distance < len) {
        return distance;
    }
    if (len >= 3 && (strstr(name, given) || strstr(given, name)) && strlen(name) >= 3) {
        return MAX_NAME + strlen(name);
    }
    return G_MAXUINT;
}

static char *list_all(const char *const *valid, size_t count)
{
    g_autoptr(GString) text = g_string_new("valid: ");

    if (count == 0 || count > MAX_LISTED) {
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        g_string_append_printf(text, "%s'%s'", i ? ", " : "", valid[i]);
    }
    return g_string_free(g_steal_pointer(&text), FALSE);
}

char *suggest_nearest(const char *given, const char *const *valid)
{
    const char *best[MAX_SUGGESTIONS];
    unsigned score[MAX_SUGGESTIONS];
    size_t n = 0, count = 0;
    g_autoptr(GString) text = NULL;

    for (; valid[count]; count++) {
        unsigned s = name_score(given, valid[count]);
        size_t at = n;

        while (at > 0 && s < score[at - 1]) {
            at--;
        }
        if (s == G_MAXUINT || at >= MAX_SUGGESTIONS) {
            continue;
        }
        n = MIN(n + 1, MAX_SUGGESTIONS);
        memmove(&best[at + 1], &best[at], (n - at - 1) * sizeof(best[0]));
        memmove(&score[at + 1], &score[at], (n - at - 1) * sizeof(score[0]));
        best[at] = valid[count];
        score[at] = s;
    }
    if (n == 0) {
        return list_all(valid, count);
    }
    text = g_string_new("did you mean ");
    for (size_t i = 0; i < n; i++) {
        g_string_append_printf(text, "%s'%s'", i == 0 ? "" : i + 1 < n ? ", " : " or ", best[i]);
    }
    g_string_append_c(text, '?');
    return g_string_free(g_steal_pointer(&text), FALSE);
}
