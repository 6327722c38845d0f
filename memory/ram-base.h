/*
 * One file that guest RAM is mapped from: its identity, its lease, its private clone. Internal to
 * memory/; the public part is in memory/base-guard.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MEMORY_RAM_BASE_H
#define COWBIRD_MEMORY_RAM_BASE_H

#include "memory/base-guard.h"

#include <sys/stat.h>

bool ram_base_is_same_file(const RamBase *base, dev_t device, ino_t inode);
/* True when a private reflink clone is mapped. */
bool ram_base_is_cloned(const RamBase *base);

/* True when the file can be mapped copy-on-write at all; some file systems (FUSE) refuse. */
bool ram_base_check_mappable(RamBase *base, GError **errp);

/*
 * Take a read lease, which makes the kernel hold up who opens the file for writing and send us
 * @signal. May be repeated. The error says why it cannot be had.
 */
bool ram_base_take_lease(RamBase *base, int signal, GError **errp);
void ram_base_drop_lease(RamBase *base);
/* Somebody is being held up by the lease. */
bool ram_base_lease_breaking(const RamBase *base);
/*
 * When that was seen first (monotonic time), to be asked as soon as it is; *ret_then: what the file was at that time.
 * What the kernel lets happen to it later counts from then on.
 */
gint64 ram_base_break_began(RamBase *base, struct stat *ret_then);
/* Nothing can be done for who waits: from now on ram_base_lease_breaking() is false. */
void ram_base_give_up(RamBase *base);

/*
 * Nothing guards the file: RAM has to be detached from it before anybody changes it. That ends with the
 * detach, with a clone, and when the file has lost its last name: nobody can open it any more then.
 */
void ram_base_want_drain(RamBase *base, bool wanted);
bool ram_base_wants_drain(const RamBase *base);
/* The file has lost its last name since it was opened, so that nobody can open it any more. */
bool ram_base_is_unlinked(const RamBase *base);

/*
 * A reflink clone of the file, without a name and read-only; -1 with an error where the file system
 * cannot or the folder may not be written. The caller owns the descriptor.
 */
int ram_base_make_clone(RamBase *base, GError **errp);
/* From now on @clone_fd (taken over) is what is mapped; the lease is let go. */
void ram_base_use_clone(RamBase *base, int clone_fd);

/* Device, inode, size and mtime as they are now; and whether they still are. */
struct stat ram_base_identity(const RamBase *base);
bool ram_base_check_same(const RamBase *base, const struct stat *then, GError **errp);

/* Bytes the mapped file has now after @offset; as many as one likes when it cannot be told. */
uint64_t ram_base_bytes_from(const RamBase *base, uint64_t offset);

#endif
