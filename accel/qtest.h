/*
 * The accelerator without vCPUs: who drives its machine is a test, and that is who hears interrupts.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_ACCEL_QTEST_H
#define COWBIRD_ACCEL_QTEST_H

#include "accel/accel.h"

/* Numbers of interrupts: GSIs, and vectors of messages (those of systems are above the GSIs). */
#define QTEST_IRQ_COUNT 256

bool accel_is_qtest(const Accel *accel);

/*
 * @fn is told of each call of accel_set_irq and, as a pulse of the number of its vector, of each
 * message that goes to no RAM; on any thread. NULL: nobody. Set while nothing can raise interrupts.
 */
void accel_qtest_set_observer(Accel *accel, void (*fn)(void *opaque, unsigned n, int level),
                              void *opaque);

#endif
