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
    const QapiCommand *command = human_find_command(set, name, errp);
    json_object *ret = NULL;
    bool ok;

    if (!command) {
        return NULL;
    }
    ok = command->deferred ? begin(set, command, name, errp)
                           : qapi_command_invoke(command, set->env.contexts, args, &ret, errp);
    json_object_put(ret);
    return ok ? g_strdup("") : NULL;
}

char *human_run_command(MonitorSet *set, const char *name, const char *args, GError **errp)
{
    if (*args) {
        error_set(errp, "'%s': the command takes no arguments", args);
        return NULL;
    }
    return run(set, name, NULL, errp);
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
    { "c", "the same as cont", .command = "cont" },
    { "cont", "let the guest run", .command = "cont" },
    { "nmi", "send a non-maskable interrupt to all virtual CPUs", .command = "inject-nmi" },
    { "q", "the same as quit", .command = "quit" },
    { "quit", "end the process", .command = "quit" },
    { "s", "the same as stop", .command = "stop" },
    { "stop", "stop the guest", .command = "stop" },
    { "system_powerdown", "press the power button", .command = "system_powerdown" },
    { "system_reset", "reset the machine", .command = "system_reset" },
    { .name = NULL },
};
