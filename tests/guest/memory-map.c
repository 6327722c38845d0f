/*
 * What the boot protocol told: memory map, command line, initrd, ACPI. Copied out at start, since the tests overwrite all RAM.
 *
 * The layouts are those of the PVH start info (Xen's public/arch-x86/hvm/start_info.h) and of the Linux boot_params (zero
 * page, Documentation/arch/x86/zero-page.rst).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "tests/guest/guest.h"

#define MAX_RANGES 64
#define PVH_MAGIC 0x336ec578

typedef struct PvhStartInfo {
    uint32_t magic, version, flags, module_count;
    uint64_t modules, command_line, rsdp, memory_map;
    uint32_t memory_map_entries, reserved;
} PvhStartInfo;

typedef struct PvhModule {
    uint64_t address, size, command_line, reserved;
} PvhModule;

typedef struct PvhMemoryEntry {
    uint64_t address, size;
    uint32_t type, reserved;
} PvhMemoryEntry;

typedef struct __attribute__((packed)) E820Entry {
    uint64_t address, size;
    uint32_t type;
} E820Entry;

static MemoryRange ranges[MAX_RANGES], usable[MAX_RANGES];
static unsigned range_count, usable_count;
static BootFacts facts;

static void add_range(uint64_t start, uint64_t size, uint32_t type)
{
    uint64_t end = start + size;

    if (range_count == MAX_RANGES) {
        return;
    }
    ranges[range_count++] = (MemoryRange){ start, end, type };
    start = start < IMAGE_LIMIT ? IMAGE_LIMIT : (start + 0xfff) & ~0xfffull;
    end &= ~0xfffull;
    if (type == 1 && start < end) {
        usable[usable_count++] = (MemoryRange){ start, end, type };
    }
}

static void read_pvh(const PvhStartInfo *info)
{
    const PvhMemoryEntry *entry = (const void *)info->memory_map;

    facts.protocol = info->magic == PVH_MAGIC ? "pvh" : "pvh-without-magic";
    facts.rsdp = info->rsdp;
    if (info->command_line != 0) {
        text_copy(facts.command_line, (const char *)info->command_line, sizeof(facts.command_line));
    }
    if (info->module_count > 0) {
        const PvhModule *module = (const void *)info->modules;

        facts.initrd = module->address;
        facts.initrd_size = module->size;
    }
    for (uint32_t i = 0; info->version >= 1 && i < info->memory_map_entries; i++, entry++) {
        add_range(entry->address, entry->size, entry->type);
    }
}

static uint32_t get_u32(const uint8_t *at)
{
    return *(const uint32_t *)at;
}

static void read_boot_params(const uint8_t *params)
{
    const E820Entry *entry = (const void *)(params + 0x2d0);
    const char *command_line;

    facts.protocol = "linux64";
    facts.rsdp = *(const uint64_t *)(params + 0x70);
    facts.initrd = get_u32(params + 0x218) | (uint64_t)get_u32(params + 0xc0) << 32;
    facts.initrd_size = get_u32(params + 0x21c) | (uint64_t)get_u32(params + 0xc4) << 32;
    command_line = (const char *)(get_u32(params + 0x228) | (uint64_t)get_u32(params + 0xc8) << 32);
    if (command_line != NULL) {
        text_copy(facts.command_line, command_line, sizeof(facts.command_line));
    }
    for (unsigned i = 0; i < params[0x1e8]; i++, entry++) {
        add_range(entry->address, entry->size, entry->type);
    }
}

void memory_map_init(uint32_t entry, const void *boot_info)
{
    if (entry == ENTRY_PVH) {
        read_pvh(boot_info);
    } else {
        read_boot_params(boot_info);
    }
}

unsigned memory_map_count(void)
{
    return range_count;
}

const MemoryRange *memory_map_get(unsigned i)
{
    return &ranges[i];
}

unsigned memory_map_usable_count(void)
{
    return usable_count;
}

const MemoryRange *memory_map_usable(unsigned i)
{
    return &usable[i];
}

const BootFacts *boot_facts(void)
{
    return &facts;
}
