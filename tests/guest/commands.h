/*
 * Tables of commands: each part of the test guest that has some ends in one; commands.c knows all tables.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef TESTS_GUEST_COMMANDS_H
#define TESTS_GUEST_COMMANDS_H

#include "tests/guest/guest.h"

/* A PFN list fills a line. */
#define MAX_ARGUMENTS 128

typedef struct Command {
    const char *name;  /* NULL ends a table */
    unsigned min, max; /* arguments, all of them numbers */
    /* Prints what follows "ok". */
    void (*run)(const struct Command *command, const uint64_t *arguments, unsigned count);
    WorkKind work;
    bool others;
    /* In place of run: the arguments are words, which it takes by text_word() */
    void (*run_text)(char *text);
} Command;

extern const Command pci_commands[], virtio_commands[], balloon_commands[], rng_commands[],
    vserial_commands[], power_commands[], agent_commands[];

#endif
