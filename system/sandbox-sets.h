/*
 * Which of the filters of -sandbox: between the program that makes them and the one that uses them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_SYSTEM_SANDBOX_SETS_H
#define COWBIRD_SYSTEM_SANDBOX_SETS_H

/* Or-ed together, the number of a filter. What all filters forbid has no bit. */
typedef enum SandboxSet {
    SANDBOX_NO_OBSOLETE = 1,
    SANDBOX_NO_PRIVILEGES = 2,
    SANDBOX_NO_SPAWN = 4,
    SANDBOX_NO_RESOURCES = 8,
    SANDBOX_SETS = 16,
} SandboxSet;

#endif
