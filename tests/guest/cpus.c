/*
 * The processors of the test guest: local APIC and I/O APIC by MMIO from ring 3, starting the others, sharing work.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "tests/guest/guest.h"

#define APIC_ID 0x20
#define APIC_SPURIOUS 0xf0
#define APIC_ICR_LOW 0x300
#define APIC_LVT_TIMER 0x320
#define APIC_LVT_LINT1 0x360
#define LVT_NMI 0x400
#define APIC_TIMER_INITIAL 0x380
#define APIC_TIMER_DIVIDE 0x3e0
#define ICR_ALL_BUT_SELF 0xc0000u
#define ICR_ASSERT 0x4000u
#define ICR_INIT 0x500u
#define ICR_STARTUP 0x600u
#define TIMER_PERIODIC 0x20000u
/* 50 Hz where the APIC runs at 1 GHz, as KVM's and QEMU's do. */
#define TIMER_COUNT 1250000u
#define SERIAL_PIN 4
#define PIN_LEVEL 0x8000u
#define START_LIMIT_CYCLES 4000000000ull

static struct {
    volatile uint64_t number; /* of the job; processors halt until it changes */
    volatile uint32_t running;
    unsigned count;
    void (*run)(unsigned cpu, unsigned count, void *opaque);
    void *opaque;
} job;

static unsigned cpu_count = 1;

static volatile uint32_t *apic(uint32_t offset)
{
    return (volatile uint32_t *)(uintptr_t)(APIC_BASE + offset);
}

static void ioapic_write(uint32_t index, uint32_t value)
{
    *(volatile uint32_t *)(uintptr_t)IOAPIC_BASE = index;
    *(volatile uint32_t *)(uintptr_t)(IOAPIC_BASE + 0x10) = value;
}

static void apic_enable(void)
{
    *apic(APIC_SPURIOUS) = 0x100 | VECTOR_SPURIOUS;
    *apic(APIC_LVT_LINT1) = LVT_NMI;
}

static uint16_t fw_cfg_cpu_count(void)
{
    uint16_t low;

    port_out16(0x510, 5);
    low = port_in8(0x511);
    return (uint16_t)(low | port_in8(0x511) << 8);
}

static void start_others(void)
{
    uint64_t limit;
    unsigned wanted = fw_cfg_cpu_count();

    if (wanted < 2 || wanted > MAX_CPUS) {
        return;
    }
    for (unsigned i = 0; i < (unsigned)(ap_trampoline_end - ap_trampoline); i++) {
        ((volatile uint8_t *)TRAMPOLINE)[i] = ap_trampoline[i];
    }
    *apic(APIC_ICR_LOW) = ICR_ALL_BUT_SELF | ICR_ASSERT | ICR_INIT;
    limit = read_tsc() + START_LIMIT_CYCLES;
    while (cpus_started < wanted && read_tsc() < limit) {
        uint64_t again = read_tsc() + START_LIMIT_CYCLES / 40;

        *apic(APIC_ICR_LOW) = ICR_ALL_BUT_SELF | ICR_ASSERT | ICR_STARTUP | TRAMPOLINE >> 12;
        while (cpus_started < wanted && read_tsc() < again) {
            __asm__ volatile("pause");
        }
    }
    cpu_count = cpus_started;
}

void cpus_init(void)
{
    apic_enable();
    ioapic_write(0x11 + 2 * SERIAL_PIN, *apic(APIC_ID));
    ioapic_write(0x10 + 2 * SERIAL_PIN, VECTOR_SERIAL);
    *apic(APIC_TIMER_DIVIDE) = 3; /* by 16 */
    *apic(APIC_LVT_TIMER) = TIMER_PERIODIC | VECTOR_TIMER;
    *apic(APIC_TIMER_INITIAL) = TIMER_COUNT;
    start_others();
}

void cpus_route_pin(unsigned pin, unsigned vector)
{
    ioapic_write(0x11 + 2 * pin, *apic(APIC_ID));
    ioapic_write(0x10 + 2 * pin, PIN_LEVEL | vector);
}

unsigned cpus_count(void)
{
    return cpu_count;
}

void cpus_run(unsigned count, void (*run)(unsigned cpu, unsigned count, void *opaque), void *opaque)
{
    if (count > 1) {
        job.count = count;
        job.run = run;
        job.opaque = opaque;
        __atomic_store_n(&job.running, cpu_count - 1, __ATOMIC_RELEASE);
        __atomic_add_fetch(&job.number, 1, __ATOMIC_RELEASE);
        *apic(APIC_ICR_LOW) = ICR_ALL_BUT_SELF | ICR_ASSERT | VECTOR_WAKE;
    }
    run(0, count, opaque);
    while (count > 1 && __atomic_load_n(&job.running, __ATOMIC_ACQUIRE) > 0) {
        __asm__ volatile("pause");
    }
}

void cpus_serve(uint32_t cpu)
{
    uint64_t done = 0;

    apic_enable();
    for (;;) {
        while (__atomic_load_n(&job.number, __ATOMIC_ACQUIRE) == done) {
            ring0_call(RING0_WAIT, (uintptr_t)&job.number, done, 0);
        }
        done++;
        if (cpu < job.count) {
            job.run(cpu, job.count, job.opaque);
        }
        __atomic_sub_fetch(&job.running, 1, __ATOMIC_RELEASE);
    }
}
