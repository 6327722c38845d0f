/*
 * The machine object from the command line.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "system/machine-setup.h"

#include "system/smp.h"
#include "system/state.h"
#include "util/error.h"
#include "util/json.h"

static GType default_machine(const QomType *const *types);

static GType machine_type(SystemState *state, GError **errp)
{
    const char *name = NULL;

    if (state->options->machine) {
        name = json_get_str(state->options->machine, "type");
    }
    return name ? machine_type_find(state->tree.types, name, errp)
                : default_machine(state->tree.types);
}

static void pick_default(MachineClass *klass, void *opaque)
{
    if (klass->is_default) {
        *(GType *)opaque = G_TYPE_FROM_CLASS(klass);
    }
}

static GType default_machine(const QomType *const *types)
{
    GType type = 0;

    machine_foreach_class(types, pick_default, &type);
    return type;
}

char *machine_setup_accel_list(SystemState *state, GError **errp)
{
    const char *of_machine = NULL;
    GString *list;

    if (state->options->machine) {
        of_machine = json_get_str(state->options->machine, "accel");
    }
    if (!state->options->accel) {
        return g_strdup(of_machine ? of_machine : "kvm");
    }
    if (of_machine) {
        error_set(errp, "-accel and -machine accel= say the same; give one of them");
        return NULL;
    }
    list = g_string_new(NULL);
    for (guint i = 0; i < state->options->accel->len; i++) {
        const AccelOptions *accel = g_ptr_array_index(state->options->accel, i);

        g_string_append_printf(list, "%s%s", list->len ? ":" : "", accel->accel);
    }
    return g_string_free(list, FALSE);
}

/* The parts that all boards share. */
static void connect_parts(SystemState *state)
{
    Machine *m = state->machine;

    m->memory = state->memory;
    m->io = state->io;
    m->ram = state->ram;
    m->runstate = state->runstate;
    m->vmstate = state->vmstate;
    m->chardevs = state->chardevs;
    m->fds = state->fds;
    m->events = state->events;
    m->resets = state->resets;
}

static bool set_uuid(SystemState *state, GError **errp)
{
    Machine *m = state->machine;

    if (state->options->uuid) {
        if (!uuid_parse(state->options->uuid, &m->uuid)) {
            error_set(errp, "-uuid: '%s' is no UUID (xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx)",
                      state->options->uuid);
            return false;
        }
        m->uuid_set = true;
    }
    return true;
}

static bool set_boot(SystemState *state, GError **errp)
{
    const BootConfiguration *boot = state->options->boot;
    Machine *m = state->machine;

    if (!boot) {
        return true;
    }
    if (boot->once || boot->order) {
        error_set(errp,
                  "-boot %s=%s: there are no drives to choose from; the guest starts from -kernel",
                  boot->once ? "once" : "order", boot->once ? boot->once : boot->order);
        return false;
    }
    m->boot.menu = boot->menu;
    return true;
}

/* -kernel X is the property kernel=X of the machine, and so on. */
static bool set_kernel(SystemState *state, GError **errp)
{
    const SystemOptions *o = state->options;
    const char *const values[][2] = { { "kernel", o->kernel },
                                      { "initrd", o->initrd },
                                      { "append", o->append } };
    Machine *m = state->machine;

    for (size_t i = 0; i < G_N_ELEMENTS(values); i++) {
        if (values[i][1] && !object_set_property_str(OBJECT(m), values[i][0], values[i][1], errp)) {
            return false;
        }
    }
    if (m->boot.kernel && MACHINE_GET_CLASS(m)->no_ram) {
        error_set(errp, "machine '%s' has no RAM to load a kernel into",
                  MACHINE_GET_CLASS(m)->name);
        return false;
    }
    if (!m->boot.kernel && (m->boot.initrd || m->boot.cmdline)) {
        error_set(errp, "-initrd and -append need -kernel");
        return false;
    }
    return true;
}

static bool set_rtc(SystemState *state, GError **errp)
{
    const RtcOptions *rtc = state->options->rtc;
    RtcConfig *config = &state->machine->rtc;
    g_autoptr(GTimeZone) utc = g_time_zone_new_utc();
    g_autoptr(GDateTime) date = NULL;

    if (!rtc) {
        return true;
    }
    config->clock = rtc->has_clock ? rtc->clock : RTC_CLOCK_HOST;
    config->slew = rtc->has_driftfix && rtc->driftfix == RTC_DRIFT_FIX_SLEW;
    if (!rtc->base || g_str_equal(rtc->base, "utc")) {
        return true;
    }
    if (g_str_equal(rtc->base, "localtime")) {
        config->base = RTC_BASE_LOCALTIME;
        return true;
    }
    date = g_date_time_new_from_iso8601(rtc->base, utc);
    if (!date) {
        error_set(errp,
                  "-rtc base=%s: neither 'utc' nor 'localtime' nor a date like "
                  "2026-11-30T12:00:00",
                  rtc->base);
        return false;
    }
    config->base = RTC_BASE_DATE;
    config->start = g_date_time_to_unix(date);
    return true;
}

static bool set_cpus(SystemState *state, GError **errp)
{
    Machine *m = state->machine;
    MachineClass *klass = MACHINE_GET_CLASS(m);
    const OvercommitOptions *overcommit = state->options->overcommit;

    if (overcommit && overcommit->cpu_pm) {
        error_set(errp, "-overcommit cpu-pm=on: not possible; leave it off");
        return false;
    }
    if (!smp_complete(state->options->smp, klass, &m->smp, errp)) {
        return false;
    }
    state->cpu_model = g_strdup(state->options->cpu ? state->options->cpu : "host");
    state->cpu =
        (CpuConfig){ .model = state->cpu_model,
                     .topology = { m->smp.sockets, m->smp.dies, m->smp.cores, m->smp.threads } };
    m->cpu = &state->cpu;
    return accel_check_cpu_model(state->cpu_model, errp);
}

/* A driver or property that does not exist would be a setting without effect: an error. */
static bool check_global(SystemState *state, const GlobalOptions *g, GError **errp)
{
    GType type = qom_type_require(state->tree.types, g->driver, TYPE_OBJECT, errp);
    gpointer klass;
    bool known;

    if (!type) {
        return false;
    }
    klass = g_type_class_ref(type);
    known = G_TYPE_IS_ABSTRACT(type) || qom_class_require_property(klass, g->property, errp);
    g_type_class_unref(klass);
    return known;
}

/* migration.* is not a type: migration/ gets those later. */
static bool add_globals(SystemState *state, GError **errp)
{
    GPtrArray *list = state->options->global;

    for (guint i = 0; list && i < list->len; i++) {
        const GlobalOptions *g = g_ptr_array_index(list, i);

        if (g_str_equal(g->driver, "migration")) {
            continue;
        }
        if (!check_global(state, g, errp)) {
            g_prefix_error(errp, "-global %s.%s: ", g->driver, g->property);
            return false;
        }
        machine_add_global(state->machine, g->driver, g->property, g->value);
    }
    return true;
}

static bool set_acpi(SystemState *state, GError **errp)
{
    return !state->options->no_acpi ||
           object_set_property_str(OBJECT(state->machine), "acpi", "off", errp);
}

bool machine_setup(SystemState *state, GError **errp)
{
    static const char *const skip[] = { "type", "accel", NULL };
    SystemOptions *o = state->options;
    GType type = machine_type(state, errp);
    Machine *m = type ? machine_new(type, state->tree.root, state->tree.types, errp) : NULL;

    if (!m) {
        return false;
    }
    state->machine = m;
    connect_parts(state);
    m->name = o->name ? g_strdup(o->name->guest) : NULL;
    m->defaults = !o->nodefaults;
    m->incoming = o->incoming != NULL;
    if (!add_globals(state, errp) || !machine_apply_globals(m, OBJECT(m), errp)) {
        return false;
    }
    if (o->machine && !object_set_properties_json(OBJECT(m), o->machine, skip, errp)) {
        g_prefix_error(errp, "-machine: ");
        return false;
    }
    return set_acpi(state, errp) && set_uuid(state, errp) && set_boot(state, errp) &&
           set_kernel(state, errp) && set_rtc(state, errp) && set_cpus(state, errp);
}
