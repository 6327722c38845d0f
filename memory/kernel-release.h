/*
 * What the release of the host's kernel says about /proc/pid/pagemap.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MEMORY_KERNEL_RELEASE_H
#define COWBIRD_MEMORY_KERNEL_RELEASE_H

#include <stdbool.h>

typedef struct KernelRelease {
    bool known; /* false: the text could not be parsed and nothing may be relied on */
    unsigned major, minor, patch;
    bool candidate; /* an -rc: older than the release it leads to */
} KernelRelease;

/* Parse uname's release, such as "6.6.69-vendor.1+", "6.11.0-rc3" or "6.1.0-18-amd64". */
KernelRelease kernel_release_parse(const char *text);

/*
 * Bit 61 (file-page or shared-anon) of a pagemap entry is right for pages of all sizes: 6.6.44 and
 * later of 6.6, 6.11 and later.
 */
bool kernel_release_has_exact_file_bit(const KernelRelease *release);

#endif
