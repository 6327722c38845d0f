/*
 * The order in which the parts of a virtual machine are made, and taken apart.
 *
 * Memory slots come before interrupt controllers, and those before devices: the first change of memory slots after
 * a change of the I/O buses waits 5 to 12 ms for the kernel (design.md §4). Nothing is done here that a
 * restored guest would not need.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "system/startup.h"

#include "hw/core/device.h"
#include "hw/core/iothread.h"
#include "hw/core/types.h"
#include "hw/virtio/virtio-pci.h"
#include "memory/backend.h"
#include "qapi/qapi-commands.h"
#include "system/cpu-object.h"
#include "system/dirty-rate.h"
#include "system/dump-setup.h"
#include "system/guest-ram.h"
#include "system/kvm-probe.h"
#include "system/lifecycle.h"
#include "system/machine-setup.h"
#include "system/main-loop.h"
#include "system/memory-control.h"
#include "system/monitors.h"
#include "system/objects.h"
#include "system/qtest.h"
#include "system/restore-hooks.h"
#include "system/sandbox.h"
#include "system/secret.h"
#include "system/settings.h"
#include "system/state.h"
#include "util/error.h"
#include "util/log.h"

const QomType *const system_types[] = { qom_base_types,   cpu_object_types,  hw_types,
                                        iothread_types,   ram_backend_types, chardev_types,
                                        virtio_pci_types, secret_types,      NULL };

/* What exists once in every process, before anything of the command line is looked at. */
static void make_parts(SystemState *state)
{
    state->fds = fd_store_new();
    state->tree.root = object_new(TYPE_CONTAINER, NULL);
    state->tree.types = system_types;
    object_get_container(state->tree.root, "objects");
    state->chardevs = chardev_registry_new(state->fds);
    object_add_child(state->tree.root, "chardevs", chardev_registry_container(state->chardevs),
                     NULL);
    monitors_init(state);
    state->memory = address_map_new("memory", 64);
    state->io = address_map_new("io", 16);
    state->ram = ram_list_new();
    state->vmstate = vmstate_registry_new();
    state->resets = reset_list_new();
    state->runstate = runstate_new(state->events);
    memory_control_init(state);
}

static void fill_contexts(SystemState *state)
{
    void **ctx = state->contexts.ctx;

    ctx[QAPI_CONTEXT_RUN_STATE_CONTROL] = state->runstate;
    ctx[QAPI_CONTEXT_MACHINE] = state->machine;
    ctx[QAPI_CONTEXT_SYSTEM_STATE] = state;
    ctx[QAPI_CONTEXT_QOM_TREE] = &state->tree;
    ctx[QAPI_CONTEXT_CHARDEV_REGISTRY] = state->chardevs;
    ctx[QAPI_CONTEXT_MIGRATION_STATE] = state->migration;
    ctx[QAPI_CONTEXT_DUMP_STATE] = state->dump;
}

static bool add_objects(SystemState *state, GError **errp)
{
    GPtrArray *list = state->options->object;

    for (guint i = 0; list && i < list->len; i++) {
        if (!objects_add(&state->tree, g_ptr_array_index(list, i), errp)) {
            g_prefix_error(errp, "-object: ");
            return false;
        }
    }
    return true;
}

/* -machine none only needs to know whether KVM could be used. */
static bool start_accel(SystemState *state, GError **errp)
{
    g_autofree char *list = machine_setup_accel_list(state, errp);
    AccelEnv env = {
        .runstate = state->runstate,
        .memory = state->memory,
        .io = state->io,
        .ram = state->ram,
        .vmstate = state->vmstate,
    };

    if (!list) {
        return false;
    }
    if (MACHINE_GET_CLASS(state->machine)->no_ram) {
        state->machine->kvm_present = kvm_probe();
        state->machine->kvm_enabled = state->machine->kvm_present && accel_is_listed(list, "kvm");
        return true;
    }
    state->accel = accel_create(list, &env, errp);
    if (!state->accel) {
        return false;
    }
    state->machine->kvm_enabled = g_str_equal(accel_name(state->accel), "kvm");
    state->machine->kvm_present = state->machine->kvm_enabled || kvm_probe();
    state->machine->accel = state->accel;
    dump_set_accel(state->dump, state->accel);
    accel_lock(state->accel);
    main_loop_share_lock(state);
    return true;
}

/* -global migration.NAME=VALUE */
static bool set_migration_globals(SystemState *state, GError **errp)
{
    GPtrArray *list = state->options->global;

    for (guint i = 0; list && i < list->len; i++) {
        const GlobalOptions *g = g_ptr_array_index(list, i);

        if (g_str_equal(g->driver, "migration") &&
            !migration_set_global(state->migration, g->property, g->value, errp)) {
            g_prefix_error(errp, "-global migration.%s=%s: ", g->property, g->value);
            return false;
        }
    }
    return true;
}

static bool make_migration(SystemState *state, GError **errp)
{
    MigrationEnv env = {
        .ram = state->ram,
        .vmstate = state->vmstate,
        .runstate = state->runstate,
        .fds = state->fds,
        .events = state->events,
        .memory = &state->memory_control,
        .address_map = state->memory,
        .machine_type = MACHINE_GET_CLASS(state->machine)->name,
        .autostart = !state->options->stopped,
        .hooks = restore_hooks(state),
    };

    state->migration = migration_new(&env, errp);
    return state->migration && set_migration_globals(state, errp);
}

/* RAM and ROM at their places: KVM learns them in one go. */
static bool lay_memory(SystemState *state, GError **errp)
{
    Machine *m = state->machine;
    bool ok;

    if (!guest_ram_create(state, errp)) {
        return false;
    }
    if (state->options->incoming) {
        migration_prepare_incoming(state->migration, state->options->incoming);
    } else if (m->main) {
        ram_block_hint_hugepages(m->main);
    }
    address_map_begin(state->memory);
    ok = MACHINE_GET_CLASS(m)->init_memory(m, errp);
    address_map_commit(state->memory);
    return ok;
}

static bool make_cpus(SystemState *state, GError **errp)
{
    Machine *m = state->machine;

    if (m->irqchip) {
        if (!accel_create_irqchip(state->accel, m->pit, errp)) {
            return false;
        }
        machine_connect_gsi(m);
    }
    if (state->accel) {
        if (!cpu_objects_create(m, errp) ||
            !accel_create_vcpus(state->accel, &state->cpu, m->smp.cpus, errp)) {
            return false;
        }
        cpu_objects_show_flags(m);
    }
    return true;
}

static bool add_devices(SystemState *state, GError **errp)
{
    GPtrArray *list = state->options->device;

    for (guint i = 0; list && i < list->len; i++) {
        if (!device_new_from_json(state->machine, g_ptr_array_index(list, i), errp)) {
            g_prefix_error(errp, "-device: ");
            return false;
        }
    }
    return true;
}

static bool build_board(SystemState *state, GError **errp)
{
    Machine *m = state->machine;
    MachineClass *klass = MACHINE_GET_CLASS(m);

    if (!monitors_open_serial(state, errp) || !klass->init_devices(m, errp) ||
        !add_devices(state, errp) || !klass->finish(m, errp)) {
        return false;
    }
    m->started = true;
    OBJECT(m)->completed = true;
    return qtest_open(state, errp);
}

/* -sandbox: what needs more than it leaves has been opened by now, and neither guest nor snapshot has had a word. */
static bool enter_sandbox(SystemState *state, GError **errp)
{
    const SandboxOptions *sandbox = state->options->sandbox;

    if (!sandbox) {
        return true;
    }
    if (!sandbox_enter(sandbox, errp)) {
        return false;
    }
    log_printf(LOG_STARTUP, "sandbox");
    return true;
}

/* The guest's first state: that of a reset, or one that comes in. */
static bool begin(SystemState *state, GError **errp)
{
    const char *incoming = state->options->incoming;

    if (incoming) {
        runstate_set(state->runstate, RUN_STATE_INMIGRATE);
        return migration_incoming(state->migration, incoming, errp);
    }
    reset_run(state->resets);
    if (state->options->stopped || !state->accel) {
        return true;
    }
    return runstate_start(state->runstate, errp);
}

bool startup_build(SystemState *state, GError **errp)
{
    make_parts(state);
    lifecycle_init(state);
    if (!settings_add_fds(state->options, state->fds, errp) || !monitors_open(state, errp) ||
        !add_objects(state, errp) || !machine_setup(state, errp) || !make_migration(state, errp)) {
        return false;
    }
    state->dump = dump_setup(state);
    fill_contexts(state);
    log_printf(LOG_STARTUP, "command line, types, monitors");
    if (!start_accel(state, errp)) {
        return false;
    }
    log_printf(LOG_STARTUP, "VM");
    if (!lay_memory(state, errp)) {
        return false;
    }
    log_printf(LOG_STARTUP, "RAM and memory slots");
    if (!make_cpus(state, errp)) {
        return false;
    }
    log_printf(LOG_STARTUP, "interrupt controllers and vCPUs");
    if (!build_board(state, errp)) {
        return false;
    }
    log_printf(LOG_STARTUP, "devices");
    if (!enter_sandbox(state, errp) || !begin(state, errp)) {
        return false;
    }
    log_printf(LOG_STARTUP, "%s", state->options->incoming ? "loading asked for" : "guest started");
    return true;
}

/*
 * vCPUs and devices come to rest before anything that they use goes. Then character devices go first, as closing one
 * tells its device, then what runs threads, then the devices. Parts that were not made are NULL.
 */
void startup_undo(SystemState *state)
{
    if (state->runstate) {
        runstate_end(state->runstate);
    }
    if (state->monitors) {
        monitor_set_flush(state->monitors, 1000);
    }
    dirty_rate_free(state->dirty_rate);
    dump_free(state->dump);
    migration_free(state->migration);
    qtest_close(state);
    if (state->monitors) {
        if (state->exit_status != EXIT_SUCCESS) {
            chardev_registry_outlive(state->chardevs);
        }
        monitor_set_free(state->monitors);
        chardev_registry_free(state->chardevs);
    }
    if (state->accel) {
        g_main_context_set_poll_func(NULL, NULL);
        accel_unlock(state->accel);
        accel_destroy(state->accel);
    }
    if (state->tree.root) {
        g_object_unref(state->tree.root);
    }
    if (state->runstate) {
        runstate_free(state->runstate);
        reset_list_free(state->resets);
        vmstate_registry_free(state->vmstate);
        address_map_free(state->memory);
        address_map_free(state->io);
        ram_list_free(state->ram);
        fd_store_free(state->fds);
    }
    g_free(state->cpu_model);
}
