/*
 * Building and encoding the memory map.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "hw/i386/e820.h"

#include <glib.h>

#include "util/le.h"

void e820_add(E820Table *table, uint64_t base, uint64_t size, E820Type type)
{
    if (size) {
        g_assert(table->count < E820_MAX);
        table->entries[table->count++] = (E820Entry){ .base = base, .size = size, .type = type };
    }
}

void e820_encode(const E820Table *table, uint8_t *out)
{
    for (unsigned i = 0; i < table->count; i++) {
        put_le64(out, table->entries[i].base);
        put_le64(out + 8, table->entries[i].size);
        put_le32(out + 16, table->entries[i].type);
        out += E820_ENTRY_BYTES;
    }
}
