/*
 * Between the connection of a test and the commands it gives.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_SYSTEM_QTEST_INTERNAL_H
#define COWBIRD_SYSTEM_QTEST_INTERNAL_H

#include <stdio.h>

#include "accel/qtest.h"
#include "hw/core/irq.h"
#include "hw/pci/pci.h"
#include "system/state.h"

/* Bytes that one command reads or writes at most. */
#define QTEST_LENGTH_MAX (64u << 20)

/* The lines that a test listens to. */
typedef enum QtestIntercept { INTERCEPT_NONE, INTERCEPT_GSI, INTERCEPT_PCI } QtestIntercept;

struct QtestServer {
    SystemState *state;
    Chardev *chr;
    GByteArray *input; /* begins with a line that is not complete */
    bool skipping;     /* the line is too long: what remains of it is dropped */
    GByteArray *line;  /* scratch: data of the command under way */
    FILE *log;
    gint64 start; /* of the log, monotonic us */

    IrqLine pirq[PCI_PIRQ_COUNT]; /* what stood behind the PCI lines before they were intercepted */

    GMutex lock;        /* for the rest: interrupts come on any thread */
    GByteArray *output; /* what the chardev has not taken yet */
    QtestIntercept intercept;
    uint8_t levels[QTEST_IRQ_COUNT]; /* of the GSIs */
    uint8_t pci_levels[PCI_PIRQ_COUNT];
};

/* The answer to one line of the protocol, with its newline. Big lock held. */
GString *qtest_execute(QtestServer *server, char *line);

/* Sends the levels that are up, then every change; false: other lines are intercepted already. */
bool qtest_intercept(QtestServer *server, QtestIntercept what);

#endif
