/*
 * QMP commands about the command line: query-command-line-options and query-name.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qapi/qapi-commands.h"
#include "system/state.h"
#include "util/error.h"

#include <string.h>

static void add_parameter(GPtrArray *list, const char *name, CommandLineParameterType type,
                          const char *help)
{
    CommandLineParameterInfo *info = g_new0(CommandLineParameterInfo, 1);

    info->name = g_strdup(name);
    info->type = type;
    info->help = g_strdup(help);
    g_ptr_array_add(list, info);
}

static CommandLineParameterType member_type(const QapiType *type)
{
    switch (type->kind) {
    case QAPI_KIND_BOOL:
        return COMMAND_LINE_PARAMETER_TYPE_BOOLEAN;
    case QAPI_KIND_INT:
        return type->is_size ? COMMAND_LINE_PARAMETER_TYPE_SIZE
                             : COMMAND_LINE_PARAMETER_TYPE_NUMBER;
    default:
        return COMMAND_LINE_PARAMETER_TYPE_STRING;
    }
}

static CommandLineParameterType property_type(QomPropKind kind, const char *type_name)
{
    switch (kind) {
    case QOM_BOOL:
        return COMMAND_LINE_PARAMETER_TYPE_BOOLEAN;
    case QOM_SIZE:
        return COMMAND_LINE_PARAMETER_TYPE_SIZE;
    case QOM_STRING:
    case QOM_ENUM:
    case QOM_LINK:
        return COMMAND_LINE_PARAMETER_TYPE_STRING;
    case QOM_CUSTOM:
        return g_strcmp0(type_name, "bool") == 0 ? COMMAND_LINE_PARAMETER_TYPE_BOOLEAN
                                                 : COMMAND_LINE_PARAMETER_TYPE_STRING;
    default:
        return COMMAND_LINE_PARAMETER_TYPE_NUMBER;
    }
}

/* -machine: the properties of all machine types, each name once. */
static void add_machine_properties(MachineClass *klass, void *opaque)
{
    GPtrArray *list = opaque;
    g_autoptr(GPtrArray) props = qom_class_list_properties(klass);

    for (guint i = 0; i < props->len; i++) {
        const QomProperty *p = g_ptr_array_index(props, i);
        bool known = false;

        for (guint k = 0; k < list->len && !known; k++) {
            CommandLineParameterInfo *info = g_ptr_array_index(list, k);

            known = g_str_equal(info->name, p->name);
        }
        if (!known) {
            add_parameter(list, p->name, property_type(p->kind, p->type_name), p->description);
        }
    }
}

static CommandLineOptionInfo *describe(SystemState *state, const OptionSpec *spec)
{
    CommandLineOptionInfo *info = g_new0(CommandLineOptionInfo, 1);

    info->option = g_strdup(spec->name);
    info->parameters = g_ptr_array_new();
    if (g_str_equal(spec->name, "machine")) {
        add_parameter(info->parameters, "type", COMMAND_LINE_PARAMETER_TYPE_STRING, "machine type");
        add_parameter(info->parameters, "accel", COMMAND_LINE_PARAMETER_TYPE_STRING,
                      "accelerators, the first that works");
        machine_foreach_class(state->tree.types, add_machine_properties, info->parameters);
    }
    for (unsigned i = 0; spec->type && !spec->type->branches && i < spec->type->n_members; i++) {
        const QapiMember *member = &spec->type->members[i];

        add_parameter(info->parameters, member->name, member_type(member->type), NULL);
    }
    return info;
}

GPtrArray *qmp_query_command_line_options(SystemState *state, const QueryCommandLineOptionsArg *arg,
                                          GError **errp)
{
    GPtrArray *list = g_ptr_array_new();

    for (const OptionSpec *spec = option_table; spec->name; spec++) {
        if (spec->store != OPTION_REFUSED &&
            (!arg->option || g_str_equal(arg->option, spec->name))) {
            g_ptr_array_add(list, describe(state, spec));
        }
    }
    if (list->len == 0) {
        g_ptr_array_unref(list);
        error_set(errp, "there is no option '%s'", arg->option);
        return NULL;
    }
    return list;
}

NameInfo *qmp_query_name(SystemState *state, GError **errp)
{
    NameInfo *info = g_new0(NameInfo, 1);

    info->name = g_strdup(state->machine->name);
    return info;
}
