/*
 * The MC146818: time that is computed when it is asked for, and three interrupts that are timed only while somebody
 * has enabled them.
 *
 * The guest's clock is a reference clock of the host (-rtc clock=) plus an offset, which changes when the guest sets
 * the time. Flags of register C are brought up to date when they are looked at.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/timer/mc146818rtc.h"

#include <string.h>
#include <time.h>

#include "hw/core/machine.h"
#include "hw/timer/clock.h"
#include "hw/timer/rtc-time.h"
#include "qapi/qapi-events.h"
#include "util/error.h"

#define SECOND CLOCK_NS_PER_SECOND
#define UPDATE_TIME 244000 /* ns before the full second in which "update in progress" is shown */
#define PERIODIC_HZ 32768
#define RTC_IRQ 8
#define LOST_MAX 32768
#define OFFSET_MAX INT64_C(1000000000000) /* seconds; more than the registers can say */

enum { A_UIP = 0x80, A_DIVIDER = 0x70, A_DIVIDER_RUNS = 0x20, A_RATE = 0x0f };
enum { C_IRQF = 0x80, C_PF = 0x40, C_AF = 0x20, C_UF = 0x10 };

struct _Rtc {
    IsaDevice parent_instance;
    IrqLine irq;
    VmTimer *second_timer, *periodic_timer, *slew_timer;
    uint8_t cmos[RTC_CMOS_SIZE];
    uint8_t index;
    int64_t offset;       /* guest's time minus reference clock, in seconds ... */
    int64_t offset_ns;    /* ... and nanoseconds, 0 to 999999999 */
    int64_t start_offset; /* offset at the start of the machine, for RTC_CHANGE */
    int64_t seen;         /* second up to which flags of register C were brought up to date */
    int64_t period_seen;  /* the same for the periodic flag, in periods of virtual time */
    struct {
        int64_t offset, offset_ns, start_offset;
        int64_t second; /* guest's time when it was saved */
    } saved;            /* as it travels; taken over when it is known to be sound */
    uint32_t lost;      /* periodic interrupts that the guest did not get */
};

QOM_DEFINE_TYPE(Rtc, rtc, "mc146818rtc", TYPE_ISA_DEVICE)

static Machine *machine_of(Rtc *s)
{
    return DEVICE(s)->machine;
}

/* ---- time ---- */

static int64_t host_clock(clockid_t id)
{
    struct timespec ts;

    clock_gettime(id, &ts);
    return ts.tv_sec * SECOND + ts.tv_nsec;
}

static int64_t reference_now(Rtc *s)
{
    switch (machine_of(s)->rtc.clock) {
    case RTC_CLOCK_VM:
        return vm_clock_now(machine_of(s)->clock);
    case RTC_CLOCK_RT:
        return host_clock(CLOCK_MONOTONIC);
    default:
        return host_clock(CLOCK_REALTIME);
    }
}

/* The guest's time: whole seconds since 1970, and the nanoseconds into the next one. */
static int64_t rtc_second(Rtc *s)
{
    return (reference_now(s) + s->offset_ns) / SECOND + s->offset;
}

static int64_t rtc_fraction(Rtc *s)
{
    return (reference_now(s) + s->offset_ns) % SECOND;
}

/* From now on it is that second, from its beginning. */
static void rtc_set_second(Rtc *s, int64_t second)
{
    int64_t reference = reference_now(s);

    s->offset_ns = (SECOND - reference % SECOND) % SECOND;
    s->offset = second - (reference + s->offset_ns) / SECOND;
    s->seen = second;
}

static bool clock_runs(const Rtc *s)
{
    return !(s->cmos[RTC_REG_B] & RTC_B_SET) && (s->cmos[RTC_REG_A] & A_DIVIDER) == A_DIVIDER_RUNS;
}

/* What -rtc base= says the time is at the start, in seconds. */
static int64_t start_time(const RtcConfig *config)
{
    time_t now = time(NULL);
    struct tm local;

    switch (config->base) {
    case RTC_BASE_DATE:
        return config->start;
    case RTC_BASE_LOCALTIME:
        return localtime_r(&now, &local) ? now + local.tm_gmtoff : now;
    default:
        return now;
    }
}

/* ---- flags and the interrupt ---- */

static void update_irq(Rtc *s)
{
    uint8_t *c = &s->cmos[RTC_REG_C];
    /* Enable bits of register B lie where the flags of C do. */
    bool wanted = *c & s->cmos[RTC_REG_B] & (C_PF | C_AF | C_UF);

    *c = (uint8_t)((*c & ~C_IRQF) | (wanted ? C_IRQF : 0));
    irq_set(&s->irq, wanted);
}

static void catch_up_seconds(Rtc *s)
{
    int64_t now = rtc_second(s);

    if (clock_runs(s) && now > s->seen) {
        int64_t alarm = rtc_time_next_alarm(s->cmos, s->seen);

        s->cmos[RTC_REG_C] |= C_UF;
        if (alarm >= 0 && alarm <= now) {
            s->cmos[RTC_REG_C] |= C_AF;
        }
    }
    s->seen = now;
}

/* Periods of the rate in register A since virtual time began; 0 without a rate. */
static int64_t ticks_per_period(const Rtc *s)
{
    unsigned rate = s->cmos[RTC_REG_A] & A_RATE;

    if (rate == 0 || (s->cmos[RTC_REG_A] & A_DIVIDER) != A_DIVIDER_RUNS) {
        return 0;
    }
    return INT64_C(1) << ((rate <= 2 ? rate + 7 : rate) - 1);
}

static int64_t period_now(Rtc *s)
{
    int64_t ticks = ticks_per_period(s);
    int64_t now = muldiv64(vm_clock_now(machine_of(s)->clock), PERIODIC_HZ, SECOND);

    return ticks ? now / ticks : 0;
}

static void catch_up_periods(Rtc *s)
{
    int64_t now = period_now(s);

    if (now > s->period_seen) {
        int64_t missed = now - s->period_seen - !(s->cmos[RTC_REG_C] & C_PF);

        if (machine_of(s)->rtc.slew && (s->cmos[RTC_REG_B] & RTC_B_PIE)) {
            s->lost = (uint32_t)MIN(s->lost + missed, LOST_MAX);
        }
        s->cmos[RTC_REG_C] |= C_PF;
    }
    s->period_seen = now;
}

static void arm_second_timer(Rtc *s)
{
    int64_t next = s->seen + 1, alarm;

    if (!clock_runs(s) || !(s->cmos[RTC_REG_B] & (RTC_B_AIE | RTC_B_UIE))) {
        vm_timer_cancel(s->second_timer);
        return;
    }
    if (!(s->cmos[RTC_REG_B] & RTC_B_UIE)) {
        alarm = rtc_time_next_alarm(s->cmos, s->seen);
        /* Far alarms are looked at again each hour: the host's clock may be set meanwhile. */
        next = alarm < 0 ? s->seen + 3600 : MIN(alarm, s->seen + 3600);
    }
    vm_timer_set(s->second_timer, vm_clock_now(machine_of(s)->clock) +
                                      (next - rtc_second(s)) * SECOND - rtc_fraction(s));
}

static void arm_periodic_timer(Rtc *s)
{
    int64_t ticks = ticks_per_period(s);

    if (ticks == 0 || !(s->cmos[RTC_REG_B] & RTC_B_PIE)) {
        vm_timer_cancel(s->periodic_timer);
        s->lost = 0;
        return;
    }
    vm_timer_set(s->periodic_timer,
                 muldiv64((s->period_seen + 1) * ticks, SECOND, PERIODIC_HZ) + 1);
}

static void catch_up(Rtc *s)
{
    catch_up_seconds(s);
    catch_up_periods(s);
    update_irq(s);
}

static void rearm(Rtc *s)
{
    arm_second_timer(s);
    arm_periodic_timer(s);
}

static void timer_expired(void *opaque)
{
    catch_up(opaque);
    rearm(opaque);
}

/* driftfix=slew: one of the lost interrupts, some time after the guest has taken the one before. */
static void slew_expired(void *opaque)
{
    Rtc *s = opaque;

    if (s->lost && (s->cmos[RTC_REG_B] & RTC_B_PIE) && !(s->cmos[RTC_REG_C] & C_PF)) {
        s->lost--;
        s->cmos[RTC_REG_C] |= C_PF;
        update_irq(s);
    }
}

/* ---- registers ---- */

static bool is_time_register(unsigned index)
{
    return index == RTC_CENTURY || (index <= RTC_YEAR && index != RTC_SECONDS_ALARM &&
                                    index != RTC_MINUTES_ALARM && index != RTC_HOURS_ALARM);
}

/* The time registers run only while nobody holds them. */
static void refresh_time(Rtc *s)
{
    if (clock_runs(s)) {
        rtc_time_encode(s->cmos, rtc_second(s));
    }
}

/* The guest has set the clock: the running second begins anew. */
static void take_time(Rtc *s)
{
    int64_t before = s->offset;
    g_autofree char *path = NULL;

    rtc_set_second(s, rtc_time_decode(s->cmos));
    if (s->offset != before) {
        path = object_path(OBJECT(s));
        qapi_event_send_rtc_change(machine_of(s)->events, s->offset - s->start_offset, path);
    }
}

static void write_reg_a(Rtc *s, uint8_t value)
{
    bool ran = clock_runs(s);

    refresh_time(s);
    s->cmos[RTC_REG_A] = value & (uint8_t)~A_UIP;
    s->period_seen = period_now(s);
    if (!ran && clock_runs(s)) {
        take_time(s);
    }
}

static void write_reg_b(Rtc *s, uint8_t value)
{
    bool ran = clock_runs(s);

    refresh_time(s);
    if (!(s->cmos[RTC_REG_B] & RTC_B_PIE) && (value & RTC_B_PIE)) {
        s->period_seen = period_now(s);
    }
    s->cmos[RTC_REG_B] = value;
    if (value & RTC_B_SET) {
        s->cmos[RTC_REG_B] &= (uint8_t)~RTC_B_UIE;
    }
    if (!ran && clock_runs(s)) {
        take_time(s);
    } else if (ran && clock_runs(s)) {
        rtc_time_encode(s->cmos, rtc_second(s)); /* the format may be another now */
    }
}

static void write_cmos(Rtc *s, unsigned index, uint8_t value)
{
    switch (index) {
    case RTC_REG_A:
        write_reg_a(s, value);
        break;
    case RTC_REG_B:
        write_reg_b(s, value);
        break;
    case RTC_REG_C:
    case RTC_REG_D:
        break;
    default:
        if (is_time_register(index)) {
            refresh_time(s);
            s->cmos[index] = value;
            if (clock_runs(s)) {
                take_time(s);
            }
        } else {
            s->cmos[index] = value;
        }
        break;
    }
}

static uint8_t read_reg_a(Rtc *s)
{
    bool updating = clock_runs(s) && rtc_fraction(s) >= SECOND - UPDATE_TIME;

    return s->cmos[RTC_REG_A] | (updating ? A_UIP : 0);
}

static uint8_t read_reg_c(Rtc *s)
{
    uint8_t value = s->cmos[RTC_REG_C];

    s->cmos[RTC_REG_C] = 0;
    if (s->lost) {
        /* Soon, but not at once: a tenth of a period. */
        vm_timer_set(s->slew_timer, vm_clock_now(machine_of(s)->clock) +
                                        muldiv64(ticks_per_period(s), SECOND, PERIODIC_HZ * 10));
    }
    return value;
}

static uint64_t rtc_read(void *opaque, uint64_t port, unsigned size)
{
    Rtc *s = opaque;
    unsigned index = s->index % RTC_CMOS_SIZE;
    uint8_t value;

    if (port == 0) {
        return 0xff; /* the index cannot be read back */
    }
    catch_up(s);
    if (is_time_register(index)) {
        refresh_time(s);
    }
    switch (index) {
    case RTC_REG_A:
        value = read_reg_a(s);
        break;
    case RTC_REG_C:
        value = read_reg_c(s);
        break;
    case RTC_REG_D:
        value = 0x80; /* the battery is good */
        break;
    default:
        value = s->cmos[index];
        break;
    }
    update_irq(s);
    return value;
}

static void rtc_write(void *opaque, uint64_t port, uint64_t value, unsigned size)
{
    Rtc *s = opaque;

    if (port == 0) {
        s->index = value & (RTC_CMOS_SIZE - 1); /* bit 7 masks NMIs, which have no source here */
        return;
    }
    catch_up(s);
    write_cmos(s, s->index % RTC_CMOS_SIZE, (uint8_t)value);
    update_irq(s);
    rearm(s);
}

void rtc_set_cmos(Rtc *rtc, unsigned index, uint8_t value)
{
    g_assert(index > RTC_REG_D && index < RTC_CMOS_SIZE);
    rtc->cmos[index] = value;
}

/* ---- life ---- */

static bool rtc_realize(Device *dev, GError **errp)
{
    static const IoOps ops = { .read = rtc_read, .write = rtc_write, .min_size = 1, .max_size = 1 };
    Rtc *s = RTC(dev);
    Machine *m = dev->machine;

    if (!isa_device_irq(dev, RTC_IRQ, &s->irq, errp) ||
        !isa_device_add_ports(dev, 0x70, 2, &ops, errp)) {
        return false;
    }
    s->second_timer = vm_timer_new(m->clock, timer_expired, s);
    s->periodic_timer = vm_timer_new(m->clock, timer_expired, s);
    s->slew_timer = vm_timer_new(m->clock, slew_expired, s);
    s->cmos[RTC_REG_A] = 0x26; /* the divider runs; 1024 Hz */
    s->cmos[RTC_REG_B] = RTC_B_24H;
    rtc_set_second(s, start_time(&m->rtc));
    s->start_offset = s->offset;
    return true;
}

static void rtc_reset(Device *dev)
{
    Rtc *s = RTC(dev);

    refresh_time(s);
    s->cmos[RTC_REG_B] &= (uint8_t) ~(RTC_B_PIE | RTC_B_AIE | RTC_B_UIE | RTC_B_SQWE);
    s->cmos[RTC_REG_C] = 0;
    s->lost = 0;
    s->index = 0;
    update_irq(s);
    rearm(s);
}

static void rtc_pre_save(void *opaque)
{
    Rtc *s = opaque;

    refresh_time(s);
    s->saved.offset = s->offset;
    s->saved.offset_ns = s->offset_ns;
    s->saved.start_offset = s->start_offset;
    s->saved.second = rtc_second(s);
}

static bool seconds_are_sound(int64_t seconds)
{
    return seconds >= -OFFSET_MAX && seconds <= OFFSET_MAX;
}

static bool rtc_post_load(void *opaque, int version, GError **errp)
{
    Rtc *s = opaque;

    if (!seconds_are_sound(s->saved.offset) || !seconds_are_sound(s->saved.start_offset) ||
        !seconds_are_sound(s->saved.second) || s->saved.offset_ns < 0 ||
        s->saved.offset_ns >= SECOND) {
        error_set(errp, "the saved time of the clock is out of range");
        return false;
    }
    s->offset = s->saved.offset;
    s->offset_ns = s->saved.offset_ns;
    s->start_offset = s->saved.start_offset;
    /* A monotonic clock of another run says nothing: the guest's time goes on where it was. */
    if (machine_of(s)->rtc.clock == RTC_CLOCK_RT) {
        rtc_set_second(s, s->saved.second);
    }
    s->lost = MIN(s->lost, LOST_MAX);
    s->seen = rtc_second(s);
    s->period_seen = period_now(s);
    update_irq(s);
    rearm(s);
    return true;
}

static const VMStateDescription vmstate_rtc = {
    .name = "mc146818rtc",
    .version_id = 4,
    .minimum_version_id = 4,
    .pre_save = rtc_pre_save,
    .post_load = rtc_post_load,
    .fields = (const VMStateField[]){ VMSTATE_UINT8_ARRAY(cmos, Rtc, RTC_CMOS_SIZE),
                                      VMSTATE_UINT8(index, Rtc), VMSTATE_INT64(saved.offset, Rtc),
                                      VMSTATE_INT64(saved.offset_ns, Rtc),
                                      VMSTATE_INT64(saved.start_offset, Rtc),
                                      VMSTATE_INT64(saved.second, Rtc), VMSTATE_UINT32(lost, Rtc),
                                      VMSTATE_END_OF_LIST() },
};

static void rtc_finalize(GObject *obj)
{
    Rtc *s = RTC(obj);

    vm_timer_free(s->second_timer);
    vm_timer_free(s->periodic_timer);
    vm_timer_free(s->slew_timer);
    G_OBJECT_CLASS(rtc_parent_class)->finalize(obj);
}

static void rtc_init(Rtc *s)
{
}

static void rtc_class_init(RtcClass *klass)
{
    DeviceClass *dc = DEVICE_CLASS(klass);

    G_OBJECT_CLASS(klass)->finalize = rtc_finalize;
    dc->realize = rtc_realize;
    dc->reset = rtc_reset;
    dc->vmsd = &vmstate_rtc;
    dc->desc = "MC146818 real-time clock and CMOS memory";
}
