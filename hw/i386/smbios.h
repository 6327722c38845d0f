/*
 * SMBIOS: what the machine calls itself, its processors and memory.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_HW_I386_SMBIOS_H
#define COWBIRD_HW_I386_SMBIOS_H

#include <glib.h>
#include <stdint.h>

#include "util/uuid.h"

typedef struct SmbiosConfig {
    const char *product, *version; /* of the machine */
    Uuid uuid;
    uint64_t below_4g, above_4g;
    unsigned sockets, cores, threads; /* cores and threads of one socket; threads in all */
} SmbiosConfig;

#define SMBIOS_ANCHOR_21_SIZE 31 /* "_SM_", for tables below 4 GiB and 64 KiB */
#define SMBIOS_ANCHOR_30_SIZE 24 /* "_SM3_" */

typedef struct SmbiosTables {
    GByteArray *bytes;
    unsigned count;   /* structures */
    unsigned longest; /* bytes of the longest one, strings included */
} SmbiosTables;

SmbiosTables *smbios_tables_new(const SmbiosConfig *config);
void smbios_tables_free(SmbiosTables *t);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SmbiosTables, smbios_tables_free)

/* Entry points for tables at that address; the 2.1 form says version 2.8. */
void smbios_anchor_21(const SmbiosTables *t, uint32_t address, uint8_t out[SMBIOS_ANCHOR_21_SIZE]);
void smbios_anchor_30(const SmbiosTables *t, uint64_t address, uint8_t out[SMBIOS_ANCHOR_30_SIZE]);

#endif
