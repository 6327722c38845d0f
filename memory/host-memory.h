/*
 * How much memory this process can still take before somebody is killed for it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MEMORY_HOST_MEMORY_H
#define COWBIRD_MEMORY_HOST_MEMORY_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Bytes: the smallest of MemAvailable and of what each cgroup (version 1 or 2) of this process up to
 * the root leaves, its page cache counted as free. *ret_limit names which of them it is (a constant).
 */
bool host_memory_available(uint64_t *ret_bytes, const char **ret_limit, GError **errp);
/* Bytes of swap space that are free; 0 where none is. */
uint64_t host_swap_free(void);

#endif
