/*
 * Virtual time over CLOCK_MONOTONIC, and the timers that wait for it.
 *
 * All timers share one GSource: it is set to the earliest time while the clock runs, and to never while
 * it stands. A stepped clock moves by vm_clock_advance only: its timers are called there, or from the
 * main loop when they are armed for a time that has come already.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/timer/clock.h"

#include <time.h>

#include "util/error.h"

#define NEVER INT64_MAX
#define TIME_MAX (INT64_MAX / 4) /* 73 years: room for sums */

struct VmClock {
    bool running; /* with the VM */
    bool stepped;
    int64_t offset; /* virtual time while it stands; virtual minus monotonic time while it moves */
    int64_t saved;  /* virtual time as it travels */
    GPtrArray *timers;
    GSource *source;
    RunStateControl *runstate;
    guint listener;
    VMStateRegistry *vmstate;
};

struct VmTimer {
    VmClock *clock;
    int64_t when; /* NEVER: not armed */
    void (*fn)(void *opaque);
    void *opaque;
};

typedef struct ClockSource {
    GSource parent;
    VmClock *clock;
} ClockSource;

static int64_t monotonic_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * CLOCK_NS_PER_SECOND + ts.tv_nsec;
}

int64_t muldiv64(int64_t value, int64_t num, int64_t den)
{
    return (int64_t)((__int128)value * num / den);
}

/* It goes on by itself. */
static bool moves(const VmClock *clock)
{
    return clock->running && !clock->stepped;
}

int64_t vm_clock_now(const VmClock *clock)
{
    return moves(clock) ? monotonic_ns() + clock->offset : clock->offset;
}

static VmTimer *earliest(const VmClock *clock)
{
    VmTimer *first = NULL;

    for (guint i = 0; i < clock->timers->len; i++) {
        VmTimer *t = g_ptr_array_index(clock->timers, i);

        if (t->when != NEVER && (!first || t->when < first->when)) {
            first = t;
        }
    }
    return first;
}

/* Sets the source to the next time that matters. */
static void clock_rearm(VmClock *clock)
{
    VmTimer *first = clock->running ? earliest(clock) : NULL;
    int64_t ready = -1;

    if (first && clock->stepped) {
        ready = first->when <= clock->offset ? 0 : -1;
    } else if (first) {
        int64_t in = MAX(first->when - vm_clock_now(clock), 0);

        /* Rounded up: never called early. */
        ready = g_get_monotonic_time() + MIN(in, NEVER / 2) / 1000 + 1;
    }
    g_source_set_ready_time(clock->source, ready);
}

static void run_due(VmClock *clock)
{
    int64_t now = vm_clock_now(clock);
    VmTimer *t;

    while ((t = earliest(clock)) && t->when <= now) {
        t->when = NEVER;
        t->fn(t->opaque);
    }
}

static gboolean clock_dispatch(GSource *source, GSourceFunc callback, gpointer data)
{
    VmClock *clock = ((ClockSource *)source)->clock;

    if (clock->running) {
        run_due(clock);
    }
    clock_rearm(clock);
    return G_SOURCE_CONTINUE;
}

VmClock *vm_clock_new(void)
{
    static GSourceFuncs funcs = { .dispatch = clock_dispatch };
    VmClock *clock = g_new0(VmClock, 1);

    clock->timers = g_ptr_array_new();
    clock->source = g_source_new(&funcs, sizeof(ClockSource));
    ((ClockSource *)clock->source)->clock = clock;
    g_source_set_name(clock->source, "virtual clock");
    g_source_attach(clock->source, NULL);
    return clock;
}

void vm_clock_free(VmClock *clock)
{
    if (!clock) {
        return;
    }
    if (clock->runstate) {
        runstate_remove_listener(clock->runstate, clock->listener);
    }
    if (clock->vmstate) {
        vmstate_unregister(clock->vmstate, NULL, clock);
    }
    g_source_destroy(clock->source);
    g_source_unref(clock->source);
    g_ptr_array_unref(clock->timers);
    g_free(clock);
}

void vm_clock_start(VmClock *clock)
{
    if (!clock->running) {
        clock->offset -= clock->stepped ? 0 : monotonic_ns();
        clock->running = true;
        clock_rearm(clock);
    }
}

void vm_clock_stop(VmClock *clock)
{
    if (clock->running) {
        clock->offset += clock->stepped ? 0 : monotonic_ns();
        clock->running = false;
        clock_rearm(clock);
    }
}

void vm_clock_set_stepped(VmClock *clock)
{
    g_assert(!clock->running);
    clock->stepped = true;
}

int64_t vm_clock_next(const VmClock *clock)
{
    VmTimer *first = earliest(clock);

    return first ? first->when : -1;
}

void vm_clock_advance(VmClock *clock, int64_t ns)
{
    int64_t end = clock->offset + ns;
    VmTimer *t;

    g_assert(!moves(clock));
    while ((t = earliest(clock)) && t->when <= end) {
        clock->offset = MAX(clock->offset, t->when);
        t->when = NEVER;
        t->fn(t->opaque);
    }
    clock->offset = end;
    clock_rearm(clock);
}

static void clock_follow(void *opaque, bool running, RunState state)
{
    if (running) {
        vm_clock_start(opaque);
    } else {
        vm_clock_stop(opaque);
    }
}

static void clock_pre_save(void *opaque)
{
    VmClock *clock = opaque;

    clock->saved = vm_clock_now(clock);
}

static bool clock_post_load(void *opaque, int version, GError **errp)
{
    VmClock *clock = opaque;

    if (clock->saved < 0 || clock->saved > TIME_MAX) {
        error_set(errp, "the saved virtual time is out of range");
        return false;
    }
    clock->offset = clock->saved;
    clock_rearm(clock);
    return true;
}

static const VMStateDescription vmstate_timer = {
    .name = "timer",
    .version_id = 3,
    .minimum_version_id = 3,
    .pre_save = clock_pre_save,
    .post_load = clock_post_load,
    .fields = (const VMStateField[]){ VMSTATE_INT64(saved, VmClock), VMSTATE_END_OF_LIST() },
};

bool vm_clock_attach(VmClock *clock, RunStateControl *rs, VMStateRegistry *vmstate, GError **errp)
{
    /* Above the devices: they read the time at which they are restored. */
    if (!vmstate_register(vmstate, "timer", 0, VMSTATE_PRIORITY_IRQCHIP, &vmstate_timer, clock,
                          errp)) {
        return false;
    }
    clock->vmstate = vmstate;
    clock->runstate = rs;
    clock->listener = runstate_add_listener(rs, 0, clock_follow, clock);
    return true;
}

VmTimer *vm_timer_new(VmClock *clock, void (*fn)(void *opaque), void *opaque)
{
    VmTimer *t = g_new(VmTimer, 1);

    *t = (VmTimer){ .clock = clock, .when = NEVER, .fn = fn, .opaque = opaque };
    g_ptr_array_add(clock->timers, t);
    return t;
}

void vm_timer_free(VmTimer *timer)
{
    if (timer) {
        g_ptr_array_remove(timer->clock->timers, timer);
        clock_rearm(timer->clock);
        g_free(timer);
    }
}

void vm_timer_set(VmTimer *timer, int64_t when)
{
    timer->when = MIN(when, NEVER - 1);
    clock_rearm(timer->clock);
}

void vm_timer_cancel(VmTimer *timer)
{
    if (timer->when != NEVER) {
        timer->when = NEVER;
        clock_rearm(timer->clock);
    }
}
