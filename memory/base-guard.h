/*
 * The files that guest RAM is a copy-on-write mapping of, and what happens to a running VM when
 * somebody else changes them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MEMORY_BASE_GUARD_H
#define COWBIRD_MEMORY_BASE_GUARD_H

#include "memory/ram-block.h"
#include "util/uuid.h"

#include <sys/types.h>

/* Supplied by system/. All functions run on the main loop; any may be NULL. */
typedef struct MemoryControl {
    /* Hold and release the vCPUs for a moment, without any change of the run state. May nest. */
    void (*pause)(void *opaque);
    void (*resume)(void *opaque);
    /* Whether the guest is meant to run now, pauses aside. NULL: as if it always were. */
    bool (*runs)(void *opaque);
    /*
     * Contents of @block at @offset (bytes) are gone, as @reason tells: stop with the run state
     * io-error, send MEMORY_FAILURE and RAM_LOST. Called once. @file: at fault, may be NULL.
     */
    void (*lost)(void *opaque, const char *reason, RamBlock *block, uint64_t offset,
                 const char *file);
    /*
     * The file is about to change and memory cannot be detached from it, for lack of memory or an
     * error: stop with the run state io-error while the VM's memory is right still.
     */
    void (*no_memory)(void *opaque, const char *reason, const char *file);
    /*
     * RAM no longer depends on the file. @reason is a name of the QAPI enum RamDetachReason: "lease-broken",
     * "requested" or "drain". @reflink: a private clone of the file is mapped now, and increments go
     * on as before.
     */
    void (*detached)(void *opaque, const char *file, const char *reason, bool reflink,
                     uint64_t bytes_copied);
    void *opaque;
} MemoryControl;

/*
 * One guard per list of blocks, made at the latest by restore_ram(): installs the handlers for SIGBUS
 * and for broken leases (SIGRTMIN + 5 and SIGIO), watches on the default main context, and opens
 * /proc/self/pagemap. The list owns it. Only the newest guard of a process sees SIGBUS.
 */
BaseGuard *base_guard_new(RamList *list, const MemoryControl *control, GError **errp);
/* Called by ram_list_free(). A detach under way is given up. */
void base_guard_free(BaseGuard *guard);

/*
 * Some page of guest RAM was lost: never publish a snapshot of it, never run it again. Cheap, any
 * thread. Writers of snapshots check it after the last byte was read from RAM.
 */
bool ram_list_is_lost(const RamList *list);

/*
 * To be asked when a vCPU failed in a way that lost memory explains (EFAULT, MEMORY_FAULT, SHUTDOWN,
 * INTERNAL_ERROR): some base is shorter than its ranges. Then the loss is reported to
 * MemoryControl.lost on the main loop and true is returned. Any thread. @reason is a constant.
 */
bool ram_list_check_files(RamList *list, const char *reason);

/*
 * Report a lost page that the caller has seen (EFAULT, RAM that came back as MMIO). Any thread.
 * @reason is a constant.
 */
void ram_list_report_lost(RamList *list, const char *reason, RamBlock *block, uint64_t offset);

/* --- One file --- */

/*
 * @fd is duplicated and must be readable; @path may be NULL and is only told to people. @uuid: of the
 * snapshot in it, NULL = none.
 */
RamBase *ram_base_open(int fd, const char *path, const Uuid *uuid, GError **errp);
RamBase *ram_base_ref(RamBase *base);
void ram_base_unref(RamBase *base);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(RamBase, ram_base_unref)
/*
 * The descriptor to read or map contents by: the file, or the clone that took its place. It may change
 * when a detach ends, so who reads by it on another thread holds the files (ram_list_hold_files).
 */
int ram_base_fd(const RamBase *base);
const char *ram_base_path(const RamBase *base); /* never NULL: "fd N" */
const Uuid *ram_base_uuid(const RamBase *base); /* NULL = none */
uint64_t ram_base_size(const RamBase *base);    /* when it was opened */
bool ram_base_is_leased(const RamBase *base);
/* Same device, inode, size and mtime as when it was opened; the error names what differs. */
bool ram_base_check_identity(RamBase *base, GError **errp);

/* The file with this device and inode is mapped by a block of the list: never write to it. */
bool ram_list_uses_file(const RamList *list, dev_t device, ino_t inode);

/*
 * A save that reads unchanged pages from the files holds them from before its scan until it is
 * published: no detach ends meanwhile, so whoever wants to change a file waits (until the kernel takes the
 * lease away). Main thread; nests.
 */
void ram_list_hold_files(RamList *list);
void ram_list_release_files(RamList *list);
/*
 * While held, any thread, after the last byte was read and before publishing: false = a page was lost or a
 * file has changed all the same, and what was read may be wrong.
 */
bool ram_list_check_read(RamList *list, GError **errp);

/* What keeps RAM right when somebody changes a file; the values are those of RamBaseGuard. */
typedef enum BaseGuardState {
    BASE_GUARD_NONE,
    BASE_GUARD_LEASE,
    BASE_GUARD_CLONE,
    BASE_GUARD_DRAINING,
    BASE_GUARD_DETACHED,
    BASE_GUARD_UNLINKED,
} BaseGuardState;

/* Of all files: the weakest one counts. */
BaseGuardState ram_list_guard_state(const RamList *list);

/* --- Detaching --- */

/*
 * Called once on the main loop; @error NULL = RAM depends on no file any more. After an error
 * everything is as it was, and right. When the guard is freed meanwhile that is an error as well.
 */
typedef void (*DetachDone)(void *opaque, const GError *error);

/*
 * Make RAM independent of all files, while the guest runs (QMP ram-detach). False = could not begin
 * (too little memory), nothing is changed and @done is not called. With nothing to do @done is
 * called at once.
 */
bool base_guard_detach_all(BaseGuard *guard, const char *reason, DetachDone done, void *opaque,
                           GError **errp);

/*
 * Files that `auto` has mapped with nothing to guard them are drained: RAM is detached from them in the
 * background, in short pauses of the guest. True from the restore until RAM needs none of them.
 */
bool ram_list_is_draining(const RamList *list);

/*
 * Call @done when the files being drained may be changed or truncated by anybody: at once when nothing
 * is drained. The drain begins now if it has not, and takes all speed while the guest does not run.
 * With an error the files must be left alone. Main thread; any number may wait.
 */
void ram_list_finish_drain(RamList *list, DetachDone done, void *opaque);

/* Figures of the last detach or drain. Times are in microseconds; pauses of a guest that runs. */
typedef struct DetachStats {
    bool active;
    uint64_t chunks, chunks_left; /* of 2 MiB */
    uint64_t bytes_copied;        /* while the guest stood */
    uint64_t pauses, paused_us, longest_pause_us;
} DetachStats;

/* False = there was none yet. Main thread. */
bool ram_list_detach_stats(const RamList *list, DetachStats *ret_stats);

#endif
