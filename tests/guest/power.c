/*
 * Power of the test guest: the ACPI power button, switching off, resetting (ACPI 6.4, 4.8.3; PIIX4 data sheet for where
 * the registers are).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "tests/guest/commands.h"
#include "tests/guest/guest.h"
#include "tests/guest/pci.h"

#define INTEL 0x8086
#define PIIX4_PM 0x7113
#define PM_BASE 0x40
#define PM1_STATUS 0
#define PM1_ENABLE 2
#define PM1_CONTROL 4
#define POWER_BUTTON 0x100
#define SLEEP_TYPE_OFF (0 << 10) /* as the machine's _S5 says */
#define SLEEP_ENABLE 0x2000
#define KEYBOARD_COMMAND 0x64
#define PULSE_RESET 0xfe

/* First port of the ACPI registers; 0: the button is not obeyed. */
static uint16_t watched;

static uint16_t find_registers(void)
{
    int devfn = pci_find(INTEL, PIIX4_PM, PIIX4_PM);

    return devfn < 0 ? 0 : (uint16_t)(pci_read32((unsigned)devfn, PM_BASE) & 0xffc0);
}

bool power_off(void)
{
    uint16_t base = find_registers();

    if (base == 0) {
        return false;
    }
    port_out16(base + PM1_CONTROL, SLEEP_TYPE_OFF | SLEEP_ENABLE);
    return true;
}

void power_reset(void)
{
    port_out8(KEYBOARD_COMMAND, PULSE_RESET);
}

void power_poll(void)
{
    if (watched == 0 || (port_in16(watched + PM1_STATUS) & POWER_BUTTON) == 0) {
        return;
    }
    port_out16(watched + PM1_STATUS, POWER_BUTTON);
    serial_put("power button\n");
    power_off();
}

static void run_button(const Command *command, const uint64_t *arguments, unsigned count)
{
    watched = arguments[0] != 0 ? find_registers() : 0;
    if (watched != 0) {
        port_out16(watched + PM1_STATUS, POWER_BUTTON);
        port_out16(watched + PM1_ENABLE, POWER_BUTTON);
    }
    serial_put_hex_field("registers", watched);
}

static void run_off(const Command *command, const uint64_t *arguments, unsigned count)
{
    power_off();
}

static void run_reset(const Command *command, const uint64_t *arguments, unsigned count)
{
    power_reset();
}

const Command power_commands[] = {
    { "power-button", 1, 1, run_button },
    { "power-off", 0, 0, run_off },
    { "reset", 0, 0, run_reset },
    { 0 },
};
