/*
 * The main RAM of the guest: how much, and from which memory backend.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "system/guest-ram.h"

#include "memory/backend.h"
#include "system/state.h"
#include "util/error.h"
#include "util/units.h"

#include <cpuid.h>
#include <sys/mman.h>

#define RAM_SIZE_MIN (2 * MiB)
/* Address space below 4 GiB that RAM leaves to devices. */
#define RAM_HOLE GiB

/* Bytes that a guest-physical address can reach on this host (CPUID 0x80000008). */
static uint64_t physical_limit(void)
{
    unsigned a, b, c, d;

    if (!__get_cpuid(0x80000008, &a, &b, &c, &d) || (a & 0xff) < 32 || (a & 0xff) > 62) {
        return 64 * GiB;
    }
    return UINT64_C(1) << (a & 0xff);
}

static bool check_size(uint64_t size, GError **errp)
{
    uint64_t max = physical_limit() - RAM_HOLE;

    if (size < RAM_SIZE_MIN || size > max || !IS_ALIGNED(size, 4 * KiB)) {
        error_set(errp,
                  "-m: %" PRIu64 " bytes of RAM are not possible: from %" PRIu64 " MiB to %" PRIu64
                  " MiB on this host, in pages of 4 KiB",
                  size, RAM_SIZE_MIN / MiB, max / MiB);
        return false;
    }
    return true;
}

static bool check_no_hotplug(const MemorySizeConfiguration *m, GError **errp)
{
    if (m && ((m->has_slots && m->slots) ||
              (m->has_max_size && m->max_size != (m->has_size ? m->size : 0)))) {
        error_set(errp, "-m: memory cannot be added later: leave out slots and max-size");
        return false;
    }
    return true;
}

/* The backend that stands for "-m SIZE" alone, as an object like any other. */
static RamBackend *default_backend(SystemState *state, uint64_t size, GError **errp)
{
    Machine *m = state->machine;
    const char *id = MACHINE_GET_CLASS(m)->default_ram_id;
    Object *objects = object_get_container(state->tree.root, "objects");
    GType type = qom_type_find(state->tree.types, "memory-backend-ram");
    g_autofree char *text = g_strdup_printf("%" PRIu64, size);
    g_autoptr(Object) obj = object_new(type, state->tree.root);

    if (!object_set_property_str(obj, "size", text, errp) ||
        !object_set_property_str(obj, "merge", m->mem_merge ? "on" : "off", errp) ||
        !object_set_property_str(obj, "dump", m->dump_guest_core ? "on" : "off", errp) ||
        !object_complete(obj, errp) || !object_add_child(objects, id, obj, errp)) {
        return NULL;
    }
    return RAM_BACKEND(obj);
}

static RamBackend *named_backend(SystemState *state, GError **errp)
{
    const char *id = state->machine->memory_backend;
    Object *objects = object_get_container(state->tree.root, "objects");
    Object *obj = object_get_child(objects, id);
    const MemorySizeConfiguration *m = state->options->m;

    if (!obj || !g_type_is_a(G_OBJECT_TYPE(obj), TYPE_RAM_BACKEND)) {
        error_set(errp,
                  "-machine memory-backend=%s: there is no memory backend of that id; add "
                  "-object memory-backend-ram,id=%s,size=SIZE",
                  id, id);
        return NULL;
    }
    if (m && m->has_size && m->size != ram_backend_size(RAM_BACKEND(obj))) {
        error_set(errp, "-m says %" PRIu64 " bytes and memory backend '%s' has %" PRIu64, m->size,
                  id, ram_backend_size(RAM_BACKEND(obj)));
        return NULL;
    }
    return RAM_BACKEND(obj);
}

/* -machine dump-guest-core=on and mem-merge=on say more than the backend's own properties. */
static bool apply_machine_settings(const Machine *m, RamBlock *block, GError **errp)
{
    if (m->mem_merge && !block->merge) {
        if (madvise(block->host, block->size, MADV_MERGEABLE) < 0) {
            error_set_errno(errp, errno, "-machine mem-merge=on: this kernel cannot merge pages");
            return false;
        }
        block->merge = true;
    }
    if (m->dump_guest_core && !block->dump) {
        if (madvise(block->host, block->size, MADV_DODUMP) < 0) {
            error_set_errno(errp, errno, "-machine dump-guest-core=on");
            return false;
        }
        block->dump = true;
    }
    return true;
}

/* -overcommit mem-lock=on: the kernel keeps all pages of the process, guest RAM among them. */
static bool lock_memory(RamBlock *block, GError **errp)
{
    if (mlockall(MCL_CURRENT | MCL_FUTURE) < 0) {
        error_set_errno(errp, errno,
                        "-overcommit mem-lock=on: cannot lock memory; raise RLIMIT_MEMLOCK "
                        "(ulimit -l)");
        return false;
    }
    block->mem_lock = true;
    return true;
}

bool guest_ram_create(SystemState *state, GError **errp)
{
    Machine *m = state->machine;
    MachineClass *klass = MACHINE_GET_CLASS(m);
    const MemorySizeConfiguration *given = state->options->m;
    const OvercommitOptions *overcommit = state->options->overcommit;
    RamBackend *backend;
    RamBlock *block;

    if (klass->no_ram) {
        return true;
    }
    if (!check_no_hotplug(given, errp)) {
        return false;
    }
    if (m->memory_backend) {
        backend = named_backend(state, errp);
    } else {
        uint64_t size = given && given->has_size ? given->size : klass->default_ram_size;

        backend = check_size(size, errp) ? default_backend(state, size, errp) : NULL;
    }
    if (!backend || !check_size(ram_backend_size(backend), errp)) {
        return false;
    }
    block = ram_backend_alloc(backend, klass->default_ram_id, errp);
    m->main = block ? ram_list_add(state->ram, block, errp) : NULL;
    if (!m->main) {
        return false;
    }
    m->ram_size = m->main->size;
    if (!apply_machine_settings(m, m->main, errp)) {
        return false;
    }
    return !(overcommit && overcommit->mem_lock) || lock_memory(m->main, errp);
}
