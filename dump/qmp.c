/*
 * The commands of dump.json.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "dump/internal.h"
#include "qapi/qapi-commands.h"
#include "util/error.h"

static const DumpWriteFunc formats[] = {
    [DUMP_GUEST_MEMORY_FORMAT_ELF] = dump_write_elf,
    [DUMP_GUEST_MEMORY_FORMAT_KDUMP_ZLIB] = dump_write_kdump_zlib,
};

static bool check_arguments(const DumpGuestMemoryArg *arg, GError **errp)
{
    if (arg->paging) {
        error_set(errp, "paging=true is not supported: use paging=false; debuggers find virtual "
                        "addresses by the page tables in the dump");
        return false;
    }
    if (arg->has_begin != arg->has_length) {
        error_set(errp, "'begin' and 'length' are given together or not at all");
        return false;
    }
    if (arg->has_length && arg->length == 0) {
        error_set(errp, "'length' is 0: there is nothing to dump");
        return false;
    }
    if (arg->has_begin && arg->has_format && arg->format != DUMP_GUEST_MEMORY_FORMAT_ELF) {
        error_set(errp, "a part of memory ('begin', 'length') can only be dumped in the format "
                        "'elf'");
        return false;
    }
    return true;
}

bool qmp_dump_guest_memory(DumpState *s, const DumpGuestMemoryArg *arg, QapiReply *reply,
                           GError **errp)
{
    bool detach = arg->has_detach && arg->detach;
    DumpRequest request = {
        .protocol = arg->protocol,
        .begin = arg->has_begin ? arg->begin : 0,
        .length = arg->has_length ? arg->length : 0,
        .write = formats[arg->has_format ? arg->format : DUMP_GUEST_MEMORY_FORMAT_ELF],
    };

    if (!check_arguments(arg, errp) || !dump_begin(s, &request, detach ? NULL : reply, errp)) {
        return false;
    }
    if (detach) {
        qapi_reply_done(reply, NULL);
    }
    return true;
}

DumpQueryResult *qmp_query_dump(DumpState *s, GError **errp)
{
    DumpQueryResult result = dump_result(s);

    return g_memdup2(&result, sizeof(result));
}

DumpGuestMemoryCapability *qmp_query_dump_guest_memory_capability(DumpState *s, GError **errp)
{
    DumpGuestMemoryCapability *capability = g_new0(DumpGuestMemoryCapability, 1);

    capability->formats = g_array_new(FALSE, FALSE, sizeof(DumpGuestMemoryFormat));
    for (unsigned i = 0; i < G_N_ELEMENTS(formats); i++) {
        DumpGuestMemoryFormat format = i;

        g_array_append_val(capability->formats, format);
    }
    return capability;
}
