/*
 * Interrupt lines between devices.
 *
 * A line is a function with an argument, kept by value by the device that drives it. What stands behind it
 * (the accelerator's interrupt controller, a router, an OR of several sources) is the business of who made it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_CORE_IRQ_H
#define COWBIRD_HW_CORE_IRQ_H

typedef struct IrqLine {
    void (*set)(void *opaque, int n, int level); /* NULL: not connected */
    void *opaque;
    int n;
} IrqLine;

/* Drives the line to level (0 or 1). An unconnected line ignores it. */
static inline void irq_set(const IrqLine *line, int level)
{
    if (line->set) {
        line->set(line->opaque, line->n, level);
    }
}

/* An edge: up and down again. */
static inline void irq_pulse(const IrqLine *line)
{
    irq_set(line, 1);
    irq_set(line, 0);
}

#endif
