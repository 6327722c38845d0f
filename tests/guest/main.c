/*
 * The test guest's ring-3 program: start, main loop, and the report of an exception.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "tests/guest/guest.h"

static uint64_t usable_pages(void)
{
    uint64_t pages = 0;

    for (unsigned i = 0; i < memory_map_usable_count(); i++) {
        const MemoryRange *range = memory_map_usable(i);

        pages += (range->end - range->start) / 4096;
    }
    return pages;
}

void user_main(uint32_t entry, const void *boot_info)
{
    char line[LINE_SIZE];

    memory_map_init(entry, boot_info);
    serial_init();
    cpus_init();
    serial_put("\nready protocol=");
    serial_put(boot_facts()->protocol);
    serial_put_field("cpus", cpus_count());
    serial_put_field("pages", usable_pages());
    serial_put("\n");
    commands_run_script(boot_facts()->command_line);
    for (;;) {
        commands_run_line(serial_get_line(line, sizeof(line)));
    }
}

void user_ap_main(uint32_t cpu)
{
    cpus_serve(cpu);
}

void user_panic(uint64_t vector, uint64_t error, uint64_t rip, uint64_t cr2)
{
    serial_put("\npanic");
    serial_put_field("vector", vector);
    serial_put_hex_field("error", error);
    serial_put_hex_field("rip", rip);
    serial_put_hex_field("cr2", cr2);
    serial_put("\n");
    ring0_call(RING0_DIE, 0, 0, 0);
}
