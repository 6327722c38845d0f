/*
 * Commands in words that do something: each is a QMP command by the name it has in QEMU's monitor. They answer nothing.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "monitor/internal.h"

#include "util/error.h"
#include "util/json.h"
#include "util/units.h"

static void on_reply(void *opaque, json_object *ret, GError *error)
{
    json_object_put(ret);
    if (error) {
        error_report("%s: %s", (const char *)opaque, error->message);
        g_error_free(error);
    }
}

/* Begins a command whose reply may come later, which nobody waits for. @name is a literal. */
static bool begin(MonitorSet *set, const QapiCommand *command, const char *name, GError **errp)
{
    QapiReply *reply = qapi_reply_new(on_reply, (void *)name);

    if (!qapi_command_invoke_deferred(command, set->env.contexts, NULL, reply, errp)) {
        qapi_reply_drop(reply);
        return false;
    }
    return true;
}

/* "" when the command, a literal, has been carried out; NULL with an error. */
static char *run(MonitorSet *set, const char *name, json_object *args, GError **errp)
{
    const QapiCommand *command = qapi_command_find(set->env.commands, name);
    json_object *ret = NULL;
    bool ok;

    if (!command) {
        error_set_class(errp, COWBIRD_ERROR_COMMAND_NOT_FOUND, "The command %s has not been found",
                        name);
        return NULL;
    }
    ok = command->deferred ? begin(set, command, name, errp)
                           : qapi_command_invoke(command, set->env.contexts, args, &ret, errp);
    json_object_put(ret);
    return ok ? g_strdup("") : NULL;
}

/* The same for a command that takes no words. */
static char *run_plain(MonitorSet *set, const char *name, const char *args, GError **errp)
{
    if (*args) {
        error_set(errp, "'%s': the command takes no arguments", args);
        return NULL;
    }
    return run(set, name, NULL, errp);
}

static char *do_stop(void *opaque, const char *args, bool has_cpu_index, int64_t cpu_index,
                     GError **errp)
{
    return run_plain(opaque, "stop", args, errp);
}

static char *do_cont(void *opaque, const char *args, bool has_cpu_index, int64_t cpu_index,
                     GError **errp)
{
    return run_plain(opaque, "cont", args, errp);
}

static char *do_reset(void *opaque, const char *args, bool has_cpu_index, int64_t cpu_index,
                      GError **errp)
{
    return run_plain(opaque, "system_reset", args, errp);
}

static char *do_powerdown(void *opaque, const char *args, bool has_cpu_index, int64_t cpu_index,
                          GError **errp)
{
    return run_plain(opaque, "system_powerdown", args, errp);
}

static char *do_nmi(void *opaque, const char *args, bool has_cpu_index, int64_t cpu_index,
                    GError **errp)
{
    return run_plain(opaque, "inject-nmi", args, errp);
}

static char *do_quit(void *opaque, const char *args, bool has_cpu_index, int64_t cpu_index,
                     GError **errp)
{
    return run_plain(opaque, "quit", args, errp);
}

/* MiB, as a whole number. */
static char *do_balloon(void *opaque, const char *args, bool has_cpu_index, int64_t cpu_index,
                        GError **errp)
{
    g_autoptr(json_object) arguments = json_object_new_object();
    guint64 mib;

    if (!g_ascii_string_to_unsigned(args, 10, 1, G_MAXINT64 / MiB, &mib, NULL)) {
        error_set(errp, "balloon '%s': tell how much memory the guest shall have, in MiB", args);
        return NULL;
    }
    json_add_uint(arguments, "value", mib * MiB);
    return run(opaque, "balloon", arguments, errp);
}

const MonitorHumanCommand human_action_commands[] = {
    { "balloon", "memory that the guest shall have, in MiB", do_balloon },
    { "c", "the same as cont", do_cont },
    { "cont", "let the guest run", do_cont },
    { "nmi", "send a non-maskable interrupt to all virtual CPUs", do_nmi },
    { "q", "the same as quit", do_quit },
    { "quit", "end the process", do_quit },
    { "s", "the same as stop", do_stop },
    { "stop", "stop the guest", do_stop },
    { "system_powerdown", "press the power button", do_powerdown },
    { "system_reset", "reset the machine", do_reset },
    { NULL, NULL, NULL },
};
