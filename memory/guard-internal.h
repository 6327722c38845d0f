/*
 * What the guard of base files is made of. Internal to memory/: base-guard.c watches the files,
 * lost-page.c notices what is gone, detach.c makes RAM independent of them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MEMORY_GUARD_INTERNAL_H
#define COWBIRD_MEMORY_GUARD_INTERNAL_H

#include "memory/base-guard.h"
#include "memory/pagemap.h"
#include "memory/ram-base.h"

typedef struct DetachJob DetachJob;

/* The first page that was lost. Written from any thread and from a signal handler. */
typedef struct LostPage {
    gint state; /* atomic: 0 none, 1 being noted, 2 noted, 3 told */
    const char *reason;
    RamBlock *block;
    uint64_t offset;
} LostPage;

typedef struct DrainWaiter {
    DetachDone done;
    void *opaque;
} DrainWaiter;

struct BaseGuard {
    RamList *list;
    MemoryControl control;
    int event_fd; /* written by the signal handlers */
    guint watch;
    PagemapScanner *scanner;
    GPtrArray *bases; /* of RamBase: files that RAM is mapped from */
    bool detached;    /* some file was left behind */
    bool ending;      /* base_guard_free() is at work */
    gint on_hold;     /* atomic: a restore is laying mappings, on some thread; broken leases wait */
    unsigned held;    /* saves that read from the files: no job ends */
    GArray *held_as;  /* of struct stat, one per base: as it was when it was held */
    DetachJob *job;   /* at most one */
    char *waited_for; /* path of the file that the job is in haste for */
    GArray *waiters;  /* of DrainWaiter: told when the drain is done */
    guint drain_timer;
    bool drain_due;    /* the files have been mapped for a while */
    bool drain_failed; /* once; it is tried again when somebody waits */
    DetachStats stats; /* of the last job */
    bool any_stats;
    LostPage lost;
};

/* --- base-guard.c --- */

/*
 * Guard a file that blocks are about to be mapped from. With @need_lease the error says why there is
 * none and nothing is done; without, the file is only known to be in use.
 */
bool base_guard_add(BaseGuard *guard, RamBase *base, bool need_lease, GError **errp);
/* It was not mapped after all. */
void base_guard_forget(BaseGuard *guard, RamBase *base);
/* RAM does not depend on it any more. */
void base_guard_remove(BaseGuard *guard, RamBase *base);
/* Between hold and release nothing is detached. */
void base_guard_hold(BaseGuard *guard);
void base_guard_release(BaseGuard *guard);
/* Make the main loop look at leases and lost pages. Safe in a signal handler. */
void base_guard_wake(BaseGuard *guard);
void base_guard_pause(BaseGuard *guard);
void base_guard_resume(BaseGuard *guard);
bool base_guard_guest_runs(BaseGuard *guard);
/* A job has ended; more may have to be done. */
void base_guard_job_ended(BaseGuard *guard);

/* --- lost-page.c --- */

bool lost_page_install(BaseGuard *guard, GError **errp);
void lost_page_uninstall(BaseGuard *guard);
/* Tell MemoryControl once, on the main loop. */
void lost_page_tell(BaseGuard *guard);
bool lost_page_seen(const BaseGuard *guard);

/* --- detach.c --- */

typedef struct DetachRequest {
    GPtrArray *bases; /* of RamBase, not owned; copied */
    const char *reason;
    bool background; /* a drain: slowly, and only as long as the files have names */
    gint64 deadline; /* of g_get_monotonic_time(); from then on the guest stands; 0 = none */
    gint64 expiry;   /* from then on the kernel may have let the writer go; 0 = never */
    DetachDone done; /* may be NULL */
    void *opaque;
} DetachRequest;

/* Begin. NULL = could not, nothing is changed and done is not called. */
DetachJob *detach_start(BaseGuard *guard, const DetachRequest *request, GError **errp);
/* The deadline came nearer. */
void detach_hurry(DetachJob *job, gint64 deadline, gint64 expiry);
bool detach_covers(const DetachJob *job, const RamBase *base);
/* All of a drain is moved, and it only waits for a save that reads the files. */
bool detach_is_moved(const DetachJob *job);
/* Give up; done is called with an error. What has moved stays moved and right. */
void detach_cancel(DetachJob *job);

/* --- drain.c --- */

/* Begin to drain what has to be, or arrange for it. On the main loop, whenever something has changed. */
void drain_look(BaseGuard *guard);
/* Somebody waits for the end of the drain. */
bool drain_is_awaited(const BaseGuard *guard);
void drain_add_waiter(BaseGuard *guard, DetachDone done, void *opaque);
/* Tell all who wait: NULL = the files may be changed. */
void drain_tell(BaseGuard *guard, const GError *error);
/* Any job has ended, with that error. */
void drain_job_ended(BaseGuard *guard, const GError *error);
/* At the end of the guard. */
void drain_free(BaseGuard *guard);

#endif
