/*
 * What the parts of the test guest's ring-3 program know of one another.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef TESTS_GUEST_GUEST_H
#define TESTS_GUEST_GUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/guest/layout.h"

/* boot.S */
extern volatile uint64_t timer_ticks, serial_interrupts, virtio_interrupts;
extern volatile uint64_t virtio_isr; /* address of the register that ends an INTx; 0: none */
extern volatile uint32_t cpus_started;
extern const uint8_t ap_trampoline[], ap_trampoline_end[];
uint64_t ring0_call(uint64_t what, uint64_t a, uint64_t b, uint64_t c);

/* main.c: where boot.S enters ring 3 */
void user_main(uint32_t entry, const void *boot_info);
void user_ap_main(uint32_t cpu);
void user_panic(uint64_t vector, uint64_t error, uint64_t rip, uint64_t cr2);

/* Ports and the time stamp counter */
static inline void port_out8(uint16_t port, uint8_t value)
{
    __asm__ volatile("outb %0, %1" : : "a"(value), "Nd"(port) : "memory");
}

static inline void port_out16(uint16_t port, uint16_t value)
{
    __asm__ volatile("outw %0, %1" : : "a"(value), "Nd"(port) : "memory");
}

static inline void port_out32(uint16_t port, uint32_t value)
{
    __asm__ volatile("outl %0, %1" : : "a"(value), "Nd"(port) : "memory");
}

static inline uint8_t port_in8(uint16_t port)
{
    uint8_t value;

    __asm__ volatile("inb %1, %0" : "=a"(value) : "Nd"(port) : "memory");
    return value;
}

static inline uint16_t port_in16(uint16_t port)
{
    uint16_t value;

    __asm__ volatile("inw %1, %0" : "=a"(value) : "Nd"(port) : "memory");
    return value;
}

static inline uint32_t port_in32(uint16_t port)
{
    uint32_t value;

    __asm__ volatile("inl %1, %0" : "=a"(value) : "Nd"(port) : "memory");
    return value;
}

static inline uint64_t read_tsc(void)
{
    uint32_t low, high;

    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
}

/* serial.c: COM1, by interrupt when idle */
void serial_init(void);
void serial_put(const char *text);
void serial_put_unsigned(uint64_t value);
void serial_put_hex(uint64_t value);
/* " NAME=" and the value. */
void serial_put_field(const char *name, uint64_t value);
void serial_put_hex_field(const char *name, uint64_t value);
/* Waits for a line, halting meanwhile; it is cut at `size` - 1 characters. Returns it without its end. */
char *serial_get_line(char *line, size_t size);
/* Whether anything has arrived since the last call; reads no port. */
bool serial_has_news(void);

/* power.c */
/* False: no ACPI registers were found. */
bool power_off(void);
void power_reset(void);
/* Switches off when the button has been pressed and the guest was told to obey it; called while idle. */
void power_poll(void);

/* text.c */
bool text_equal(const char *a, const char *b);
/* Cuts the first word off *text; "" at the end. */
char *text_word(char **text);
/* Decimal or 0x hexadecimal with an optional k, m or g; "max" is all ones. */
bool text_number(const char *word, uint64_t *ret_value);
void text_copy(char *to, const char *from, size_t size);

/* memory-map.c */
typedef struct MemoryRange {
    uint64_t start, end;
    uint32_t type; /* as in e820: 1 is RAM */
} MemoryRange;

void memory_map_init(uint32_t entry, const void *boot_info);
unsigned memory_map_count(void);
const MemoryRange *memory_map_get(unsigned i);
/* The RAM the tests may use: type 1, above the image. */
unsigned memory_map_usable_count(void);
const MemoryRange *memory_map_usable(unsigned i);
/* Start-up facts of the boot protocol. */
typedef struct BootFacts {
    const char *protocol;
    char command_line[512];
    uint64_t initrd, initrd_size, rsdp;
} BootFacts;
const BootFacts *boot_facts(void);

/* cpus.c */
void cpus_init(void);
unsigned cpus_count(void);
/* Level-triggered pin of the I/O APIC to a vector on the boot processor. */
void cpus_route_pin(unsigned pin, unsigned vector);
/* Runs job(cpu, count, opaque) on `count` processors at once, number 0 being the caller. */
void cpus_run(unsigned count, void (*job)(unsigned cpu, unsigned count, void *opaque),
              void *opaque);
void cpus_serve(uint32_t cpu);

/* work.c: walks over pages */
typedef enum { WORK_WRITE, WORK_VERIFY, WORK_HASH, WORK_TOUCH } WorkKind;

typedef struct Work {
    WorkKind kind;
    uint64_t seed, start, length; /* bytes of guest-physical address space; holes are skipped */
    uint64_t step;                /* pages whose number, counted from start, is a multiple of it */
    bool others;                  /* all pages but those */
} Work;

typedef struct WorkResult {
    uint64_t pages, wrong, first_wrong, hash;
} WorkResult;

WorkResult work_run(const Work *work, unsigned cpus);
/* The part of usable range i that lies in [start, start + length), in page numbers; false if there is none. */
bool work_clip(unsigned i, uint64_t start, uint64_t length, uint64_t *ret_first, uint64_t *ret_end);
void work_print_hashes(uint64_t start, uint64_t length);
/* Prints " COUNT*SEED" for each run of usable pages that are what the same seed writes, "?" for none of the seeds. */
void work_classify(uint64_t start, uint64_t length, const uint64_t *seeds, unsigned count);
/* Returns the sum of the words read. */
uint64_t work_random_reads(uint64_t start, uint64_t length, uint64_t count, uint64_t seed);
/* Rewrites the range again and again, checking what the round before wrote, until a line arrives. */
void work_churn(uint64_t start, uint64_t length, uint64_t *ret_rounds, uint64_t *ret_wrong);

/* commands.c: the line protocol */
void commands_run_line(char *line);
void commands_run_script(const char *script);

#endif
