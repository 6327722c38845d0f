/*
 * The MC146818 real-time clock and its CMOS memory.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_TIMER_MC146818RTC_H
#define COWBIRD_HW_TIMER_MC146818RTC_H

#include "hw/i386/isa-bus.h"

#define TYPE_RTC (rtc_get_type())
QOM_DECLARE_FINAL_TYPE(Rtc, rtc, RTC, IsaDeviceClass)

#define RTC_CMOS_SIZE 128

/* A byte of the battery-backed memory, from 14 (0x0e) on; the century is the clock's own. */
void rtc_set_cmos(Rtc *rtc, unsigned index, uint8_t value);

#endif
