/*
 * The only way by which a device touches guest RAM: checked copies, and iovecs for I/O.
 *
 * Each 2 MiB chunk of a block counts the accesses under way. Who moves a chunk to other memory
 * (memory/base-guard.c) takes only chunks at rest; an access to a chunk that is being moved waits.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MEMORY_GUEST_ACCESS_H
#define COWBIRD_MEMORY_GUEST_ACCESS_H

#include "memory/address-map.h"

#include <sys/uio.h>

/*
 * Copy @len bytes from or to guest RAM at @gpa, across ranges. False, with nothing promised about
 * the contents of the buffer, when some byte is not RAM (a write: not writable RAM) or was lost with
 * its file. A failing write may have written a part before the bad address.
 */
bool guest_read(AddressMap *map, uint64_t gpa, void *buf, size_t len);
bool guest_write(AddressMap *map, uint64_t gpa, const void *buf, size_t len);
/* The same for a run of one byte value. */
bool guest_fill(AddressMap *map, uint64_t gpa, uint8_t value, size_t len);

/* Little-endian numbers, as all structures of PCI and virtio 1 hold them. */
bool guest_read_le16(AddressMap *map, uint64_t gpa, uint16_t *ret_value);
bool guest_read_le32(AddressMap *map, uint64_t gpa, uint32_t *ret_value);
bool guest_read_le64(AddressMap *map, uint64_t gpa, uint64_t *ret_value);
bool guest_write_le16(AddressMap *map, uint64_t gpa, uint16_t value);
bool guest_write_le32(AddressMap *map, uint64_t gpa, uint32_t value);
bool guest_write_le64(AddressMap *map, uint64_t gpa, uint64_t value);

/*
 * Host addresses of guest RAM for I/O: fills in at most @max elements of @iov for the @len bytes at
 * @gpa and counts the I/O as under way in each chunk. False (nothing counted) when some byte is not
 * RAM, not writable though @for_write, or @max is too small. Every success is followed by one
 * guest_unmap_iov() with the same elements when the I/O has ended, from any thread.
 */
bool guest_map_iov(AddressMap *map, uint64_t gpa, size_t len, bool for_write, struct iovec *iov,
                   unsigned max, unsigned *ret_count);
void guest_unmap_iov(AddressMap *map, const struct iovec *iov, unsigned count);

/*
 * To be called when a system call given guest RAM failed with EFAULT: a page may be lost with its
 * file. True = it is, and the VM is being stopped; false = the error has another cause.
 */
bool guest_iov_fault(AddressMap *map, const struct iovec *iov, unsigned count);

/* --- For those who move chunks (memory/ only) --- */

/* Begin and end an access to [offset, offset + len) of a block: waits while a chunk is moved. */
void ram_access_begin(RamBlock *block, uint64_t offset, uint64_t len);
void ram_access_end(RamBlock *block, uint64_t offset, uint64_t len);
/* Claim a chunk for moving: false = an access is under way, try again later. */
bool ram_chunk_try_claim(RamBlock *block, uint64_t chunk);
/* Nothing is under way in the chunk at this moment. */
bool ram_chunk_is_idle(const RamBlock *block, uint64_t chunk);
void ram_chunk_unclaim(RamBlock *block, uint64_t chunk);

#endif
