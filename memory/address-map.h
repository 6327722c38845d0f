/*
 * What lies where in an address space of the guest: RAM, ROM and registers of devices, for guest
 * memory as for port I/O. Ranges never overlap. Accesses are dispatched here; who mirrors the layout
 * elsewhere (KVM's memory slots) listens.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MEMORY_ADDRESS_MAP_H
#define COWBIRD_MEMORY_ADDRESS_MAP_H

#include "memory/ram-block.h"

typedef struct AddressMap AddressMap;

/*
 * Registers of a device. Offsets are relative to the range. The map calls with sizes between
 * min_size and max_size (0 = 1 and 8), powers of two: a larger access is split into several calls in
 * ascending order, a smaller one reads a min_size unit around it and, for a write, is widened with
 * the value at its place and zeros beside it. Values are little-endian numbers.
 */
typedef struct IoOps {
    uint64_t (*read)(void *opaque, uint64_t offset, unsigned size);
    void (*write)(void *opaque, uint64_t offset, uint64_t value, unsigned size);
    unsigned min_size;
    unsigned max_size;
} IoOps;

typedef enum AddressKind { ADDRESS_RAM, ADDRESS_IO } AddressKind;

typedef struct AddressRange {
    uint64_t base;
    uint64_t size;
    AddressKind kind;
    /* ADDRESS_RAM */
    RamBlock *block;
    uint64_t block_offset;
    bool readonly; /* writes of the guest are dropped */
    /* ADDRESS_IO */
    const char *name; /* interned */
    const IoOps *ops;
    void *opaque;
} AddressRange;

/*
 * Told of each change as a whole, after it is in effect: all ranges gone, then all ranges new, both
 * in ascending order. Called with no lock of the map held, on the thread that changed it.
 */
typedef struct AddressMapListener {
    void (*commit)(void *opaque, const AddressRange *removed, size_t n_removed,
                   const AddressRange *added, size_t n_added);
    void *opaque;
} AddressMapListener;

/* @bits: width of an address, 16 for port I/O. */
AddressMap *address_map_new(const char *name, unsigned bits);
void address_map_free(AddressMap *map);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(AddressMap, address_map_free)

/*
 * All add functions refuse an overlap, an empty range and one that does not fit the address width;
 * the error names both ranges. A RAM range must lie on page boundaries and inside its block.
 */
bool address_map_add_ram(AddressMap *map, uint64_t base, RamBlock *block, uint64_t block_offset,
                         uint64_t size, bool readonly, GError **errp);
bool address_map_add_io(AddressMap *map, uint64_t base, uint64_t size, const char *name,
                        const IoOps *ops, void *opaque, GError **errp);
/* Remove the range that starts at @base; none there = nothing happens. */
void address_map_remove(AddressMap *map, uint64_t base);

/* Changes between begin and the outermost commit reach listeners as one. May nest. */
void address_map_begin(AddressMap *map);
void address_map_commit(AddressMap *map);

/* A new listener is told at once of all that is there. */
void address_map_add_listener(AddressMap *map, const AddressMapListener *listener);
void address_map_remove_listener(AddressMap *map, void *opaque);

/*
 * One access of a CPU, at most 8 bytes of little-endian @data, which may cross ranges. Where nothing
 * is, reads give 0xff bytes and writes go nowhere; the functions then return false.
 */
bool address_map_read(AddressMap *map, uint64_t addr, void *data, unsigned len);
bool address_map_write(AddressMap *map, uint64_t addr, const void *data, unsigned len);

/* True when @addr lies in RAM or ROM: KVM must never report such an address as MMIO read. */
bool address_map_is_ram(AddressMap *map, uint64_t addr);

/* A copy of the range around @addr; false when there is none. */
bool address_map_find(AddressMap *map, uint64_t addr, AddressRange *ret_range);

/* The block in which a host address lies that some RAM range of the map has shown; NULL = none. */
RamBlock *address_map_block_of_host(AddressMap *map, const void *host, uint64_t *ret_offset);

unsigned address_map_count(AddressMap *map);

#endif
