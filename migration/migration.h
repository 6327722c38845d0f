/*
 * State out, state in: saving a virtual machine to a file or stream and loading it again.
 *
 * All functions are called on the thread of the main loop, with the big lock held.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MIGRATION_MIGRATION_H
#define COWBIRD_MIGRATION_MIGRATION_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct MigrationState MigrationState;

/* SHA-256 of what a guest sees by CPUID. */
#define MIGRATION_CPU_DIGEST_LEN 32

/*
 * What migration needs from parts it may not include. Any function may be NULL (nothing to do);
 * without cpu_digest all CPUs are taken to be equal.
 */
typedef struct MigrationHooks {
    /*
     * After the vCPUs have stopped: finish or cancel I/O in flight (block, net, I/O threads) and
     * then do what writes guest RAM. Device state is read right after it.
     */
    bool (*quiesce)(void *opaque, GError **errp);
    /* The save is over and the guest may run again here. */
    void (*unquiesce)(void *opaque);
    /* Digest of the CPUID tables of all vCPUs. */
    bool (*cpu_digest)(void *opaque, uint8_t ret_digest[MIGRATION_CPU_DIGEST_LEN], GError **errp);
    /*
     * Before any section of device state is loaded; RAM is in place. After: every section is
     * loaded; apply what needs a fixed order, renew the VM Generation ID. Neither may run the
     * guest.
     */
    bool (*before_load)(void *opaque, GError **errp);
    bool (*after_load)(void *opaque, GError **errp);
    /*
     * Incoming migration ended. err is NULL on success, and then the run state is already the one
     * to be; on failure with exit_wanted the process should end with status 1 (the error has been
     * reported).
     */
    void (*incoming_done)(void *opaque, const GError *err, bool exit_wanted);
    void *opaque;
} MigrationHooks;

/*
 * The parts of a machine that are saved and loaded. Everything is borrowed and must outlive the
 * MigrationState. Before migration_incoming() or the first QMP command ram, vmstate and
 * machine_type may still be incomplete.
 */
typedef struct MigrationEnv {
    struct RamList *ram;
    struct VMStateRegistry *vmstate;
    struct RunStateControl *runstate;
    struct FdStore *fds;
    struct QapiEventSink *events;       /* NULL: events are dropped */
    const struct MemoryControl *memory; /* handed on to memory/restore */
    struct AddressMap *address_map;     /* handed on to memory/restore; may be NULL */
    const char *machine_type;           /* the name kept in the file: "pc-i440fx-8.2" */
    bool autostart;                     /* no -S: run once an incoming migration has ended */
    MigrationHooks hooks;
} MigrationEnv;

/* env is copied. */
MigrationState *migration_new(const MigrationEnv *env, GError **errp);

/* Cancels what runs, waits for its threads. NULL is allowed. */
void migration_free(MigrationState *s);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(MigrationState, migration_free)

/*
 * -global migration.NAME=VALUE: a parameter or, with "x-" in front or as its own name, a
 * capability; before the machine runs.
 */
bool migration_set_global(MigrationState *s, const char *name, const char *value, GError **errp);

/*
 * To be called for -incoming URI as soon as the main RAM block is in the list and before anything has
 * taken a pointer into it or a KVM memory slot covers it: a snapshot file that can be mapped is
 * mapped now, which is cheaper than under a memory slot. Does nothing for other sources.
 */
void migration_prepare_incoming(MigrationState *s, const char *uri);

/*
 * -incoming URI. "defer" only records that migrate-incoming will come. Anything else starts
 * loading at once, in the background unless RAM is mapped already; its end is told through
 * incoming_done, perhaps before this returns. The run state must be inmigrate.
 */
bool migration_incoming(MigrationState *s, const char *uri, GError **errp);

/* True from -incoming until the state is loaded. */
bool migration_incoming_pending(const MigrationState *s);

/* True while an outgoing migration runs, from the command to its end. */
bool migration_is_saving(const MigrationState *s);

/* True while the state of the stopped guest is being written: no vCPU ioctl may be made. */
bool migration_is_capturing(const MigrationState *s);

/*
 * Why no migration may start now, as query-migrate's blocked-reasons: a device adds a text of its
 * own with a handle of its choice and takes it back by the handle.
 */
void migration_add_blocker(MigrationState *s, const void *handle, const char *reason);
void migration_remove_blocker(MigrationState *s, const void *handle);

#endif
