/*
 * PCI for the test guest: configuration space by ports 0xcf8 and 0xcfc, base addresses, capabilities.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "tests/guest/commands.h"
#include "tests/guest/guest.h"
#include "tests/guest/pci.h"

#define CONFIG_ADDRESS 0xcf8
#define CONFIG_DATA 0xcfc
#define BAR_IO 0x1
#define BAR_64BIT 0x4
/* Where registers go that the firmware or the VMM has left at zero. */
#define FREE_MEMORY 0xf0000000u
#define FREE_PORTS 0xd000u

static uint64_t free_memory = FREE_MEMORY;
static uint32_t free_ports = FREE_PORTS;

static void select_register(unsigned devfn, unsigned offset)
{
    port_out32(CONFIG_ADDRESS, 0x80000000u | devfn << 8 | (offset & 0xfc));
}

uint8_t pci_read8(unsigned devfn, unsigned offset)
{
    select_register(devfn, offset);
    return port_in8((uint16_t)(CONFIG_DATA + (offset & 3)));
}

uint16_t pci_read16(unsigned devfn, unsigned offset)
{
    select_register(devfn, offset);
    return port_in16((uint16_t)(CONFIG_DATA + (offset & 2)));
}

uint32_t pci_read32(unsigned devfn, unsigned offset)
{
    select_register(devfn, offset);
    return port_in32(CONFIG_DATA);
}

void pci_write8(unsigned devfn, unsigned offset, uint8_t value)
{
    select_register(devfn, offset);
    port_out8((uint16_t)(CONFIG_DATA + (offset & 3)), value);
}

void pci_write16(unsigned devfn, unsigned offset, uint16_t value)
{
    select_register(devfn, offset);
    port_out16((uint16_t)(CONFIG_DATA + (offset & 2)), value);
}

void pci_write32(unsigned devfn, unsigned offset, uint32_t value)
{
    select_register(devfn, offset);
    port_out32(CONFIG_DATA, value);
}

bool pci_present(unsigned devfn)
{
    bool many = (devfn & 7) == 0 || (pci_read8(devfn & ~7u, PCI_HEADER_TYPE) & 0x80) != 0;

    return many && pci_read16(devfn, 0) != 0xffff;
}

int pci_find(uint16_t vendor, uint16_t device, uint16_t other_device)
{
    for (unsigned devfn = 0; devfn < PCI_DEVFNS; devfn++) {
        uint16_t id;

        if (!pci_present(devfn) || pci_read16(devfn, 0) != vendor) {
            continue;
        }
        id = pci_read16(devfn, 2);
        if (id == device || id == other_device) {
            return (int)devfn;
        }
    }
    return -1;
}

unsigned pci_capability(unsigned devfn, uint8_t kind, unsigned after)
{
    unsigned at = pci_read8(devfn, after == 0 ? PCI_CAPABILITIES : after + 1) & 0xfcu;

    if ((pci_read16(devfn, PCI_STATUS) & 0x10) == 0) {
        return 0;
    }
    for (unsigned hops = 0; at != 0 && hops < 48; hops++) {
        if (pci_read8(devfn, at) == kind) {
            return at;
        }
        at = pci_read8(devfn, at + 1) & 0xfcu;
    }
    return 0;
}

uint64_t pci_bar_size(unsigned devfn, unsigned bar)
{
    unsigned at = PCI_BAR0 + 4 * bar;
    uint16_t command = pci_read16(devfn, PCI_COMMAND);
    uint32_t before = pci_read32(devfn, at), mask;

    pci_write16(devfn, PCI_COMMAND, command & (uint16_t) ~(PCI_COMMAND_IO | PCI_COMMAND_MEMORY));
    pci_write32(devfn, at, 0xffffffffu);
    mask = pci_read32(devfn, at) & ((before & BAR_IO) != 0 ? ~3u : ~15u);
    pci_write32(devfn, at, before);
    pci_write16(devfn, PCI_COMMAND, command);
    return mask & -mask;
}

static void place_bar(unsigned devfn, unsigned bar, bool io)
{
    unsigned at = PCI_BAR0 + 4 * bar;
    uint64_t size = pci_bar_size(devfn, bar);

    if (size == 0) {
        return;
    }
    if (io) {
        free_ports = (free_ports + (uint32_t)size - 1) & ~((uint32_t)size - 1);
        pci_write32(devfn, at, free_ports);
        free_ports += (uint32_t)size;
    } else {
        free_memory = (free_memory + size - 1) & ~(size - 1);
        pci_write32(devfn, at, (uint32_t)free_memory);
        free_memory += size;
    }
}

uint64_t pci_bar(unsigned devfn, unsigned bar, bool *ret_io)
{
    unsigned at = PCI_BAR0 + 4 * bar;
    uint32_t low = pci_read32(devfn, at);
    bool io = (low & BAR_IO) != 0, wide = !io && (low & BAR_64BIT) != 0;
    uint64_t address = low & (io ? ~3u : ~15u);

    if (wide) {
        address |= (uint64_t)pci_read32(devfn, at + 4) << 32;
    }
    if (address == 0) {
        place_bar(devfn, bar, io);
        address = pci_read32(devfn, at) & (io ? ~3u : ~15u);
    }
    if (ret_io != NULL) {
        *ret_io = io;
    }
    return address;
}

void pci_enable(unsigned devfn)
{
    uint16_t command = pci_read16(devfn, PCI_COMMAND);

    pci_write16(devfn, PCI_COMMAND,
                command | PCI_COMMAND_IO | PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER);
}

static void print_bars(unsigned devfn)
{
    char name[] = "bar0";

    for (unsigned bar = 0; bar < PCI_BARS; bar++) {
        uint32_t low = pci_read32(devfn, PCI_BAR0 + 4 * bar);
        uint64_t size = pci_bar_size(devfn, bar);

        if (size != 0) {
            name[3] = (char)('0' + bar);
            serial_put_hex_field(name, low);
            serial_put_field("size", size);
        }
        bar += (low & (BAR_IO | BAR_64BIT)) == BAR_64BIT;
    }
}

/* A line for each function of bus 0. */
static void run_pci(const Command *command, const uint64_t *arguments, unsigned count)
{
    serial_put(" begin\n");
    for (unsigned devfn = 0; devfn < PCI_DEVFNS; devfn++) {
        if (!pci_present(devfn)) {
            continue;
        }
        serial_put_hex(devfn);
        serial_put_hex_field("id", pci_read32(devfn, 0));
        serial_put_hex_field("class", pci_read32(devfn, 8) >> 8);
        serial_put_hex_field("command", pci_read16(devfn, PCI_COMMAND));
        serial_put_field("line", pci_read8(devfn, PCI_INTERRUPT_LINE));
        if ((pci_read8(devfn, PCI_HEADER_TYPE) & 0x7f) == 0) {
            print_bars(devfn);
        }
        serial_put("\n");
    }
    serial_put("end");
}

/* DEVFN OFFSET [VALUE], 32 bits */
static void run_pci_config(const Command *command, const uint64_t *arguments, unsigned count)
{
    unsigned devfn = (unsigned)arguments[0] & 0xff, offset = (unsigned)arguments[1] & 0xfc;

    if (count == 3) {
        pci_write32(devfn, offset, (uint32_t)arguments[2]);
    } else {
        serial_put_hex_field("value", pci_read32(devfn, offset));
    }
}

const Command pci_commands[] = {
    { "pci", 0, 0, run_pci },
    { "pci-config", 2, 3, run_pci_config },
    { 0 },
};
