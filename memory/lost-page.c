/*
 * Pages of guest RAM that cannot be read any more: noticed by SIGBUS, or reported by who got EFAULT
 * or a strange exit of a vCPU; told once on the main loop, which stops the VM.
 *
 * The thread that took the SIGBUS must go on, since it may hold locks: it is given a page of zeros. So
 * whoever copies guest RAM asks ram_list_is_lost() afterwards and throws the copy away.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/guard-internal.h"

#include "memory/chunk-map.h"
#include "util/error.h"
#include "util/units.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>

enum { LOST_NONE, LOST_BEING_NOTED, LOST_NOTED, LOST_TOLD };

/*
 * A signal handler has no argument of ours. Set once per guard, on the main thread, before RAM is
 * mapped from a file.
 */
static BaseGuard *sigbus_guard;
static struct sigaction sigbus_before;

/* Only what a signal handler may do. */
static void lost_page_note(BaseGuard *guard, const char *reason, RamBlock *block, uint64_t offset)
{
    gint none = LOST_NONE;

    if (__atomic_compare_exchange_n(&guard->lost.state, &none, LOST_BEING_NOTED, false,
                                    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
        guard->lost.reason = reason;
        guard->lost.block = block;
        guard->lost.offset = offset;
        __atomic_store_n(&guard->lost.state, LOST_NOTED, __ATOMIC_SEQ_CST);
    }
    base_guard_wake(guard);
}

static bool replace_page(const RamBlock *block, uint64_t offset)
{
    void *page = block->host + ROUND_DOWN(offset, (uint64_t)block->page_size);
    void *got = mmap(page, block->page_size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);

    return got != MAP_FAILED;
}

static void sigbus_handler(int signal, siginfo_t *info, void *context)
{
    BaseGuard *guard = __atomic_load_n(&sigbus_guard, __ATOMIC_SEQ_CST);
    int saved = errno;
    uint64_t offset = 0;
    RamBlock *block = NULL;

    /* si_code > 0: from the kernel, for a fault; else somebody's kill(). */
    if (guard && info->si_code > 0) {
        block = ram_list_find_host(guard->list, info->si_addr, &offset);
    }
    if (!block || !replace_page(block, offset)) {
        /* Not guest RAM: as if this handler were not there; the access is done again. */
        sigaction(SIGBUS, &sigbus_before, NULL);
        if (info->si_code <= 0) {
            raise(SIGBUS);
        }
        errno = saved;
        return;
    }
    lost_page_note(guard, "SIGBUS: the file is shorter than its pages, or cannot be read", block,
                   offset);
    errno = saved;
}

bool lost_page_install(BaseGuard *guard, GError **errp)
{
    struct sigaction action = { .sa_sigaction = sigbus_handler, .sa_flags = SA_SIGINFO };
    struct sigaction before;

    sigemptyset(&action.sa_mask);
    __atomic_store_n(&sigbus_guard, guard, __ATOMIC_SEQ_CST);
    if (sigaction(SIGBUS, &action, &before) < 0) {
        error_set_errno(errp, errno, "Cannot handle SIGBUS");
        return false;
    }
    if (!(before.sa_flags & SA_SIGINFO) || before.sa_sigaction != sigbus_handler) {
        sigbus_before = before;
    }
    return true;
}

void lost_page_uninstall(BaseGuard *guard)
{
    if (__atomic_load_n(&sigbus_guard, __ATOMIC_SEQ_CST) == guard) {
        __atomic_store_n(&sigbus_guard, NULL, __ATOMIC_SEQ_CST);
    }
}

/* The file that a mapping of @block has at @offset; NULL = none. */
static RamBase *base_at(RamBlock *block, uint64_t offset)
{
    for (guint i = 0; block->mappings && i < block->mappings->len; i++) {
        const RamMapping *m = block->mappings->pdata[i];

        if (offset >= m->offset && offset - m->offset < m->length) {
            return m->base;
        }
    }
    return NULL;
}

void lost_page_tell(BaseGuard *guard)
{
    LostPage *lost = &guard->lost;
    gint noted = LOST_NOTED;
    RamBase *base;

    if (!__atomic_compare_exchange_n(&lost->state, &noted, LOST_TOLD, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST)) {
        return;
    }
    base = base_at(lost->block, lost->offset);
    if (guard->control.lost) {
        guard->control.lost(guard->control.opaque, lost->reason, lost->block, lost->offset,
                            base ? ram_base_path(base) : NULL);
    } else {
        error_report("RAM block '%s' has lost its contents at offset 0x%" G_GINT64_MODIFIER "x: %s",
                     lost->block->name, lost->offset, lost->reason);
    }
}

bool lost_page_seen(const BaseGuard *guard)
{
    return __atomic_load_n(&guard->lost.state, __ATOMIC_SEQ_CST) != LOST_NONE;
}

bool ram_list_is_lost(const RamList *list)
{
    const BaseGuard *guard = ram_list_guard(list);

    return guard && lost_page_seen(guard);
}

void ram_list_report_lost(RamList *list, const char *reason, RamBlock *block, uint64_t offset)
{
    BaseGuard *guard = ram_list_guard(list);

    if (guard) {
        lost_page_note(guard, reason, block, offset);
    }
}

/* Where in [from, end) the block still depends on its file; false = nowhere, all is released. */
static bool find_dependent(const RamBlock *block, uint64_t from, uint64_t end, uint64_t *ret_offset)
{
    while (from < end) {
        if (!chunk_map_test(block->released, from >> RAM_CHUNK_SHIFT)) {
            *ret_offset = from;
            return true;
        }
        from = ((from >> RAM_CHUNK_SHIFT) + 1) << RAM_CHUNK_SHIFT;
    }
    return false;
}

/* The first offset of a block whose file has become too short; false = all is there. */
static bool find_short(RamBlock *block, uint64_t *ret_offset)
{
    bool found = false;

    g_rw_lock_reader_lock(&block->layout);
    for (guint i = 0; block->mappings && i < block->mappings->len && !found; i++) {
        const RamMapping *m = block->mappings->pdata[i];
        uint64_t left = ram_base_bytes_from(m->base, m->file_offset);

        if (left < m->length) {
            found = find_dependent(block, m->offset + left, m->offset + m->length, ret_offset);
        }
    }
    g_rw_lock_reader_unlock(&block->layout);
    return found;
}

bool ram_list_check_files(RamList *list, const char *reason)
{
    for (unsigned i = 0; i < ram_list_count(list); i++) {
        RamBlock *block = ram_list_get(list, i);
        uint64_t offset;

        if (find_short(block, &offset)) {
            ram_list_report_lost(list, reason, block, offset);
            return true;
        }
    }
    return ram_list_is_lost(list);
}
