/*
 * The accelerator without vCPUs, for tests of devices: interrupts are told to an observer.
 *
 * A message that goes to RAM is stored there, as the write it is on the bus: a test looks for it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "accel/qtest.h"

#include "accel/accel-ops.h"
#include "memory/guest-access.h"

typedef struct QtestAccel {
    Accel common; /* first */
    void (*observe)(void *opaque, unsigned n, int level);
    void *opaque;
} QtestAccel;

#define QTEST_ACCEL(accel) ((QtestAccel *)(accel))

bool accel_is_qtest(const Accel *accel)
{
    return accel->ops == &qtest_accel_ops;
}

void accel_qtest_set_observer(Accel *accel, void (*fn)(void *opaque, unsigned n, int level),
                              void *opaque)
{
    QTEST_ACCEL(accel)->observe = fn;
    QTEST_ACCEL(accel)->opaque = opaque;
}

static Accel *create(const AccelEnv *env, GError **errp)
{
    QtestAccel *qtest = g_new0(QtestAccel, 1);

    accel_init(&qtest->common, &qtest_accel_ops, env);
    return &qtest->common;
}

static void set_irq(Accel *accel, unsigned gsi, int level)
{
    QtestAccel *qtest = QTEST_ACCEL(accel);

    if (qtest->observe) {
        qtest->observe(qtest->opaque, gsi, !!level);
    }
}

static bool send_msi(Accel *accel, uint64_t address, uint32_t data)
{
    if (guest_write_le32(accel->env.memory, address, data)) {
        return true;
    }
    set_irq(accel, data & 0xff, 1);
    set_irq(accel, data & 0xff, 0);
    return true;
}

const AccelOps qtest_accel_ops = {
    .name = "qtest",
    .create = create,
    .set_irq = set_irq,
    .send_msi = send_msi,
};
