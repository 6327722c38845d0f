/*
 * The files that guest RAM is a copy-on-write mapping of: who they are, and what is done when somebody
 * wants to change one.
 *
 * The kernel sends a signal to the holder of a lease; its handler, like that for SIGBUS, only writes
 * an eventfd. The main loop then asks every lease and starts to detach from the files in question.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/guard-internal.h"

#include "util/error.h"
#include "util/io.h"

#include <errno.h>
#include <glib-unix.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* A real-time signal, which carries the descriptor; glibc keeps the first ones for itself. */
#define LEASE_SIGNAL (SIGRTMIN + 5)
/* Used when /proc/sys/fs/lease-break-time cannot be read; the kernel's default, in seconds. */
#define LEASE_BREAK_SECONDS 45

/* A signal handler has no argument of ours: the eventfd of the newest guard. */
static int lease_event_fd = -1;

static void wake_fd(int fd)
{
    uint64_t one = 1;
    ssize_t written = write(fd, &one, sizeof(one));

    /* A full counter wakes as well. */
    (void)written;
}

static void lease_handler(int signal)
{
    int saved = errno;
    int fd = __atomic_load_n(&lease_event_fd, __ATOMIC_SEQ_CST);

    if (fd >= 0) {
        wake_fd(fd);
    }
    errno = saved;
}

void base_guard_wake(BaseGuard *guard)
{
    wake_fd(guard->event_fd);
}

/* SIGIO comes instead of the real-time signal when the queue of signals is full. */
static bool install_lease_handler(BaseGuard *guard, GError **errp)
{
    struct sigaction action = { .sa_handler = lease_handler, .sa_flags = SA_RESTART };

    sigemptyset(&action.sa_mask);
    __atomic_store_n(&lease_event_fd, guard->event_fd, __ATOMIC_SEQ_CST);
    if (sigaction(LEASE_SIGNAL, &action, NULL) < 0 || sigaction(SIGIO, &action, NULL) < 0) {
        error_set_errno(errp, errno, "Cannot handle the signals of file leases");
        return false;
    }
    return true;
}

/* From its first notice until the kernel lets the writer go; the guest stands for the last quarter. */
static void lease_times(RamBase *base, gint64 *ret_deadline, gint64 *ret_expiry)
{
    g_autofree char *text = NULL;
    struct stat then;
    gint64 began = ram_base_break_began(base, &then), seconds = LEASE_BREAK_SECONDS;

    if (g_file_get_contents("/proc/sys/fs/lease-break-time", &text, NULL, NULL)) {
        seconds = g_ascii_strtoll(text, NULL, 10);
    }
    *ret_deadline = began + seconds * G_USEC_PER_SEC * 3 / 4;
    *ret_expiry = began + seconds * G_USEC_PER_SEC;
}

static void detach_broken(void *opaque, const GError *error)
{
    BaseGuard *guard = opaque;

    if (error && !lost_page_seen(guard) && !guard->ending && guard->control.no_memory) {
        guard->control.no_memory(guard->control.opaque, error->message, guard->waited_for);
    }
}

/* The files somebody is waiting for that no job has in hand yet. */
static GPtrArray *find_breaking(BaseGuard *guard)
{
    GPtrArray *breaking = g_ptr_array_new();

    for (guint i = 0; i < guard->bases->len; i++) {
        RamBase *base = guard->bases->pdata[i];
        gint64 deadline, expiry;

        if (!ram_base_lease_breaking(base)) {
            continue;
        }
        /* Its time runs from now on, even if another file is in hand. */
        lease_times(base, &deadline, &expiry);
        if (guard->job && detach_covers(guard->job, base)) {
            detach_hurry(guard->job, deadline, expiry);
        } else {
            g_ptr_array_add(breaking, base);
        }
    }
    if (breaking->len && guard->job) {
        /* Another file is in hand: that shall not take this one's time. */
        detach_hurry(guard->job, g_get_monotonic_time(), 0);
    }
    return breaking;
}

/* Of the files somebody waits for, the one that has been waited for longest. */
static RamBase *oldest_break(const GPtrArray *bases)
{
    RamBase *oldest = bases->pdata[0];
    struct stat then;

    for (guint i = 1; i < bases->len; i++) {
        if (ram_base_break_began(bases->pdata[i], &then) < ram_base_break_began(oldest, &then)) {
            oldest = bases->pdata[i];
        }
    }
    return oldest;
}

static void give_up_all(GPtrArray *bases)
{
    for (guint i = 0; i < bases->len; i++) {
        ram_base_give_up(bases->pdata[i]);
    }
}

static void look_at_leases(BaseGuard *guard)
{
    g_autoptr(GPtrArray) breaking = NULL;
    g_autoptr(GError) err = NULL;
    DetachRequest request = {
        .reason = "lease-broken",
        .done = detach_broken,
        .opaque = guard,
    };

    if (g_atomic_int_get(&guard->on_hold) || lost_page_seen(guard)) {
        return;
    }
    breaking = find_breaking(guard);
    if (breaking->len == 0 || guard->job) {
        return;
    }
    g_free(guard->waited_for);
    guard->waited_for = g_strdup(ram_base_path(breaking->pdata[0]));
    request.bases = breaking;
    lease_times(oldest_break(breaking), &request.deadline, &request.expiry);
    guard->job = detach_start(guard, &request, &err);
    if (!guard->job) {
        /* Told once: the lease stays until the kernel takes it, the VM stands. */
        give_up_all(breaking);
        detach_broken(guard, err);
    }
}

static gboolean guard_event(gint fd, GIOCondition condition, gpointer opaque)
{
    BaseGuard *guard = opaque;
    uint64_t count;
    ssize_t got = read(fd, &count, sizeof(count));

    if (got < 0 && errno != EAGAIN && errno != EINTR) {
        warn_report("Cannot read the event of the base guard: %s", g_strerror(errno));
    }
    lost_page_tell(guard);
    look_at_leases(guard);
    drain_look(guard);
    return G_SOURCE_CONTINUE;
}

BaseGuard *base_guard_new(RamList *list, const MemoryControl *control, GError **errp)
{
    BaseGuard *guard = g_new0(BaseGuard, 1);

    guard->list = list;
    guard->control = *control;
    guard->bases = g_ptr_array_new_with_free_func((GDestroyNotify)ram_base_unref);
    guard->held_as = g_array_new(FALSE, FALSE, sizeof(struct stat));
    guard->waiters = g_array_new(FALSE, FALSE, sizeof(DrainWaiter));
    guard->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (guard->event_fd < 0) {
        error_set_errno(errp, errno, "Cannot create an eventfd for the base guard");
        base_guard_free(guard);
        return NULL;
    }
    guard->scanner = pagemap_scanner_new_quiet(errp);
    if (!guard->scanner || !install_lease_handler(guard, errp) || !lost_page_install(guard, errp)) {
        base_guard_free(guard);
        return NULL;
    }
    guard->watch = g_unix_fd_add(guard->event_fd, G_IO_IN, guard_event, guard);
    return guard;
}

void base_guard_free(BaseGuard *guard)
{
    int fd;

    if (!guard) {
        return;
    }
    guard->ending = true;
    lost_page_uninstall(guard);
    if (guard->job) {
        detach_cancel(guard->job);
        guard->job = NULL;
    }
    drain_free(guard);
    if (guard->watch) {
        g_source_remove(guard->watch);
    }
    /* Leases end before the handler loses its eventfd. */
    g_ptr_array_unref(guard->bases);
    fd = guard->event_fd;
    __atomic_compare_exchange_n(&lease_event_fd, &fd, -1, false, __ATOMIC_SEQ_CST,
                                __ATOMIC_SEQ_CST);
    close_fd(&guard->event_fd);
    g_free(guard->waited_for);
    g_array_unref(guard->held_as);
    pagemap_scanner_free(guard->scanner);
    g_free(guard);
}

bool base_guard_add(BaseGuard *guard, RamBase *base, bool need_lease, GError **errp)
{
    if (need_lease && !ram_base_take_lease(base, LEASE_SIGNAL, errp)) {
        return false;
    }
    if (!g_ptr_array_find(guard->bases, base, NULL)) {
        g_ptr_array_add(guard->bases, ram_base_ref(base));
    }
    return true;
}

void base_guard_forget(BaseGuard *guard, RamBase *base)
{
    ram_base_want_drain(base, false);
    ram_base_drop_lease(base);
    g_ptr_array_remove(guard->bases, base);
}

void base_guard_remove(BaseGuard *guard, RamBase *base)
{
    guard->detached = true;
    base_guard_forget(guard, base);
}

void base_guard_hold(BaseGuard *guard)
{
    g_atomic_int_set(&guard->on_hold, 1);
}

void base_guard_release(BaseGuard *guard)
{
    g_atomic_int_set(&guard->on_hold, 0);
    base_guard_wake(guard);
}

void base_guard_pause(BaseGuard *guard)
{
    if (guard->control.pause) {
        guard->control.pause(guard->control.opaque);
    }
}

void base_guard_resume(BaseGuard *guard)
{
    if (guard->control.resume) {
        guard->control.resume(guard->control.opaque);
    }
}

bool base_guard_guest_runs(BaseGuard *guard)
{
    return !guard->control.runs || guard->control.runs(guard->control.opaque);
}

void base_guard_job_ended(BaseGuard *guard)
{
    guard->job = NULL;
    base_guard_wake(guard);
}

/* Nobody else can change a clone. */
static GPtrArray *files_depended_on(BaseGuard *guard)
{
    GPtrArray *bases = g_ptr_array_new();

    for (guint i = 0; i < guard->bases->len; i++) {
        if (!ram_base_is_cloned(guard->bases->pdata[i])) {
            g_ptr_array_add(bases, guard->bases->pdata[i]);
        }
    }
    return bases;
}

static bool job_covers(const BaseGuard *guard, const GPtrArray *bases)
{
    for (guint i = 0; i < bases->len; i++) {
        if (!detach_covers(guard->job, bases->pdata[i])) {
            return false;
        }
    }
    return true;
}

bool base_guard_detach_all(BaseGuard *guard, const char *reason, DetachDone done, void *opaque,
                           GError **errp)
{
    g_autoptr(GPtrArray) bases = files_depended_on(guard);
    DetachRequest request = {
        .bases = bases,
        .reason = reason,
        .done = done,
        .opaque = opaque,
    };

    if (lost_page_seen(guard)) {
        error_set(errp, "Guest RAM has lost pages and cannot be detached");
        return false;
    }
    if (guard->job && job_covers(guard, bases)) {
        drain_add_waiter(guard, done, opaque);
        return true;
    }
    if (guard->job) {
        error_set(errp, "Guest RAM is being detached from some of its files; try again when that "
                        "has ended");
        return false;
    }
    if (bases->len == 0) {
        done(opaque, NULL);
        return true;
    }
    guard->job = detach_start(guard, &request, errp);
    return guard->job != NULL;
}

bool ram_list_uses_file(const RamList *list, dev_t device, ino_t inode)
{
    const BaseGuard *guard = ram_list_guard(list);

    for (guint i = 0; guard && i < guard->bases->len; i++) {
        const RamBase *base = guard->bases->pdata[i];

        if (!ram_base_is_cloned(base) && ram_base_is_same_file(base, device, inode)) {
            return true;
        }
    }
    return false;
}

void ram_list_hold_files(RamList *list)
{
    BaseGuard *guard = ram_list_guard(list);

    if (!guard || guard->held++ > 0) {
        return;
    }
    g_array_set_size(guard->held_as, 0);
    for (guint i = 0; i < guard->bases->len; i++) {
        struct stat now = ram_base_identity(guard->bases->pdata[i]);

        g_array_append_val(guard->held_as, now);
    }
}

void ram_list_release_files(RamList *list)
{
    BaseGuard *guard = ram_list_guard(list);

    if (guard && guard->held > 0) {
        guard->held--;
    }
}

bool ram_list_check_read(RamList *list, GError **errp)
{
    BaseGuard *guard = ram_list_guard(list);

    if (ram_list_is_lost(list)) {
        error_set(errp, "guest memory was lost while it was being saved: the file that it is "
                        "mapped from was truncated or cannot be read");
        return false;
    }
    if (!guard || guard->held == 0) {
        return true;
    }
    for (guint i = 0; i < guard->held_as->len && i < guard->bases->len; i++) {
        const RamBase *base = guard->bases->pdata[i];
        const struct stat *then = &g_array_index(guard->held_as, struct stat, i);

        if (!ram_base_is_cloned(base) && !ram_base_check_same(base, then, errp)) {
            return false;
        }
    }
    return true;
}

BaseGuardState ram_list_guard_state(const RamList *list)
{
    const BaseGuard *guard = ram_list_guard(list);
    BaseGuardState state = BASE_GUARD_CLONE;

    if (!guard) {
        return BASE_GUARD_NONE;
    }
    if (guard->job || (ram_list_is_draining(list) && !guard->drain_failed)) {
        return BASE_GUARD_DRAINING;
    }
    if (guard->bases->len == 0) {
        return guard->detached ? BASE_GUARD_DETACHED : BASE_GUARD_NONE;
    }
    for (guint i = 0; i < guard->bases->len; i++) {
        const RamBase *base = guard->bases->pdata[i];

        if (ram_base_is_cloned(base)) {
            continue;
        }
        if (!ram_base_is_leased(base) && !ram_base_is_unlinked(base)) {
            return BASE_GUARD_NONE;
        }
        if (state != BASE_GUARD_LEASE) {
            state = ram_base_is_leased(base) ? BASE_GUARD_LEASE : BASE_GUARD_UNLINKED;
        }
    }
    return state;
}
