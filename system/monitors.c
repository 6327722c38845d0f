/*
 * Character devices and the QMP monitors on them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "system/monitors.h"

#include "qapi/qapi-commands.h"
#include "system/state.h"
#include "util/error.h"

/* The registers of the CPU that cpu-index names, CPU 0 without it. */
static char *info_registers(void *opaque, const char *args, bool has_cpu_index, int64_t cpu_index,
                            GError **errp)
{
    SystemState *state = opaque;
    unsigned n = state->accel ? accel_vcpu_count(state->accel) : 0;

    if (!has_cpu_index) {
        cpu_index = 0;
    }
    if (cpu_index < 0 || cpu_index >= n) {
        error_set(errp, "there is no CPU %" PRId64 "; the machine has %u", cpu_index, n);
        return NULL;
    }
    return accel_format_registers(state->accel, cpu_index);
}

static const MonitorHumanCommand human_commands[] = {
    { "info registers", "show the registers of a virtual CPU", info_registers },
    { NULL },
};

void monitors_init(SystemState *state)
{
    MonitorEnv env = {
        .fds = state->fds,
        .commands = &qapi_command_table,
        .contexts = &state->contexts,
        .human = human_commands,
        .human_opaque = state,
    };

    state->monitors = monitor_set_new(&env);
    state->events = monitor_event_sink(state->monitors);
}

static bool open_chardevs(SystemState *state, GError **errp)
{
    GPtrArray *list = state->options->chardev;

    for (guint i = 0; list && i < list->len; i++) {
        if (!chardev_new(state->chardevs, g_ptr_array_index(list, i), errp)) {
            g_prefix_error(errp, "-chardev: ");
            return false;
        }
    }
    return true;
}

static bool open_qmp(SystemState *state, GError **errp)
{
    GPtrArray *list = state->options->qmp;

    for (guint i = 0; list && i < list->len; i++) {
        const char *text = g_ptr_array_index(list, i);
        g_autofree char *id = g_strdup_printf("compat_monitor%u", i);
        Chardev *chr;

        if (g_str_equal(text, "none")) {
            continue;
        }
        chr = chardev_new_short(state->chardevs, id, text, errp);
        if (!chr || !monitor_add(state->monitors, chr, false, errp)) {
            g_prefix_error(errp, "-qmp %s: ", text);
            return false;
        }
    }
    return true;
}

static bool open_mon(SystemState *state, GError **errp)
{
    GPtrArray *list = state->options->mon;

    for (guint i = 0; list && i < list->len; i++) {
        const MonitorOptions *mon = g_ptr_array_index(list, i);
        Chardev *chr = chardev_get(state->chardevs, mon->chardev, errp);

        if (!chr || !monitor_add(state->monitors, chr, mon->pretty, errp)) {
            g_prefix_error(errp, "-mon chardev=%s: ", mon->chardev);
            return false;
        }
    }
    return true;
}

bool monitors_open(SystemState *state, GError **errp)
{
    return open_chardevs(state, errp) && open_qmp(state, errp) && open_mon(state, errp);
}

bool monitors_open_serial(SystemState *state, GError **errp)
{
    const SystemOptions *o = state->options;
    Machine *m = state->machine;

    if (!o->serial && o->nographic && !o->nodefaults && !MACHINE_GET_CLASS(m)->no_ram) {
        m->serial[0] = chardev_new_short(state->chardevs, "serial0", "stdio", errp);
        return m->serial[0] != NULL;
    }
    for (guint i = 0; o->serial && i < o->serial->len; i++) {
        const char *text = g_ptr_array_index(o->serial, i);
        g_autofree char *id = g_strdup_printf("serial%u", i);

        if (i == MACHINE_SERIAL_MAX) {
            error_set(errp, "-serial %s: there are %d serial ports at most", text,
                      MACHINE_SERIAL_MAX);
            return false;
        }
        if (g_str_equal(text, "none")) {
            continue;
        }
        m->serial[i] = chardev_new_short(state->chardevs, id, text, errp);
        if (!m->serial[i]) {
            g_prefix_error(errp, "-serial %s: ", text);
            return false;
        }
    }
    return true;
}
