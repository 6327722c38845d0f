/*
 * The commands about disks and the jobs on them: there are none yet, so every list is empty. Libvirt asks for them whenever a
 * domain starts and takes an error for a broken machine.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qapi/qapi-commands.h"

GPtrArray *qmp_query_block(Machine *m, GError **errp)
{
    return g_ptr_array_new();
}

GPtrArray *qmp_query_blockstats(Machine *m, const QueryBlockstatsArg *arg, GError **errp)
{
    return g_ptr_array_new();
}

GPtrArray *qmp_query_named_block_nodes(Machine *m, const QueryNamedBlockNodesArg *arg,
                                       GError **errp)
{
    return g_ptr_array_new();
}

GPtrArray *qmp_query_block_jobs(Machine *m, GError **errp)
{
    return g_ptr_array_new();
}

GPtrArray *qmp_query_jobs(Machine *m, GError **errp)
{
    return g_ptr_array_new();
}
