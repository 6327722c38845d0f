/*
 * What the release of the host's kernel says about /proc/pid/pagemap.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/kernel-release.h"

#include <glib.h>
#include <string.h>

/* Larger numbers than any release will have; keeps sums from overflowing. */
#define NUMBER_MAX 65535

/* First patch levels with an exact bit 61 (kernel commit 3f9f022 and its stable backport). */
static const struct {
    unsigned major, minor, patch;
    bool and_later_series; /* every later major.minor has it too */
} exact_file_bit[] = {
    { 6, 6, 44, false },
    { 6, 11, 0, true },
};

static bool parse_number(const char **text, unsigned *ret_number)
{
    const char *p = *text;
    unsigned number = 0;

    if (!g_ascii_isdigit(*p)) {
        return false;
    }
    while (g_ascii_isdigit(*p)) {
        number = number * 10 + (*p++ - '0');
        if (number > NUMBER_MAX) {
            return false;
        }
    }
    *text = p;
    *ret_number = number;
    return true;
}

/* "-rc" and a digit anywhere in the rest of the text. */
static bool is_candidate(const char *rest)
{
    for (const char *p = strstr(rest, "-rc"); p; p = strstr(p + 1, "-rc")) {
        if (g_ascii_isdigit(p[3])) {
            return true;
        }
    }
    return false;
}

KernelRelease kernel_release_parse(const char *text)
{
    KernelRelease release = { .known = false };
    const char *p = text ? text : "";
    KernelRelease parsed = { .known = true };

    if (!parse_number(&p, &parsed.major) || *p++ != '.' || !parse_number(&p, &parsed.minor)) {
        return release;
    }
    if (*p == '.') {
        p++;
        if (!parse_number(&p, &parsed.patch)) {
            return release;
        }
    }
    parsed.candidate = is_candidate(p);
    return parsed;
}

/* The release is @patch of its series or later; a candidate is just before its own patch level. */
static bool reaches(const KernelRelease *release, unsigned patch)
{
    return release->candidate ? release->patch > patch : release->patch >= patch;
}

bool kernel_release_has_exact_file_bit(const KernelRelease *release)
{
    if (!release->known) {
        return false;
    }
    for (size_t i = 0; i < G_N_ELEMENTS(exact_file_bit); i++) {
        unsigned major = exact_file_bit[i].major;
        unsigned minor = exact_file_bit[i].minor;

        if (release->major == major && release->minor == minor) {
            return reaches(release, exact_file_bit[i].patch);
        }
        if (exact_file_bit[i].and_later_series &&
            (release->major > major || (release->major == major && release->minor > minor))) {
            return true;
        }
    }
    return false;
}
