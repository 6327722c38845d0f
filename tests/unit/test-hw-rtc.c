/*
 * Tests of the real-time clock: formats, setting, alarm, periodic and update interrupts, saved state.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/timer/rtc-time.h"

#include "hw-fixture.h"

#define IRQ 8
#define SECOND CLOCK_NS_PER_SECOND
#define START INT64_C(1700000000) /* 2023-11-14 22:13:20 */

static Board *start(bool slew)
{
    RtcConfig config = {
        .base = RTC_BASE_DATE, .start = START, .clock = RTC_CLOCK_VM, .slew = slew
    };

    return board_new(16 * MiB, &config);
}

static uint8_t get(Board *b, uint8_t reg)
{
    board_out(b, 0x70, reg, 1);
    return (uint8_t)board_in(b, 0x71, 1);
}

static void set(Board *b, uint8_t reg, uint8_t value)
{
    board_out(b, 0x70, reg, 1);
    board_out(b, 0x71, value, 1);
}

static void advance(Board *b, int64_t ns)
{
    vm_clock_advance(b->m->clock, ns);
}

static void test_reading(void)
{
    Board *b = start(false);

    g_assert_cmphex(get(b, RTC_SECONDS), ==, 0x20);
    g_assert_cmphex(get(b, RTC_MINUTES), ==, 0x13);
    g_assert_cmphex(get(b, RTC_HOURS), ==, 0x22);
    g_assert_cmphex(get(b, RTC_DAY_OF_MONTH), ==, 0x14);
    g_assert_cmphex(get(b, RTC_MONTH), ==, 0x11);
    g_assert_cmphex(get(b, RTC_YEAR), ==, 0x23);
    g_assert_cmphex(get(b, RTC_CENTURY), ==, 0x20);
    g_assert_cmphex(get(b, RTC_DAY_OF_WEEK), ==, 3);
    g_assert_cmphex(get(b, RTC_REG_D), ==, 0x80);
    advance(b, 100 * SECOND);
    g_assert_cmphex(get(b, RTC_MINUTES), ==, 0x15);
    g_assert_cmphex(get(b, RTC_SECONDS), ==, 0x00);
    set(b, RTC_REG_B, RTC_B_BINARY); /* 12 hours, binary */
    g_assert_cmphex(get(b, RTC_HOURS), ==, 0x8a);
    board_free(b);
}

static void test_update_in_progress(void)
{
    Board *b = start(false);

    g_assert_cmphex(get(b, RTC_REG_A) & 0x80, ==, 0);
    advance(b, SECOND - 100000);
    g_assert_cmphex(get(b, RTC_REG_A) & 0x80, ==, 0x80);
    advance(b, 100000);
    g_assert_cmphex(get(b, RTC_REG_A) & 0x80, ==, 0);
    board_free(b);
}

static void test_setting(void)
{
    Board *b = start(false);

    set(b, RTC_REG_B, RTC_B_24H | RTC_B_SET);
    set(b, RTC_YEAR, 0x99);
    set(b, RTC_CENTURY, 0x19);
    set(b, RTC_MONTH, 0x12);
    set(b, RTC_DAY_OF_MONTH, 0x31);
    set(b, RTC_HOURS, 0x23);
    set(b, RTC_MINUTES, 0x59);
    set(b, RTC_SECONDS, 0x59);
    advance(b, 5 * SECOND); /* held */
    g_assert_cmphex(get(b, RTC_SECONDS), ==, 0x59);
    g_assert_cmpuint(b->events->len, ==, 0);
    set(b, RTC_REG_B, RTC_B_24H);
    g_assert_cmpstr(g_ptr_array_index(b->events, 0), ==, "RTC_CHANGE");
    advance(b, SECOND);
    g_assert_cmphex(get(b, RTC_YEAR), ==, 0x00);
    g_assert_cmphex(get(b, RTC_CENTURY), ==, 0x20);
    g_assert_cmphex(get(b, RTC_MONTH), ==, 0x01);
    board_free(b);
}

static void test_update_interrupt(void)
{
    Board *b = start(false);

    set(b, RTC_REG_B, RTC_B_24H | RTC_B_UIE);
    get(b, RTC_REG_C);
    advance(b, SECOND + 1);
    g_assert_cmpint(b->levels[IRQ], ==, 1);
    g_assert_cmphex(get(b, RTC_REG_C) & 0xb0, ==, 0x90);
    g_assert_cmpint(b->levels[IRQ], ==, 0);
    g_assert_cmphex(get(b, RTC_REG_C), ==, 0);
    board_free(b);
}

static void test_alarm(void)
{
    Board *b = start(false);

    set(b, RTC_SECONDS_ALARM, 0x05);
    set(b, RTC_MINUTES_ALARM, 0x00);
    set(b, RTC_HOURS_ALARM, 0x02);
    set(b, RTC_REG_B, RTC_B_24H | RTC_B_AIE);
    get(b, RTC_REG_C);
    advance(b, 3 * 3600 * SECOND); /* 01:13:20 */
    g_assert_cmpint(b->levels[IRQ], ==, 0);
    advance(b, 3600 * SECOND);
    g_assert_cmpint(b->levels[IRQ], ==, 1);
    g_assert_cmphex(get(b, RTC_REG_C) & 0xa0, ==, 0xa0);
    board_free(b);
}

static void test_periodic(void)
{
    Board *b = start(false);
    unsigned seen = 0;

    set(b, RTC_REG_A, 0x26); /* 1024 Hz */
    set(b, RTC_REG_B, RTC_B_24H | RTC_B_PIE);
    for (int i = 0; i < 1024; i++) {
        advance(b, SECOND / 1024);
        seen += (get(b, RTC_REG_C) & 0xc0) == 0xc0;
    }
    g_assert_cmpuint(seen, >=, 1022);
    g_assert_cmpuint(seen, <=, 1025);
    set(b, RTC_REG_B, RTC_B_24H);
    advance(b, SECOND);
    g_assert_cmpint(b->levels[IRQ], ==, 0);
    board_free(b);
}

/* With driftfix=slew the guest gets every tick, however late it takes them. */
static void test_slew(void)
{
    Board *b = start(true);
    unsigned before, seen = 0;

    set(b, RTC_REG_A, 0x2a); /* 64 Hz */
    set(b, RTC_REG_B, RTC_B_24H | RTC_B_PIE);
    get(b, RTC_REG_C);
    advance(b, SECOND); /* 64 ticks, none taken */
    before = b->edges[IRQ];
    for (int i = 0; i < 640; i++) {
        seen += get(b, RTC_REG_C) >> 7;
        advance(b, SECOND / 640);
    }
    g_assert_cmpuint(before, ==, 1);
    g_assert_cmpuint(seen, >=, 126);
    g_assert_cmpuint(seen, <=, 129);
    board_free(b);
}

static void test_cmos(void)
{
    Board *b = board_new(512 * MiB, NULL);

    g_assert_cmphex(get(b, 0x15), ==, 0x80);
    g_assert_cmphex(get(b, 0x16), ==, 0x02);
    g_assert_cmphex(get(b, 0x34) | get(b, 0x35) << 8, ==, (512 - 16) * 16);
    g_assert_cmphex(get(b, 0x5f), ==, 1);
    set(b, 0x7f, 0xaa);
    reset_run(b->m->resets);
    g_assert_cmphex(get(b, 0x7f), ==, 0xaa); /* the battery */
    board_free(b);
}

static void test_state(void)
{
    Board *a = start(false), *b = start(false);
    g_autoptr(GError) err = NULL;

    set(a, RTC_HOURS, 0x05);
    set(a, RTC_REG_B, RTC_B_24H | RTC_B_UIE);
    advance(a, 10 * SECOND);
    board_copy_state(a, b, &err);
    g_assert_no_error(err);
    g_assert_cmphex(get(b, RTC_HOURS), ==, 0x05);
    g_assert_cmphex(get(b, RTC_SECONDS), ==, get(a, RTC_SECONDS));
    get(b, RTC_REG_C);
    advance(b, 2 * SECOND);
    g_assert_cmpint(b->levels[IRQ], ==, 1);
    board_free(a);
    board_free(b);
}

/* Every value of every register decodes to some time, and encoding what was decoded is the identity. */
static void test_formats(void)
{
    static const uint8_t formats[] = { 0, RTC_B_24H, RTC_B_BINARY, RTC_B_24H | RTC_B_BINARY };

    for (unsigned f = 0; f < G_N_ELEMENTS(formats); f++) {
        uint8_t cmos[128] = { [RTC_REG_B] = formats[f] };

        for (int64_t t = -2000000000; t < 4000000000; t += 86399 * 7) {
            rtc_time_encode(cmos, t);
            g_assert_cmpint(rtc_time_decode(cmos), ==, t);
        }
        for (unsigned i = 0; i < 10000; i++) {
            for (unsigned r = 0; r < RTC_REG_A; r++) {
                cmos[r] = (uint8_t)g_test_rand_int();
            }
            cmos[RTC_CENTURY] = (uint8_t)g_test_rand_int();
            rtc_time_decode(cmos);
            rtc_time_next_alarm(cmos, g_test_rand_int());
        }
    }
}

/* The next alarm agrees with trying second after second. */
static void test_next_alarm(void)
{
    uint8_t cmos[128] = { [RTC_REG_B] = RTC_B_24H | RTC_B_BINARY };

    for (unsigned i = 0; i < 50; i++) {
        int64_t from = START + g_test_rand_int_range(0, 100000), want = -1, got;

        cmos[RTC_HOURS_ALARM] = i % 3 ? 0xff : (uint8_t)g_test_rand_int_range(0, 25);
        cmos[RTC_MINUTES_ALARM] = i % 2 ? 0xc0 : (uint8_t)g_test_rand_int_range(0, 60);
        cmos[RTC_SECONDS_ALARM] = i % 5 ? (uint8_t)g_test_rand_int_range(0, 60) : 0xff;
        for (int64_t t = from + 1; want < 0 && t <= from + 86400; t++) {
            unsigned h = (unsigned)(t / 3600 % 24), m = (unsigned)(t / 60 % 60);
            unsigned s = (unsigned)(t % 60);

            if ((cmos[RTC_HOURS_ALARM] >= 0xc0 || cmos[RTC_HOURS_ALARM] == h) &&
                (cmos[RTC_MINUTES_ALARM] >= 0xc0 || cmos[RTC_MINUTES_ALARM] == m) &&
                (cmos[RTC_SECONDS_ALARM] >= 0xc0 || cmos[RTC_SECONDS_ALARM] == s)) {
                want = t;
            }
        }
        got = rtc_time_next_alarm(cmos, from);
        g_assert_cmpint(got, ==, want);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/rtc/reading", test_reading);
    g_test_add_func("/rtc/update-in-progress", test_update_in_progress);
    g_test_add_func("/rtc/setting", test_setting);
    g_test_add_func("/rtc/update-interrupt", test_update_interrupt);
    g_test_add_func("/rtc/alarm", test_alarm);
    g_test_add_func("/rtc/periodic", test_periodic);
    g_test_add_func("/rtc/slew", test_slew);
    g_test_add_func("/rtc/cmos", test_cmos);
    g_test_add_func("/rtc/state", test_state);
    g_test_add_func("/rtc/formats", test_formats);
    g_test_add_func("/rtc/next-alarm", test_next_alarm);
    return g_test_run();
}
