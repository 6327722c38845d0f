/*
 * The commands that exist in words: one table built in, one from whoever set up the monitors.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "monitor/internal.h"

#include <string.h>

#include "util/json.h"

/* "VM status: running", as clients of "info status" know it. */
static char *info_status(void *opaque, const char *args, bool has_cpu_index, int64_t cpu_index,
                         GError **errp)
{
    MonitorSet *set = opaque;
    const QapiCommand *query = qapi_command_find(set->env.commands, "query-status");
    json_object *ret = NULL, *running = NULL;

    if (!query || !qapi_command_invoke(query, set->env.contexts, NULL, &ret, errp)) {
        return query ? NULL : g_strdup("VM status: unknown\r\n");
    }
    g_autoptr(json_object) info = ret;
    const char *status = json_get_str(info, "status");

    if (json_object_object_get_ex(info, "running", &running) && json_object_get_boolean(running)) {
        return g_strdup("VM status: running\r\n");
    }
    if (strcmp(status, "paused") == 0) {
        return g_strdup("VM status: paused\r\n");
    }
    return g_strdup_printf("VM status: paused (%s)\r\n", status);
}

static const MonitorHumanCommand built_in[] = {
    { "info status", "whether the guest runs", info_status },
    { NULL, NULL, NULL },
};

/* The words behind @name in @line, or NULL if the line is another command. */
static const char *match(const char *line, const char *name)
{
    size_t len = strlen(name);

    if (strncmp(line, name, len) != 0 || (line[len] && line[len] != ' ')) {
        return NULL;
    }
    return line + len + strspn(line + len, " ");
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
    list_commands(built_in, text);
    list_commands(set->env.human, text);
    return g_string_free(text, FALSE);
}

char *human_run(MonitorSet *set, const char *line, bool has_cpu_index, int64_t cpu_index,
                GError **errp)
{
    const MonitorHumanCommand *const tables[] = { built_in, set->env.human };
    void *const opaques[] = { set, set->env.human_opaque };
    g_autofree char *words = g_strstrip(g_strdup(line));

    for (unsigned t = 0; t < G_N_ELEMENTS(tables); t++) {
        for (const MonitorHumanCommand *c = tables[t]; c && c->name; c++) {
            const char *args = match(words, c->name);

            if (args) {
                return c->run(opaques[t], args, has_cpu_index, cpu_index, errp);
            }
        }
    }
    return unknown(set, words);
}
