/*
 * Time registers of the MC146818: BCD or binary, 12 or 24 hours.
 *
 * Source: Motorola MC146818 data sheet, "Time, Calendar, and Alarm Locations".
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/timer/rtc-time.h"

#include <stdbool.h>
#include <time.h>

#define PM 0x80
#define DAY 86400
#define ANY (-1)     /* alarm registers from 0xc0 on match everything */
#define INVALID (-2) /* a value that no time has */

static uint8_t to_reg(const uint8_t *cmos, unsigned value)
{
    return (uint8_t)(cmos[RTC_REG_B] & RTC_B_BINARY ? value : (value / 10) << 4 | value % 10);
}

static unsigned from_reg(const uint8_t *cmos, uint8_t reg)
{
    return cmos[RTC_REG_B] & RTC_B_BINARY ? reg : (unsigned)(reg >> 4) * 10 + (reg & 15);
}

static uint8_t hour_to_reg(const uint8_t *cmos, unsigned hour)
{
    if (cmos[RTC_REG_B] & RTC_B_24H) {
        return to_reg(cmos, hour);
    }
    return (uint8_t)(to_reg(cmos, hour % 12 ? hour % 12 : 12) | (hour >= 12 ? PM : 0));
}

static unsigned hour_from_reg(const uint8_t *cmos, uint8_t reg)
{
    if (cmos[RTC_REG_B] & RTC_B_24H) {
        return from_reg(cmos, reg);
    }
    return from_reg(cmos, reg & (uint8_t)~PM) % 12 + (reg & PM ? 12 : 0);
}

void rtc_time_encode(uint8_t *cmos, int64_t seconds)
{
    time_t t = (time_t)seconds;
    struct tm tm;

    if (!gmtime_r(&t, &tm)) {
        return;
    }
    cmos[RTC_SECONDS] = to_reg(cmos, (unsigned)tm.tm_sec);
    cmos[RTC_MINUTES] = to_reg(cmos, (unsigned)tm.tm_min);
    cmos[RTC_HOURS] = hour_to_reg(cmos, (unsigned)tm.tm_hour);
    cmos[RTC_DAY_OF_WEEK] = to_reg(cmos, (unsigned)tm.tm_wday + 1);
    cmos[RTC_DAY_OF_MONTH] = to_reg(cmos, (unsigned)tm.tm_mday);
    cmos[RTC_MONTH] = to_reg(cmos, (unsigned)tm.tm_mon + 1);
    cmos[RTC_YEAR] = to_reg(cmos, (unsigned)(tm.tm_year + 1900) % 100);
    cmos[RTC_CENTURY] = to_reg(cmos, (unsigned)(tm.tm_year + 1900) / 100 % 100);
}

int64_t rtc_time_decode(const uint8_t *cmos)
{
    struct tm tm = {
        .tm_sec = (int)from_reg(cmos, cmos[RTC_SECONDS]),
        .tm_min = (int)from_reg(cmos, cmos[RTC_MINUTES]),
        .tm_hour = (int)hour_from_reg(cmos, cmos[RTC_HOURS]),
        .tm_mday = (int)from_reg(cmos, cmos[RTC_DAY_OF_MONTH]),
        .tm_mon = (int)from_reg(cmos, cmos[RTC_MONTH]) - 1,
        .tm_year =
            (int)(from_reg(cmos, cmos[RTC_CENTURY]) * 100 + from_reg(cmos, cmos[RTC_YEAR])) - 1900,
    };

    return timegm(&tm);
}

static int alarm_field(const uint8_t *cmos, uint8_t reg, bool hour, unsigned limit)
{
    unsigned value;

    if (reg >= 0xc0) {
        return ANY;
    }
    value = hour ? hour_from_reg(cmos, reg) : from_reg(cmos, reg);
    return value < limit ? (int)value : INVALID;
}

/* The first second of the day from `from` on that matches; -1: none. */
static int match_in_day(int hour, int minute, int second, int from)
{
    for (int h = from / 3600; h < 24; h++) {
        if (hour != ANY && h != hour) {
            continue;
        }
        for (int m = h * 3600 < from ? from / 60 % 60 : 0; m < 60; m++) {
            int start = h * 3600 + m * 60;
            int s = second != ANY ? second : from > start ? from - start : 0;

            if ((minute == ANY || m == minute) && s < 60 && start + s >= from) {
                return start + s;
            }
        }
    }
    return -1;
}

int64_t rtc_time_next_alarm(const uint8_t *cmos, int64_t after)
{
    int hour = alarm_field(cmos, cmos[RTC_HOURS_ALARM], true, 24);
    int minute = alarm_field(cmos, cmos[RTC_MINUTES_ALARM], false, 60);
    int second = alarm_field(cmos, cmos[RTC_SECONDS_ALARM], false, 60);
    int64_t from = after + 1;
    int64_t midnight = from - ((from % DAY) + DAY) % DAY;
    int match;

    if (hour == INVALID || minute == INVALID || second == INVALID) {
        return -1;
    }
    match = match_in_day(hour, minute, second, (int)(from - midnight));
    if (match < 0) {
        midnight += DAY;
        match = match_in_day(hour, minute, second, 0);
    }
    return match < 0 ? -1 : midnight + match;
}
