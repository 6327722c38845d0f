/*
 * The commands of control.json: negotiation, version, commands, schema.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "monitor/internal.h"

#include "util/error.h"

bool qmp_qmp_capabilities(MonitorSession *session, const QmpCapabilitiesArg *arg, GError **errp)
{
    if (arg->enable && arg->enable->len) {
        QMPCapability capability = g_array_index(arg->enable, QMPCapability, 0);

        error_set(errp, "Capability %s not available", qmp_capability_str(capability));
        return false;
    }
    /* What happened before is not for this client. */
    events_deliver(session->set);
    session->negotiated = true;
    return true;
}

VersionInfo *qmp_query_version(MonitorSession *session, GError **errp)
{
    VersionInfo *info = g_new0(VersionInfo, 1);

    /* The version of QEMU whose QMP this is; clients decide by it what they may ask for. */
    info->qemu = g_new0(VersionTriple, 1);
    info->qemu->major = 8;
    info->qemu->minor = 2;
    info->qemu->micro = 0;
    info->package = g_strdup("cowbird-" COWBIRD_VERSION);
    return info;
}

json_object *monitor_version(void)
{
    g_autoptr(VersionInfo) info = qmp_query_version(NULL, NULL);

    return qapi_to_json(&qapi_type_VersionInfo, info);
}

GPtrArray *qmp_query_commands(MonitorSession *session, GError **errp)
{
    const QapiCommandTable *table = session->set->env.commands;
    GPtrArray *list = g_ptr_array_new();

    for (unsigned i = 0; i < table->n_commands; i++) {
        CommandInfo *info = g_new0(CommandInfo, 1);

        info->name = g_strdup(table->commands[i].name);
        g_ptr_array_add(list, info);
    }
    return list;
}

json_object *qmp_query_qmp_schema(MonitorSession *session, json_object *args, GError **errp)
{
    if (args && json_object_object_length(args)) {
        error_set(errp, "The command query-qmp-schema takes no arguments");
        return NULL;
    }
    return qapi_schema_introspect();
}
