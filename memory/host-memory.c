/*
 * How much memory this process can still take before somebody is killed for it.
 *
 * Sources: proc(5), cgroups(7), the kernel's admin-guide/cgroup-v1/memory.rst and cgroup-v2.rst.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/host-memory.h"

#include "util/error.h"
#include "util/units.h"

#include <string.h>

/* The files of one version of cgroups. */
typedef struct CgroupFiles {
    const char *mount; /* where the hierarchy is looked for */
    const char *limit;
    const char *usage;
    const char *inactive; /* lines of memory.stat: page cache that can be dropped */
    const char *active;
} CgroupFiles;

static const CgroupFiles cgroup1 = {
    .mount = "/sys/fs/cgroup/memory",
    .limit = "memory.limit_in_bytes",
    .usage = "memory.usage_in_bytes",
    .inactive = "total_inactive_file ",
    .active = "total_active_file ",
};

static const CgroupFiles cgroup2 = {
    .mount = "/sys/fs/cgroup",
    .limit = "memory.max",
    .usage = "memory.current",
    .inactive = "inactive_file ",
    .active = "active_file ",
};

/* The number after @key at the start of a line of @text; 0 when there is none. */
static uint64_t number_after(const char *text, const char *key)
{
    const char *at = text;

    while (at && !g_str_has_prefix(at, key)) {
        at = strchr(at, '\n');
        at = at ? at + 1 : NULL;
    }
    return at ? g_ascii_strtoull(at + strlen(key), NULL, 10) : 0;
}

/* One line of /proc/meminfo, in bytes. */
static bool read_meminfo(const char *key, uint64_t *ret_bytes, GError **errp)
{
    g_autofree char *text = NULL;

    if (!g_file_get_contents("/proc/meminfo", &text, NULL, errp)) {
        return false;
    }
    *ret_bytes = number_after(text, key) * KiB;
    return true;
}

static char *read_in(const char *folder, const char *name)
{
    g_autofree char *path = g_build_filename(folder, name, NULL);
    char *text = NULL;

    g_file_get_contents(path, &text, NULL, NULL);
    return text;
}

/* What one group leaves; UINT64_MAX = it has no limit. */
static uint64_t group_leaves(const CgroupFiles *files, const char *folder)
{
    g_autofree char *limit = read_in(folder, files->limit);
    g_autofree char *usage = read_in(folder, files->usage);
    g_autofree char *stat = read_in(folder, "memory.stat");
    uint64_t max, used, cache;

    if (!limit || !usage || !g_ascii_isdigit(limit[0])) {
        return UINT64_MAX;
    }
    max = g_ascii_strtoull(limit, NULL, 10);
    used = g_ascii_strtoull(usage, NULL, 10);
    cache = stat ? number_after(stat, files->inactive) + number_after(stat, files->active) : 0;
    used -= MIN(used, cache);
    return max - MIN(max, used);
}

/* The least that a group and those above it leave. */
static uint64_t groups_leave(const CgroupFiles *files, const char *group)
{
    g_autofree char *folder = g_build_filename(files->mount, group, NULL);
    uint64_t least = UINT64_MAX;

    while (g_str_has_prefix(folder, files->mount)) {
        char *parent = g_path_get_dirname(folder);

        least = MIN(least, group_leaves(files, folder));
        g_free(folder);
        folder = parent;
    }
    return least;
}

/* One line of /proc/self/cgroup: "ID:CONTROLLERS:PATH". */
static uint64_t line_leaves(const char *line)
{
    g_auto(GStrv) fields = g_strsplit(line, ":", 3);
    g_auto(GStrv) controllers = NULL;

    if (g_strv_length(fields) != 3) {
        return UINT64_MAX;
    }
    if (fields[1][0] == '\0') {
        return groups_leave(&cgroup2, fields[2]);
    }
    controllers = g_strsplit(fields[1], ",", 0);
    return g_strv_contains((const char *const *)controllers, "memory")
               ? groups_leave(&cgroup1, fields[2])
               : UINT64_MAX;
}

bool host_memory_available(uint64_t *ret_bytes, const char **ret_limit, GError **errp)
{
    g_autofree char *groups = NULL;
    g_auto(GStrv) lines = NULL;
    uint64_t least;

    if (!read_meminfo("MemAvailable:", &least, errp)) {
        return false;
    }
    *ret_limit = "the host";
    if (g_file_get_contents("/proc/self/cgroup", &groups, NULL, NULL)) {
        lines = g_strsplit(groups, "\n", 0);
    }
    for (guint i = 0; lines && lines[i]; i++) {
        uint64_t leaves = line_leaves(lines[i]);

        if (leaves < least) {
            least = leaves;
            *ret_limit = "the limit of the cgroup";
        }
    }
    *ret_bytes = least;
    return true;
}

uint64_t host_swap_free(void)
{
    uint64_t bytes;

    return read_meminfo("SwapFree:", &bytes, NULL) ? bytes : 0;
}
