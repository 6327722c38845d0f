/*
 * Virtual time: nanoseconds that pass only while the VM runs and go on where they were after a restore.
 *
 * Timers of devices run on it. They are called on the main loop with the big lock held; arming and disarming is
 * allowed from any thread that holds the big lock.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_TIMER_CLOCK_H
#define COWBIRD_HW_TIMER_CLOCK_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "accel/runstate.h"
#include "vmstate/registry.h"

typedef struct VmClock VmClock;
typedef struct VmTimer VmTimer;

#define CLOCK_NS_PER_SECOND INT64_C(1000000000)

/* Stopped, at 0. */
VmClock *vm_clock_new(void);
void vm_clock_free(VmClock *clock);
/* Lets it run with the VM and saves it as section "timer". */
bool vm_clock_attach(VmClock *clock, RunStateControl *rs, VMStateRegistry *vmstate, GError **errp);

void vm_clock_start(VmClock *clock);
void vm_clock_stop(VmClock *clock);
int64_t vm_clock_now(const VmClock *clock);
/* From now on it moves by vm_clock_advance only, whether the VM runs or not; before its first start. */
void vm_clock_set_stepped(VmClock *clock);
/* For a clock that is stepped or not started. Calls the timers that are due on the way, in order. */
void vm_clock_advance(VmClock *clock, int64_t ns);
/* When the first timer is due; -1: none is armed. */
int64_t vm_clock_next(const VmClock *clock);

/* A timer, not armed. */
VmTimer *vm_timer_new(VmClock *clock, void (*fn)(void *opaque), void *opaque);
void vm_timer_free(VmTimer *timer);
/* Calls fn once at that time; a time in the past means as soon as the main loop runs. */
void vm_timer_set(VmTimer *timer, int64_t when);
void vm_timer_cancel(VmTimer *timer);

/* num / den of value without overflow in between; den > 0. */
int64_t muldiv64(int64_t value, int64_t num, int64_t den);

#endif
