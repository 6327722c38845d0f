/*
 * The ten time registers of the MC146818 as numbers: encoding, decoding, alarms.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_TIMER_RTC_TIME_H
#define COWBIRD_HW_TIMER_RTC_TIME_H

#include <stdint.h>

enum {
    RTC_SECONDS = 0,
    RTC_SECONDS_ALARM = 1,
    RTC_MINUTES = 2,
    RTC_MINUTES_ALARM = 3,
    RTC_HOURS = 4,
    RTC_HOURS_ALARM = 5,
    RTC_DAY_OF_WEEK = 6,
    RTC_DAY_OF_MONTH = 7,
    RTC_MONTH = 8,
    RTC_YEAR = 9,
    RTC_REG_A = 10,
    RTC_REG_B = 11,
    RTC_REG_C = 12,
    RTC_REG_D = 13,
    RTC_CENTURY = 0x32,
};
enum {
    RTC_B_SET = 0x80,
    RTC_B_PIE = 0x40,
    RTC_B_AIE = 0x20,
    RTC_B_UIE = 0x10,
    RTC_B_SQWE = 0x08,
    RTC_B_BINARY = 0x04,
    RTC_B_24H = 0x02,
};

/* Writes seconds since 1970 into the time registers, in the format that register B asks for. */
void rtc_time_encode(uint8_t *cmos, int64_t seconds);
/* The opposite. Whatever the registers hold, the result is a time between the years 0 and 16,665. */
int64_t rtc_time_decode(const uint8_t *cmos);
/* The first time after `after` at which the alarm registers match; they repeat within a day, or never match: -1. */
int64_t rtc_time_next_alarm(const uint8_t *cmos, int64_t after);

#endif
