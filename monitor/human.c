/*
 * The commands that exist in words: which table a line belongs to, and the list of all. Two tables are built in, one
 * comes from whoever set up the monitors.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "monitor/internal.h"

#include <string.h>

#include "util/error.h"

/* The words behind @name in @line, or NULL if the line is another command. */
static const char *match(const char *line, const char *name)
{
    size_t len = strlen(name);

    if (strncmp(line, name, len) != 0 || (line[len] && line[len] != ' ')) {
        return NULL;
    }
    return line + len + strspn(line + len, " ");
}

const QapiCommand *human_find_command(const MonitorSet *set, const char *name, GError **errp)
{
    const QapiCommand *command = qapi_command_find(set->env.commands, name);

    if (!command) {
        error_set_class(errp, COWBIRD_ERROR_COMMAND_NOT_FOUND, "The command %s has not been found",
                        name);
    }
    return command;
}

static void list_commands(const MonitorHumanCommand *table, GString *text)
{
    for (; table && table->name; table++) {
        g_string_append_printf(text, "%s -- %s\r\n", table->name, table->help);
    }
}

static char *unknown(MonitorSet *set, const char *line)
{
    GString *text = g_string_new(NULL);

    if (!match(line, "help")) {
        g_string_append_printf(text, "unknown command: '%s'; there are\r\n", line);
    }
    list_commands(human_action_commands, text);
    list_commands(human_info_commands, text);
    list_commands(set->env.human, text);
    return g_string_free(text, FALSE);
}

char *human_run(MonitorSet *set, const char *line, bool has_cpu_index, int64_t cpu_index,
                GError **errp)
{
    const MonitorHumanCommand *const tables[] = { human_action_commands, human_info_commands,
                                                  set->env.human };
    void *const opaques[] = { set, set, set->env.human_opaque };
    g_autofree char *words = g_strstrip(g_strdup(line));

    for (unsigned t = 0; t < G_N_ELEMENTS(tables); t++) {
        for (const MonitorHumanCommand *c = tables[t]; c && c->name; c++) {
            const char *args = match(words, c->name);

            if (args) {
                return c->command ? human_run_command(set, c->command, args, errp)
                                  : c->run(opaques[t], args, has_cpu_index, cpu_index, errp);
            }
        }
    }
    return unknown(set, words);
}
